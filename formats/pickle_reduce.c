#include <string.h>

#include "formats/pickle_internal.h"

enum { OBJECTS_MAX = 1 << 21 };

typedef unsigned long long ull;

pare_status pare__build(pare__builder *b, size_t count, size_t size, void *out)
{
    if (++b->objects > OBJECTS_MAX)
        return pare_fail(b->cx, PARE_EFORMAT, "more than %d objects", OBJECTS_MAX);
    void *const p = pare_arena_take(b->arena, count, size);
    memcpy(out, &p, sizeof p);
    return p ? PARE_OK : PARE_ENOMEM;
}

pare_status pare__build_dict(pare__builder *b, pare__value *out)
{
    *out = (pare__value){.type = PARE__DICT};
    return pare__build(b, 1, sizeof(pare__dict), &out->dict);
}

/* The names a checkpoint of tensors needs. `dtype` belongs to the last two kinds. */
static const struct known {
    const char *module, *name;
    pare__global global;
    pare_dtype dtype;
} known[] = {
    {"collections", "OrderedDict", PARE__ORDERED_DICT, PARE_DTYPES},
    {"torch._utils", "_rebuild_tensor_v2", PARE__TENSOR_V2, PARE_DTYPES},
    {"torch._utils", "_rebuild_tensor_v3", PARE__TENSOR_V3, PARE_DTYPES},
    {"torch._utils", "_rebuild_parameter", PARE__PARAMETER, PARE_DTYPES},
    {"torch.storage", "UntypedStorage", PARE__UNTYPED, PARE_DTYPES},
    {"torch", "HalfStorage", PARE__STORAGE_TYPE, PARE_F16},
    {"torch", "BFloat16Storage", PARE__STORAGE_TYPE, PARE_BF16},
    {"torch", "FloatStorage", PARE__STORAGE_TYPE, PARE_F32},
    {"torch", "DoubleStorage", PARE__STORAGE_TYPE, PARE_F64},
    {"torch", "LongStorage", PARE__STORAGE_TYPE, PARE_I64},
    {"torch", "IntStorage", PARE__STORAGE_TYPE, PARE_I32},
    {"torch", "ShortStorage", PARE__STORAGE_TYPE, PARE_I16},
    {"torch", "CharStorage", PARE__STORAGE_TYPE, PARE_I8},
    {"torch", "ByteStorage", PARE__STORAGE_TYPE, PARE_U8},
    {"torch", "BoolStorage", PARE__STORAGE_TYPE, PARE_BOOL},
    {"torch", "float16", PARE__DTYPE, PARE_F16},
    {"torch", "bfloat16", PARE__DTYPE, PARE_BF16},
    {"torch", "float32", PARE__DTYPE, PARE_F32},
    {"torch", "float64", PARE__DTYPE, PARE_F64},
    {"torch", "float8_e4m3fn", PARE__DTYPE, PARE_F8_E4M3},
    {"torch", "float8_e5m2", PARE__DTYPE, PARE_F8_E5M2},
    {"torch", "uint16", PARE__DTYPE, PARE_U16},
    {"torch", "uint32", PARE__DTYPE, PARE_U32},
    {"torch", "uint64", PARE__DTYPE, PARE_U64},
};

static bool same(const char *text, size_t len, const char *word)
{
    return strlen(word) == len && memcmp(text, word, len) == 0;
}

/* For a message: at most 60 bytes, what does not print as '?'. */
static const char *printable(const char *text, size_t len, char *out)
{
    size_t n = 0;
    for (; n < len && n < 60; n++)
        out[n] = (char)(text[n] > ' ' && text[n] < 127 ? text[n] : '?');
    out[n] = '\0';
    return out;
}

