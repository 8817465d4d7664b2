#include "quant/kv_cache.h"

#include <math.h>
#include <string.h>

#include "kernels/half.h"
#include "quant/kmeans.h"

enum { BINS = 2048, SIGMAS = 3 };
static const double reach = 4.0; /* scaled numbers beyond +-reach count as +-reach */

pare_status pare_kv_sample_take(pare_arena *a, const pare_config *c, uint64_t tokens,
                                pare_kv_sample *out)
{
    *out = (pare_kv_sample){
        .width = c->kv_heads * c->head_dim, .head_dim = c->head_dim, .total = tokens};
    out->k = pare_arena_take(a, PARE_KV_SAMPLE_ROWS, out->width * sizeof *out->k);
    out->v = pare_arena_take(a, PARE_KV_SAMPLE_ROWS, out->width * sizeof *out->v);
    return out->k && out->v ? PARE_OK : PARE_ENOMEM;
}

uint64_t pare_kv_calibrate_bytes(const pare_config *c)
{
    const uint64_t width = c->kv_heads * c->head_dim;
    const uint64_t solver =
        (BINS + 1) * (sizeof(pare_kmeans_point) + 5 * sizeof(double) + 16 * sizeof(uint32_t));
    return 2 * PARE_KV_SAMPLE_ROWS * width * sizeof(float) + solver + 2 * BINS * sizeof(double) +
           16 * PARE_ALIGN * 4;
}

/* Token t is kept when the share of the sample that it completes goes up by one. */
void pare_kv_sample_add(pare_kv_sample *s, const float *k, const float *v, size_t rows)
{
    for (size_t i = 0; i < rows; i++, s->seen++) {
        const bool all = s->total <= PARE_KV_SAMPLE_ROWS;
        if (s->rows == PARE_KV_SAMPLE_ROWS ||
            (!all && (s->seen + 1) * PARE_KV_SAMPLE_ROWS / s->total ==
                         s->seen * PARE_KV_SAMPLE_ROWS / s->total))
            continue;
        memcpy(s->k + s->rows * s->width, k + i * s->width, s->width * sizeof *k);
        memcpy(s->v + s->rows * s->width, v + i * s->width, s->width * sizeof *v);
        s->rows++;
    }
}

/* Weight and weighted sum of the numbers in each bin of -reach .. reach. */
typedef struct bins {
    double *weight, *sum; /* [BINS] */
} bins;

static void count(const bins *b, float x, float scale, float low)
{
    if (!(scale > 0))
        return;
    double u = ((double)x - (double)low) / (double)scale;
    u = u < -reach ? -reach : u > reach ? reach : u;
    const double at = (u + reach) * (BINS / (2 * reach));
    const size_t i = at < BINS - 1 ? (size_t)at : BINS - 1;
    const double weight = (double)scale * (double)scale;
    b->weight[i] += weight;
    b->sum[i] += weight * u;
}

/* The best levels for what the bins hold; without anything they are all 0. */
static pare_status solve(pare_arena *scratch, const bins *b, uint16_t level[PARE_KV_LEVELS])
{
    pare_kmeans solver;
    float center[PARE_KMEANS_CENTERS];
    const pare_mark mark = pare_arena_mark(scratch);
    PARE_TRY(pare_kmeans_take(scratch, BINS, &solver));
    size_t points = 0;
    for (size_t i = 0; i < BINS; i++)
        if (b->weight[i] > 0)
            solver.point[points++] = (pare_kmeans_point){.value = (float)(b->sum[i] / b->weight[i]),
                                                         .column = (uint32_t)i,
                                                         .weight = b->weight[i]};
    (void)pare_kmeans_solve(&solver, points, PARE_KV_LEVELS, center);
    for (size_t i = 0; i < PARE_KV_LEVELS; i++)
        level[i] = pare_f32_to_f16(center[i]);
    pare_arena_rewind(scratch, mark);
    return PARE_OK;
}

/* Mean and deviation of a channel of the keys. */
static void scale_channel(const pare_kv_sample *s, size_t c, uint16_t *scale, uint16_t *low)
{
    double sum = 0, squares = 0;
    for (size_t i = 0; i < s->rows; i++)
        sum += (double)s->k[i * s->width + c];
    const double mean = sum / (double)s->rows;
    for (size_t i = 0; i < s->rows; i++) {
        const double d = (double)s->k[i * s->width + c] - mean;
        squares += d * d;
    }
    *low = pare_f32_to_f16((float)mean);
    *scale = pare_f16_of_scale((float)(SIGMAS * sqrt(squares / (double)s->rows)));
}

static void count_keys(const pare_kv_sample *s, const pare_kv_tables *t, const bins *b)
{
    for (size_t c = 0; c < s->width; c++) {
        const float scale = pare_f16_to_f32(t->key_scale[c]), low = pare_f16_to_f32(t->key_low[c]);
        for (size_t i = 0; i < s->rows; i++)
            count(b, s->k[i * s->width + c], scale, low);
    }
}

/* As the runtime scales them: each head of each token by itself. */
static void count_values(const pare_kv_sample *s, const bins *b)
{
    for (size_t at = 0; at < s->rows * s->width; at += s->head_dim) {
        const float *const v = s->v + at;
        float min = v[0], max = v[0];
        for (size_t c = 1; c < s->head_dim; c++) {
            min = v[c] < min ? v[c] : min;
            max = v[c] > max ? v[c] : max;
        }
        const float low = pare_f16_to_f32(pare_f32_to_f16(0.5f * (max + min)));
        const float scale = pare_f16_scale(0.5f * (max - min));
        for (size_t c = 0; c < s->head_dim; c++)
            count(b, v[c], scale, low);
    }
}

static bool all_fit(const float *x, size_t n)
{
    bool fit = true;
    for (size_t i = 0; i < n; i++)
        fit = fit && fabsf(x[i]) <= 65504.0f;
    return fit;
}

pare_status pare_kv_calibrate(pare_ctx *cx, pare_arena *scratch, const pare_kv_sample *s,
                              pare_kv_tables *out)
{
    const size_t n = s->rows * s->width;
    if (s->rows == 0)
        return pare_fail(cx, PARE_EINVAL, "no tokens to find the levels of the cache from");
    if (!all_fit(s->k, n) || !all_fit(s->v, n))
        return pare_fail(cx, PARE_ENUMERIC,
                         "a key or value of the calibration tokens is not finite or beyond F16");
    const pare_mark mark = pare_arena_mark(scratch);
    const bins b = {PARE_NEW(scratch, double, BINS), PARE_NEW(scratch, double, BINS)};
    if (!b.weight || !b.sum)
        return PARE_ENOMEM;
    for (size_t c = 0; c < s->width; c++)
        scale_channel(s, c, &out->key_scale[c], &out->key_low[c]);
    count_keys(s, out, &b);
    PARE_TRY(solve(scratch, &b, out->key_level));
    memset(b.weight, 0, BINS * sizeof *b.weight);
    memset(b.sum, 0, BINS * sizeof *b.sum);
    count_values(s, &b);
    PARE_TRY(solve(scratch, &b, out->value_level));
    pare_arena_rewind(scratch, mark);
    return PARE_OK;
}
