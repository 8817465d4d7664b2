#include "quant/outliers.h"

#include <math.h>
#include <stdlib.h>

#include "kernels/half.h"
#include "quant/rtn.h"

#define F16_MAX 65504.0F

typedef struct scored {
    float score;
    uint32_t column;
} scored;

size_t pare_outliers_above(const float *absmax, size_t k, double threshold, double share)
{
    const size_t most = (size_t)ceil(share * (double)k);
    size_t above = 0;
    for (size_t j = 0; j < k; j++)
        above += (double)absmax[j] >= threshold;
    return above < most ? above : most;
}

static int by_falling_score(const void *left, const void *right)
{
    const scored *const a = left, *const b = right;
    if (a->score != b->score)
        return a->score > b->score ? -1 : 1;
    return a->column < b->column ? -1 : a->column > b->column;
}

static int by_column(const void *left, const void *right)
{
    const uint32_t a = *(const uint32_t *)left, b = *(const uint32_t *)right;
    return (a > b) - (a < b);
}

static pare_status choose(pare_ctx *cx, pare_arena *arena, const float *score, pare_codes *out)
{
    const pare_mark mark = pare_arena_mark(arena);
    scored *const all = PARE_NEW(arena, scored, out->k);
    if (!all)
        return PARE_ENOMEM;
    for (size_t j = 0; j < out->k; j++) {
        if (isnan(score[j]))
            return pare_fail(cx, PARE_EINVAL, "the score of column %zu is not a number", j);
        all[j] = (scored){score[j], (uint32_t)j};
    }
    qsort(all, out->k, sizeof *all, by_falling_score);
    for (size_t o = 0; o < out->outliers; o++)
        out->outlier_column[o] = all[o].column;
    qsort(out->outlier_column, out->outliers, sizeof *out->outlier_column, by_column);
    pare_arena_rewind(arena, mark);
    return PARE_OK;
}

static pare_status take(pare_arena *arena, bool int8, pare_codes *out)
{
    const size_t count = out->n * out->outliers;
    out->outlier_column = PARE_NEW(arena, uint32_t, out->outliers);
    if (!out->outlier_column)
        return PARE_ENOMEM;
    if (!int8) {
        out->outlier_weight = PARE_NEW(arena, float, count);
        return out->outlier_weight ? PARE_OK : PARE_ENOMEM;
    }
    out->outlier_code = PARE_NEW(arena, int8_t, count);
    out->outlier_scale = out->outlier_code ? PARE_NEW(arena, float, out->n) : NULL;
    return out->outlier_scale ? PARE_OK : PARE_ENOMEM;
}

/* The largest magnitude among the columns kept apart; NaN when one of them is. */
static float largest(const pare_codes *out, const float *w)
{
    float most = 0;
    for (size_t o = 0; o < out->outliers; o++) {
        const float a = fabsf(w[out->outlier_column[o]]);
        most = a > most || isnan(a) ? a : most;
    }
    return most;
}

/* Small scales may round down in F16: the code stays within -127 .. 127. */
static int8_t int8_code(float x, float scale)
{
    const int code = (int)pare_grid_code(8, x, scale, 128) - 128;
    return (int8_t)(code < -127 ? -127 : code);
}

static pare_status move_row(pare_ctx *cx, size_t i, float *w, pare_codes *out)
{
    const float most = largest(out, w);
    if (!(most <= F16_MAX))
        return pare_fail(cx, PARE_ENUMERIC,
                         "row %zu: a weight of %g cannot be kept apart in F16: repair the "
                         "checkpoint, or leave this linear out",
                         i, (double)most);
    const float scale = pare_f16_scale(most / 127);
    if (out->outlier_scale)
        out->outlier_scale[i] = scale;
    for (size_t o = 0; o < out->outliers; o++) {
        float *const x = &w[out->outlier_column[o]];
        const size_t at = i * out->outliers + o;
        if (out->outlier_weight)
            out->outlier_weight[at] = pare_f16_to_f32(pare_f32_to_f16(*x));
        else
            out->outlier_code[at] = int8_code(*x, scale);
        *x = 0;
    }
    return PARE_OK;
}

pare_status pare_outliers_gptq(pare_ctx *cx, pare_arena *arena, const pare_gptq_opts *opts,
                               const pare_grid *grid, const pare_factor *factor, float *w, size_t n,
                               size_t k, pare_codes *out)
{
    PARE_TRY(pare_codes_take(arena, grid, n, k, out));
    out->outliers = factor->apart;
    if (out->outliers)
        PARE_TRY(take(arena, true, out));
    for (size_t o = 0; o < out->outliers; o++)
        out->outlier_column[o] = factor->order[factor->k - factor->apart + o];
    return pare_gptq_quantize(cx, arena, opts, grid, factor, w, out, NULL);
}

pare_status pare_outliers_quantize(pare_ctx *cx, pare_arena *arena, const pare_outlier_opts *opts,
                                   const pare_grid *grid, const float *score, float *w, size_t n,
                                   size_t k, pare_codes *out)
{
    PARE_TRY(pare_codes_take(arena, grid, n, k, out));
    if (opts->columns > k)
        return pare_fail(cx, PARE_EINVAL, "%zu of %zu columns cannot be kept apart", opts->columns,
                         k);
    out->outliers = opts->columns;
    if (out->outliers) {
        PARE_TRY(take(arena, opts->int8, out));
        PARE_TRY(choose(cx, arena, score, out));
    }
    for (size_t i = 0; i < n && out->outliers; i++)
        PARE_TRY(move_row(cx, i, w + i * k, out));
    return pare_rtn_quantize(cx, grid, w, NULL, n, k, out);
}
