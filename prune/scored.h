/* prune/scored.h - pruning by a score per weight and nothing else: the rest stays as it is. */
#ifndef PARE_PRUNE_SCORED_H
#define PARE_PRUNE_SCORED_H

#include "solve/sparsity.h"

/* Makes the weights of lowest |w_ij| * channel_j +0.
 *
 *   channel  [k] >= 0 and finite, or NULL: all 1
 *   w        [n, k] f32; changed
 *
 * Returns what pare_sparsity_choose returns. Memory  n x k x 5 bytes and what that takes from
 * `scratch`, given back.   Work  O(n k).   Threads over rows; Exact. */
PARE_CHECKED pare_status pare_prune_scored(pare_ctx *cx, pare_arena *scratch,
                                           const pare_sparsity *s, const float *channel, float *w,
                                           size_t n, size_t k);

/* Makes the weights of lowest score +0: any score per weight, [n, k] >= 0 and finite; read.
 *
 * Returns what pare_sparsity_choose returns. Memory  n x k bytes and what that takes from
 * `scratch`, given back.   Work  O(n k).   Threads over rows; Exact. */
PARE_CHECKED pare_status pare_prune_lowest(pare_ctx *cx, pare_arena *scratch,
                                           const pare_sparsity *s, const float *score, float *w,
                                           size_t n, size_t k);

#endif
