#include "formats/npz.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "formats/little_endian.h"
#include "formats/zip.h"

enum { MAGIC = 6, TEXT_MAX = 1 << 16, WORD_MAX = 32, MESSAGE_NAME = 1200 };

typedef unsigned long long ull;

/* The text of a header, from left to right. */
typedef struct scanner {
    pare_ctx *cx;
    const char *name;
    const char *at, *end;
    const char *begin;
} scanner;

typedef struct header {
    char descr[WORD_MAX + 1];
    bool fortran, has_descr, has_order, has_shape;
    uint32_t rank;
    uint64_t shape[PARE_RANK_MAX];
} header;

static pare_status expected(const scanner *s, const char *what)
{
    return pare_fail(s->cx, PARE_EFORMAT, "%s: character %zu of the header: expected %s", s->name,
                     (size_t)(s->at - s->begin), what);
}

static void skip_spaces(scanner *s)
{
    while (s->at < s->end && *s->at == ' ')
        s->at++;
}

/* Takes one character and the spaces around it, if it is there. */
static bool take(scanner *s, char c)
{
    skip_spaces(s);
    if (s->at == s->end || *s->at != c)
        return false;
    s->at++;
    skip_spaces(s);
    return true;
}

/* A text in quotes of one kind, without escapes. */
static pare_status take_text(scanner *s, char out[WORD_MAX + 1])
{
    const char quote = s->at < s->end ? *s->at : '\0';
    if (quote != '\'' && quote != '"')
        return expected(s, "a text in quotes");
    const char *const begin = s->at + 1;
    const char *p = begin;
    while (p<s->end && * p != quote && * p> ' ' && *p < 127 && *p != '\\')
        p++;
    if (p == s->end || *p != quote || p - begin > WORD_MAX)
        return expected(s, "a short plain text and a closing quote");
    const size_t len = (size_t)(p - begin);
    memcpy(out, begin, len);
    out[len] = '\0';
    s->at = p + 1;
    return PARE_OK;
}

static bool take_word(scanner *s, const char *word)
{
    const size_t len = strlen(word);
    if ((size_t)(s->end - s->at) < len || memcmp(s->at, word, len) != 0)
        return false;
    s->at += len;
    return true;
}

static pare_status take_number(scanner *s, uint64_t *out)
{
    const char *const begin = s->at;
    uint64_t value = 0;
    for (; s->at < s->end && *s->at >= '0' && *s->at <= '9'; s->at++) {
        if (__builtin_mul_overflow(value, 10, &value) ||
            __builtin_add_overflow(value, (uint64_t)(*s->at - '0'), &value))
            return expected(s, "a number of at most 64 bits");
    }
    *out = value;
    return s->at > begin ? PARE_OK : expected(s, "a whole number from 0 on");
}

/* (), (3,), (3, 4), (3, 4,) */
static pare_status take_shape(scanner *s, header *h)
{
    if (!take(s, '('))
        return expected(s, "a tuple");
    while (!take(s, ')')) {
        if (h->rank == PARE_RANK_MAX)
            return pare_fail(s->cx, PARE_EFORMAT, "%s: more than %d dimensions", s->name,
                             PARE_RANK_MAX);
        PARE_TRY(take_number(s, &h->shape[h->rank++]));
        if (take(s, ','))
            continue;
        if (h->rank == 1 || !take(s, ')'))
            return expected(s, "a comma");
        return PARE_OK;
    }
    return PARE_OK;
}

static pare_status take_order(scanner *s, header *h)
{
    h->fortran = take_word(s, "True");
    return h->fortran || take_word(s, "False") ? PARE_OK : expected(s, "True or False");
}

static pare_status take_descr(scanner *s, header *h)
{
    if (s->at < s->end && *s->at == '[')
        return pare_fail(s->cx, PARE_ENOTSUP, "%s: an array of structures", s->name);
    return take_text(s, h->descr);
}

