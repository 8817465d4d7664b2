#include "quant/outlier_suppression.h"

#include <math.h>

#include "kernels/layout.h"
#include "quant/awq_internal.h"
#include "quant/gptq.h"

pare_status pare_suppress_shift(pare_ctx *cx, const float *min, const float *max, size_t k,
                                const uint32_t *channel, size_t channels, float *z)
{
    for (size_t j = 0; j < k; j++)
        if (!isfinite(min[j]) || !isfinite(max[j]))
            return pare_fail(cx, PARE_ENUMERIC,
                             "input channel %zu lies between %g and %g: the activations are not "
                             "finite",
                             j, (double)min[j], (double)max[j]);
    for (size_t c = 0; !channel && c < channels; c++)
        z[c] = (float)(((double)min[c] + (double)max[c]) / 2);
    for (size_t c = 0; channel && c < channels; c++) {
        double lo = INFINITY, hi = -INFINITY;
        for (size_t j = 0; j < k; j++)
            if (channel[j] == c) {
                lo = fmin(lo, (double)min[j]);
                hi = fmax(hi, (double)max[j]);
            }
        z[c] = lo <= hi ? (float)((lo + hi) / 2) : 0;
    }
    return PARE_OK;
}

/* Columns that share an activation scale. */
static size_t shared_columns(const pare_suppress_linear *l, size_t k)
{
    if (l->activation.mode != PARE_ACTIVATION_GROUP)
        return k;
    return pare_x8_group((pare__awq_group(l->grid, k) + 31) / 32 * 32);
}

/* Sum over columns of |q_j|^2 d_j^2; q [n, k] = Q(W diag s) diag(s)^-1. */
static double rounding_error(const pare_suppress_site *site, const pare_suppress_linear *l,
                             const float *s, const float *q)
{
    const size_t k = site->k, width = shared_columns(l, k);
    const double codes = l->activation.bits == 4 ? 7 : 127;
    double sum = 0;
    if (l->activation.mode == PARE_ACTIVATION_FLOAT)
        return 0;
    for (size_t at = 0; at < k; at += width) {
        const size_t end = k - at < width ? k : at + width;
        double most = 0, squares = 0;
        for (size_t j = at; j < end; j++)
            most = fmax(most, (double)site->absmax[j] / (s ? (double)s[j] : 1));
        for (size_t i = 0; i < l->n; i++)
            for (size_t j = at; j < end; j++) {
                const double x = (double)q[i * k + j] * (s ? (double)s[j] : 1);
                squares += x * x;
            }
        sum += squares * (most / codes) * (most / codes);
    }
    return sum;
}

/* Where a group has no grid. */
typedef struct no_grid {
    size_t linear, bad;
} no_grid;

static pare_status error_of(pare_ctx *cx, pare_arena *scratch, const pare_suppress_site *site,
                            const float *s, double *error, no_grid *where)
{
    const pare_mark mark = pare_arena_mark(scratch);
    double sum = 0;
    for (size_t l = 0; l < site->linears && sum < INFINITY; l++) {
        const pare_suppress_linear *const lin = &site->linear[l];
        if (!lin->grid)
            continue;
        float *const q = PARE_NEW(scratch, float, lin->n * site->k);
        size_t bad;
        if (!q)
            return PARE_ENOMEM;
        PARE_TRY(pare__awq_try(cx, scratch, lin->grid, lin->w, s, lin->n, site->k, q, &bad));
        if (bad < lin->n * pare_grid_groups(lin->grid, site->k)) {
            *where = (no_grid){l, bad};
            sum = INFINITY;
        } else {
            sum += pare_gptq_error(cx, lin->w, q, site->h, lin->n, site->k) +
                   (double)site->tokens / 12 * rounding_error(site, lin, s, q);
        }
        pare_arena_rewind(scratch, mark);
    }
    *error = sum;
    return PARE_OK;
}

pare_status pare_suppress_error(pare_ctx *cx, pare_arena *scratch, const pare_suppress_site *site,
                                const float *s, double *error)
{
    no_grid where;
    return error_of(cx, scratch, site, s, error, &where);
}

/* The largest of the ranges of each channel, and the smallest positive and largest of these. */
static pare_status ranges(pare_ctx *cx, const pare_suppress_site *site, float *range, double *least,
                          double *most)
{
    *least = INFINITY;
    *most = 0;
    for (size_t c = 0; c < site->channels; c++)
        range[c] = 0;
    for (size_t j = 0; j < site->k; j++) {
        const size_t c = site->channel ? site->channel[j] : j;
        if (!isfinite(site->absmax[j]))
            return pare_fail(cx, PARE_ENUMERIC,
                             "largest magnitude of input channel %zu is %g: the activations are "
                             "not finite",
                             j, (double)site->absmax[j]);
        range[c] = fmaxf(range[c], site->absmax[j]);
    }
    for (size_t c = 0; c < site->channels; c++) {
        *most = fmax(*most, (double)range[c]);
        if (range[c] > 0)
            *least = fmin(*least, (double)range[c]);
    }
    *least = fmin(*least, *most);
    return PARE_OK;
}

static pare_status check_unscaled(pare_ctx *cx, const pare_suppress_site *site, double error,
                                  const no_grid *where)
{
    const pare_suppress_linear *const l = &site->linear[where->linear];
    if (isinf(error))
        return pare__awq_fail(cx, l->grid, l->w, site->k, where->bad);
    if (isnan(error))
        return pare_fail(cx, PARE_ENUMERIC, "the error of rounding is %g: H is not finite", error);
    return PARE_OK;
}

static pare_status search(pare_ctx *cx, pare_arena *scratch, size_t steps,
                          const pare_suppress_site *site, float *scale, pare_suppress_found *found)
{
    float *const range = PARE_NEW(scratch, float, site->channels);
    float *const column = PARE_NEW(scratch, float, site->k);
    double least, most;
    no_grid where = {0};
    if (!range || !column)
        return PARE_ENOMEM;
    PARE_TRY(ranges(cx, site, range, &least, &most));
    PARE_TRY(error_of(cx, scratch, site, NULL, &found->unscaled, &where));
    PARE_TRY(check_unscaled(cx, site, found->unscaled, &where));
    found->threshold = most;
    found->error = found->unscaled;
    for (size_t i = 1; i <= steps && least < most; i++) {
        const double t = most * pow(least / most, (double)i / (double)steps);
        double error;
        for (size_t j = 0; j < site->k; j++)
            column[j] = (float)fmax(1, (double)range[site->channel ? site->channel[j] : j] / t);
        PARE_TRY(error_of(cx, scratch, site, column, &error, &where));
        if (!(error < found->error))
            continue;
        found->threshold = t;
        found->error = error;
    }
    for (size_t c = 0; c < site->channels; c++)
        scale[c] = (float)(most > 0 ? fmax(1, (double)range[c] / found->threshold) : 1);
    return PARE_OK;
}

pare_status pare_suppress_scale(pare_ctx *cx, pare_arena *scratch, size_t steps,
                                const pare_suppress_site *site, float *scale,
                                pare_suppress_found *found)
{
    bool any = false;
    for (size_t l = 0; l < site->linears; l++)
        any = any || site->linear[l].grid;
    if (steps == 0 || !any)
        return pare_fail(cx, PARE_EINVAL, "a threshold search of %zu steps over %s", steps,
                         any ? "some linears" : "no linear that is quantized");
    const pare_mark mark = pare_arena_mark(scratch);
    *found = (pare_suppress_found){0};
    PARE_TRY(search(cx, scratch, steps, site, scale, found));
    pare_arena_rewind(scratch, mark);
    return PARE_OK;
}
