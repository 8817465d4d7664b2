/* quant/gptq.h - GPTQ: rounding column by column, the error of each compensated by the rest.
 *
 * Objective per row: minimize (w - q) H (w - q)^T over codes q, H = (2/T) X X^T + lambda I.
 * With H^-1 = U^T U, U upper triangular, for j = 0 .. k-1:
 *     q_j = round(w_j),  e = (w_j - q_j) / U_jj,  w_i -= e U_ji  for i > j
 * Updates behind the current block of `block` columns are applied when the block ends.
 * Source: Frantar et al., ICLR 2023, Algorithm 1. */
#ifndef PARE_QUANT_GPTQ_H
#define PARE_QUANT_GPTQ_H

#include "runtime/grid.h"

/* What the damping ladder did. Recorded in the manifest. */
typedef struct pare_damping {
    float damp;          /* damping in use: lambda = damp * mean(diag H) */
    unsigned raises;     /* times it was raised */
    bool f64;            /* factored in double precision */
    bool failed;         /* no factor: the caller falls back to RTN and records it */
    size_t dead;         /* columns with H_jj = 0 */
    size_t pivot;        /* first pivot that failed at the last failure, 0 if none did */
} pare_damping;

typedef struct pare_gptq_opts {
    float damp;          /* 0.01 */
    bool act_order;      /* columns by falling H_jj; group grids are then fixed beforehand */
    size_t block;        /* 128 columns between lazy updates; multiple of 32 */
} pare_gptq_opts;

/* A factor is shared by all linears of a site. */
typedef struct pare_gptq_factor {
    size_t k;
    float *u;            /* [k, k] upper triangular, in the order of `order`; H^-1 = U^T U */
    uint32_t *order;     /* [k] original column of each position, or NULL for natural order */
    uint8_t *dead;       /* [k] 1 where H_jj = 0 (natural order): such a weight becomes 0 */
    pare_damping damping;
} pare_gptq_factor;

/* Factors H.
 *
 * The ladder: lambda = damp * mean(diag H); if a pivot fails, damp is multiplied by 10 up to
 * 1.0; then once more from the start in double precision; then damping.failed is set (the
 * status is still PARE_OK). Only the ratio of H matters, so the factor 2/T may be left out.
 *
 *   h    [k, k] f32, lower triangle; becomes the factor's memory (u), so it is destroyed
 *
 * Returns PARE_OK, PARE_ENOMEM, or PARE_ENUMERIC when H holds a NaN or an infinity.
 * Memory   one more k x k f32 from `scratch` for retries (twice that for f64).
 * Work     2/3 k^3.   Threads over tiles.   Exact: class MACHINE (BLAS), any thread count.
 * Source   U by one factorization of the reversed matrix: if R is the reversal and
 *          R H R = L L^T, then U = R L^-1 R is upper triangular and U^T U = H^-1. */
PARE_CHECKED pare_status pare_gptq_factorize(pare_ctx *cx, pare_arena *scratch,
                                             const pare_gptq_opts *opts, float *h, size_t k,
                                             pare_gptq_factor *out);

/* Quantizes W given the factor.
 *
 * Group grids: natural order: a group's grid is fitted when the block that holds its first column
 * begins, to the weights as they then stand (the original's rule; block = group uses up-to-date
 * weights only). Per-row grids and act_order: fitted to the original weights beforehand (static
 * groups). Codes stay in original column order.
 *
 *   w     [n, k] f32; destroyed (on return: errors)
 *   out   planes from pare_codes_take; written
 *   loss  NULL, or the sum of (w_j - q_j)^2 / (2 U_jj^2) over the matrix in double; written
 *
 * Returns PARE_OK, PARE_EINVAL (bits, block), PARE_ESHAPE (group, or k differs from the factor),
 * PARE_ENUMERIC as pare_rtn_quantize, PARE_ENOMEM.
 * Memory  per worker one row tile of errors.   Work  n k^2 multiply-adds.
 * Threads over tiles of rows; Exact as the factor. */
PARE_CHECKED pare_status pare_gptq_quantize(pare_ctx *cx, pare_arena *scratch,
                                            const pare_gptq_opts *opts, const pare_grid *grid,
                                            const pare_gptq_factor *factor, float *w, size_t n,
                                            size_t k, pare_codes *out, double *loss);

/* trace((W - Q) H (W - Q)^T): w and q [n, k], h [k, k] lower triangle. In double. */
double pare_gptq_error(const pare_ctx *cx, const float *w, const float *q, const float *h,
                       size_t n, size_t k);

#endif
