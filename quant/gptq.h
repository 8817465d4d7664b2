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
    float damp;      /* damping of the last rung: lambda = damp * mean(diag H) */
    unsigned raises; /* times it was raised in that precision */
    bool f64;        /* the last rung was in double precision */
    bool failed;     /* no factor: the caller falls back to RTN and records it */
    size_t dead;     /* columns with H_jj = 0 */
    size_t pivot;    /* 1-based column of H whose pivot failed last, 0 if none did */
} pare_damping;

typedef struct pare_gptq_opts {
    float damp;     /* 0.01 */
    bool act_order; /* columns by falling H_jj; group grids are then fixed beforehand */
    size_t block;   /* 128 columns between lazy updates; multiple of 32 */
} pare_gptq_opts;

/* A factor is shared by all linears of a site. */
typedef struct pare_gptq_factor {
    size_t k;
    float *u;        /* [k, k] upper triangular, in the order of `order`; H^-1 = U^T U; or NULL */
    uint32_t *order; /* [k] original column of each position, or NULL for natural order */
    uint8_t *dead;   /* [k] 1 where H_jj = 0 (natural order): such a weight becomes 0 */
    pare_damping damping;
} pare_gptq_factor;

/* Factors H.
 *
 * The ladder: lambda = damp * mean(diag H) is added to the diagonal; if a pivot fails (or U leaves
 * the range of F32), damp is multiplied by 10 (0 becomes 0.01) up to 1.0; then the same once more
 * from the start in double precision; then damping.failed is set and u is NULL (the status is
 * still PARE_OK). A dead column has the mean of the others on its diagonal, which keeps it apart
 * from them and makes only the ratios within H matter: the factor 2/T may be left out.
 *
 *   h    [k, k] f32, lower triangle; becomes the factor's memory (u), so it is destroyed
 *   out  order and dead are taken from `scratch` and live as long as what it holds
 *
 * Returns PARE_OK, PARE_ENOMEM, PARE_EINVAL when damp is not in [0, 1], or PARE_ENUMERIC when H
 * holds a NaN or an infinity (the message names the entry).
 * Memory   one more k x k f32 from `scratch`, given back (twice that when it comes to f64).
 * Work     2/3 k^3 per rung.   Threads over tiles.   Exact: class MACHINE (BLAS), any thread count.
 * Source   U by one factorization of the reversed matrix: if R is the reversal and
 *          R H R = L L^T, then U = R L^-1 R is upper triangular and U^T U = H^-1.
 *          The original puts 1 on the diagonal of a dead column; its weights are 0 either way. */
PARE_CHECKED pare_status pare_gptq_factorize(pare_ctx *cx, pare_arena *scratch,
                                             const pare_gptq_opts *opts, float *h, size_t k,
                                             pare_gptq_factor *out);

/* Quantizes W given the factor.
 *
 * Group grids: natural order: a group's grid is fitted when the block that holds its first column
 * begins, to the weights of the whole group as they then stand (the original's rule; block = group
 * uses up-to-date weights only). So a per-row grid is fitted to the original weights. act_order (a
 * property of the factor): all grids are fitted to the original weights beforehand (static groups).
 * Codes, scales and zeros are in the order of the original columns.
 * Any encoding but BINARY. Where scales depend on the whole matrix (NF4's are quantized
 * themselves) they are fitted to the original weights beforehand, whatever the order.
 *
 *   w     [out->n, out->k] f32; destroyed
 *   out   planes from pare_codes_take for this grid; written
 *   loss  NULL, or the sum of (w_j - q_j)^2 / (2 U_jj^2) over the matrix in double; written
 *
 * Returns PARE_OK, PARE_EINVAL (bits, block, a factor that failed), PARE_ESHAPE (group, or k
 * differs from the factor), PARE_ENUMERIC as pare_rtn_quantize, also when the compensated weights
 * overflow, PARE_ENOMEM. Memory  per worker block x 320 bytes and one row.   Work  n k^2 / 2
 * multiply-adds. Threads over tiles of 128 rows; Exact as the factor. */
PARE_CHECKED pare_status pare_gptq_quantize(pare_ctx *cx, pare_arena *scratch,
                                            const pare_gptq_opts *opts, const pare_grid *grid,
                                            const pare_gptq_factor *factor, float *w,
                                            pare_codes *out, double *loss);

/* trace((W - Q) H (W - Q)^T): w and q [n, k], h [k, k] lower triangle. Products of 128 terms in
 * F32, their sum in double in a fixed order.   Memory  130 KiB of stack.   Work  n k^2 / 2
 * multiply-adds. Threads over rows; class MACHINE, any thread count. */
double pare_gptq_error(const pare_ctx *cx, const float *w, const float *q, const float *h, size_t n,
                       size_t k);

#endif
