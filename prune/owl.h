/* prune/owl.h - OWL: blocks with more outliers keep more weights.
 *
 * A weight's score is Wanda's, |w_ij| |x_j|. An outlier is a score above M times the mean of its
 * block, all matrices of the block together, as in the original program. The share of outliers is
 * the block's importance (prune/ratios.h).
 * Source: Yin et al., ICML 2024, section 3. The paper's program stretches the shares from least to
 * most over twice the spread and then moves their mean, so that one of them may leave the band. */
#ifndef PARE_PRUNE_OWL_H
#define PARE_PRUNE_OWL_H

#include "runtime/arena.h"

typedef struct pare_owl_matrix {
    const float *w;       /* [n, k] f32, finite */
    const float *squares; /* [k]: sum of x_j^2 over tokens, times a factor that all have */
    size_t n, k;
} pare_owl_matrix;

/* Share of the scores of `count` matrices that are above `outlier` times their mean.
 *
 * Returns PARE_OK, PARE_ENUMERIC for a square that is negative or not finite, by its input,
 * PARE_ENOMEM. Memory  (n + k) x 8 bytes of the largest matrix from `scratch`, given back.
 * Work  O(n k), twice.   Threads over rows; Exact. */
PARE_CHECKED pare_status pare_owl_share(pare_ctx *cx, pare_arena *scratch, const pare_owl_matrix *m,
                                        size_t count, double outlier, double *share);

#endif
