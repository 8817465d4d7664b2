/* Attention on a device, in the steps of cpu_ops.c: rotation, the batch into the cache, attention,
 * and of a coded cache the newest tokens. Caches lie in the scratch. */
#include <math.h>

#include "kernels/cuda/cuda_blocks.h"
#include "kernels/layout.h"
#include "runtime/cuda_internal.h"
#include "runtime/kv_internal.h"
#include "runtime/small.h"

static pare_cuda_side side_of(const pare_kv *kv, bool key)
{
    const pare_kv_format *const f = &kv->format;
    const pare_kv_side *const s = key ? &kv->key : &kv->value;
    const size_t room = pare_kv_coded(f, key, kv->capacity);
    return (pare_cuda_side){.codes = s->codes,
                            .scales = s->scales,
                            .lows = s->lows,
                            .sink = s->sink,
                            .recent = s->recent,
                            .room = room,
                            .lines = s->tokens ? (room + s->tokens - 1) / s->tokens : 0,
                            .entries = s->entries,
                            .bits = s->bits,
                            .group = (uint32_t)s->group,
                            .tokens = (uint32_t)s->tokens,
                            .step = key && f->method == PARE_KV_KIVI ? (uint32_t)f->group : 1};
}

static pare_status find_levels(const pare_cuda *c, const pare_kv_levels *l, pare_cuda_kv *kv)
{
    const void *key, *value, *scale, *low;
    PARE_TRY(pare__cuda_find(c, l->key, &key));
    PARE_TRY(pare__cuda_find(c, l->value, &value));
    PARE_TRY(pare__cuda_find(c, l->key_scale, &scale));
    PARE_TRY(pare__cuda_find(c, l->key_low, &low));
    kv->key.levels = key;
    kv->key.fixed_scale = scale;
    kv->key.fixed_low = low;
    kv->value.levels = value;
    return PARE_OK;
}

static pare_status cache_of(const pare_cuda *c, const pare_attend *a, pare_cuda_kv *out)
{
    const pare_kv *const kv = a->kv;
    *out = (pare_cuda_kv){.keys = kv->keys, .values = kv->values, .capacity = kv->capacity};
    if (kv->format.method == PARE_KV_FLOAT)
        return PARE_OK;
    out->key = side_of(kv, true);
    out->value = side_of(kv, false);
    out->slots = kv->slots;
    out->window = kv->format.window;
    out->sink = kv->format.sink;
    return kv->format.method == PARE_KV_KVQUANT ? find_levels(c, a->levels, out) : PARE_OK;
}

/* Tokens first .. end - 1 of the batch as F16 in slots of every plane. */
static pare_status keep(pare_cuda *c, const pare_cuda_batch *b, const float *x, uint16_t *dst,
                        size_t slots, size_t first, size_t end)
{
    if (first < end)
        PARE__CUDA_RUN(c, kv_keep, .x = x, .dst = dst, .slots = slots, .first = first,
                       .count = end - first, .sequences = b->sequences, .length = b->length,
                       .start = b->start, .kv_heads = b->kv_heads, .head_dim = b->head_dim);
    return PARE_OK;
}

static pare_status keep_both(pare_cuda *c, const pare_cuda_batch *b, uint16_t *key, uint16_t *value,
                             size_t slots, size_t first, size_t end)
{
    first = first > b->start ? first : b->start;
    PARE_TRY(keep(c, b, b->k, key, slots, first, end));
    return keep(c, b, b->v, value, slots, first, end);
}

/* Few queries: scores, weights and values one behind the other, for as many KV heads at a time as
 * the scores of a panel have. */
static pare_status attend_few(const pare_ops *o, pare_cuda *c, pare_cuda_attention *a)
{
    enum { KV = PARE_CUDA_KV };
    const size_t planes = a->planes, rows = pare_cuda_attend_rows(a);
    const size_t next = a->b.start + 1, low = a->window && next > a->window ? next - a->window : 0;
    pare_mark mark;
    void *scores, *shrink, *inverse;
    a->base = low / KV * KV;
    a->ld = pare_round_up(a->b.start + a->b.length - a->base, KV);
    a->planes = pare_smaller(c->panel_bytes, PARE_CUDA_PANEL) / (rows * a->ld * sizeof(float));
    a->planes = a->planes < 1 ? 1 : pare_smaller(a->planes, planes);
    PARE_TRY(o->op->mark(o, &mark));
    const size_t bytes = a->planes * rows * sizeof(float);
    PARE_TRY(pare__cuda_scratch_take(c, bytes * a->ld, &scores));
    PARE_TRY(pare__cuda_scratch_take(c, bytes * (a->ld / KV), &shrink));
    PARE_TRY(pare__cuda_scratch_take(c, bytes, &inverse));
    a->scores = scores;
    a->shrink = shrink;
    a->inverse = inverse;
    for (; a->plane < planes; a->plane += a->planes) {
        a->planes = pare_smaller(a->planes, planes - a->plane);
        PARE__CUDA_RUN(c, attend_scores, .call = *a);
        PARE__CUDA_RUN(c, attend_weigh, .call = *a);
        PARE__CUDA_RUN(c, attend_values, .call = *a);
    }
    return o->op->rewind(o, mark);
}

