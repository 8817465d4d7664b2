#include "formats/gguf.h"

#include <stdlib.h>
#include <string.h>

#include "kernels/half.h"

enum {
    VALUES_MAX = 1 << 16,
    TENSORS_MAX = 1 << 20,
    KEY_MAX = 65535,
    NAME_MAX_BYTES = 63,
    DIMENSIONS = 4,
    ALIGNMENT = 32,
    KV_LEAST = 14,    /* bytes of the shortest value */
    TENSOR_LEAST = 25 /* and of the shortest description of a tensor */
};

typedef unsigned long long ull;

/* What is still to be read. */
typedef struct cursor {
    pare_ctx *cx;
    pare_arena *arena;
    const char *name; /* of the file */
    const unsigned char *data;
    uint64_t len, at;
    uint64_t total; /* bytes of the file: more than len when its data are elsewhere */
} cursor;

static const uint8_t kind_bytes[PARE_GGUF_KINDS] = {1, 1, 2, 2, 4, 4, 4, 1, 0, 0, 8, 8, 8};

static uint64_t load(const unsigned char *p, unsigned bytes)
{
    uint64_t v = 0;
    for (unsigned i = bytes; i-- > 0;)
        v = v << 8 | p[i];
    return v;
}

static pare_status cut_short(const cursor *c, const char *what)
{
    return pare_fail(
        c->cx, PARE_EFORMAT,
        "%s: byte %llu: %s goes past the end at %llu: truncated? copy or download it again",
        c->name, (ull)c->at, what, (ull)c->len);
}

/* A number of `bytes` bytes; `what` stands in the message. */
static pare_status take(cursor *c, unsigned bytes, const char *what, uint64_t *out)
{
    if (c->len - c->at < bytes)
        return cut_short(c, what);
    *out = load(c->data + c->at, bytes);
    c->at += bytes;
    return PARE_OK;
}

static pare_status take_kind(cursor *c, const char *key, pare_gguf_kind *out)
{
    uint64_t kind;
    PARE_TRY(take(c, 4, "a kind of value", &kind));
    if (kind >= PARE_GGUF_KINDS)
        return pare_fail(c->cx, PARE_EFORMAT, "%s: key %s: kind %llu of value is not known",
                         c->name, key, (ull)kind);
    *out = (pare_gguf_kind)kind;
    return PARE_OK;
}

/* A key or a name, copied: printable ASCII, so that it can stand in messages and in JSON. */
static pare_status take_name(cursor *c, const char *what, uint64_t most, const char **out)
{
    uint64_t len;
    PARE_TRY(take(c, 8, what, &len));
    if (len == 0 || len > most)
        return pare_fail(c->cx, PARE_EFORMAT,
                         "%s: byte %llu: %s of %llu bytes, 1 to %llu are "
                         "allowed",
                         c->name, (ull)c->at - 8, what, (ull)len, (ull)most);
    if (c->len - c->at < len)
        return cut_short(c, what);
    const unsigned char *const text = c->data + c->at;
    for (uint64_t i = 0; i < len; i++) {
        if (text[i] < 0x21 || text[i] > 0x7e)
            return pare_fail(c->cx, PARE_EFORMAT, "%s: byte %llu: %s with a byte 0x%02x in it",
                             c->name, (ull)(c->at + i), what, text[i]);
    }
    *out = pare_arena_text(c->arena, (const char *)text, (size_t)len);
    c->at += len;
    return *out ? PARE_OK : PARE_ENOMEM;
}

/* Steps over the texts of a value: each length is checked once, here. */
static pare_status skip_texts(cursor *c, const pare_gguf_value *v)
{
    for (uint64_t i = 0; i < v->count; i++) {
        uint64_t len;
        PARE_TRY(take(c, 8, "the length of a text", &len));
        if (len > c->len - c->at)
            return pare_fail(c->cx, PARE_EFORMAT,
                             "%s: key %s: text %llu of %llu bytes goes past the end of the file",
                             c->name, v->key, (ull)i, (ull)len);
        c->at += len;
    }
    return PARE_OK;
}

static pare_status skip_numbers(cursor *c, const pare_gguf_value *v)
{
    const uint64_t bytes = v->count * kind_bytes[v->kind]; /* count is at most the file's bytes */
    if (bytes > c->len - c->at)
        return pare_fail(c->cx, PARE_EFORMAT,
                         "%s: key %s: %llu elements go past the end of the file", c->name, v->key,
                         (ull)v->count);
    for (uint64_t i = 0; v->kind == PARE_GGUF_BOOL && i < v->count; i++) {
        if (v->data[i] > 1)
            return pare_fail(c->cx, PARE_EFORMAT, "%s: key %s: a truth value of %u, 0 and 1 exist",
                             c->name, v->key, v->data[i]);
    }
    c->at += bytes;
    return PARE_OK;
}

