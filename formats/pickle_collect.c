#include <stdlib.h>
#include <string.h>

#include "formats/pickle_internal.h"
#include "formats/tokenizer.h"

enum { NAME_MAX_BYTES = 1024, KEY_MAX_BYTES = 64 };

typedef unsigned long long ull;

/* Tensors of a dictionary, among its values. */
static size_t count_tensors(const pare__dict *d)
{
    size_t count = 0;
    for (size_t i = 1; i < d->count; i += 2)
        count += d->item[i].type == PARE__TENSOR;
    return count;
}

static pare_status find_dict(pare_ctx *cx, const char *name, const pare__value *root,
                             const pare__dict **out)
{
    *out = NULL;
    if (root->type != PARE__DICT)
        return pare_fail(cx, PARE_EFORMAT, "%s: the pickle is not a dictionary", name);
    if (count_tensors(root->dict) > 0) {
        *out = root->dict;
        return PARE_OK;
    }
    for (size_t i = 1; i < root->dict->count; i += 2) {
        const pare__value *const v = &root->dict->item[i];
        if (v->type != PARE__DICT || count_tensors(v->dict) == 0)
            continue;
        if (*out)
            return pare_fail(cx, PARE_EFORMAT,
                             "%s: more than one dictionary of tensors; keep the model's alone",
                             name);
        *out = v->dict;
    }
    if (!*out)
        return pare_fail(cx, PARE_EFORMAT,
                         "%s: no tensor in the outermost dictionary, nor one level below it", name);
    return PARE_OK;
}

/* A text of few bytes in UTF-8 without control characters. */
static bool is_plain(const pare__value *v, uint32_t most)
{
    bool plain = v->type == PARE__TEXT && v->count > 0 && v->count <= most;
    for (size_t i = 0; plain && i < v->count; i++)
        plain = (unsigned char)v->text[i] >= ' ' && v->text[i] != 127;
    return plain && pare_tokenizer_invalid(v->text, v->count) == 0;
}

/* Key and value of a pair. */
typedef struct pair {
    pare__value key, value;
} pair;

static int by_key(const void *a, const void *b)
{
    const pare__value *const x = &((const pair *)a)->key, *const y = &((const pair *)b)->key;
    const uint32_t least = x->count < y->count ? x->count : y->count;
    const int order = memcmp(x->text, y->text, least);
    return order != 0 ? order : (x->count > y->count) - (x->count < y->count);
}

/* Sorted by name and checked before a name is copied: one text may be the key of many pairs. */
static pare_status sort_pairs(pare_ctx *cx, const char *name, pair *pairs, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        const pare__value *const key = &pairs[i].key;
        if (!is_plain(key, NAME_MAX_BYTES))
            return pare_fail(cx, PARE_EFORMAT,
                             "%s: name %zu of the tensors is not a plain text of 1 to %d bytes",
                             name, i, NAME_MAX_BYTES);
        if (pairs[i].value.type != PARE__TENSOR)
            return pare_fail(cx, PARE_EFORMAT, "%s: %.*s is not a tensor, but stands among them",
                             name, (int)key->count, key->text);
    }
    qsort(pairs, count, sizeof *pairs, by_key);
    for (size_t i = 1; i < count; i++) {
        if (by_key(&pairs[i - 1], &pairs[i]) == 0)
            return pare_fail(cx, PARE_EFORMAT, "%s: two tensors are called %.*s", name,
                             (int)pairs[i].key.count, pairs[i].key.text);
    }
    return PARE_OK;
}

static pare_status copy_tensor(pare_ctx *cx, pare_arena *a, const char *name, const pair *p,
                               pare_pickle_tensor *t)
{
    const pare__view *const v = p->value.view;
    const pare__value *const key = &v->storage->key;
    t->name = pare_arena_text(a, p->key.text, p->key.count);
    if (!t->name)
        return PARE_ENOMEM;
    if (!is_plain(key, KEY_MAX_BYTES))
        return pare_fail(cx, PARE_EFORMAT,
                         "%s: tensor %s: the key of its storage is not a plain text of 1 to %d "
                         "bytes",
                         name, t->name, KEY_MAX_BYTES);
    t->storage = pare_arena_text(a, key->text, key->count);
    if (!t->storage)
        return PARE_ENOMEM;
    const uint64_t size = v->storage->typed ? pare_dtype_bits(v->storage->dtype) / 8 : 1;
    if (__builtin_mul_overflow(v->storage->elements, size, &t->storage_bytes))
        return pare_fail(cx, PARE_EFORMAT, "%s: tensor %s: a storage of %llu elements", name,
                         t->name, (ull)v->storage->elements);
    t->offset = v->offset;
    t->dtype = v->dtype;
    t->rank = v->rank;
    memcpy(t->shape, v->shape, sizeof t->shape);
    memcpy(t->stride, v->stride, sizeof t->stride);
    return PARE_OK;
}

pare_status pare__pickle_collect(pare__builder *b, pare_arena *a, const char *name,
                                 const pare__value *root, pare_pickle *out)
{
    const pare__dict *d;
    PARE_TRY(find_dict(b->cx, name, root, &d));
    const size_t count = d->count / 2;
    pair *const pairs = PARE_NEW(b->arena, pair, count);
    out->tensor = PARE_NEW(a, pare_pickle_tensor, count);
    if (!pairs || !out->tensor)
        return PARE_ENOMEM;
    for (size_t i = 0; i < count; i++)
        pairs[i] = (pair){d->item[2 * i], d->item[2 * i + 1]};
    PARE_TRY(sort_pairs(b->cx, name, pairs, count));
    for (size_t i = 0; i < count; i++)
        PARE_TRY(copy_tensor(b->cx, a, name, &pairs[i], &out->tensor[i]));
    out->tensors = count;
    return PARE_OK;
}
