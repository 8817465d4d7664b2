/* quant/outlier_suppression.h - Outlier Suppression+: channels of an input shifted to the middle of
 * their range, and the widest divided, before activations are quantized.
 *
 *     z_j = (max x_j + min x_j) / 2         x_j - z_j lies in +-range_j, range_j = (max - min) / 2
 *     s_j = max(1, range_j / t)
 *
 * Columns of the linears are multiplied by s, biases take W z, so in floats nothing changes. The
 * threshold t is the one of `steps` values from max range (s = 1) down to the smallest positive
 * range, in equal ratios, with the least error of the linears' outputs, the first of equals:
 *
 *     error(s) = sum over linears [ tr(E H E^T) + T/12 sum over j of |q_j|^2 d_j^2 ]
 *     E = Q(W diag s) diag(s)^-1 - W,   q_j = column j of Q(W diag s),
 *     d_j = max over the columns i that share a scale with j of absmax_i / s_i, divided by 127
 *
 * (7 for 4 bits): codes that are off by up to half a step d, evenly and independently. Columns that
 * share an activation scale: all, or pare_x8_group(). H, absmax are those of the shifted
 * inputs before scaling, T the tokens they were gathered from.
 *
 * Deviations from the paper: the loss of rounding activations is this expectation instead of a
 * second run over the inputs; a token that does not reach absmax has a smaller step than is
 * assumed here. The paper shrinks t in equal steps.
 * Source: Wei et al., EMNLP 2023, section 4, restated. */
#ifndef PARE_QUANT_OUTLIER_SUPPRESSION_H
#define PARE_QUANT_OUTLIER_SUPPRESSION_H

#include "runtime/encoding.h"
#include "solve/grid.h"

typedef struct pare_suppress_linear {
    const float *w; /* [n, k] */
    size_t n;
    const pare_grid *grid; /* NULL: stays in floats, does not count */
    pare_activation activation;
} pare_suppress_linear;

/* Statistics of an input and the linears that read it. */
typedef struct pare_suppress_site {
    size_t k;
    uint64_t tokens;
    const float *h;          /* [k, k], lower triangle */
    const float *absmax;     /* [k] */
    const uint32_t *channel; /* [k] < channels: columns that share shift and scale; NULL: none do */
    size_t channels;         /* k without `channel` */
    const pare_suppress_linear *linear;
    size_t linears;
} pare_suppress_site;

typedef struct pare_suppress_found {
    double threshold; /* t; the largest range: nothing is scaled */
    double error;     /* error(s) */
    double unscaled;  /* error(1) */
} pare_suppress_found;

/* z [channels] from min and max [k]; columns of a channel share the middle of all of them.
 * PARE_ENUMERIC when a bound is not finite. */
PARE_CHECKED pare_status pare_suppress_shift(pare_ctx *cx, const float *min, const float *max,
                                             size_t k, const uint32_t *channel, size_t channels,
                                             float *z);

/* error(s) of one set of scales: s [k] per column, all > 0; NULL: 1. Infinite when a group of the
 * scaled weights has no grid. PARE_ENOMEM.
 * Memory  one matrix of the largest linear and one of its rows per worker; given back.
 * Work    n k^2 / 2 multiply-adds per linear.  Threads over rows; exact on every CPU. */
PARE_CHECKED pare_status pare_suppress_error(pare_ctx *cx, pare_arena *scratch,
                                             const pare_suppress_site *site, const float *s,
                                             double *error);

/* Chooses the scales of a site: scale [channels], all >= 1; written. Once without scaling and at
 * most `steps` times with.
 * PARE_EINVAL (no step, no linear with a grid), PARE_ENOMEM, PARE_ENUMERIC (weights or statistics
 * that are not finite; a group without an F16 scale even unscaled). */
PARE_CHECKED pare_status pare_suppress_scale(pare_ctx *cx, pare_arena *scratch, size_t steps,
                                             const pare_suppress_site *site, float *scale,
                                             pare_suppress_found *found);

#endif