static pare_status take_value(cursor *c, pare_gguf_value *v)
{
    PARE_TRY(take_name(c, "a key", KEY_MAX, &v->key));
    PARE_TRY(take_kind(c, v->key, &v->kind));
    v->count = 1;
    v->array = v->kind == PARE_GGUF_ARRAY;
    if (v->array) {
        PARE_TRY(take_kind(c, v->key, &v->kind));
        if (v->kind == PARE_GGUF_ARRAY)
            return pare_fail(c->cx, PARE_ENOTSUP, "%s: key %s: an array of arrays", c->name,
                             v->key);
        PARE_TRY(take(c, 8, "the number of elements", &v->count));
        if (v->count > c->len - c->at)
            return pare_fail(c->cx, PARE_EFORMAT,
                             "%s: key %s: %llu elements go past the end of the file", c->name,
                             v->key, (ull)v->count);
    }
    v->data = c->data + c->at;
    const uint64_t begin = c->at;
    PARE_TRY(v->kind == PARE_GGUF_TEXT ? skip_texts(c, v) : skip_numbers(c, v));
    v->bytes = c->at - begin;
    return PARE_OK;
}

static pare_status take_shape(cursor *c, pare_gguf_tensor *t)
{
    uint64_t rank;
    PARE_TRY(take(c, 4, "the number of dimensions", &rank));
    if (rank > DIMENSIONS)
        return pare_fail(c->cx, PARE_EFORMAT, "%s: tensor %s has %llu dimensions, at most %d",
                         c->name, t->name, (ull)rank, DIMENSIONS);
    t->rank = (uint32_t)rank;
    t->elements = 1;
    for (uint32_t i = t->rank; i-- > 0;) {
        uint64_t *const size = &t->shape[i];
        PARE_TRY(take(c, 8, "a dimension of a tensor", size));
        if (*size == 0 || __builtin_mul_overflow(t->elements, *size, &t->elements) ||
            t->elements > INT64_MAX)
            return pare_fail(c->cx, PARE_EFORMAT,
                             "%s: tensor %s: a dimension of %llu makes its size overflow or zero",
                             c->name, t->name, (ull)*size);
    }
    return PARE_OK;
}

static pare_status take_tensor(cursor *c, pare_gguf_tensor *t, uint64_t *offset)
{
    uint64_t id;
    PARE_TRY(take_name(c, "the name of a tensor", NAME_MAX_BYTES, &t->name));
    PARE_TRY(take_shape(c, t));
    PARE_TRY(take(c, 4, "the type of a tensor", &id));
    t->type = pare_ggml_type_find((uint32_t)id);
    if (!t->type)
        return pare_fail(c->cx, PARE_ENOTSUP, "%s: tensor %s: type %llu is not known", c->name,
                         t->name, (ull)id);
    const uint64_t row = t->rank ? t->shape[t->rank - 1] : 1;
    if (row % t->type->elements != 0)
        return pare_fail(c->cx, PARE_EFORMAT,
                         "%s: tensor %s: rows of %llu do not fill blocks of %u (%s)", c->name,
                         t->name, (ull)row, t->type->elements, t->type->name);
    if (__builtin_mul_overflow(t->elements / t->type->elements, t->type->bytes, &t->bytes))
        return pare_fail(c->cx, PARE_EFORMAT, "%s: tensor %s: %llu elements of %s overflow",
                         c->name, t->name, (ull)t->elements, t->type->name);
    return take(c, 8, "the place of a tensor", offset);
}

/* Rounded up to the alignment; false on overflow. */
static bool pad(uint64_t at, uint64_t alignment, uint64_t *out)
{
    return !__builtin_add_overflow(at, (alignment - at % alignment) % alignment, out);
}

