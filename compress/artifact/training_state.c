#include "compress/artifact/training_state.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "compress/output/journal.h"
#include "runtime/file.h"

enum { MAGIC = 4, LENGTH = 8, NUMBERS = 4 * 8, HASH = 16, ARRAYS = 5 };
static const unsigned char magic[MAGIC] = {'P', 'T', 'S', '1'};

static char *path_of(const pare_training_place *p, const char *suffix)
{
    char name[64];
    (void)snprintf(name, sizeof name, "%s%s", PARE_TRAINING_STATE, suffix);
    return pare_path_join(p->scratch, p->directory, name);
}

void pare_training_state_add(pare_training_state *t, const pare_train_step *s)
{
    pare_training_result *const r = &t->result;
    const size_t most = r->steps < PARE_TRAINING_POINTS ? r->steps : PARE_TRAINING_POINTS;
    const size_t at = (s->step - 1) * most / r->steps;
    pare_training_point *const point = &r->point[at];
    t->in_point = at < r->points ? t->in_point + 1 : 1;
    r->points = at + 1;
    point->step = s->step;
    point->loss += (s->loss - point->loss) / (double)t->in_point;
    point->norm += (s->norm - point->norm) / (double)t->in_point;
    point->rate = s->rate;
}

/* All that is trained, the projection last. */
static size_t arrays_of(const pare_training_state *t)
{
    return (t->leaves + (t->projection != NULL)) * ARRAYS;
}

/* What is kept of it, one array behind the other; without bytes where a leaf has none. */
typedef struct array {
    void *at;
    size_t bytes;
} array;

static array array_of(const pare_training_state *t, size_t i)
{
    const pare_trained *const leaf = i / ARRAYS < t->leaves ? &t->leaf[i / ARRAYS] : t->projection;
    const size_t count = leaf->fixed ? 0 : leaf->count, floats = count * sizeof(float);
    const size_t scales = leaf->m ? 0 : pare_state8_blocks(count) * sizeof(float);
    switch (i % ARRAYS) {
    case 0: return (array){leaf->value, floats};
    case 1: return leaf->m ? (array){leaf->m, floats} : (array){leaf->m8.code, count};
    case 2: return leaf->v ? (array){leaf->v, floats} : (array){leaf->v8.code, count};
    case 3: return (array){leaf->m8.scale, scales};
    default: return (array){leaf->v8.scale, scales};
    }
}

/* --- save --------------------------------------------------------------------------------------
 */

typedef struct sink {
    pare_ctx *cx;
    int fd;
    const char *path;
    uint64_t at;
    pare_xxh3_state hash;
} sink;

static pare_status put(sink *s, const void *bytes, size_t len)
{
    pare_xxh3_add(&s->hash, bytes, len);
    PARE_TRY(pare_file_put(s->cx, s->fd, s->path, bytes, len, s->at));
    s->at += len;
    return PARE_OK;
}

static void put_le(unsigned char *to, uint64_t v)
{
    for (size_t i = 0; i < 8; i++)
        to[i] = (unsigned char)(v >> 8 * i);
}

static uint64_t bits_of(double v)
{
    uint64_t bits;
    memcpy(&bits, &v, sizeof bits);
    return bits;
}

static pare_status put_numbers(sink *s, const pare_training_state *t)
{
    unsigned char bytes[NUMBERS];
    put_le(bytes, bits_of(t->at.first));
    put_le(bytes + 8, bits_of(t->at.least));
    put_le(bytes + 16, t->at.steps);
    put_le(bytes + 24, t->in_point);
    return put(s, bytes, sizeof bytes);
}

static pare_status put_all(const pare_training_place *p, sink *s, const pare_training_state *t)
{
    pare_training_result result = t->result;
    const pare_unit_result unit = {.training = &result};
    unsigned char *record, length[LENGTH], hash[HASH];
    size_t len;
    PARE_TRY(pare_result_encode(p->cx, p->scratch, &unit, &record, &len));
    put_le(length, len);
    PARE_TRY(put(s, magic, sizeof magic));
    PARE_TRY(put(s, length, sizeof length));
    PARE_TRY(put(s, record, len));
    PARE_TRY(put_numbers(s, t));
    for (size_t i = 0; i < arrays_of(t); i++) {
        const array part = array_of(t, i);
        if (part.bytes)
            PARE_TRY(put(s, part.at, part.bytes));
    }
    pare_xxh3_end(&s->hash, hash);
    PARE_TRY(put(s, hash, sizeof hash));
    return pare_file_sync(s->cx, s->fd, s->path);
}

static pare_status save(const pare_training_place *p, const pare_training_state *t)
{
    char *const path = path_of(p, ""), *const temporary = path_of(p, ".tmp");
    if (!path || !temporary)
        return PARE_ENOMEM;
    sink s = {.cx = p->cx, .path = temporary};
    s.fd = open(temporary, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0666);
    if (s.fd < 0)
        return pare_file_fail(p->cx, temporary, "create");
    pare_xxh3_begin(&s.hash);
    pare_status status = put_all(p, &s, t);
    if (close(s.fd) != 0 && status == PARE_OK)
        status = pare_file_fail(p->cx, temporary, "close");
    if (status == PARE_OK && rename(temporary, path) != 0)
        status = pare_file_fail(p->cx, path, "create");
    if (status == PARE_OK)
        return pare_file_sync_parent(p->cx, path);
    (void)unlink(temporary);
    return status;
}

