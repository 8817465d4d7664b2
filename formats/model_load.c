#include <math.h>
#include <stdio.h>
#include <string.h>

#include "formats/checkpoint.h"
#include "formats/packed.h"
#include "kernels/layout.h"

enum { NAME = 256, PACKED_VERSION = 1 };

typedef unsigned long long ull;

typedef struct loader {
    pare_ctx *cx;
    pare_arena *arena;
    const pare_checkpoint *ck;
    const pare_arch *arch;
    bool *used;               /* [ck->tensors] has a place in the model */
    const pare_json *linears; /* of packed.index.json, or NULL */
    size_t packed;            /* linears of it that were bound */
    bool attention_bias, mlp_bias;
} loader;

static const char *file_of(const loader *l, const pare_tensor *t)
{
    return l->ck->file[l->ck->tensor_file[t - l->ck->tensor]].path;
}

/* Tensor base + suffix, marked as used; NULL when there is none. */
static const pare_tensor *find(const loader *l, const char *base, const char *suffix)
{
    char name[NAME];
    const int n = snprintf(name, sizeof name, "%s%s", base, suffix);
    const pare_tensor *const t =
        n > 0 && (size_t)n < sizeof name ? pare_checkpoint_find(l->ck, name) : NULL;
    if (t)
        l->used[t - l->ck->tensor] = true;
    return t;
}

static pare_status fail_missing(const loader *l, const char *base, const char *suffix)
{
    return pare_fail(l->cx, PARE_EFORMAT, "%s: tensor %s%s is missing", l->ck->path, base, suffix);
}

static void print_shape(char text[NAME], const uint64_t *shape, size_t rank)
{
    size_t at = 0;
    text[0] = '\0';
    for (size_t i = 0; i < rank && at < NAME; i++) {
        const int n = snprintf(text + at, NAME - at, "%s%llu", i ? ", " : "", (ull)shape[i]);
        at += n > 0 ? (size_t)n : 0;
    }
}

static pare_status check_shape(const loader *l, const pare_tensor *t, size_t rank,
                               const uint64_t *shape)
{
    bool same = t->rank == rank;
    for (size_t i = 0; same && i < rank; i++)
        same = t->shape[i] == shape[i];
    if (same)
        return PARE_OK;
    char is[NAME], wanted[NAME];
    print_shape(is, t->shape, t->rank);
    print_shape(wanted, shape, rank);
    return pare_fail(l->cx, PARE_EFORMAT, "%s: tensor %s has shape [%s], config.json asks for [%s]",
                     file_of(l, t), t->name, is, wanted);
}

static pare_status check_dtype(const loader *l, const pare_tensor *t)
{
    if (t->dtype == PARE_F32 || t->dtype == PARE_F16 || t->dtype == PARE_BF16)
        return PARE_OK;
    return pare_fail(l->cx, PARE_EFORMAT, "%s: tensor %s has dtype %s, expected F32, F16 or BF16",
                     file_of(l, t), t->name, pare_dtype_name(t->dtype));
}

/* Data where a pointer to elements of `size` bytes may go: the file's own when it is aligned. */
static pare_status align_data(const loader *l, const pare_tensor *t, size_t size, const void **out)
{
    *out = t->data;
    if ((uintptr_t)t->data % size == 0)
        return PARE_OK;
    void *const copy = pare_arena_take(l->arena, 1, (size_t)t->bytes);
    if (!copy)
        return PARE_ENOMEM;
    *out = memcpy(copy, t->data, (size_t)t->bytes);
    return PARE_OK;
}

static pare_status load_vector(const loader *l, const char *base, const char *suffix, size_t len,
                               const float **out)
{
    const pare_tensor *const t = find(l, base, suffix);
    if (!t)
        return fail_missing(l, base, suffix);
    PARE_TRY(check_dtype(l, t));
    PARE_TRY(check_shape(l, t, 1, (const uint64_t[]){len}));
    float *const v = PARE_NEW(l->arena, float, len);
    if (!v)
        return PARE_ENOMEM;
    PARE_TRY(pare_tensor_to_f32(l->cx, t, 0, len, v));
    for (size_t i = 0; i < len && !l->ck->nonfinite; i++) {
        if (!isfinite(v[i]))
            return pare_fail(l->cx, PARE_EFORMAT, "%s: tensor %s: value %zu is %s", file_of(l, t),
                             t->name, i, isnan(v[i]) ? "NaN" : "infinite");
    }
    *out = v;
    return PARE_OK;
}