/* Key, colon, value. */
static pare_status take_member(scanner *s, header *h)
{
    char key[WORD_MAX + 1];
    const char *const begin = s->at;
    PARE_TRY(take_text(s, key));
    bool *const has = strcmp(key, "descr") == 0           ? &h->has_descr
                      : strcmp(key, "fortran_order") == 0 ? &h->has_order
                      : strcmp(key, "shape") == 0         ? &h->has_shape
                                                          : NULL;
    if (!has || *has) {
        s->at = begin;
        return expected(s, "each of the keys descr, fortran_order, shape once");
    }
    *has = true;
    if (!take(s, ':'))
        return expected(s, "a colon");
    if (has == &h->has_descr)
        return take_descr(s, h);
    return has == &h->has_order ? take_order(s, h) : take_shape(s, h);
}

static pare_status scan(scanner *s, header *h)
{
    *h = (header){.rank = 0};
    if (!take(s, '{'))
        return expected(s, "{");
    while (!take(s, '}')) {
        PARE_TRY(take_member(s, h));
        if (take(s, ','))
            continue;
        if (!take(s, '}'))
            return expected(s, "a comma or }");
        break;
    }
    if (s->at < s->end && *s->at == '\n')
        s->at++;
    if (s->at != s->end)
        return expected(s, "the end of the header");
    if (!h->has_descr || !h->has_order || !h->has_shape)
        return pare_fail(s->cx, PARE_EFORMAT,
                         "%s: the header lacks one of the keys descr, fortran_order, shape",
                         s->name);
    return PARE_OK;
}

static const struct type {
    const char *descr; /* without the mark of byte order */
    pare_dtype dtype;
} types[] = {
    {"f2", PARE_F16}, {"f4", PARE_F32}, {"f8", PARE_F64}, {"i1", PARE_I8},
    {"i2", PARE_I16}, {"i4", PARE_I32}, {"i8", PARE_I64}, {"u1", PARE_U8},
    {"u2", PARE_U16}, {"u4", PARE_U32}, {"u8", PARE_U64}, {"b1", PARE_BOOL},
};

static pare_status find_type(pare_ctx *cx, const char *name, const char *descr, bool bf16,
                             pare_dtype *out)
{
    const char mark = descr[0];
    const char *const kind = descr + (mark != '\0');
    *out = PARE_BF16;
    if (strcmp(descr, "bfloat16") == 0)
        return PARE_OK;
    if (strcmp(kind, "V2") == 0 && (mark == '<' || mark == '|')) {
        if (bf16)
            return PARE_OK;
        return pare_fail(cx, PARE_ENOTSUP,
                         "%s: elements of type %s: two bytes without a meaning; they are read as "
                         "BF16 where config.json says torch_dtype bfloat16",
                         name, descr);
    }
    for (size_t i = 0; i < sizeof types / sizeof *types; i++) {
        if (strcmp(kind, types[i].descr) != 0)
            continue;
        *out = types[i].dtype;
        if (mark == '<' || (mark == '|' && kind[1] == '1'))
            return PARE_OK;
        return pare_fail(cx, PARE_ENOTSUP,
                         "%s: elements of type %s: only little-endian ones are "
                         "read",
                         name, descr);
    }
    return pare_fail(cx, PARE_ENOTSUP,
                     "%s: elements of type %s: only whole and floating-point "
                     "numbers are read",
                     name, descr);
}