pare_status pare_training_state_save(const pare_training_place *p, pare_training_state *t)
{
    const pare_mark mark = pare_arena_mark(p->scratch);
    const pare_status s = save(p, t);
    pare_arena_rewind(p->scratch, mark);
    t->kept = s == PARE_OK ? t->at.steps : t->kept;
    return s;
}

/* --- load --------------------------------------------------------------------------------------
 */

static uint64_t get_le(const unsigned char *p)
{
    uint64_t v = 0;
    for (size_t i = 0; i < 8; i++)
        v |= (uint64_t)p[i] << 8 * i;
    return v;
}

static double get_double(const unsigned char *p)
{
    const uint64_t bits = get_le(p);
    double v;
    memcpy(&v, &bits, sizeof v);
    return v;
}

/* Bytes of all arrays. */
static uint64_t array_bytes(const pare_training_state *t)
{
    uint64_t bytes = 0;
    for (size_t i = 0; i < arrays_of(t); i++)
        bytes += array_of(t, i).bytes;
    return bytes;
}

/* Where the record ends; 0 where bytes [len] are not a whole state. */
static size_t record_end(const unsigned char *bytes, uint64_t len)
{
    const uint64_t head = MAGIC + LENGTH, rest = NUMBERS + HASH;
    uint8_t hash[HASH];
    if (len < head + rest || memcmp(bytes, magic, MAGIC) != 0 ||
        get_le(bytes + MAGIC) > len - head - rest)
        return 0;
    pare_xxh3(bytes, (size_t)len - HASH, hash);
    return memcmp(hash, bytes + len - HASH, HASH) == 0 ? (size_t)(head + get_le(bytes + MAGIC)) : 0;
}

/* *told: why it was not found. */
static pare_status parse(const pare_training_place *p, pare_training_state *t, const pare_file *f,
                         bool *found, bool *told)
{
    pare_unit_result unit;
    const size_t end = record_end(f->data, f->bytes), head = MAGIC + LENGTH;
    if (!end)
        return PARE_OK;
    PARE_TRY(pare_result_decode(p->cx, p->scratch, f->data + head, end - head, &unit));
    const unsigned char *at = f->data + end;
    const uint64_t steps = get_le(at + 16), in_point = get_le(at + 24);
    *told =
        unit.training && memcmp(unit.training->asked, p->asked, sizeof unit.training->asked) != 0;
    if (*told)
        pare_teller_say(p->teller, "%s", p->other);
    if (*told || !unit.training || unit.training->steps != t->result.steps ||
        steps > t->result.steps || f->bytes != end + NUMBERS + array_bytes(t) + HASH)
        return PARE_OK;
    t->at = (pare_train_state){(size_t)steps, get_double(at), get_double(at + 8)};
    t->in_point = (size_t)in_point;
    t->result = *unit.training;
    at += NUMBERS;
    for (size_t i = 0; i < arrays_of(t); i++) {
        const array part = array_of(t, i);
        if (part.bytes)
            memcpy(part.at, at, part.bytes);
        at += part.bytes;
    }
    t->kept = t->at.steps;
    *found = true;
    return PARE_OK;
}

static pare_status load(const pare_training_place *p, pare_training_state *t, bool *found)
{
    char *const path = path_of(p, "");
    pare_file f;
    bool told = false;
    if (!path)
        return PARE_ENOMEM;
    if (!pare_path_is_file(path))
        return PARE_OK;
    PARE_TRY(pare_file_map(p->cx, p->scratch, path, &f));
    pare_status s = parse(p, t, &f, found, &told);
    pare_file_unmap(&f);
    if (s == PARE_EFORMAT) { /* a record of another form */
        pare_ctx_clear(p->cx);
        s = PARE_OK;
    }
    if (s == PARE_OK && !*found && !told)
        pare_teller_say(p->teller, "the state of the training in the unfinished run is damaged: "
                                   "training begins anew");
    return s;
}

pare_status pare_training_state_load(const pare_training_place *p, pare_training_state *t,
                                     bool *found)
{
    const pare_mark mark = pare_arena_mark(p->scratch);
    *found = false;
    const pare_status s = load(p, t, found);
    pare_arena_rewind(p->scratch, mark);
    return s;
}

pare_status pare_training_state_end(pare_ctx *cx, const pare_training_state *t, pare_status s)
{
    return s == PARE_ENOSPC && t->kept
               ? pare_fail_after(cx, s,
                                 "the state of step %zu of %zu is saved: once the disk has room, "
                                 "the same command (without --restart) goes on from there",
                                 t->kept, t->result.steps)
               : s;
}

void pare_training_state_remove(const pare_training_place *p)
{
    const pare_mark mark = pare_arena_mark(p->scratch);
    char *const path = path_of(p, "");
    if (path)
        (void)unlink(path);
    pare_arena_rewind(p->scratch, mark);
}