static pare_status load_dense(const loader *l, const char *base, size_t n, size_t k,
                              pare_linear *out)
{
    const pare_tensor *const t = find(l, base, ".weight");
    if (!t)
        return fail_missing(l, base, ".weight");
    PARE_TRY(check_dtype(l, t));
    PARE_TRY(check_shape(l, t, 2, (const uint64_t[]){n, k}));
    *out = (pare_linear){.name = base, .n = n, .k = k, .dtype = t->dtype};
    return align_data(l, t, pare_dtype_bits(t->dtype) / 8, &out->data);
}

/* One plane of a packed linear, [row blocks, middle, last]. */
static pare_status load_plane(const loader *l, const pare_packed_linear *p, const char *suffix,
                              pare_dtype dtype, size_t middle, size_t last, const void **out)
{
    const pare_tensor *const t = find(l, p->name, suffix);
    if (!t)
        return fail_missing(l, p->name, suffix);
    if (t->dtype != dtype)
        return pare_fail(l->cx, PARE_EFORMAT, "%s: tensor %s has dtype %s, expected %s",
                         file_of(l, t), t->name, pare_dtype_name(t->dtype), pare_dtype_name(dtype));
    const size_t row_blocks = pare_round_up(p->n, PARE_PAD_N) / PARE_ATOM_N;
    PARE_TRY(check_shape(l, t, 3, (const uint64_t[]){row_blocks, middle, last}));
    return align_data(l, t, pare_dtype_bits(dtype) / 8, out);
}

/* {"bits", "group", "symmetric", "shape"} of a linear that should be [n, k]. */
static pare_status read_packed(const loader *l, const char *base, const pare_json *v, size_t n,
                               size_t k, pare_packed_linear *out)
{
    const int64_t bits = pare_json_integer(pare_json_get(v, "bits"), -1);
    const int64_t group = pare_json_integer(pare_json_get(v, "group"), -1);
    const pare_json *const symmetric = pare_json_get(v, "symmetric");
    const pare_json *const shape = pare_json_get(v, "shape");
    if (bits != 2 && bits != 3 && bits != 4 && bits != 8)
        return pare_fail(l->cx, PARE_EFORMAT, "%s: linear %s: bits is not 2, 3, 4 or 8",
                         l->ck->path, base);
    if (group < 0 || group > 1 << 24 || group % PARE_ATOM_K != 0)
        return pare_fail(l->cx, PARE_EFORMAT,
                         "%s: linear %s: group is not 0 (the row) or a multiple of %d", l->ck->path,
                         base, PARE_ATOM_K);
    if (pare_json_type_of(symmetric) != PARE_JSON_BOOL)
        return pare_fail(l->cx, PARE_EFORMAT, "%s: linear %s: symmetric is not true or false",
                         l->ck->path, base);
    const int64_t rows = pare_json_integer(pare_json_at(shape, 0), -1);
    const int64_t columns = pare_json_integer(pare_json_at(shape, 1), -1);
    if (pare_json_count(shape) != 2 || rows < 0 || (uint64_t)rows != n || (uint64_t)columns != k)
        return pare_fail(l->cx, PARE_EFORMAT,
                         "%s: linear %s: shape [%lld, %lld] in the index, config.json asks for "
                         "[%zu, %zu]",
                         l->ck->path, base, (long long)rows, (long long)columns, n, k);
    *out = (pare_packed_linear){.name = base,
                                .n = n,
                                .k = k,
                                .bits = (unsigned)bits,
                                .group = (size_t)group,
                                .symmetric = pare_json_bool(symmetric, true)};
    return PARE_OK;
}