pare_status pare__pickle_global(pare_ctx *cx, const char *module, size_t module_len,
                                const char *name, size_t name_len, pare__value *out)
{
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        if (!same(module, module_len, known[i].module) || !same(name, name_len, known[i].name))
            continue;
        *out = (pare__value){.type = PARE__GLOBAL,
                             .global = (uint16_t)known[i].global,
                             .count = (uint32_t)known[i].dtype};
        return PARE_OK;
    }
    char m[64], n[64];
    return pare_fail(cx, PARE_ENOTSUP,
                     "%s.%s is not one of the names that tensors need; nothing in a file is ever "
                     "called, so it is refused",
                     printable(module, module_len, m), printable(name, name_len, n));
}

static bool is_global(const pare__value *v, pare__global global)
{
    return v->type == PARE__GLOBAL && v->global == global;
}

pare_status pare__pickle_storage(pare__builder *b, const pare__value *id, pare__value *out)
{
    const pare__value *const v = id->item;
    const bool shaped = id->type == PARE__TUPLE && id->count == 5 && v[0].type == PARE__TEXT &&
                        v[2].type == PARE__TEXT && v[3].type == PARE__TEXT &&
                        v[4].type == PARE__INTEGER && same(v[0].text, v[0].count, "storage");
    if (!shaped || !(is_global(&v[1], PARE__STORAGE_TYPE) || is_global(&v[1], PARE__UNTYPED)))
        return pare_fail(b->cx, PARE_EFORMAT,
                         "a persistent id is not (storage, type, key, location, elements)");
    if (v[4].integer < 0)
        return pare_fail(b->cx, PARE_EFORMAT, "a storage of %lld elements",
                         (long long)v[4].integer);
    pare__storage *s;
    PARE_TRY(pare__build(b, 1, sizeof *s, &s));
    *s = (pare__storage){.key = v[2],
                         .typed = v[1].global == PARE__STORAGE_TYPE,
                         .dtype = (pare_dtype)v[1].count,
                         .elements = (uint64_t)v[4].integer};
    *out = (pare__value){.type = PARE__STORAGE, .storage = s};
    return PARE_OK;
}

/* Sizes or strides: a tuple of numbers from 0 on. */
static pare_status read_sizes(pare_ctx *cx, const pare__value *v, const char *what, uint64_t *out,
                              uint32_t *rank)
{
    if (v->type != PARE__TUPLE || v->count > PARE_RANK_MAX)
        return pare_fail(cx, PARE_EFORMAT,
                         "the %s of a tensor is not a tuple of at most %d numbers", what,
                         PARE_RANK_MAX);
    for (uint32_t i = 0; i < v->count; i++) {
        if (v->item[i].type != PARE__INTEGER || v->item[i].integer < 0)
            return pare_fail(cx, PARE_EFORMAT,
                             "number %u of the %s of a tensor is not a whole number from 0 on", i,
                             what);
        out[i] = (uint64_t)v->item[i].integer;
    }
    *rank = v->count;
    return PARE_OK;
}

/* The last element lies inside the storage. */
static pare_status check_inside(pare_ctx *cx, const pare__view *t)
{
    uint64_t last = t->offset, elements = t->storage->elements;
    bool overflow = false;
    for (uint32_t i = 0; i < t->rank; i++) {
        uint64_t step = 0;
        if (t->shape[i] == 0)
            return PARE_OK;
        overflow = overflow || __builtin_mul_overflow(t->shape[i] - 1, t->stride[i], &step) ||
                   __builtin_add_overflow(last, step, &last);
    }
    if (!t->storage->typed)
        elements /= pare_dtype_bits(t->dtype) / 8;
    if (overflow || last >= elements)
        return pare_fail(
            cx, PARE_EFORMAT,
            "a tensor from element %llu on reaches beyond its storage of %llu elements",
            (ull)t->offset, (ull)elements);
    return PARE_OK;
}

/* Bits of a view that PyTorch applies when values are read: "neg" and "conj". Whatever they say,
 * values are those that are stored only where all are false. */
