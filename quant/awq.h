/* quant/awq.h - AWQ: input channels scaled up before rounding where the inputs are large.
 *
 * The linears of a site read the same x [k]. Column j of each is multiplied by s_j, the producer of
 * x is divided by it, so in floats nothing changes; rounding then hurts the loud channels less.
 *
 *     s(alpha) = a^alpha, at least 1e-4, divided by sqrt(max s * min s)
 *     duo      = a^alpha / (v^(1 - alpha) + 1e-4), then the same
 *     error(s) = sum over the linears of tr(E H E^T),   E = Q(W diag s) diag(s)^-1 - W
 *
 * a_j = mean |x_j|, v_j = mean over all rows of |w_ij| / (largest |w| of its group), H = sum x x^T,
 * Q = the grid of the quantizer that follows. alpha = 0, 1/steps, .. (steps - 1)/steps; the first
 * of the least errors wins. s = 1 is always among the candidates, so the error is never above
 * that of rounding without scales.
 *
 * Clip: weights of (row i, group g) are clamped to +-c max|w|, c = 1, 0.95, .. 0.55, the first c
 * with the least d H_gg d^T, d = Q(clamp(w)) - w, H_gg the group's block of H: the output error of
 * the group taken alone. A long group takes n k group multiply-adds per c.
 *
 * Deviations from the original program: H of all calibration tokens stands for a sample of 512;
 * the error of q, k, v and of gate, up is that of their own outputs, not of the attention or MLP
 * behind them; scales of grouped attention heads are shared through `channel`.
 * Source: Lin et al., MLSys 2024, section 3.2 and the program published with it, restated. */
#ifndef PARE_QUANT_AWQ_H
#define PARE_QUANT_AWQ_H

#include "solve/grid.h"

typedef struct pare_awq_opts {
    size_t steps; /* alphas tried: 20 */
    bool duo;
} pare_awq_opts;

typedef struct pare_awq_linear {
    const float *w; /* [n, k] */
    size_t n;
    const pare_grid *grid; /* NULL: stays in floats, counts neither in the error nor in v */
} pare_awq_linear;

/* Statistics of an input and the linears that read it. */
typedef struct pare_awq_site {
    size_t k;
    const float *h;          /* [k, k], lower triangle */
    const float *absmean;    /* [k] */
    const uint32_t *channel; /* [k] < channels: columns that must share a scale; NULL: none do */
    size_t channels;         /* k without `channel` */
    const pare_awq_linear *linear;
    size_t linears;
} pare_awq_site;

typedef struct pare_awq_found {
    double alpha;    /* of the scales chosen; negative: s = 1, not one of the steps */
    double error;    /* error(s) */
    double unscaled; /* error(1): round to nearest */
} pare_awq_found;

/* s(alpha) of a site: scale [channels]; written. Columns that share a channel share the means of a
 * and v. PARE_ENOMEM; PARE_ENUMERIC when a statistic is not finite or a scale leaves the range of
 * F32. */
PARE_CHECKED pare_status pare_awq_candidate(pare_ctx *cx, pare_arena *scratch,
                                            const pare_awq_opts *opts, const pare_awq_site *site,
                                            double alpha, float *scale);

/* q = Q(W diag s) diag(s)^-1, [n, k]; s [k] per column, NULL: 1. A grid whose scales depend on the
 * whole matrix is taken group by group (pare_grid_round).
 * PARE_ENOMEM; PARE_ENUMERIC when a group has no grid, the message names the first.
 * Memory  a row per worker; given back.  Threads over rows; EXACT. */
PARE_CHECKED pare_status pare_awq_round(pare_ctx *cx, pare_arena *scratch, const pare_grid *grid,
                                        const float *w, const float *s, size_t n, size_t k,
                                        float *q);

/* Chooses the scales of a site: scale [site->channels], all > 0; written.
 *
 * Returns PARE_OK, PARE_EINVAL (no step, no linear with a grid), PARE_ENOMEM, PARE_ENUMERIC when a
 * weight is not finite, a group has no F16 scale even without scaling (candidates for which that
 * happens are passed over), or the statistics are not finite.
 *
 * Memory   one matrix of the largest linear, four vectors of k, a row per worker; from `scratch`,
 *          given back.
 * Work     (steps + 1) n k^2 / 2 multiply-adds per linear.   Threads over rows.
 * Exact    on every CPU on which pow gives the same, any thread count. */
PARE_CHECKED pare_status pare_awq_scale(pare_ctx *cx, pare_arena *scratch,
                                        const pare_awq_opts *opts, const pare_awq_site *site,
                                        float *scale, pare_awq_found *found);

typedef struct pare_awq_clipped {
    size_t groups, clipped;  /* groups in all, groups clamped */
    double error, unclipped; /* sum of d H_gg d^T over rows and groups, chosen and with c = 1 */
} pare_awq_clipped;

/* Clamps the weights of every (row, group): w [n, k], changed in place; h [k, k] lower triangle, of
 * the input of w as it is (scaled). What a clamped group becomes on the grid is what was judged.
 * Returns PARE_OK, PARE_ENOMEM, PARE_ENUMERIC as above.
 * Memory   32 k floats and 80 KiB per worker; given back.   Work  10 n k (k for long groups)
 * Threads over bands of 32 rows; Exact as above. */
PARE_CHECKED pare_status pare_awq_clip(pare_ctx *cx, pare_arena *scratch, const pare_grid *grid,
                                       const float *h, float *w, size_t n, size_t k,
                                       pare_awq_clipped *found);

#endif
