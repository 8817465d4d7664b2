#include "formats/safetensors.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "formats/json.h"

enum { HEADER_MAX = 100000000, LENGTH_BYTES = 8 };

typedef unsigned long long ull;

/* One entry of the header: [begin, end) in the data. */
typedef struct span {
    pare_tensor tensor;
    uint64_t begin, end;
} span;

typedef struct reader {
    pare_ctx *cx;
    pare_arena *arena;
    const char *name;          /* of the file */
    char *names;               /* room for the names still to come */
    const unsigned char *data; /* first byte behind the header */
    uint64_t data_bytes;
} reader;

static uint64_t read_le64(const unsigned char *p)
{
    uint64_t v = 0;
    for (int i = 7; i >= 0; i--)
        v = v << 8 | p[i];
    return v;
}

static pare_status check_frame(pare_ctx *cx, const char *name, const unsigned char *bytes,
                               uint64_t len, size_t *header)
{
    if (len < LENGTH_BYTES)
        return pare_fail(cx, PARE_EFORMAT,
                         "%s: %llu byte%s, a safetensors file has at least %d: truncated? copy or "
                         "download it again",
                         name, (ull)len, pare_plural(len), LENGTH_BYTES);
    const uint64_t n = read_le64(bytes);
    if (n > HEADER_MAX)
        return pare_fail(
            cx, PARE_EFORMAT,
            "%s: header of %llu bytes, at most %d are allowed: not a safetensors file?", name,
            (ull)n, HEADER_MAX);
    if (n > len - LENGTH_BYTES)
        return pare_fail(cx, PARE_EFORMAT,
                         "%s: header of %llu bytes in a file of %llu bytes: truncated? copy or "
                         "download it again",
                         name, (ull)n, (ull)len);
    if (n == 0 || bytes[LENGTH_BYTES] != '{')
        return pare_fail(cx, PARE_EFORMAT, "%s: byte %d: the header does not start with '{'", name,
                         LENGTH_BYTES);
    *header = (size_t)n;
    return PARE_OK;
}

static pare_status check_metadata(const reader *r, const pare_json *v)
{
    if (pare_json_type_of(v) != PARE_JSON_OBJECT)
        return pare_fail(r->cx, PARE_EFORMAT, "%s: __metadata__ is not an object", r->name);
    const char *key;
    const pare_json *value;
    for (pare_json_iter it = {0}; pare_json_next(v, &it, &key, &value);) {
        if (pare_json_type_of(value) != PARE_JSON_STRING)
            return pare_fail(r->cx, PARE_EFORMAT, "%s: __metadata__ %s is not a string", r->name,
                             key);
    }
    return PARE_OK;
}

/* A whole number from 0 that fits int64; -1 for anything else. */
static int64_t read_count(const pare_json *v)
{
    return pare_json_integer(v, -1);
}

static pare_status read_shape(const reader *r, const pare_json *v, pare_tensor *t)
{
    if (pare_json_type_of(v) != PARE_JSON_ARRAY)
        return pare_fail(r->cx, PARE_EFORMAT, "%s: tensor %s: shape is missing or not an array",
                         r->name, t->name);
    const size_t rank = pare_json_count(v);
    if (rank > PARE_RANK_MAX)
        return pare_fail(r->cx, PARE_EFORMAT, "%s: tensor %s has %zu dimensions, at most %d",
                         r->name, t->name, rank, PARE_RANK_MAX);
    t->rank = (uint32_t)rank;
    for (size_t i = 0; i < rank; i++) {
        const int64_t d = read_count(pare_json_at(v, i));
        if (d < 0)
            return pare_fail(r->cx, PARE_EFORMAT,
                             "%s: tensor %s: dimension %zu is not a whole number from 0 on",
                             r->name, t->name, i);
        t->shape[i] = (uint64_t)d;
    }
    if (pare_tensor_bytes(t->dtype, t->rank, t->shape, &t->bytes) != PARE_OK)
        return pare_fail(r->cx, PARE_EFORMAT,
                         "%s: tensor %s: its size overflows or does not fill whole bytes", r->name,
                         t->name);
    return PARE_OK;
}

static pare_status read_offsets(const reader *r, const pare_json *v, span *s)
{
    const char *const name = s->tensor.name;
    if (pare_json_type_of(v) != PARE_JSON_ARRAY || pare_json_count(v) != 2)
        return pare_fail(r->cx, PARE_EFORMAT,
                         "%s: tensor %s: data_offsets is missing or not a pair", r->name, name);
    const int64_t begin = read_count(pare_json_at(v, 0));
    const int64_t end = read_count(pare_json_at(v, 1));
    if (begin < 0 || end < begin)
        return pare_fail(r->cx, PARE_EFORMAT,
                         "%s: tensor %s: data_offsets are not 0 <= begin <= end", r->name, name);
    s->begin = (uint64_t)begin;
    s->end = (uint64_t)end;
    if (s->end - s->begin != s->tensor.bytes)
        return pare_fail(r->cx, PARE_EFORMAT,
                         "%s: tensor %s: data_offsets span %llu bytes, dtype and shape need %llu",
                         r->name, name, (ull)(s->end - s->begin), (ull)s->tensor.bytes);
    if (s->end > r->data_bytes)
        return pare_fail(r->cx, PARE_EFORMAT,
                         "%s: tensor %s ends at byte %llu of the data, but the file has %llu: "
                         "truncated? copy or download it again",
                         r->name, name, (ull)s->end, (ull)r->data_bytes);
    s->tensor.data = r->data + s->begin;
    return PARE_OK;
}