static pare_status load_packed(loader *l, const char *base, const pare_json *v, size_t n, size_t k,
                               pare_linear *out)
{
    pare_packed_linear p;
    PARE_TRY(read_packed(l, base, v, n, k, &p));
    const size_t atoms = pare_round_up(k, PARE_ATOM_K) / PARE_ATOM_K;
    const size_t groups = pare_packed_linear_groups(&p);
    const void *codes, *scales, *zeros = NULL;
    PARE_TRY(load_plane(l, &p, ".codes", PARE_U8, atoms, pare_atom_bytes(p.bits), &codes));
    PARE_TRY(load_plane(l, &p, ".scales", PARE_F16, groups, PARE_ATOM_N, &scales));
    if (!p.symmetric)
        PARE_TRY(load_plane(l, &p, ".zeros", PARE_U8, groups, PARE_ATOM_N, &zeros));
    *out = pare_packed_view(&p, codes, scales, zeros);
    l->packed++;
    return PARE_OK;
}

static pare_status load_linear(loader *l, const char *base, size_t n, size_t k, bool bias,
                               pare_linear *out)
{
    const pare_json *const v = pare_json_get(l->linears, base);
    if (v)
        PARE_TRY(load_packed(l, base, v, n, k, out));
    else
        PARE_TRY(load_dense(l, base, n, k, out));
    return bias ? load_vector(l, base, ".bias", n, &out->bias) : PARE_OK;
}

static const char *block_name(const loader *l, size_t block, const char *rest)
{
    char name[NAME];
    int n = snprintf(name, sizeof name, l->arch->block_prefix, block);
    n += snprintf(name + n, sizeof name - (size_t)n, "%s", rest);
    return pare_arena_text(l->arena, name, (size_t)n);
}

static pare_status load_block(loader *l, const pare_config *c, size_t i, pare_block *b)
{
    const char *const attention_norm = block_name(l, i, l->arch->attention_norm);
    const char *const mlp_norm = block_name(l, i, l->arch->mlp_norm);
    if (!attention_norm || !mlp_norm)
        return PARE_ENOMEM;
    PARE_TRY(load_vector(l, attention_norm, ".weight", c->hidden, &b->attention_norm));
    PARE_TRY(load_vector(l, mlp_norm, ".weight", c->hidden, &b->mlp_norm));
    for (pare_role role = 0; role < PARE_ROLES; role++) {
        const pare_linear_desc *const d = &l->arch->linear[role];
        const char *const name = block_name(l, i, d->name);
        if (!name)
            return PARE_ENOMEM;
        size_t n, k;
        pare_linear_shape(c, role, &n, &k);
        const bool attention = d->site == PARE_SITE_ATTENTION || d->site == PARE_SITE_ATTENDED;
        PARE_TRY(load_linear(l, name, n, k, attention ? l->attention_bias : l->mlp_bias,
                             &b->linear[role]));
    }
    return PARE_OK;
}

/* A tied head in the file is the embedding once more and is not read. */
static pare_status load_head(loader *l, pare_model *m)
{
    const pare_config *const c = &m->config;
    if (c->tied) {
        (void)find(l, l->arch->head, ".weight");
        m->head = m->embed;
        return PARE_OK;
    }
    char name[NAME];
    (void)snprintf(name, sizeof name, "%s.weight", l->arch->head);
    if (!pare_json_get(l->linears, l->arch->head) && !pare_checkpoint_find(l->ck, name))
        return pare_fail(l->cx, PARE_EFORMAT,
                         "%s: tensor %s is missing, and config.json does not say "
                         "tie_word_embeddings: true",
                         l->ck->path, name);
    return load_linear(l, l->arch->head, c->vocab, c->hidden, false, &m->head);
}

static bool ends_with(const char *text, const char *end)
{
    const size_t n = strlen(text), m = strlen(end);
    return n >= m && strcmp(text + n - m, end) == 0;
}

/* A tensor without a place is part of a model that the runtime would compute wrongly. Frequencies
 * of rotary positions are the exception: older files keep them, and they follow from the
 * configuration. */