/* Where the text of the header lies: [*begin, *end) of the bytes. */
static pare_status find_text(pare_ctx *cx, const char *name, const unsigned char *p, uint64_t len,
                             size_t *begin, size_t *end)
{
    if (len < MAGIC + 4 || memcmp(p, "\x93NUMPY", MAGIC) != 0)
        return pare_fail(cx, PARE_EFORMAT, "%s: does not begin like a NumPy array", name);
    if (p[6] < 1 || p[6] > 3 || p[7] != 0)
        return pare_fail(cx, PARE_ENOTSUP, "%s: version %u.%u, 1.0 to 3.0 are read", name, p[6],
                         p[7]);
    *begin = p[6] == 1 ? MAGIC + 4 : MAGIC + 6;
    const uint64_t text = p[6] == 1 ? pare_le16(p + 8) : len < *begin ? 0 : pare_le32(p + 8);
    if (len < *begin || text > len - *begin || text > TEXT_MAX)
        return pare_fail(cx, PARE_EFORMAT,
                         "%s: a header of %llu bytes in %llu; at most %d are accepted", name,
                         (ull)text, (ull)len, TEXT_MAX);
    *end = *begin + (size_t)text;
    return PARE_OK;
}

pare_status pare_npy_parse(pare_ctx *cx, const char *name, const void *bytes, uint64_t len,
                           bool bf16, pare_strided *out)
{
    const char *const text = bytes;
    size_t begin, end;
    header h;
    *out = (pare_strided){.tensor = {.name = NULL}};
    PARE_TRY(find_text(cx, name, bytes, len, &begin, &end));
    scanner s = {cx, name, text + begin, text + end, text + begin};
    PARE_TRY(scan(&s, &h));
    pare_tensor *const t = &out->tensor;
    PARE_TRY(find_type(cx, name, h.descr, bf16, &t->dtype));
    t->rank = h.rank;
    memcpy(t->shape, h.shape, sizeof t->shape);
    if (pare_tensor_bytes(t->dtype, t->rank, t->shape, &t->bytes) != PARE_OK)
        return pare_fail(cx, PARE_EFORMAT, "%s: the size of the array overflows", name);
    if (t->bytes != len - end)
        return pare_fail(cx, PARE_EFORMAT, "%s: %llu bytes of data, type and shape need %llu", name,
                         (ull)(len - end), (ull)t->bytes);
    uint64_t step = 1;
    for (uint32_t i = 0; i < h.rank && t->bytes > 0; i++) {
        const uint32_t d = h.fortran ? i : h.rank - 1 - i;
        out->stride[d] = step;
        step *= h.shape[d];
    }
    t->data = text + end;
    return PARE_OK;
}

static int by_name(const void *a, const void *b)
{
    return strcmp(((const pare_strided *)a)->tensor.name, ((const pare_strided *)b)->tensor.name);
}

pare_status pare_npz_parse(pare_ctx *cx, pare_arena *a, const char *name, const void *bytes,
                           uint64_t len, bool bf16, pare_npz *out)
{
    pare_zip zip;
    *out = (pare_npz){0};
    PARE_TRY(pare_zip_parse(cx, a, name, bytes, len, &zip));
    if (zip.entries == 0)
        return pare_fail(cx, PARE_EFORMAT, "%s: the archive is empty", name);
    out->tensor = PARE_NEW(a, pare_strided, zip.entries);
    if (!out->tensor)
        return PARE_ENOMEM;
    for (size_t i = 0; i < zip.entries; i++) {
        const pare_zip_entry *const e = &zip.entry[i];
        const size_t n = strlen(e->name);
        if (n < 5 || strcmp(e->name + n - 4, ".npy") != 0)
            return pare_fail(cx, PARE_EFORMAT, "%s: entry %s is not called NAME.npy", name,
                             e->name);
        char place[MESSAGE_NAME];
        (void)snprintf(place, sizeof place, "%.512s: entry %.512s", name, e->name);
        PARE_TRY(pare_npy_parse(cx, place, e->data, e->bytes, bf16, &out->tensor[i]));
        out->tensor[i].tensor.name = pare_arena_text(a, e->name, n - 4);
        if (!out->tensor[i].tensor.name)
            return PARE_ENOMEM;
    }
    qsort(out->tensor, zip.entries, sizeof *out->tensor, by_name);
    out->tensors = zip.entries;
    return PARE_OK;
}
