#include "quant/smoothquant.h"

#include <math.h>
#include <string.h>

#include "kernels/layout.h"
#include "quant/awq.h"
#include "runtime/threads.h"

enum { STEPS = 20, TILE = 32 };

#define LEAST 1e-5
#define MOST  1e5

static size_t channel_of(const pare_smooth_site *s, size_t j)
{
    return s->channel ? s->channel[j] : j;
}

/* Ranges of inputs and weights per channel. */
static pare_status ranges(pare_ctx *cx, const pare_smooth_site *s, float *x, float *w)
{
    memset(x, 0, s->channels * sizeof *x);
    memset(w, 0, s->channels * sizeof *w);
    for (size_t j = 0; j < s->k; j++) {
        float *const most = &x[channel_of(s, j)];
        if (!isfinite(s->absmax[j]))
            return pare_fail(cx, PARE_ENUMERIC, "the range of input %zu is %g", j,
                             (double)s->absmax[j]);
        *most = s->absmax[j] > *most ? s->absmax[j] : *most;
    }
    for (size_t l = 0; l < s->linears; l++)
        for (size_t i = 0; i < s->linear[l].n * s->k; i++) {
            const float v = fabsf(s->linear[l].w[i]);
            float *const most = &w[channel_of(s, i % s->k)];
            if (!isfinite(v))
                return pare_fail(cx, PARE_ENUMERIC, "weight [%zu, %zu] is %g", i / s->k, i % s->k,
                                 (double)s->linear[l].w[i]);
            *most = v > *most ? v : *most;
        }
    return PARE_OK;
}

pare_status pare_smoothquant_scales(pare_ctx *cx, pare_arena *scratch, const pare_smooth_site *site,
                                    double alpha, float *scale)
{
    const pare_mark mark = pare_arena_mark(scratch);
    float *const x = PARE_NEW(scratch, float, site->channels);
    float *const w = PARE_NEW(scratch, float, site->channels);
    pare_status status = x && w ? ranges(cx, site, x, w) : PARE_ENOMEM;
    for (size_t i = 0; status == PARE_OK && i < site->channels; i++) {
        const double s = pow((double)x[i], alpha) / pow(fmax((double)w[i], LEAST), 1.0 - alpha);
        scale[i] = x[i] > 0 ? (float)fmin(fmax(s, LEAST), MOST) : 1.0F;
    }
    pare_arena_rewind(scratch, mark);
    return status;
}

/* One linear, its rounded form, and outputs of both. */
typedef struct product {
    const pare_ctx *cx;
    const pare_smooth_site *site;
    const pare_smooth_linear *l;
    const float *x, *rounded; /* inputs [samples, k] before and after */
    const float *q;           /* [n, k] */
    float *y, *z;             /* [samples, n] */
} product;

static void multiply_rows(void *arg, size_t begin, size_t end, size_t worker)
{
    const product *const p = arg;
    const size_t k = p->site->k, n = p->l->n, m = p->site->samples;
    (void)worker;
    p->cx->kernels.gemm_f32_f32(p->y + begin, n, p->x, k, p->l->w + begin * k, k, m, end - begin,
                                k);
    p->cx->kernels.gemm_f32_f32(p->z + begin, n, p->rounded, k, p->q + begin * k, k, m, end - begin,
                                k);
}

/* Rounds x [count] to codes of one scale. */
static void round_span(float *x, size_t count, float most, float top)
{
    const float step = most / top;
    for (size_t j = 0; step > 0 && j < count; j++) {
        const float code = rintf(x[j] / step);
        x[j] = fminf(fmaxf(code, -top), top) * step;
    }
}

static float largest(const float *x, size_t count)
{
    float most = 0;
    for (size_t j = 0; j < count; j++)
        most = fabsf(x[j]) > most ? fabsf(x[j]) : most;
    return most;
}

