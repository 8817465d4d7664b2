/* prune/ria.h - RIA: weights go that matter little to both their row and their column.
 *
 * score_ij = |w_ij| (1 / sum_j |w_ij| + 1 / sum_i |w_ij|) |x_j|^power, |x_j| being the length of
 * input j over the calibration tokens. What a weight is compared with is its share of all that
 * reaches the output and of all that leaves the input, so that a whole channel of small weights is
 * not emptied. Wanda's score lacks the bracket; there the power is 1.
 * Source: Zhang et al., ICLR 2024, equations 2 and 4; power 0.5. The program compares over the
 * matrix when unstructured. */
#ifndef PARE_PRUNE_RIA_H
#define PARE_PRUNE_RIA_H

#include "solve/sparsity.h"

/* The scores alone; those of a row or column of zeros are 0.
 *
 *   squares  [k]: sum of x_j^2 over tokens times any factor
 *   w        [n, k] f32; read
 *   score    [n, k]; written
 *
 * PARE_ENUMERIC for a square that is negative or not finite (its input is named), PARE_ENOMEM.
 * Memory  12 n + 12 k bytes from `scratch`, given back.   Work  O(n k).   Sums in double, in the
 * order of rows and columns; threads over rows; the same on every CPU for powers 0, 0.5 and 1, up
 * to pow() for others. */
PARE_CHECKED pare_status pare_ria_score(pare_ctx *cx, pare_arena *scratch, double power,
                                        const float *squares, const float *w, size_t n, size_t k,
                                        float *score);

/* Makes the weights of lowest score +0: as pare_prune_lowest, n x k x 5 bytes from `scratch`. */
PARE_CHECKED pare_status pare_ria_prune(pare_ctx *cx, pare_arena *scratch, const pare_sparsity *s,
                                        double power, const float *squares, float *w, size_t n,
                                        size_t k);

#endif
