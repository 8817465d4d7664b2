/* Records of the program pare-hdf5, of which nothing is believed. */
#include <stdlib.h>
#include <string.h>

#include "formats/hdf5_internal.h"
#include "formats/hdf5_protocol.h"
#include "formats/little_endian.h"

enum { RATIO_MAX = 1100 }; /* gzip reaches 1032 */

typedef unsigned long long ull;

typedef struct reader {
    pare_ctx *cx;
    pare_arena *arena;
    pare_arena *lists; /* grown arrays */
    pare_scratch *scratch;
    const char *name;
    const pare__hdf5_source *source;
    uint64_t bytes_left; /* that tensors may still need */
    pare_tensor *tensor; /* [room] */
    size_t tensors, room;
} reader;

static pare_status get(const reader *r, void *bytes, size_t len)
{
    return r->source->read(r->source->self, bytes, len);
}

static pare_status grow(reader *r)
{
    if (r->tensors < r->room)
        return PARE_OK;
    if (r->tensors == PARE_HDF5_TENSORS_MAX)
        return pare_fail(r->cx, PARE_EFORMAT, "%s: more than %d tensors", r->name,
                         PARE_HDF5_TENSORS_MAX);
    const size_t room = r->room ? 2 * r->room : 64;
    pare_tensor *const larger = PARE_NEW(r->lists, pare_tensor, room);
    if (!larger)
        return PARE_ENOMEM;
    if (r->tensors)
        memcpy(larger, r->tensor, r->tensors * sizeof *larger);
    r->tensor = larger;
    r->room = room;
    return PARE_OK;
}

static pare_status read_name(const reader *r, size_t len, const char **out)
{
    char text[PARE_HDF5_NAME_MAX];
    if (len == 0 || len > sizeof text)
        return pare_fail(r->cx, PARE_EFORMAT,
                         "%s: tensor %zu: a name of %zu bytes, 1 to %d are accepted", r->name,
                         r->tensors, len, PARE_HDF5_NAME_MAX);
    PARE_TRY(get(r, text, len));
    for (size_t i = 0; i < len; i++) {
        if ((unsigned char)text[i] < ' ' || text[i] == 127)
            return pare_fail(r->cx, PARE_EFORMAT, "%s: tensor %zu: a control character in its name",
                             r->name, r->tensors);
    }
    *out = pare_arena_text(r->arena, text, len);
    return *out ? PARE_OK : PARE_ENOMEM;
}

/* The words of the other process, as far as they print. */
static pare_status read_failure(const reader *r, const unsigned char *head)
{
    char text[PARE_HDF5_TEXT_MAX + 1];
    const size_t len = pare_le32(head + 4);
    if (len > PARE_HDF5_TEXT_MAX)
        return pare_fail(r->cx, PARE_EFORMAT, "%s: a failure of %zu bytes", r->name, len);
    PARE_TRY(get(r, text, len));
    for (size_t i = 0; i < len; i++) {
        if ((unsigned char)text[i] < ' ' || text[i] == 127)
            text[i] = '?';
    }
    text[len] = '\0';
    const pare_status s = head[1] == PARE_HDF5_REFUSED     ? PARE_ENOTSUP
                          : head[1] == PARE_HDF5_NO_MEMORY ? PARE_ENOMEM
                                                           : PARE_EFORMAT;
    return pare_fail(r->cx, s, "%s: %s", r->name, text);
}

/* The elements of a tensor, in parts. */
static pare_status read_data(const reader *r, const char *tensor, unsigned char *to, uint64_t left)
{
    while (left > 0) {
        unsigned char head[PARE_HDF5_HEAD];
        PARE_TRY(get(r, head, sizeof head));
        if (head[0] == 'E')
            return read_failure(r, head);
        const uint32_t len = pare_le32(head + 4);
        if (head[0] != 'D' || len == 0 || len > left)
            return pare_fail(r->cx, PARE_EFORMAT,
                             "%s: tensor %s: a record of kind %u and %u bytes where %llu of its "
                             "data are missing",
                             r->name, tensor, head[0], len, (ull)left);
        PARE_TRY(get(r, to, len));
        to += len;
        left -= len;
    }
    return PARE_OK;
}