/* q(diag(s)^-1 x) diag(s) for the whole sample: to [samples, k]. */
static void round_inputs(const pare_smooth_site *site, const pare_smooth_linear *l, const float *s,
                         float *to)
{
    const size_t k = site->k;
    const pare_activation_mode mode = l->activation.mode;
    const float top = l->activation.bits == 4 ? 7 : 127;
    const size_t group = l->grid && l->grid->group ? l->grid->group : pare_round_up(k, 32);
    const size_t span = mode == PARE_ACTIVATION_GROUP ? pare_x8_group(group) : k;
    const bool rounds = mode != PARE_ACTIVATION_FLOAT;
    float fixed = 0;
    for (size_t j = 0; j < k; j++)
        fixed = fmaxf(fixed, site->absmax[j] / (s ? s[j] : 1));
    for (size_t t = 0; t < site->samples; t++) {
        float *const row = to + t * k;
        for (size_t j = 0; j < k; j++)
            row[j] = site->sample[t * k + j] / (s ? s[j] : 1);
        for (size_t j = 0; rounds && j < k; j += span) {
            const size_t count = k - j < span ? k - j : span;
            round_span(row + j, count,
                       mode == PARE_ACTIVATION_TENSOR ? fixed : largest(row + j, count), top);
        }
        for (size_t j = 0; s && j < k; j++)
            row[j] *= s[j];
    }
}

/* Adds the error of one linear; infinite when its grid fails. */
static pare_status add_error(pare_ctx *cx, pare_arena *scratch, const pare_smooth_site *site,
                             const pare_smooth_linear *l, const float *s, double *error)
{
    const size_t k = site->k, outputs = site->samples * l->n;
    float *const rounded = PARE_NEW(scratch, float, site->samples *k);
    float *const q = PARE_NEW(scratch, float, l->n *k);
    float *const y = PARE_NEW(scratch, float, outputs);
    float *const z = PARE_NEW(scratch, float, outputs);
    if (!rounded || !q || !y || !z)
        return PARE_ENOMEM;
    pare_status status = PARE_OK;
    if (l->grid)
        status = pare_awq_round(cx, scratch, l->grid, l->w, s, l->n, k, q);
    else
        memcpy(q, l->w, l->n * k * sizeof *q);
    if (status == PARE_ENUMERIC) {
        pare_ctx_clear(cx);
        *error = INFINITY;
        return PARE_OK;
    }
    PARE_TRY(status);
    round_inputs(site, l, s, rounded);
    product p = {cx, site, l, site->sample, rounded, q, y, z};
    pare_parallel(cx, l->n, TILE, multiply_rows, &p);
    for (size_t i = 0; i < outputs; i++) {
        const double e = (double)z[i] - (double)y[i];
        *error += e * e;
    }
    return PARE_OK;
}

pare_status pare_smoothquant_error(pare_ctx *cx, pare_arena *scratch, const pare_smooth_site *site,
                                   const float *s, double *error)
{
    *error = 0;
    for (size_t l = 0; l < site->linears; l++) {
        const pare_mark mark = pare_arena_mark(scratch);
        const pare_status status = add_error(cx, scratch, site, &site->linear[l], s, error);
        pare_arena_rewind(scratch, mark);
        PARE_TRY(status);
    }
    return PARE_OK;
}

static pare_status search(pare_ctx *cx, pare_arena *scratch, const pare_smooth_site *site,
                          float *scale, pare_smooth_found *found)
{
    float *const tried = PARE_NEW(scratch, float, site->channels);
    float *const columns = PARE_NEW(scratch, float, site->k);
    if (!tried || !columns)
        return PARE_ENOMEM;
    *found = (pare_smooth_found){.error = INFINITY};
    PARE_TRY(pare_smoothquant_error(cx, scratch, site, NULL, &found->unscaled));
    for (size_t i = 0; i <= STEPS; i++) {
        const double alpha = (double)i / STEPS;
        double error;
        PARE_TRY(pare_smoothquant_scales(cx, scratch, site, alpha, tried));
        for (size_t j = 0; j < site->k; j++)
            columns[j] = tried[channel_of(site, j)];
        PARE_TRY(pare_smoothquant_error(cx, scratch, site, columns, &error));
        if (!(error < found->error))
            continue;
        found->alpha = alpha;
        found->error = error;
        memcpy(scale, tried, site->channels * sizeof *scale);
    }
    return found->error < INFINITY ? PARE_OK
                                   : pare_fail(cx, PARE_ENUMERIC,
                                               "no alpha from 0 to 1 leaves weights that the grid "
                                               "can hold");
}

pare_status pare_smoothquant_search(pare_ctx *cx, pare_arena *scratch, const pare_smooth_site *site,
                                    float *scale, pare_smooth_found *found)
{
    if (!site->sample || site->samples == 0 || site->linears == 0)
        return pare_fail(cx, PARE_EINVAL, "alpha: search needs inputs and linears");
    const pare_mark mark = pare_arena_mark(scratch);
    const pare_status status = search(cx, scratch, site, scale, found);
    pare_arena_rewind(scratch, mark);
    return status;
}
