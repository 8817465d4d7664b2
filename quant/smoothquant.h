/* quant/smoothquant.h - SmoothQuant: the range of loud input channels is shared with the weights
 * that read them, so that both can be rounded.
 *
 *     s_j = max|x_j|^alpha / max|w_j|^(1 - alpha)
 *
 * max|w_j| over the columns of all linears of a site. Columns j of the linears are multiplied by
 * s_j and the producer of x is divided by it, so in floats nothing changes.
 *
 * The weight range counts as at least 1e-5 and s_j is kept in 1e-5 .. 1e5, as in the original
 * program (its upper bound is the range of F32); a channel that calibration saw only as 0 has s_j =
 * 1 here, where the original would blow it up.
 *
 * Searched alpha: of 0, 0.05, .. 1 the first with the least
 *
 *     error(s) = sum over linears, tokens t and rows of (Q(W diag s) q(diag(s)^-1 x_t) - W x_t)^2
 *
 * over a sample of inputs, Q being the grid of the quantizer that follows and q the way it will
 * round inputs (not at all where it keeps floats). The original searches nothing: it names an alpha
 * per model.
 * Source: Xiao et al., ICML 2023, equation (4), and the program published with it, restated. */
#ifndef PARE_QUANT_SMOOTHQUANT_H
#define PARE_QUANT_SMOOTHQUANT_H

#include "solve/grid.h"

typedef struct pare_smooth_linear {
    const float *w; /* [n, k] */
    size_t n;
    const pare_grid *grid; /* NULL: weights stay floats */
    pare_activation activation;
} pare_smooth_linear;

/* An input, what is known of it, and the linears that read it. */
typedef struct pare_smooth_site {
    size_t k;
    const float *absmax; /* [k] largest |x| */
    const float *sample; /* [samples, k] inputs; for the search */
    size_t samples;
    const uint32_t *channel; /* [k] < channels: columns that share a scale; NULL: none do */
    size_t channels;         /* k without `channel` */
    const pare_smooth_linear *linear;
    size_t linears;
} pare_smooth_site;

typedef struct pare_smooth_found {
    double alpha;
    double error;    /* error(s) */
    double unscaled; /* error(1) */
} pare_smooth_found;

/* s of one alpha in [0, 1]: scale [channels]; written. Columns that share a channel share the
 * largest of their ranges. PARE_ENUMERIC when a range is not finite; PARE_ENOMEM. */
PARE_CHECKED pare_status pare_smoothquant_scales(pare_ctx *cx, pare_arena *scratch,
                                                 const pare_smooth_site *site, double alpha,
                                                 float *scale);

/* error(s) of one set of scales per column: s [k], all > 0; NULL: 1. Infinite when a group of the
 * scaled weights has no grid.
 * Memory  two matrices of the largest linear's size, its outputs for the sample twice, the sample
 *         twice; from `scratch`, given back. PARE_ENOMEM.
 * Work    2 samples n k multiply-adds per linear.  Threads over rows; any number gives the same. */
PARE_CHECKED pare_status pare_smoothquant_error(pare_ctx *cx, pare_arena *scratch,
                                                const pare_smooth_site *site, const float *s,
                                                double *error);

/* Chooses alpha: scale [channels]; written. 22 errors in all.
 * PARE_EINVAL without a sample or a linear; PARE_ENUMERIC (ranges that are not finite, or no alpha
 * with a finite error); PARE_ENOMEM. */
PARE_CHECKED pare_status pare_smoothquant_search(pare_ctx *cx, pare_arena *scratch,
                                                 const pare_smooth_site *site, float *scale,
                                                 pare_smooth_found *found);

#endif