static pare_status read_tensor(reader *r, const unsigned char *head)
{
    static const pare_dtype types[] = {
#define X(name, bytes) PARE_##name,
        PARE_HDF5_TYPES(X)
#undef X
    };
    unsigned char sizes[8 * PARE_RANK_MAX];
    PARE_TRY(grow(r));
    pare_tensor *const t = &r->tensor[r->tensors];
    *t = (pare_tensor){.rank = head[2]};
    if (head[1] >= PARE_HDF5_TYPE_COUNT || t->rank > PARE_RANK_MAX || head[3] != 0)
        return pare_fail(r->cx, PARE_EFORMAT, "%s: tensor %zu: type %u, %u dimensions", r->name,
                         r->tensors, head[1], head[2]);
    t->dtype = types[head[1]];
    PARE_TRY(get(r, sizes, 8 * (size_t)t->rank));
    for (uint32_t i = 0; i < t->rank; i++)
        t->shape[i] = pare_le64(sizes + 8 * (size_t)i);
    PARE_TRY(read_name(r, pare_le32(head + 4), &t->name));
    if (pare_tensor_bytes(t->dtype, t->rank, t->shape, &t->bytes) != PARE_OK ||
        t->bytes > r->bytes_left)
        return pare_fail(r->cx, PARE_EFORMAT,
                         "%s: tensor %s: more bytes than %d times those of the file", r->name,
                         t->name, RATIO_MAX);
    r->bytes_left -= t->bytes;
    void *data = NULL;
    r->tensors++;
    if (r->source->bare) {
        pare_scratch_count(r->scratch, t->bytes);
        return PARE_OK;
    }
    PARE_TRY(pare_scratch_take(r->scratch, t->bytes, &data));
    t->data = data;
    return read_data(r, t->name, data, t->bytes);
}

static pare_status read_records(reader *r)
{
    unsigned char head[PARE_HDF5_HEAD];
    PARE_TRY(get(r, head, PARE_HDF5_GREETING_BYTES));
    if (memcmp(head, PARE_HDF5_GREETING, PARE_HDF5_GREETING_BYTES) != 0)
        return pare_fail(r->cx, PARE_EFORMAT, "%s: the HDF5 reader does not greet", r->name);
    for (;;) {
        PARE_TRY(get(r, head, sizeof head));
        if (head[0] == 'E')
            return read_failure(r, head);
        if (head[0] == 'Z')
            break;
        if (head[0] != 'T')
            return pare_fail(r->cx, PARE_EFORMAT, "%s: the HDF5 reader writes a record of kind %u",
                             r->name, head[0]);
        PARE_TRY(read_tensor(r, head));
    }
    if (pare_le32(head + 4) != r->tensors)
        return pare_fail(r->cx, PARE_EFORMAT, "%s: %zu tensors came, %u were counted", r->name,
                         r->tensors, pare_le32(head + 4));
    if (r->tensors == 0)
        return pare_fail(r->cx, PARE_EFORMAT, "%s: no dataset in the file", r->name);
    return PARE_OK;
}

static int by_name(const void *a, const void *b)
{
    return strcmp(((const pare_tensor *)a)->name, ((const pare_tensor *)b)->name);
}

static pare_status finish(const reader *r, pare_hdf5 *out)
{
    qsort(r->tensor, r->tensors, sizeof *r->tensor, by_name);
    for (size_t i = 1; i < r->tensors; i++) {
        if (strcmp(r->tensor[i - 1].name, r->tensor[i].name) == 0)
            return pare_fail(r->cx, PARE_EFORMAT, "%s: two tensors are called %s", r->name,
                             r->tensor[i].name);
    }
    out->tensor = PARE_NEW(r->arena, pare_tensor, r->tensors);
    if (!out->tensor)
        return PARE_ENOMEM;
    memcpy(out->tensor, r->tensor, r->tensors * sizeof *out->tensor);
    out->tensors = r->tensors;
    return PARE_OK;
}

pare_status pare__hdf5_records(pare_ctx *cx, pare_arena *a, pare_scratch *scratch, const char *name,
                               uint64_t file_bytes, const pare__hdf5_source *source, pare_hdf5 *out)
{
    pare_arena lists;
    reader r = {.cx = cx,
                .arena = a,
                .lists = &lists,
                .scratch = scratch,
                .name = name,
                .source = source,
                .bytes_left =
                    file_bytes < UINT64_MAX / RATIO_MAX ? file_bytes * RATIO_MAX : UINT64_MAX};
    *out = (pare_hdf5){0};
    pare_status s = pare_arena_init(cx, &lists, 0);
    if (s == PARE_OK)
        s = read_records(&r);
    if (s == PARE_OK)
        s = finish(&r, out);
    pare_arena_release(&lists);
    return s;
}
