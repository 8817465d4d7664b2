#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "formats/checkpoint_internal.h"
#include "formats/format_version.h"
#include "formats/packed.h"
#include "formats/packed_kv.h"
#include "runtime/leaves.h"
#include "runtime/linear.h"

enum { NAME = 256 };

typedef struct loader {
    pare_ctx *cx;
    pare_arena *arena;
    const pare_checkpoint *ck;
    const pare_arch *arch;
    bool *used;               /* [ck->tensors] has a place in the model */
    const pare_json *linears; /* of packed.index.json, or NULL */
    size_t packed;            /* linears of it that were bound */
    float *ones;              /* [head_dim], of unit norms; or NULL */
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
    return pare__checkpoint_fail_missing(l->ck, l->arch, base, suffix);
}

static pare_status check_shape(const loader *l, const pare_tensor *t, size_t rank,
                               const uint64_t *shape)
{
    bool same = t->rank == rank;
    for (size_t i = 0; same && i < rank; i++)
        same = t->shape[i] == shape[i];
    return same ? PARE_OK : pare__checkpoint_fail_shape(l->ck, t, rank, shape);
}

static pare_status check_dtype(const loader *l, const pare_tensor *t)
{
    if (t->dtype == PARE_F32 || t->dtype == PARE_F16 || t->dtype == PARE_BF16)
        return PARE_OK;
    char whole[NAME];
    return pare_fail(l->cx, PARE_EFORMAT, "%s: tensor %s has dtype %s, expected F32, F16 or BF16",
                     file_of(l, t), pare__name_in_files(l->ck, l->arch, t->name, whole),
                     pare_dtype_name(t->dtype));
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

/* What nobody packed a recipe may repair, as it may matrices. */
static pare_status fail_value(const loader *l, const pare_tensor *t, size_t i, float value)
{
    return pare_fail(l->cx, PARE_EFORMAT, "%s: tensor %s: value %zu is %s%s", file_of(l, t),
                     t->name, i, isnan(value) ? "NaN" : "infinite",
                     l->linears ? ""
                                : "; \"nan: zero\" or \"nan: clamp\" in a recipe of \"pare "
                                  "compress\" repairs such values");
}

/* All values of a tensor that has the shape. */
static pare_status load_values(const loader *l, const char *base, const char *suffix, size_t rank,
                               const uint64_t *shape, size_t len, float **out)
{
    const pare_tensor *const t = find(l, base, suffix);
    if (!t)
        return fail_missing(l, base, suffix);
    PARE_TRY(check_dtype(l, t));
    PARE_TRY(check_shape(l, t, rank, shape));
    float *const v = PARE_NEW(l->arena, float, len);
    if (!v)
        return PARE_ENOMEM;
    PARE_TRY(pare_tensor_to_f32(l->cx, t, 0, len, v));
    for (size_t i = 0; i < len && !l->ck->nonfinite; i++)
        if (!isfinite(v[i]))
            return fail_value(l, t, i, v[i]);
    *out = v;
    return PARE_OK;
}

static pare_status load_vector(const loader *l, const char *base, const char *suffix, size_t len,
                               float **out)
{
    return load_values(l, base, suffix, 1, (const uint64_t[]){len}, len, out);
}

/* Whether an artifact has a vector that its configuration does not ask for: folding made it. */
static bool has_added(const loader *l, const char *base, const char *suffix)
{
    char name[NAME];
    const int n = snprintf(name, sizeof name, "%s%s", base, suffix);
    return l->linears && n > 0 && (size_t)n < sizeof name && pare_checkpoint_find(l->ck, name);
}

/* The weights of a norm as they are multiplied with, and its bias: that of the family, or one that
 * folding made. */
static pare_status load_norm(const loader *l, const char *base, size_t len, float **weight,
                             float **bias)
{
    PARE_TRY(load_vector(l, base, ".weight", len, weight));
    for (size_t i = 0; l->arch->norm_offset != 0 && i < len; i++)
        (*weight)[i] += l->arch->norm_offset;
    if (!bias || (l->arch->norm_kind != PARE_NORM_LAYER && !has_added(l, base, ".bias")))
        return PARE_OK;
    return load_vector(l, base, ".bias", len, bias);
}

/* A matrix that the reader of its file has packed, or NULL. */
static const pare_linear *packed_of(const loader *l, const pare_tensor *t)
{
    return l->ck->stored ? l->ck->stored[t - l->ck->tensor].packed : NULL;
}

/* A matrix of floats, or a packed one. */
static pare_status load_matrix(const loader *l, const char *base, size_t n, size_t k,
                               pare_linear *out)
{
    const pare_tensor *const t = find(l, base, ".weight");
    if (!t)
        return fail_missing(l, base, ".weight");
    const pare_linear *const packed = packed_of(l, t);
    if (!packed)
        PARE_TRY(check_dtype(l, t));
    PARE_TRY(check_shape(l, t, 2, (const uint64_t[]){n, k}));
    if (packed) {
        *out = *packed;
        out->name = base;
        return PARE_OK;
    }
    *out = (pare_linear){.name = base, .n = n, .k = k, .dtype = t->dtype};
    return align_data(l, t, pare_dtype_bits(t->dtype) / 8, &out->data);
}

static pare_status load_plane(const loader *l, const pare_packed_linear *p, pare_plane plane,
                              void **out)
{
    char suffix[32];
    pare_tensor want;
    *out = NULL;
    if (!pare_packed_plane_shape(p, plane, &want))
        return PARE_OK;
    (void)snprintf(suffix, sizeof suffix, ".%s", pare_packed_plane_name(plane));
    const pare_tensor *const t = find(l, p->name, suffix);
    if (!t)
        return fail_missing(l, p->name, suffix);
    if (t->dtype != want.dtype)
        return pare_fail(l->cx, PARE_EFORMAT, "%s: tensor %s has dtype %s, expected %s",
                         file_of(l, t), t->name, pare_dtype_name(t->dtype),
                         pare_dtype_name(want.dtype));
    PARE_TRY(check_shape(l, t, want.rank, want.shape));
    const void *data;
    PARE_TRY(align_data(l, t, pare_dtype_bits(t->dtype) / 8, &data));
    *out = (void *)(uintptr_t)data; /* views only read */
    return PARE_OK;
}

static pare_status load_packed(loader *l, const char *base, const pare_json *v, size_t n, size_t k,
                               pare_linear *out)
{
    pare_packed_linear p;
    if (pare_packed_linear_read(l->cx, base, v, &p) != PARE_OK)
        return pare_fail_context(l->cx, PARE_EFORMAT, "%s", l->ck->path);
    if (p.n != n || p.k != k)
        return pare_fail(l->cx, PARE_EFORMAT,
                         "%s: linear %s: shape [%zu, %zu] in the index, config.json asks for "
                         "[%zu, %zu]",
                         l->ck->path, base, p.n, p.k, n, k);
    void *plane[PARE_PLANES];
    for (pare_plane i = 0; i < PARE_PLANES; i++)
        PARE_TRY(load_plane(l, &p, i, &plane[i]));
    pare_status s = pare_packed_view(l->cx, l->arena, &p, plane, out);
    if (s == PARE_OK && pare_linear_check(l->cx, out) != PARE_OK)
        s = PARE_EFORMAT;
    if (s != PARE_OK)
        return pare_fail_context(l->cx, s, "%s", l->ck->path);
    l->packed++;
    return PARE_OK;
}

/* The runtime rotates the inputs of o and down. */
static pare_status check_rotated(const loader *l, size_t part, const pare_linear *w, pare_site site)
{
    if (!w->rotated || (part == 0 && (site == PARE_SITE_ATTENDED || site == PARE_SITE_ACTIVATED)))
        return PARE_OK;
    return pare_fail(l->cx, PARE_EFORMAT, "%s: linear %s: only inputs of o and down are rotated%s",
                     l->ck->path, w->name, part ? ", and none of experts" : "");
}

static pare_status load_linear(loader *l, const char *base, size_t n, size_t k, bool bias,
                               pare_linear *out)
{
    const pare_json *const v = pare_json_get(l->linears, base);
    if (v)
        PARE_TRY(load_packed(l, base, v, n, k, out));
    else
        PARE_TRY(load_matrix(l, base, n, k, out));
    if (out->bias) /* made by a pass, it replaces the model's own */
        return PARE_OK;
    return bias || (!v && has_added(l, base, ".bias"))
               ? load_vector(l, base, ".bias", n, &out->bias)
               : PARE_OK;
}

/* A vector of a recurrent state: the convolution is [channels, 1, taps]. */
static pare_status load_state(const loader *l, const pare_config *c, const char *name,
                              const pare_leaf *leaf)
{
    const bool conv = leaf->index == PARE_STATE_CONV;
    const uint64_t shape[3] = {conv ? pare_mixed_width(c) : leaf->n, 1, c->recurrence.taps};
    return load_values(l, name, pare_leaf_suffix(leaf), conv ? 3 : 1, shape, leaf->n, leaf->vector);
}

/* A leaf of block `block`, whose configuration is c; biases come with what they belong to. */
static pare_status load_leaf(loader *l, const pare_config *c, size_t block, const pare_leaf *leaf,
                             pare_block *b)
{
    char text[NAME];
    const size_t len = pare_arch_name_in(l->arch, block, leaf->part, leaf->name, text, sizeof text);
    const char *const name = len ? pare_arena_text(l->arena, text, len) : NULL;
    if (!name)
        return PARE_ENOMEM;
    if (leaf->kind == PARE_LEAF_NORM)
        return load_norm(l, name, leaf->n, leaf->vector, &b->norm_bias[leaf->index]);
    if (leaf->kind == PARE_LEAF_INNER_NORM)
        return load_norm(l, name, leaf->n, leaf->vector, NULL);
    if (leaf->kind == PARE_LEAF_ROUTER || leaf->kind == PARE_LEAF_STATE_LINEAR)
        return load_matrix(l, name, leaf->n, leaf->k, leaf->linear);
    if (leaf->kind == PARE_LEAF_ROUTER_BIAS || leaf->kind == PARE_LEAF_SINKS ||
        leaf->kind == PARE_LEAF_CORRECTION)
        return load_vector(l, name, pare_leaf_suffix(leaf), leaf->n, leaf->vector);
    if (leaf->kind == PARE_LEAF_STATE_VECTOR)
        return load_state(l, c, name, leaf);
    const pare_linear_desc *const d = pare_arch_linear(c->arch, leaf->part, (pare_role)leaf->index);
    const bool bias = pare_linear_has_bias(l->ck->config, d);
    PARE_TRY(load_linear(l, name, leaf->n, leaf->k, bias, leaf->linear));
    return check_rotated(l, leaf->part, leaf->linear, d->site);
}

static pare_status load_block(loader *l, const pare_config *c, size_t i, pare_block *b)
{
    pare_config own;
    pare_block_config(c, i, &own);
    b->window = pare_config_window(c, i);
    b->apart = pare_config_turns_apart(c, i);
    if (c->unit_norms && !b->apart)
        b->inner_norm[PARE_NORM_Q] = b->inner_norm[PARE_NORM_K] = l->ones;
    if (c->experts) {
        b->expert = PARE_NEW(l->arena, pare_linear, c->experts * PARE_ROLES);
        if (!b->expert)
            return PARE_ENOMEM;
    }
    for (size_t at = 0; at < pare_block_leaves(&own); at++) {
        const pare_leaf leaf = pare_block_leaf(&own, b, at);
        if (leaf.name && leaf.kind != PARE_LEAF_BIAS && leaf.kind != PARE_LEAF_NORM_BIAS)
            PARE_TRY(load_leaf(l, &own, i, &leaf, b));
    }
    return PARE_OK;
}

/* A vector of F16 as it lies in the file, finite; a copy when it is not aligned. */
static pare_status load_table(const loader *l, const pare_config *c, size_t block, pare_kv_table t,
                              const uint16_t **out)
{
    pare_tensor wanted;
    float value;
    PARE_TRY(pare_packed_kv_tensor(l->arena, c, block, t, &wanted));
    const pare_tensor *const is = find(l, wanted.name, "");
    if (!is)
        return fail_missing(l, wanted.name, "");
    if (is->dtype != wanted.dtype)
        return pare_fail(l->cx, PARE_EFORMAT, "%s: tensor %s has dtype %s, expected F16",
                         file_of(l, is), is->name, pare_dtype_name(is->dtype));
    PARE_TRY(check_shape(l, is, 1, wanted.shape));
    const void *data;
    PARE_TRY(align_data(l, is, sizeof **out, &data));
    *out = data;
    for (size_t i = 0; i < wanted.shape[0]; i++) {
        l->cx->kernels.cvt_f16_f32(&value, *out + i, 1);
        if (!isfinite(value) || (t == PARE_KV_KEY_SCALES && value < 0))
            return pare_fail(l->cx, PARE_EFORMAT, "%s: tensor %s: value %zu is %g", file_of(l, is),
                             is->name, i, (double)value);
    }
    return PARE_OK;
}

static pare_status load_levels(const loader *l, const pare_config *c, size_t block, pare_kv_table t,
                               const float **out)
{
    const uint16_t *half;
    float *const level = PARE_NEW(l->arena, float, PARE_KV_LEVELS);
    if (!level)
        return PARE_ENOMEM;
    PARE_TRY(load_table(l, c, block, t, &half));
    l->cx->kernels.cvt_f16_f32(level, half, PARE_KV_LEVELS);
    *out = level;
    return PARE_OK;
}

/* The form of the caches, and the tables of every block where it needs some. */
static pare_status load_kv(const loader *l, pare_model *m)
{
    if (l->ck->packed && pare_packed_kv_read(l->cx, l->ck->index, &m->kv) != PARE_OK)
        return pare_fail_context(l->cx, PARE_EFORMAT, "%s: packed.index.json", l->ck->path);
    for (size_t i = 0; m->kv.method == PARE_KV_KVQUANT && i < m->config.blocks; i++) {
        pare_kv_levels *const v = &m->block[i].kv;
        PARE_TRY(load_levels(l, &m->config, i, PARE_KV_KEY_LEVELS, &v->key));
        PARE_TRY(load_levels(l, &m->config, i, PARE_KV_VALUE_LEVELS, &v->value));
        PARE_TRY(load_table(l, &m->config, i, PARE_KV_KEY_SCALES, &v->key_scale));
        PARE_TRY(load_table(l, &m->config, i, PARE_KV_KEY_LOWS, &v->key_low));
    }
    return PARE_OK;
}

/* Whether a head in the file holds the values of the embedding. */
static pare_status is_embedding(const loader *l, const pare_tensor *head, const pare_tensor *embed,
                                bool *same)
{
    enum { AT_ONCE = 4096 };
    static const uint64_t most = AT_ONCE;
    float x[AT_ONCE], y[AT_ONCE];
    const uint64_t count = embed->shape[0] * embed->shape[1];
    *same = true;
    if (head->dtype == embed->dtype) {
        *same = memcmp(head->data, embed->data, (size_t)embed->bytes) == 0;
        return PARE_OK;
    }
    for (uint64_t i = 0; *same && i < count; i += most) {
        const size_t n = (size_t)(count - i < most ? count - i : most);
        PARE_TRY(pare_tensor_to_f32(l->cx, head, i, n, x));
        PARE_TRY(pare_tensor_to_f32(l->cx, embed, i, n, y));
        *same = memcmp(x, y, n * sizeof *x) == 0;
    }
    return PARE_OK;
}

/* A tied head that the file has, too: the same once more, or one of its own, which then counts
 * whatever the configuration says.
 * Source  transformers 5: tied weights that are both in the files and differ stay apart. */
static pare_status look_at_tied_head(const loader *l, pare_config *c)
{
    const pare_arch *const arch = l->arch;
    if (!c->tied || pare_json_get(l->linears, arch->embed)) /* packed: it is both */
        return PARE_OK;
    const pare_tensor *const embed = find(l, arch->embed, ".weight");
    const pare_tensor *const head = find(l, arch->head, ".weight");
    bool same = false;
    if (!head)
        return PARE_OK;
    if (!packed_of(l, head) && !packed_of(l, embed)) { /* codes are other values */
        PARE_TRY(check_dtype(l, head));
        PARE_TRY(check_shape(l, head, 2, (const uint64_t[]){c->vocab, c->hidden}));
        PARE_TRY(is_embedding(l, head, embed, &same));
    }
    if (same)
        return PARE_OK;
    c->tied = false;
    pare_warn(l->cx,
              "%s: tensor %s.weight is used as the head: it differs from %s.weight, though the "
              "configuration ties them (tie_word_embeddings)",
              l->ck->path, arch->head, arch->embed);
    return PARE_OK;
}

/* Rows are looked up. */
static pare_status load_embedding(loader *l, pare_model *m)
{
    const pare_config *const c = &m->config;
    const char *const name = l->arch->embed;
    const pare_json *const v = pare_json_get(l->linears, name);
    if (!v)
        return load_matrix(l, name, c->vocab, c->hidden, &m->embed);
    PARE_TRY(load_packed(l, name, v, c->vocab, c->hidden, &m->embed));
    if (pare_linear_has_rows(&m->embed) && !m->embed.bias)
        return PARE_OK;
    return pare_fail(l->cx, PARE_EFORMAT,
                     "%s: linear %s: an embedding has codes alone: neither zeros, outliers, single "
                     "weights nor a bias, and it is not rotated",
                     l->ck->path, name);
}

static pare_status load_head(loader *l, pare_model *m)
{
    pare_config *const c = &m->config;
    if (!pare_json_get(l->linears, l->arch->head))
        PARE_TRY(look_at_tied_head(l, c));
    if (c->tied) {
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
    PARE_TRY(load_linear(l, l->arch->head, c->vocab, c->hidden, l->arch->head_bias, &m->head));
    return check_rotated(l, 0, &m->head, PARE_SITE_MLP);
}

static pare_status check_packed_index(loader *l)
{
    const pare_checkpoint *const ck = l->ck;
    if (!ck->packed) {
        const pare_json *const q = pare_json_get(ck->config, "quantization_config");
        const char *const method = pare_json_text(pare_json_get(q, "quant_method"), NULL);
        if (method && strcmp(method, "pare") == 0)
            return pare_fail(l->cx, PARE_EFORMAT,
                             "%s: one file of a packed model; give its directory", ck->path);
        return PARE_OK;
    }
    PARE_TRY(pare_index_version_check(l->cx, "packed.index.json", ck->index));
    l->linears = pare_json_get(ck->index, "linears");
    if (pare_json_type_of(l->linears) != PARE_JSON_OBJECT)
        return pare_fail(l->cx, PARE_EFORMAT,
                         "%s: packed.index.json: linears is missing or not an object", ck->path);
    return PARE_OK;
}

static pare_status take_ones(loader *l, size_t count)
{
    l->ones = PARE_NEW(l->arena, float, count);
    for (size_t i = 0; l->ones && i < count; i++)
        l->ones[i] = 1;
    return l->ones ? PARE_OK : PARE_ENOMEM;
}

static pare_status load_all(loader *l, pare_arena *scratch, pare_model *m)
{
    const pare_config *const c = &m->config;
    l->arch = c->arch;
    PARE_TRY(check_packed_index(l));
    m->block = PARE_NEW(l->arena, pare_block, c->blocks);
    if (!m->block)
        return PARE_ENOMEM;
    PARE_TRY(load_embedding(l, m));
    PARE_TRY(load_head(l, m));
    if (l->arch->positions)
        PARE_TRY(load_matrix(l, l->arch->positions, c->context + l->arch->position_offset,
                             c->hidden, &m->positions));
    PARE_TRY(load_norm(l, l->arch->norm, c->hidden, &m->norm, &m->norm_bias));
    for (size_t i = 0; i < c->hidden; i++)
        m->norm[i] *= pare_norm_factor(c, true);
    if (c->unit_norms)
        PARE_TRY(take_ones(l, c->head_dim));
    for (size_t i = 0; i < c->blocks; i++)
        PARE_TRY(load_block(l, c, i, &m->block[i]));
    PARE_TRY(load_kv(l, m));
    PARE_TRY(pare__model_check_used(l->ck, scratch, l->arch, c->blocks, l->used));
    if (l->packed != pare_json_count(l->linears))
        return pare_fail(l->cx, PARE_EFORMAT,
                         "%s: the index describes %zu packed linear%s, the model has %zu of them",
                         l->ck->path, pare_json_count(l->linears),
                         pare_plural(pare_json_count(l->linears)), l->packed);
    return PARE_OK;
}

pare_status pare_model_load(pare_ctx *cx, pare_arena *a, const pare_checkpoint *ck, pare_model *out)
{
    *out = (pare_model){0};
    if (!ck->config)
        return pare_fail(cx, PARE_EFORMAT, "%s: there is no config.json beside it", ck->path);
    const pare_status parsed =
        pare_config_parse(cx, ck->config_file.path, ck->config, &out->config);
    if (parsed != PARE_OK)
        return pare__config_fail_usual(ck, parsed);
    pare_config_warn(cx, ck->config_file.path, ck->config, &out->config);
    pare_arena scratch;
    loader l = {.cx = cx, .arena = a, .ck = ck};
    pare_status s = pare_arena_init(cx, &scratch, 0);
    out->used = l.used = PARE_NEW(a, bool, ck->tensors);
    if (s == PARE_OK)
        s = pare_checkpoint_generation(ck, &scratch, &out->config);
    if (s == PARE_OK)
        s = l.used ? load_all(&l, &scratch, out) : PARE_ENOMEM;
    pare_arena_release(&scratch);
    return s;
}