static pare_status check_metadata(pare_ctx *cx, const pare__value *v)
{
    char text[64];
    if (v->type == PARE__NONE)
        return PARE_OK;
    if (v->type != PARE__DICT)
        return pare_fail(cx, PARE_EFORMAT, "the metadata of a tensor are not a dictionary");
    for (size_t i = 0; i < v->dict->count; i += 2) {
        const pare__value *const key = &v->dict->item[i], *const is = key + 1;
        if (key->type != PARE__TEXT)
            return pare_fail(cx, PARE_EFORMAT, "the metadata of a tensor have a key without text");
        if (is->type != PARE__BOOL || is->integer)
            return pare_fail(cx, PARE_ENOTSUP,
                             "a tensor is marked \"%s\": its values are others than those that "
                             "are stored; save it again in PyTorch after resolve_neg() and "
                             "resolve_conj()",
                             printable(key->text, key->count, text));
    }
    return PARE_OK;
}

/* (storage, offset, shape, stride, requires_grad, hooks[, metadata]); version 3 has a dtype in
 * front of metadata. */
static pare_status rebuild_tensor(pare__builder *b, const pare__value *args, bool v3,
                                  pare__value *out)
{
    const pare__value *const v = args->item;
    const uint32_t least = v3 ? 7 : 6;
    if (args->count < least || args->count > least + 1 || v[0].type != PARE__STORAGE ||
        v[1].type != PARE__INTEGER || v[4].type != PARE__BOOL || v[5].type != PARE__DICT ||
        (v3 && !is_global(&v[6], PARE__DTYPE)) || v[0].storage->typed == v3)
        return pare_fail(b->cx, PARE_EFORMAT,
                         "a tensor is not made of (storage, offset, shape, "
                         "stride, requires_grad, hooks)");
    pare__view *t;
    uint32_t strides;
    if (args->count > least)
        PARE_TRY(check_metadata(b->cx, &v[least]));
    PARE_TRY(pare__build(b, 1, sizeof *t, &t));
    t->storage = v[0].storage;
    t->dtype = v3 ? (pare_dtype)v[6].count : t->storage->dtype;
    if (v[1].integer < 0)
        return pare_fail(b->cx, PARE_EFORMAT, "a tensor begins at element %lld of its storage",
                         (long long)v[1].integer);
    t->offset = (uint64_t)v[1].integer;
    PARE_TRY(read_sizes(b->cx, &v[2], "shape", t->shape, &t->rank));
    PARE_TRY(read_sizes(b->cx, &v[3], "stride", t->stride, &strides));
    if (strides != t->rank)
        return pare_fail(b->cx, PARE_EFORMAT, "a tensor of %u dimensions with %u strides", t->rank,
                         strides);
    PARE_TRY(check_inside(b->cx, t));
    *out = (pare__value){.type = PARE__TENSOR, .view = t};
    return PARE_OK;
}

pare_status pare__pickle_reduce(pare__builder *b, const pare__value *function,
                                const pare__value *args, pare__value *out)
{
    if (function->type != PARE__GLOBAL || args->type != PARE__TUPLE)
        return pare_fail(b->cx, PARE_EFORMAT, "no imported name, or no tuple of arguments");
    const pare__value *const v = args->item;
    switch ((pare__global)function->global) {
    case PARE__TENSOR_V2:
    case PARE__TENSOR_V3: return rebuild_tensor(b, args, function->global == PARE__TENSOR_V3, out);
    case PARE__PARAMETER:
        if (args->count != 3 || v[0].type != PARE__TENSOR || v[1].type != PARE__BOOL ||
            v[2].type != PARE__DICT)
            return pare_fail(b->cx, PARE_EFORMAT,
                             "a parameter is not made of (tensor, requires_grad, hooks)");
        *out = v[0];
        return PARE_OK;
    case PARE__ORDERED_DICT:
        if (args->count != 0)
            return pare_fail(b->cx, PARE_EFORMAT, "an OrderedDict with %u arguments, not 0",
                             args->count);
        return pare__build_dict(b, out);
    default: return pare_fail(b->cx, PARE_EFORMAT, "a type where a function is expected");
    }
}
