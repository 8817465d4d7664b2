/* prune/rose.h - ROSE: which columns SparseGPT takes first.
 *
 * What goes early can be made up for by all that follows, so the columns that lose most come first.
 * Estimated before the sweep, by Wanda's scores: of each block of columns as many weights go as
 * will; the sum of their scores is the loss of a column and of a block. Columns are sorted by
 * falling loss in their block, then blocks by falling loss. A matrix whose blocks lose alike, (most
 * - least) / most <= 0.5, is left in its order.
 * A last block that is shorter stays last and does not count for that range, so that blocks stay
 * those of the sweep. The paper has a variant for N:M, which is left out.
 * Source: Su and Wang, CPAL 2026 (arXiv:2603.05878), and the authors' program. */
#ifndef PARE_PRUNE_ROSE_H
#define PARE_PRUNE_ROSE_H

#include "solve/sparsity.h"

typedef struct pare_rose_found {
    bool columnar; /* the order is another than the natural one */
    double range;  /* (most - least) / most of the losses of blocks */
} pare_rose_found;

/* The order: position i takes column order[i].
 *
 *   s        unstructured
 *   squares  [k]: sum of x_j^2 over tokens times any factor, >= 0 and finite
 *   w        [n, k] f32; read
 *   block    columns of a block of the sweep
 *   order    [k]; written
 *
 * Returns what pare_sparsity_choose returns, and PARE_EINVAL for N:M or block 0. Memory  n x block
 * x 5 + k x 24 bytes and what choosing takes from `scratch`, given back.   Work  O(n k). Sums in
 * double, in the order of rows; the same for any number of threads and on every CPU. */
PARE_CHECKED pare_status pare_rose_order(pare_ctx *cx, pare_arena *scratch, const pare_sparsity *s,
                                         const float *squares, const float *w, size_t n, size_t k,
                                         size_t block, uint32_t *order, pare_rose_found *found);

#endif