static pare_status check_all_used(const loader *l)
{
    for (size_t i = 0; i < l->ck->tensors; i++) {
        if (!l->used[i] && !ends_with(l->ck->tensor[i].name, ".rotary_emb.inv_freq"))
            return pare_fail(l->cx, PARE_EFORMAT,
                             "%s: tensor %s has no place in a model of type %s with this "
                             "config.json",
                             file_of(l, &l->ck->tensor[i]), l->ck->tensor[i].name,
                             l->arch->model_type);
    }
    if (l->packed != pare_json_count(l->linears))
        return pare_fail(l->cx, PARE_EFORMAT,
                         "%s: the index describes %zu packed linears, the model has %zu of them",
                         l->ck->path, pare_json_count(l->linears), l->packed);
    return PARE_OK;
}

static pare_status check_packed_index(loader *l)
{
    const pare_checkpoint *const ck = l->ck;
    if (!ck->packed) {
        if (pare_json_type_of(pare_json_get(ck->config, "quantization_config")) == PARE_JSON_OBJECT)
            return pare_fail(l->cx, PARE_EFORMAT,
                             "%s: one file of a packed model; give its directory", ck->path);
        return PARE_OK;
    }
    const pare_json *const metadata = pare_json_get(ck->index, "metadata");
    const char *const format = pare_json_text(pare_json_get(metadata, "format"), NULL);
    const char *const layout = pare_json_text(pare_json_get(metadata, "layout"), NULL);
    const int64_t version = pare_json_integer(pare_json_get(metadata, "version"), -1);
    if (!format || strcmp(format, "pare") != 0 || !layout)
        return pare_fail(l->cx, PARE_EFORMAT,
                         "%s: packed.index.json: metadata does not describe a model of pare",
                         ck->path);
    if (version != PACKED_VERSION || strcmp(layout, "R8K32") != 0)
        return pare_fail(l->cx, PARE_ENOTSUP,
                         "%s: packed.index.json: version %lld in layout %.32s, this program reads "
                         "version %d in layout R8K32",
                         ck->path, (long long)version, layout, PACKED_VERSION);
    l->linears = pare_json_get(ck->index, "linears");
    if (pare_json_type_of(l->linears) != PARE_JSON_OBJECT)
        return pare_fail(l->cx, PARE_EFORMAT,
                         "%s: packed.index.json: linears is missing or not an object", ck->path);
    return PARE_OK;
}

static pare_status load_all(loader *l, pare_model *m)
{
    const pare_config *const c = &m->config;
    l->arch = c->arch;
    l->attention_bias = pare_json_bool(pare_json_get(l->ck->config, "attention_bias"), false);
    l->mlp_bias = pare_json_bool(pare_json_get(l->ck->config, "mlp_bias"), false);
    PARE_TRY(check_packed_index(l));
    m->block = PARE_NEW(l->arena, pare_block, c->blocks);
    if (!m->block)
        return PARE_ENOMEM;
    PARE_TRY(load_dense(l, l->arch->embed, c->vocab, c->hidden, &m->embed));
    PARE_TRY(load_head(l, m));
    PARE_TRY(load_vector(l, l->arch->norm, ".weight", c->hidden, &m->norm));
    for (size_t i = 0; i < c->blocks; i++)
        PARE_TRY(load_block(l, c, i, &m->block[i]));
    return check_all_used(l);
}

pare_status pare_model_load(pare_ctx *cx, pare_arena *a, const pare_checkpoint *ck, pare_model *out)
{
    *out = (pare_model){0};
    if (!ck->config)
        return pare_fail(cx, PARE_EFORMAT, "%s: there is no config.json beside it", ck->path);
    PARE_TRY(pare_config_parse(cx, ck->config_file.path, ck->config, &out->config));
    pare_arena scratch;
    loader l = {.cx = cx, .arena = a, .ck = ck};
    pare_status s = pare_arena_init(cx, &scratch, 0);
    if (s == PARE_OK) {
        l.used = PARE_NEW(&scratch, bool, ck->tensors);
        s = l.used ? load_all(&l, out) : PARE_ENOMEM;
    }
    pare_arena_release(&scratch);
    return s;
}
