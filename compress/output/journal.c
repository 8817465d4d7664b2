#define _GNU_SOURCE /* memmem */
#include "compress/output/journal.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "compress/output/journal_told.h"
#include "formats/hash.h"
#include "formats/json.h"
#include "runtime/file.h"

/* Where the fields of a record lie. */
enum { INDEX = 4, LENGTH = 8, PAYLOAD = 16, HASH_BYTES = 16, RECORD_MIN = PAYLOAD + HASH_BYTES };
static const unsigned char magic[4] = {'P', 'J', '0', '1'};
static const char temporary[] = PARE_JOURNAL_NAME ".tmp";

struct pare_journal {
    pare_arena arena; /* path, and the record being written */
    char *path;
    int fd;
    uint64_t end;   /* of the last good record */
    uint64_t first; /* end of the fingerprint */
    bool lost;      /* what was there had no good fingerprint */
    uint32_t index; /* of the next record */
};

static uint64_t get_le(const unsigned char *p, size_t bytes)
{
    uint64_t v = 0;
    for (size_t i = 0; i < bytes; i++)
        v |= (uint64_t)p[i] << 8 * i;
    return v;
}

static void put_le(unsigned char *p, uint64_t v, size_t bytes)
{
    for (size_t i = 0; i < bytes; i++)
        p[i] = (unsigned char)(v >> 8 * i);
}

/* Length of the payload of the record that should begin at `p` with `left` bytes to the end of the
 * journal; SIZE_MAX when there is none. The hash is looked at by the caller. */
static size_t record_length(const unsigned char *p, size_t left, uint32_t index)
{
    if (left < RECORD_MIN || memcmp(p, magic, sizeof magic) != 0 || get_le(p + INDEX, 4) != index)
        return SIZE_MAX;
    const uint64_t length = get_le(p + LENGTH, 8);
    return length <= left - RECORD_MIN ? (size_t)length : SIZE_MAX;
}

static bool hash_holds(const unsigned char *record, size_t length)
{
    uint8_t hash[HASH_BYTES];
    pare_xxh3(record, PAYLOAD + length, hash);
    return memcmp(hash, record + PAYLOAD + length, HASH_BYTES) == 0;
}

pare_status pare_journal_parse(pare_ctx *cx, pare_arena *a, const unsigned char *bytes, size_t len,
                               pare_journal_record **record, size_t *count, size_t *valid)
{
    (void)cx;
    *count = 0;
    *valid = 0;
    size_t most = 0, length;
    for (size_t at = 0; most < UINT32_MAX; at += RECORD_MIN + length, most++) {
        length = record_length(bytes + at, len - at, (uint32_t)most);
        if (length == SIZE_MAX)
            break;
    }
    *record = PARE_NEW(a, pare_journal_record, most);
    if (!*record)
        return PARE_ENOMEM;
    for (size_t at = 0; *count < most; at += RECORD_MIN + length) {
        length = record_length(bytes + at, len - at, (uint32_t)*count);
        if (!hash_holds(bytes + at, length))
            break;
        (*record)[(*count)++] = (pare_journal_record){bytes + at + PAYLOAD, length};
        *valid = at + RECORD_MIN + length;
    }
    return PARE_OK;
}

static pare_status open_file(pare_ctx *cx, pare_journal *j, uint64_t *bytes)
{
    struct stat st;
    j->fd = open(j->path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0666);
    if (j->fd < 0)
        return pare_file_fail(cx, j->path, "create");
    if (fstat(j->fd, &st) != 0)
        return pare_file_fail(cx, j->path, "look at");
    if (!S_ISREG(st.st_mode))
        return pare_fail(cx, PARE_EFORMAT, "%s: is not a regular file", j->path);
    *bytes = (uint64_t)st.st_size;
    return PARE_OK;
}

/* Cuts the file to its good prefix; durable. */
static pare_status cut(pare_ctx *cx, const pare_journal *j)
{
    if (ftruncate(j->fd, (off_t)j->end) != 0)
        return pare_file_fail(cx, j->path, "cut");
    return pare_file_sync(cx, j->fd, j->path);
}