/* Tensors in the order of the file. */
static pare_status place(const cursor *c, pare_gguf *g, const uint64_t *offset)
{
    uint64_t expected = 0, end = 0, last = g->data_offset;
    for (size_t i = 0; i < g->tensors; i++) {
        pare_gguf_tensor *const t = &g->tensor[i];
        if (offset[i] != expected)
            return pare_fail(c->cx, PARE_EFORMAT,
                             "%s: tensor %s begins at byte %llu of the data, expected is %llu, "
                             "behind the tensor before it",
                             c->name, t->name, (ull)offset[i], (ull)expected);
        if (__builtin_add_overflow(g->data_offset, offset[i], &last) ||
            __builtin_add_overflow(last, t->bytes, &end) || end > c->total)
            return pare_fail(c->cx, PARE_EFORMAT,
                             "%s: tensor %s of %llu bytes at byte %llu goes past the end at %llu: "
                             "truncated? copy or download it again",
                             c->name, t->name, (ull)t->bytes, (ull)last, (ull)c->total);
        t->data = c->total == c->len ? c->data + last : NULL;
        if (!pad(offset[i] + t->bytes, g->alignment, &expected))
            expected = UINT64_MAX; /* no further tensor fits */
    }
    if (g->tensors > 0 && c->total != PARE_GGUF_ANY_SIZE && c->total - end >= g->alignment)
        return pare_fail(c->cx, PARE_EFORMAT, "%s: %llu bytes behind the last tensor", c->name,
                         (ull)(c->total - end));
    return PARE_OK;
}

static int by_key(const void *a, const void *b)
{
    return strcmp(((const pare_gguf_value *)a)->key, ((const pare_gguf_value *)b)->key);
}

static int by_name(const void *a, const void *b)
{
    return strcmp(((const pare_gguf_tensor *)a)->name, ((const pare_gguf_tensor *)b)->name);
}

static pare_status take_values(cursor *c, pare_gguf *g)
{
    for (size_t i = 0; i < g->values; i++)
        PARE_TRY(take_value(c, &g->value[i]));
    if (g->values > 1)
        qsort(g->value, g->values, sizeof *g->value, by_key);
    for (size_t i = 1; i < g->values; i++) {
        if (by_key(&g->value[i - 1], &g->value[i]) == 0)
            return pare_fail(c->cx, PARE_EFORMAT, "%s: key %s is there twice", c->name,
                             g->value[i].key);
    }
    return PARE_OK;
}

static pare_status take_tensors(cursor *c, pare_gguf *g)
{
    uint64_t *const offset = PARE_NEW(c->arena, uint64_t, g->tensors);
    if (!offset)
        return PARE_ENOMEM;
    for (size_t i = 0; i < g->tensors; i++)
        PARE_TRY(take_tensor(c, &g->tensor[i], &offset[i]));
    if (!pad(c->at, g->alignment, &g->data_offset) || (g->tensors > 0 && g->data_offset > c->len))
        return cut_short(c, "the padding in front of the data");
    PARE_TRY(place(c, g, offset));
    if (g->tensors > 1)
        qsort(g->tensor, g->tensors, sizeof *g->tensor, by_name);
    for (size_t i = 1; i < g->tensors; i++) {
        if (by_name(&g->tensor[i - 1], &g->tensor[i]) == 0)
            return pare_fail(c->cx, PARE_EFORMAT, "%s: tensor %s is there twice", c->name,
                             g->tensor[i].name);
    }
    return PARE_OK;
}

static pare_status read_alignment(const cursor *c, pare_gguf *g)
{
    const pare_gguf_value *const v = pare_gguf_find(g, "general.alignment");
    int64_t n = ALIGNMENT;
    if (v && (v->array || v->kind != PARE_GGUF_U32 || !pare_gguf_integer(v, 0, &n) || n == 0 ||
              (n & (n - 1)) != 0))
        return pare_fail(c->cx, PARE_EFORMAT,
                         "%s: general.alignment is not a power of two of 32 bits without sign",
                         c->name);
    g->alignment = (uint64_t)n;
    return PARE_OK;
}

static pare_status take_head(cursor *c, pare_gguf *g)
{
    uint64_t magic, version, tensors, values;
    PARE_TRY(take(c, 4, "the first word", &magic));
    if (magic != 0x46554747)
        return pare_fail(c->cx, PARE_EFORMAT, "%s: does not begin with \"GGUF\"", c->name);
    PARE_TRY(take(c, 4, "the version", &version));
    if (version != 2 && version != 3)
        return pare_fail(c->cx, PARE_ENOTSUP,
                         "%s: GGUF version %llu%s is not supported (2 and 3 "
                         "are)",
                         c->name, (ull)version,
                         version % 65536 == 0 ? " (or a file for big-endian machines)" : "");
    g->version = (uint32_t)version;
    PARE_TRY(take(c, 8, "the number of tensors", &tensors));
    PARE_TRY(take(c, 8, "the number of values", &values));
    const uint64_t rest = c->len - c->at;
    if (tensors > TENSORS_MAX || values > VALUES_MAX)
        return pare_fail(c->cx, PARE_EFORMAT,
                         "%s: the head says %llu tensors and %llu values; pare reads at most %d "
                         "and %d",
                         c->name, (ull)tensors, (ull)values, TENSORS_MAX, VALUES_MAX);
    if (tensors > rest / TENSOR_LEAST || values > rest / KV_LEAST)
        return pare_fail(c->cx, PARE_EFORMAT,
                         "%s: the head says %llu tensors and %llu values, for which the %llu bytes "
                         "behind it are too few: the file is cut or damaged",
                         c->name, (ull)tensors, (ull)values, (ull)rest);
    g->tensors = (size_t)tensors;
    g->values = (size_t)values;
    return PARE_OK;
}

