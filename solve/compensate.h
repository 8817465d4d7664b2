/* solve/compensate.h - the sweep: column by column, what is lost is made up for by the rest.
 *
 * Objective per row: minimize (w - q) H (w - q)^T over what q may be; with H^-1 = U^T U
 * (solve/factor.h), for j = 0 .. k-1:
 *     q_j = 0 if the weight goes, else grid(w_j), or w_j without a grid
 *     e = (w_j - q_j) / U_jj,  w_i -= e U_ji  for i > j
 * Updates behind the current block of `block` columns are applied when the block ends.
 * GPTQ is the sweep with a grid, SparseGPT that with a sparsity, their joint method with both.
 *
 * With `spread` the weights behind a column also take w_j P_ji: what its input has moved from the
 * float model's (quant/correct.h). Inside a block that is the weight before it is rounded, behind
 * the block the weight as it was rounded, as the program of its authors does it. With `start` the
 * first column is rounded as if its weights were these; its error is that of the weights as they
 * are.
 *
 * Columns kept apart (`apart` of the factor) come last and are coded in 8 bits with one scale per
 * row, so that they make up for the errors of all others: Atom's use of the sweep.
 *
 * What goes is what has the least w_j^2 / U_jj^2, or |w_j| cost_j: in each group of N:M when its
 * first column is reached, on the weights as they stand (blocks become a multiple of M columns,
 * down to M); unstructured for each block [c0, c1) of all rows when it begins,
 * floor(ratio n c1) - floor(ratio n c0) of its entries (by row: of each row, n = 1), so that the
 * total is pare_sparsity_kept.
 *
 * Source  Frantar et al., ICLR 2023, Algorithm 1; Li et al., GPTAQ, ICML 2025, Algorithm 1; Zhang
 * et al., Qronos, 2025, Algorithm 1 (`start`); Frantar and Alistarh, ICML 2023, Algorithm 1, whose
 * program takes one weight more of each block; Zhao et al., MLSys 2024, section 4.1. */
#ifndef PARE_SOLVE_COMPENSATE_H
#define PARE_SOLVE_COMPENSATE_H

#include "solve/factor.h"
#include "solve/grid.h"
#include "solve/sparsity.h"

/* What is above the diagonal of a matrix [n, n], row after row, in panels of `panel` rows. The rows
 * of a panel are as long as its first one. */
typedef struct pare_upper {
    float *a;
    size_t n, panel;
} pare_upper;

/* Numbers from a row to the next of its panel; of all panels. */
static inline size_t pare_upper_step(const pare_upper *u, size_t row)
{
    return u->n - row / u->panel * u->panel;
}

static inline size_t pare_upper_count(const pare_upper *u)
{
    const size_t panels = u->n / u->panel, rest = u->n % u->panel;
    return panels * u->panel * u->n - u->panel * u->panel * (panels * (panels - 1) / 2) +
           rest * rest;
}

/* Entry (row, column), where column is not in front of the panel of the row. */
static inline float *pare_upper_at(const pare_upper *u, size_t row, size_t column)
{
    const size_t q = row / u->panel, first = q * u->panel;
    return u->a + q * u->panel * u->n - u->panel * u->panel * (q * (q - 1) / 2) +
           (row - first) * (u->n - first) + column - first;
}

typedef struct pare_compensate {
    const pare_factor *factor;
    size_t block;                  /* 128 columns between lazy updates; multiple of 32 */
    const pare_grid *grid;         /* NULL: what stays keeps its value */
    const pare_sparsity *sparsity; /* NULL: nothing goes */
    bool keep_zeros;               /* a weight that is 0 stays 0; not with a sparsity */
    const float *cost;             /* [k] at positions, finite and >= 0; NULL: 1 / U_jj */
    const pare_upper *spread; /* [k, k] at positions: P of GPTAQ, its panel a multiple of `block`;
                                 or NULL */
    const float *start;       /* [n] what the weights at the first position are rounded as;
                                 NULL: as they are */
    const float *fitted_to;   /* [n, k] what grids that are fitted beforehand go by; NULL: w */
} pare_compensate;

/* Sweeps W.
 *
 * Group grids: natural order: a group's grid is fitted when the block that holds its first column
 * begins, to the weights of the whole group as they then stand (the original's rule; block = group
 * uses up-to-date weights only). So a per-row grid is fitted to the original weights. act_order (a
 * property of the factor): all grids are fitted to the original weights beforehand (static groups).
 * Codes, scales and zeros are in the order of the original columns. Clip weighted goes by H_jj.
 * Columns kept apart (only beside UNIFORM symmetric grids): group grids are those of the other
 * columns, fitted as in natural order; the scale of a row is f16(max |w| / 127) over the weights as
 * they stand when their turn comes, codes are -127 .. 127, and the group code of such a column is
 * that of 0.
 * Q4_K, Q6_K: super-blocks are fitted like groups, with 1 / U_jj^2 as what an error costs; in
 * natural order s and o of a sub-block are chosen once more when its first column is reached, for
 * the weights as they stand (solve/super.h).
 * Any encoding but BINARY. Where scales depend on the whole matrix (NF4's are quantized
 * themselves) they are fitted to the original weights beforehand, whatever the order. Weights that
 * go or stay 0 have the code of 0; CODEBOOK and Q4_K have none.
 * With a factor that is diagonal a column makes up for no other: weights are rounded to nearest.
 *
 *   w     [n, k] f32; with a grid destroyed; without: the result, 0 where a weight went
 *   out   with a grid: planes from pare_codes_take for it; written. Without: NULL. With columns
 *         kept apart also outlier_code and outlier_scale (outliers = factor->apart)
 *   loss  NULL, or the sum of (w_j - q_j)^2 / (2 U_jj^2) over the matrix in double; written
 *
 * Returns PARE_OK, PARE_EINVAL (bits, block, sparsity, a factor that failed, what does not
 * go together: N:M and act_order, sparsity and keep_zeros, zeros and CODEBOOK or Q4_K, sparsity and
 * Q4_K or Q6_K, columns kept apart and a sparsity, another grid or clip
 * weighted; spread, start or fitted_to without a grid or with a sparsity
 * or a diagonal factor, a panel of spread that no multiple of `block` is), PARE_ESHAPE (group, or k
 * or the columns kept apart differ from the factor), PARE_ENUMERIC when a weight is not finite or a
 * scale cannot be stored, by row, group and value, also when the compensated weights overflow or
 * one kept apart exceeds 65504, PARE_ENOMEM. Memory  per worker block x 320 bytes and one row; with
 * sparsity block x 64 bytes, keep_zeros k x 128 bytes, without a grid block x 512 bytes more, with
 * spread block x 768; one number per group; unstructured n x block x 5 bytes.   Work  n k^2 / 2
 * multiply-adds, with a diagonal factor n k. Threads over tiles of 128 rows; Exact as the factor.
 */
PARE_CHECKED pare_status pare_compensate_run(pare_ctx *cx, pare_arena *scratch,
                                             const pare_compensate *c, float *w, size_t n, size_t k,
                                             pare_codes *out, double *loss);

/* The memory of one worker, whatever is asked for. */
size_t pare_compensate_bytes(size_t block, size_t k);

#endif