static pare_status begin_records(pare_ctx *cx, pare_journal *j, const char *fingerprint)
{
    PARE_TRY(pare_journal_append(cx, j, fingerprint, strlen(fingerprint)));
    j->first = j->end;
    return pare_file_sync_parent(cx, j->path);
}

static pare_status read_records(pare_ctx *cx, pare_arena *a, pare_journal *j, uint64_t bytes,
                                const char *fingerprint, pare_journal_record **record,
                                size_t *count)
{
    size_t valid = 0;
    if (bytes >= SIZE_MAX)
        return pare_fail(cx, PARE_EFORMAT, "%s: larger than memory", j->path);
    unsigned char *const text = PARE_NEW(a, unsigned char, (size_t)bytes);
    if (!text)
        return PARE_ENOMEM;
    PARE_TRY(pare_file_get(cx, j->fd, j->path, text, (size_t)bytes, 0));
    PARE_TRY(pare_journal_parse(cx, a, text, (size_t)bytes, record, count, &valid));
    if (*count)
        PARE_TRY(pare__journal_compare(cx, j->path, *record, fingerprint, NULL));
    j->end = valid;
    j->index = (uint32_t)*count;
    if (valid != bytes)
        PARE_TRY(cut(cx, j));
    j->lost = bytes && *count == 0;
    if (*count == 0)
        return begin_records(cx, j, fingerprint);
    j->first = RECORD_MIN + (*record)->len;
    (*record)++;
    (*count)--;
    return PARE_OK;
}

/* A journal that is open, `bytes` long. */
static pare_status take_journal(pare_ctx *cx, const char *directory, const char *name,
                                pare_journal **out, uint64_t *bytes)
{
    *out = NULL;
    pare_journal *const j = cx->alloc.resize(cx->alloc.self, NULL, 0, sizeof *j);
    if (!j)
        return pare_fail(cx, PARE_ENOMEM, "out of memory: the journal of %s", directory);
    *j = (pare_journal){.fd = -1};
    pare_status s = pare_arena_init(cx, &j->arena, 0);
    if (s == PARE_OK) {
        j->path = pare_path_join(&j->arena, directory, name);
        s = j->path ? open_file(cx, j, bytes) : PARE_ENOMEM;
    }
    if (s == PARE_OK)
        *out = j;
    else
        pare_journal_close(cx, j);
    return s;
}

/* The journal goes to the caller, or is closed. */
static pare_status hand_over(pare_ctx *cx, pare_journal *j, pare_status s, pare_journal **out)
{
    *out = s == PARE_OK ? j : NULL;
    if (s != PARE_OK)
        pare_journal_close(cx, j);
    return s;
}

pare_status pare_journal_open(pare_ctx *cx, pare_arena *a, const char *directory,
                              const char *fingerprint, pare_journal **out,
                              pare_journal_record **record, size_t *count)
{
    pare_journal *j;
    uint64_t bytes;
    *out = NULL;
    *record = NULL;
    *count = 0;
    PARE_TRY(take_journal(cx, directory, PARE_JOURNAL_NAME, &j, &bytes));
    return hand_over(cx, j, read_records(cx, a, j, bytes, fingerprint, record, count), out);
}

static pare_status restart(pare_ctx *cx, const char *directory, const char *name,
                           const char *fingerprint, pare_journal **out)
{
    pare_journal *j;
    uint64_t bytes;
    *out = NULL;
    PARE_TRY(take_journal(cx, directory, name, &j, &bytes));
    const pare_status s = cut(cx, j);
    return hand_over(cx, j, s == PARE_OK ? begin_records(cx, j, fingerprint) : s, out);
}

/* A journal that is finished takes the name. */
static pare_status name_journal(pare_ctx *cx, pare_journal *j, const char *directory)
{
    char *const to = pare_path_join(&j->arena, directory, PARE_JOURNAL_NAME);
    if (!to)
        return PARE_ENOMEM;
    if (rename(j->path, to) != 0)
        return pare_file_fail(cx, to, "create");
    j->path = to;
    return pare_file_sync_parent(cx, to);
}

