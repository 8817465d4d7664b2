#include "compress/run/run_state.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "compress/run/run_internal.h"

enum { MAGIC = 4, LENGTH = 8, NUMBERS = 4 * 8, HASH = 16, ARRAYS = 3 };
static const unsigned char magic[MAGIC] = {'P', 'T', 'S', '1'};

static char *path_of(pare_run *run, const char *suffix)
{
    char name[64];
    (void)snprintf(name, sizeof name, "%s%s", PARE_TRAINING_STATE, suffix);
    return pare_path_join(&run->scratch, run->plan->place.partial, name);
}

/* What a leaf keeps, one array behind the other. */
static float *array_of(const pare_trained *leaf, size_t i)
{
    return i == 0 ? leaf->value : i == 1 ? leaf->m : leaf->v;
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

static pare_status put_numbers(sink *s, const pare_run_state *t)
{
    unsigned char bytes[NUMBERS];
    put_le(bytes, bits_of(t->at.first));
    put_le(bytes + 8, bits_of(t->at.least));
    put_le(bytes + 16, t->at.steps);
    put_le(bytes + 24, t->in_point);
    return put(s, bytes, sizeof bytes);
}

static pare_status put_all(pare_run *run, sink *s, const pare_run_state *t)
{
    pare_training_result result = t->result;
    const pare_unit_result unit = {.training = &result};
    unsigned char *record, length[LENGTH], hash[HASH];
    size_t len;
    PARE_TRY(pare_result_encode(run->cx, &run->scratch, &unit, &record, &len));
    put_le(length, len);
    PARE_TRY(put(s, magic, sizeof magic));
    PARE_TRY(put(s, length, sizeof length));
    PARE_TRY(put(s, record, len));
    PARE_TRY(put_numbers(s, t));
    for (size_t i = 0; i < t->leaves * ARRAYS; i++) {
        const pare_trained *const leaf = &t->leaf[i / ARRAYS];
        PARE_TRY(put(s, array_of(leaf, i % ARRAYS), leaf->count * sizeof(float)));
    }
    pare_xxh3_end(&s->hash, hash);
    PARE_TRY(put(s, hash, sizeof hash));
    return pare_file_sync(s->cx, s->fd, s->path);
}

static pare_status save(pare_run *run, const pare_run_state *t)
{
    char *const path = path_of(run, ""), *const temporary = path_of(run, ".tmp");
    if (!path || !temporary)
        return PARE_ENOMEM;
    sink s = {.cx = run->cx, .path = temporary};
    s.fd = open(temporary, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0666);
    if (s.fd < 0)
        return pare_file_fail(run->cx, temporary, "create");
    pare_xxh3_begin(&s.hash);
    pare_status status = put_all(run, &s, t);
    if (close(s.fd) != 0 && status == PARE_OK)
        status = pare_file_fail(run->cx, temporary, "close");
    if (status == PARE_OK && rename(temporary, path) != 0)
        status = pare_file_fail(run->cx, path, "create");
    if (status == PARE_OK)
        return pare_file_sync_parent(run->cx, path);
    (void)unlink(temporary);
    return status;
}

pare_status pare__state_save(pare_run *run, const pare_run_state *t)
{
    const pare_mark mark = pare_arena_mark(&run->scratch);
    const pare_status s = save(run, t);
    pare_arena_rewind(&run->scratch, mark);
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

/* Bytes of the arrays of all leaves. */
static uint64_t array_bytes(const pare_run_state *t)
{
    uint64_t bytes = 0;
    for (size_t i = 0; i < t->leaves; i++)
        bytes += (uint64_t)t->leaf[i].count * ARRAYS * sizeof(float);
    return bytes;
}

/* Where the record ends; 0 where bytes [len] are not a whole state of these leaves. */
static size_t record_end(const pare_run_state *t, const unsigned char *bytes, uint64_t len)
{
    const uint64_t head = MAGIC + LENGTH, rest = NUMBERS + array_bytes(t) + HASH;
    uint8_t hash[HASH];
    if (len < head + rest || memcmp(bytes, magic, MAGIC) != 0 ||
        get_le(bytes + MAGIC) != len - head - rest)
        return 0;
    pare_xxh3(bytes, (size_t)len - HASH, hash);
    return memcmp(hash, bytes + len - HASH, HASH) == 0 ? (size_t)(len - rest) : 0;
}

/* *told: why it was not found. */
static pare_status parse(pare_run *run, pare_run_state *t, const pare_file *f, bool *found,
                         bool *told)
{
    pare_unit_result unit;
    const size_t end = record_end(t, f->data, f->bytes), head = MAGIC + LENGTH;
    if (!end)
        return PARE_OK;
    PARE_TRY(pare_result_decode(run->cx, &run->scratch, f->data + head, end - head, &unit));
    const unsigned char *at = f->data + end;
    const uint64_t steps = get_le(at + 16), in_point = get_le(at + 24);
    *told = unit.training && !pare__run_trained_as_asked(run, unit.training);
    if (*told || !unit.training || unit.training->steps != t->result.steps ||
        steps > t->result.steps)
        return PARE_OK;
    t->at = (pare_train_state){(size_t)steps, get_double(at), get_double(at + 8)};
    t->in_point = (size_t)in_point;
    t->result = *unit.training;
    at += NUMBERS;
    for (size_t i = 0; i < t->leaves * ARRAYS; i++) {
        const pare_trained *const leaf = &t->leaf[i / ARRAYS];
        memcpy(array_of(leaf, i % ARRAYS), at, leaf->count * sizeof(float));
        at += leaf->count * sizeof(float);
    }
    *found = true;
    return PARE_OK;
}

static pare_status load(pare_run *run, pare_run_state *t, bool *found)
{
    char *const path = path_of(run, "");
    pare_file f;
    bool told = false;
    if (!path)
        return PARE_ENOMEM;
    if (!pare_path_is_file(path))
        return PARE_OK;
    PARE_TRY(pare_file_map(run->cx, &run->scratch, path, &f));
    pare_status s = parse(run, t, &f, found, &told);
    pare_file_unmap(&f);
    if (s == PARE_EFORMAT) { /* a record of another form */
        pare_ctx_clear(run->cx);
        s = PARE_OK;
    }
    if (s == PARE_OK && !*found && !told)
        pare__notify(run, PARE_EVENT_NOTICE,
                     "the state of the training in the unfinished run is damaged: training begins "
                     "anew");
    return s;
}

pare_status pare__state_load(pare_run *run, pare_run_state *t, bool *found)
{
    const pare_mark mark = pare_arena_mark(&run->scratch);
    *found = false;
    const pare_status s = load(run, t, found);
    pare_arena_rewind(&run->scratch, mark);
    return s;
}

void pare__state_remove(pare_run *run)
{
    const pare_mark mark = pare_arena_mark(&run->scratch);
    char *const path = path_of(run, "");
    if (path)
        (void)unlink(path);
    pare_arena_rewind(&run->scratch, mark);
}