static pare_status read_entry(reader *r, const char *key, const pare_json *v, span *s)
{
    const size_t size = strlen(key) + 1;
    s->tensor.name = memcpy(r->names, key, size);
    r->names += size;
    if (pare_json_type_of(v) != PARE_JSON_OBJECT)
        return pare_fail(r->cx, PARE_EFORMAT, "%s: tensor %s: its entry is not an object", r->name,
                         key);
    const char *const dtype = pare_json_text(pare_json_get(v, "dtype"), NULL);
    if (!dtype)
        return pare_fail(r->cx, PARE_EFORMAT, "%s: tensor %s: dtype is missing or not a string",
                         r->name, key);
    s->tensor.dtype = pare_dtype_parse(dtype);
    if (s->tensor.dtype == PARE_DTYPES)
        return pare_fail(r->cx, PARE_EFORMAT, "%s: tensor %s: unknown dtype %.32s", r->name, key,
                         dtype);
    PARE_TRY(read_shape(r, pare_json_get(v, "shape"), &s->tensor));
    return read_offsets(r, pare_json_get(v, "data_offsets"), s);
}

/* All names in one piece: a header of a million tensors must not cost a million blocks. */
static pare_status take_names(reader *r, const pare_json *root)
{
    size_t total = 0;
    const char *key;
    for (pare_json_iter it = {0}; pare_json_next(root, &it, &key, NULL);)
        total += strlen(key) + 1;
    r->names = pare_arena_take(r->arena, total, 1);
    return r->names ? PARE_OK : PARE_ENOMEM;
}

static pare_status read_entries(reader *r, const pare_json *root, span *entry, size_t *count)
{
    const char *key;
    const pare_json *value;
    for (pare_json_iter it = {0}; pare_json_next(root, &it, &key, &value);) {
        if (strcmp(key, "__metadata__") == 0)
            PARE_TRY(check_metadata(r, value));
        else
            PARE_TRY(read_entry(r, key, value, &entry[(*count)++]));
    }
    return PARE_OK;
}

static int by_place(const void *a, const void *b)
{
    const span *const x = a, *const y = b;
    if (x->begin != y->begin)
        return x->begin < y->begin ? -1 : 1;
    if (x->end != y->end)
        return x->end < y->end ? -1 : 1;
    return strcmp(x->tensor.name, y->tensor.name);
}

static int by_name(const void *a, const void *b)
{
    return strcmp(((const pare_tensor *)a)->name, ((const pare_tensor *)b)->name);
}

/* Every byte of the data belongs to one tensor: nothing can hide in a hole or behind the end. */
static pare_status check_tiling(const reader *r, span *entry, size_t count)
{
    if (count > 1)
        qsort(entry, count, sizeof *entry, by_place);
    uint64_t at = 0;
    for (size_t i = 0; i < count; i++) {
        const span *const s = &entry[i];
        if (s->begin < at)
            return pare_fail(r->cx, PARE_EFORMAT,
                             "%s: tensor %s begins at byte %llu of the data, inside tensor %s that "
                             "ends at %llu",
                             r->name, s->tensor.name, (ull)s->begin, entry[i - 1].tensor.name,
                             (ull)at);
        if (s->begin > at)
            return pare_fail(r->cx, PARE_EFORMAT,
                             "%s: bytes %llu to %llu of the data belong to no tensor (in front of "
                             "tensor %s)",
                             r->name, (ull)at, (ull)s->begin, s->tensor.name);
        at = s->end;
    }
    if (at != r->data_bytes)
        return pare_fail(r->cx, PARE_EFORMAT, "%s: %llu bytes of data, but the tensors end at %llu",
                         r->name, (ull)r->data_bytes, (ull)at);
    return PARE_OK;
}

static pare_status read_root(reader *r, const pare_json *root, pare_safetensors *out)
{
    const size_t members = pare_json_count(root);
    pare_arena scratch;
    pare_status s = pare_arena_init(r->cx, &scratch, 0);
    span *const entry = s == PARE_OK ? PARE_NEW(&scratch, span, members) : NULL;
    size_t count = 0;
    s = entry ? take_names(r, root) : PARE_ENOMEM;
    if (s == PARE_OK)
        s = read_entries(r, root, entry, &count);
    if (s == PARE_OK)
        s = check_tiling(r, entry, count);
    if (s == PARE_OK && !(out->tensor = PARE_NEW(r->arena, pare_tensor, count)))
        s = PARE_ENOMEM;
    if (s == PARE_OK) {
        for (size_t i = 0; i < count; i++)
            out->tensor[i] = entry[i].tensor;
        if (count > 1)
            qsort(out->tensor, count, sizeof *out->tensor, by_name);
        out->tensors = count;
    }
    pare_arena_release(&scratch);
    return s;
}

pare_status pare_safetensors_parse(pare_ctx *cx, pare_arena *a, const char *name, const void *bytes,
                                   uint64_t len, pare_safetensors *out)
{
    *out = (pare_safetensors){0};
    size_t header = 0;
    PARE_TRY(check_frame(cx, name, bytes, len, &header));
    const char *const text = (const char *)bytes + LENGTH_BYTES;
    reader r = {
        .cx = cx,
        .arena = a,
        .name = name,
        .data = (const unsigned char *)text + header,
        .data_bytes = len - LENGTH_BYTES - header,
    };
    pare_json *root = NULL;
    pare_status s = pare_json_parse(cx, name, text, header, HEADER_MAX, &root);
    if (s == PARE_EFORMAT)
        return pare_fail_after(cx, s,
                               "this is in the header, %llu bytes by the first 8 of the file; if "
                               "they are damaged, copy or download it again",
                               (unsigned long long)header);
    PARE_TRY(s);
    out->data_offset = LENGTH_BYTES + header;
    s = read_root(&r, root, out);
    pare_json_free(root);
    return s;
}