pare_status pare_journal_restart(pare_ctx *cx, const char *directory, const char *fingerprint,
                                 pare_journal **out)
{
    struct stat st;
    pare_arena a;
    pare_status s = pare_arena_init(cx, &a, 0);
    char *const path = s == PARE_OK ? pare_path_join(&a, directory, PARE_JOURNAL_NAME) : NULL;
    const bool first = path && lstat(path, &st) != 0;
    pare_arena_release(&a);
    *out = NULL;
    if (!path)
        return PARE_ENOMEM;
    /* One that is there says what the work beside it is, until another one does. */
    s = restart(cx, directory, first ? PARE_JOURNAL_NAME : temporary, fingerprint, out);
    return s == PARE_OK && !first ? hand_over(cx, *out, name_journal(cx, *out, directory), out) : s;
}

pare_status pare_journal_put(pare_ctx *cx, const char *directory, const char *beside,
                             const char *fingerprint)
{
    pare_journal *j;
    PARE_TRY(restart(cx, beside, temporary, fingerprint, &j));
    const pare_status s = name_journal(cx, j, directory);
    pare_journal_close(cx, j);
    return s;
}

bool pare_journal_lost(const pare_journal *j)
{
    return j->lost;
}

pare_status pare_journal_keep(pare_ctx *cx, pare_journal *j, const pare_journal_record *record,
                              size_t count)
{
    j->end = j->first;
    for (size_t i = 0; i < count; i++)
        j->end += RECORD_MIN + record[i].len;
    j->index = (uint32_t)count + 1;
    return cut(cx, j);
}

pare_status pare_journal_append(pare_ctx *cx, pare_journal *j, const void *payload, size_t len)
{
    if (j->index == UINT32_MAX || len > SIZE_MAX / 2)
        return pare_fail(cx, PARE_EINVAL, "%s: record %u of %zu bytes", j->path, j->index, len);
    const pare_mark mark = pare_arena_mark(&j->arena);
    const size_t total = RECORD_MIN + len;
    unsigned char *const record = PARE_NEW(&j->arena, unsigned char, total);
    if (!record)
        return PARE_ENOMEM;
    memcpy(record, magic, sizeof magic);
    put_le(record + INDEX, j->index, 4);
    put_le(record + LENGTH, len, 8);
    if (len)
        memcpy(record + PAYLOAD, payload, len);
    pare_xxh3(record, PAYLOAD + len, record + PAYLOAD + len);
    pare_status s = pare_file_put(cx, j->fd, j->path, record, total, j->end);
    if (s == PARE_OK)
        s = pare_file_sync(cx, j->fd, j->path);
    if (s == PARE_OK) {
        j->end += total;
        j->index++;
    } else {
        (void)cut(cx, j); /* the first failure is the one that is told */
    }
    pare_arena_rewind(&j->arena, mark);
    return s;
}

void pare_journal_close(pare_ctx *cx, pare_journal *j)
{
    if (!j)
        return;
    if (j->fd >= 0)
        (void)close(j->fd);
    pare_arena_release(&j->arena);
    (void)cx->alloc.resize(cx->alloc.self, j, sizeof *j, 0);
}

/* Whether what does not begin with a good record was a journal: its first bytes are there as far as
 * they go, or were never written, or another record follows. */
static bool was_journal(const unsigned char *bytes, size_t len)
{
    bool begun = true;
    for (size_t i = 0; i < len && i < sizeof magic; i++)
        begun &= bytes[i] == magic[i] || bytes[i] == 0;
    return begun || memmem(bytes, len, magic, sizeof magic);
}

/* Whether records begin with the magic of a later form. */
static bool is_newer(const unsigned char *bytes, size_t len)
{
    return len >= sizeof magic && memcmp(bytes, magic, 2) == 0 && bytes[2] >= '0' &&
           bytes[2] <= '9' && bytes[3] >= '0' && bytes[3] <= '9' &&
           memcmp(bytes, magic, sizeof magic) > 0;
}