static pare_status attention(const pare_ops *o, pare_cuda *c, const pare_attend *a,
                             const pare_cuda_kv *kv, const pare_cuda_batch *b, pare_array q,
                             pare_array y)
{
    const pare_config *const config = &a->f->model->config;
    const size_t half = pare_rope_pairs(config);
    const size_t table = pare_rope_table(a->f, a->apart, a->kv->capacity);
    const double scale =
        config->attention_scale > 0 ? config->attention_scale : 1.0 / sqrt((double)b->head_dim);
    const void *cosine = NULL, *sine = NULL;
    if (half && pare__kv_before_rope(&a->kv->format)) {
        PARE_TRY(pare__cuda_find(c, a->f->rope_cos + table, &cosine));
        PARE_TRY(pare__cuda_find(c, a->f->rope_sin + table, &sine));
    }
    pare_cuda_attention call = {.kv = *kv,
                                .b = *b,
                                .q = q.at,
                                .cosine = cosine,
                                .sine = sine,
                                .y = y.at,
                                .heads = config->heads,
                                .half = half,
                                .window = a->window,
                                .planes = b->sequences * b->kv_heads,
                                .cap = config->attention_cap,
                                .scale = scale};
    if (pare_cuda_attend_rows(&call) <= PARE_CUDA_FEW_MOST)
        return attend_few(o, c, &call);
    if (b->head_dim <= 64)
        PARE__CUDA_RUN(c, attend_64, .call = call);
    else
        PARE__CUDA_RUN(c, attend_128, .call = call);
    return PARE_OK;
}

static pare_status rotate(pare_cuda *c, const pare_attend *a, pare_array x, size_t heads)
{
    const pare_config *const config = &a->f->model->config;
    const size_t half = pare_rope_pairs(config);
    const size_t table = pare_rope_table(a->f, a->apart, a->kv->capacity);
    const void *cosine, *sine;
    if (!half)
        return PARE_OK;
    PARE_TRY(pare__cuda_find(c, a->f->rope_cos + table, &cosine));
    PARE_TRY(pare__cuda_find(c, a->f->rope_sin + table, &sine));
    PARE__CUDA_RUN(c, rope, .x = x.at, .cosine = cosine, .sine = sine, .rows = x.rows,
                   .heads = heads, .head_dim = config->head_dim, .half = half,
                   .length = a->batch.length, .start = a->batch.start);
    return PARE_OK;
}

static pare_status attend_coded(const pare_ops *o, pare_cuda *c, const pare_attend *a,
                                const pare_cuda_kv *kv, const pare_cuda_batch *b, pare_array q,
                                pare_array k, pare_array v, pare_array y)
{
    const size_t end = a->batch.start + a->batch.length;
    PARE__CUDA_RUN(c, kv_round, .x = k.at, .n = k.rows * k.width);
    PARE__CUDA_RUN(c, kv_round, .x = v.at, .n = v.rows * v.width);
    PARE__CUDA_RUN(c, kv_store, .kv = *kv, .b = *b);
    PARE_TRY(keep_both(c, b, kv->key.sink, kv->value.sink, kv->sink, 0,
                       end < kv->sink ? end : kv->sink));
    PARE_TRY(attention(o, c, a, kv, b, q, y));
    if (!kv->slots)
        return PARE_OK;
    return keep_both(c, b, kv->key.recent, kv->value.recent, kv->slots,
                     end > kv->slots ? end - kv->slots : 0, end);
}

pare_status pare__cuda_attend(const pare_ops *o, const pare_attend *a, pare_array q, pare_array k,
                              pare_array v, pare_array y)
{
    pare_cuda *const c = pare__cuda_of(o);
    const pare_config *const config = &a->f->model->config;
    const pare_cuda_batch b = {.k = k.at,
                               .v = v.at,
                               .sequences = a->batch.sequences,
                               .length = a->batch.length,
                               .start = a->batch.start,
                               .kv_heads = config->kv_heads,
                               .head_dim = config->head_dim};
    pare_cuda_kv kv;
    PARE_TRY(cache_of(c, a, &kv));
    PARE_TRY(rotate(c, a, q, config->heads));
    if (!pare__kv_before_rope(&a->kv->format))
        PARE_TRY(rotate(c, a, k, config->kv_heads));
    if (a->kv->format.method != PARE_KV_FLOAT)
        return attend_coded(o, c, a, &kv, &b, q, k, v, y);
    PARE__CUDA_RUN(c, kv_put, .kv = kv, .b = b);
    return attention(o, c, a, &kv, &b, q, y);
}

static pare_status take(void *place, size_t bytes, void **at)
{
    pare_cuda *const c = place;
    PARE_TRY(pare__cuda_scratch_take(c, bytes, at));
    return c->d->op->fill(c->cx, c->d, (pare_address)(uintptr_t)*at, 0, bytes);
}

pare_status pare__cuda_kv_take(const pare_ops *o, const pare_config *config,
                               const pare_kv_format *f, size_t sequences, size_t capacity,
                               pare_kv *kv)
{
    if (capacity > INT32_MAX) /* kernels have positions of 32 bits */
        return pare_fail(o->cx, PARE_ENOTSUP, "%s: a context of %zu positions; at most %d",
                         pare__cuda_of(o)->d->name, capacity, INT32_MAX);
    return pare__kv_take_by(o->cx, take, pare__cuda_of(o), config, f, sequences, capacity, kv);
}

static pare_status copy(void *place, void *to, const void *from, size_t bytes)
{
    pare_cuda *const c = place;
    return c->d->op->copy(c->cx, c->d, (pare_address)(uintptr_t)to, (pare_address)(uintptr_t)from,
                          bytes);
}

pare_status pare__cuda_kv_copy(const pare_ops *o, const pare_config *config, const pare_kv *from,
                               size_t f, pare_kv *to, size_t t)
{
    return pare__kv_copy_by(copy, pare__cuda_of(o), config, from, f, to, t);
}