pare_status pare_gguf_parse_head(pare_ctx *cx, pare_arena *a, const char *name, const void *bytes,
                                 uint64_t len, uint64_t total, pare_gguf *out)
{
    cursor c = {cx, a, name, bytes, len, 0, total};
    *out = (pare_gguf){0};
    PARE_TRY(take_head(&c, out));
    out->value = PARE_NEW(a, pare_gguf_value, out->values);
    out->tensor = PARE_NEW(a, pare_gguf_tensor, out->tensors);
    if (!out->value || !out->tensor)
        return PARE_ENOMEM;
    PARE_TRY(take_values(&c, out));
    PARE_TRY(read_alignment(&c, out));
    return take_tensors(&c, out);
}

const pare_gguf_value *pare_gguf_find(const pare_gguf *g, const char *key)
{
    const pare_gguf_value wanted = {.key = key};
    return g->values ? bsearch(&wanted, g->value, g->values, sizeof wanted, by_key) : NULL;
}

const pare_gguf_tensor *pare_gguf_tensor_find(const pare_gguf *g, const char *name)
{
    const pare_gguf_tensor wanted = {.name = name};
    return g->tensors ? bsearch(&wanted, g->tensor, g->tensors, sizeof wanted, by_name) : NULL;
}

bool pare_gguf_integer(const pare_gguf_value *v, uint64_t i, int64_t *out)
{
    if (!v || i >= v->count)
        return false;
    const unsigned bytes = kind_bytes[v->kind];
    const uint64_t raw = load(v->data + i * bytes, bytes);
    switch (v->kind) {
    case PARE_GGUF_U8:
    case PARE_GGUF_U16:
    case PARE_GGUF_U32:
    case PARE_GGUF_BOOL: *out = (int64_t)raw; return true;
    case PARE_GGUF_U64: *out = (int64_t)raw; return raw <= INT64_MAX;
    case PARE_GGUF_I8: *out = (int8_t)raw; return true;
    case PARE_GGUF_I16: *out = (int16_t)raw; return true;
    case PARE_GGUF_I32: *out = (int32_t)raw; return true;
    case PARE_GGUF_I64: *out = (int64_t)raw; return true;
    default: return false;
    }
}

bool pare_gguf_number(const pare_gguf_value *v, uint64_t i, double *out)
{
    int64_t whole;
    if (v && i < v->count && v->kind == PARE_GGUF_F32) {
        *out = (double)pare_f32_from_bits((uint32_t)load(v->data + i * 4, 4));
        return true;
    }
    if (v && i < v->count && v->kind == PARE_GGUF_F64) {
        const uint64_t bits = load(v->data + i * 8, 8);
        memcpy(out, &bits, sizeof bits);
        return true;
    }
    if (!pare_gguf_integer(v, i, &whole))
        return false;
    *out = (double)whole;
    return true;
}

bool pare_gguf_next(const pare_gguf_value *v, pare_gguf_texts *it, const char **text, size_t *len)
{
    if (!v || v->kind != PARE_GGUF_TEXT || it->index >= v->count)
        return false;
    *len = (size_t)load(v->data + it->at, 8);
    *text = (const char *)v->data + it->at + 8;
    it->at += 8 + *len;
    it->index++;
    return true;
}

bool pare_gguf_text(const pare_gguf_value *v, const char **text, size_t *len)
{
    pare_gguf_texts it = {0};
    return pare_gguf_next(v, &it, text, len);
}

pare_status pare_gguf_parse(pare_ctx *cx, pare_arena *a, const char *name, const void *bytes,
                            uint64_t len, pare_gguf *out)
{
    return pare_gguf_parse_head(cx, a, name, bytes, len, len, out);
}