static pare_status look_at(pare_ctx *cx, const pare_file *f, pare_journal_kind *kind)
{
    const size_t len = record_length(f->data, (size_t)f->bytes, 0);
    pare_json *print = NULL;
    if (is_newer(f->data, (size_t)f->bytes))
        return pare_fail(cx, PARE_ENOTSUP,
                         "%s: is a journal of form %.4s, and this program reads %.4s; a newer pare "
                         "is needed, or move it away",
                         f->path, (const char *)f->data, (const char *)magic);
    if (len == SIZE_MAX || !hash_holds(f->data, len)) {
        *kind =
            was_journal(f->data, (size_t)f->bytes) ? PARE_JOURNAL_DAMAGED : PARE_JOURNAL_FOREIGN;
        return PARE_OK;
    }
    *kind = PARE_JOURNAL_FOREIGN;
    const pare_status s = pare_json_parse(cx, f->path, (const char *)f->data + PAYLOAD, len,
                                          PARE_JOURNAL_JSON_CAP, &print);
    if (s == PARE_EFORMAT)
        pare_ctx_clear(cx);
    if (s != PARE_OK)
        return s == PARE_EFORMAT ? PARE_OK : s;
    const char *const program = pare_json_text(pare_json_get(print, "program"), NULL);
    if (program && strncmp(program, "pare ", 5) == 0)
        *kind = pare_json_get(print, "replaced")                ? PARE_JOURNAL_REPLACED
                : pare_json_get(print, PARE_JOURNAL_TRAINING)   ? PARE_JOURNAL_TRAIN
                : pare_json_get(print, PARE_JOURNAL_RECIPE "1") ? PARE_JOURNAL_COMPRESS
                                                                : PARE_JOURNAL_EXPORT;
    pare_json_free(print);
    return PARE_OK;
}

pare_status pare_journal_look(pare_ctx *cx, pare_arena *a, const char *directory,
                              pare_journal_kind *kind)
{
    struct stat st;
    pare_file f;
    *kind = PARE_JOURNAL_NONE;
    char *const path = pare_path_join(a, directory, PARE_JOURNAL_NAME);
    if (!path)
        return PARE_ENOMEM;
    if (lstat(path, &st) != 0)
        return PARE_OK;
    *kind = PARE_JOURNAL_FOREIGN;
    if (!S_ISREG(st.st_mode))
        return PARE_OK;
    PARE_TRY(pare_file_map(cx, a, path, &f));
    const pare_status s = look_at(cx, &f, kind);
    pare_file_unmap(&f);
    return s;
}

/* The fingerprint of a journal, mapped; NULL `data` where there is no good one. Unmap it. */
static pare_status map_fingerprint(pare_ctx *cx, pare_arena *a, const char *directory, pare_file *f,
                                   pare_journal_record *out)
{
    struct stat st;
    char *const path = pare_path_join(a, directory, PARE_JOURNAL_NAME);
    *f = (pare_file){0};
    *out = (pare_journal_record){0};
    if (!path)
        return PARE_ENOMEM;
    if (lstat(path, &st) != 0 || !S_ISREG(st.st_mode))
        return PARE_OK;
    PARE_TRY(pare_file_map(cx, a, path, f));
    const size_t len = record_length(f->data, (size_t)f->bytes, 0);
    if (len != SIZE_MAX && hash_holds(f->data, len))
        *out = (pare_journal_record){(const unsigned char *)f->data + PAYLOAD, len};
    return PARE_OK;
}

pare_status pare_journal_check(pare_ctx *cx, pare_arena *a, const char *directory,
                               const char *fingerprint, const char *without)
{
    pare_file f;
    pare_journal_record first;
    PARE_TRY(map_fingerprint(cx, a, directory, &f, &first));
    const pare_status s =
        first.payload ? pare__journal_compare(cx, f.path, &first, fingerprint, without) : PARE_OK;
    pare_file_unmap(&f);
    return s;
}

pare_status pare_journal_check_recipe(pare_ctx *cx, pare_arena *a, const char *directory,
                                      const char *lines)
{
    pare_file f;
    pare_journal_record first;
    PARE_TRY(map_fingerprint(cx, a, directory, &f, &first));
    const pare_status s =
        first.payload ? pare__journal_compare_recipe(cx, f.path, &first, lines) : PARE_OK;
    pare_file_unmap(&f);
    return s;
}
