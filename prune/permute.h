/* prune/permute.h - an order of channels under which N:M costs less.
 *
 * N:M keeps the same number of weights in each group of M neighbours, so that important channels
 * that lie together push each other out. Another order of the channels changes who are neighbours.
 *
 *   allocation  channels by falling sum of scores are dealt out to the groups, forth and back
 *   assignment  for each place in the groups in turn: the channels at that place are shared out
 *               anew among the groups so that the sum of what all groups keep is largest, a linear
 *               sum assignment over (group, channel)
 *
 * It starts from the allocation, or from the order as it is where that keeps more; where nothing is
 * gained channels stay where they are. So what is kept never falls.
 * Source: Zhang et al., ICLR 2024 (RIA), section 3.3. */
#ifndef PARE_PRUNE_PERMUTE_H
#define PARE_PRUNE_PERMUTE_H

#include "solve/sparsity.h"

typedef struct pare_permute_opts {
    unsigned keep, of;
    size_t span; /* channels that are assigned at once, after the allocation; 0: none */
} pare_permute_opts;

/* Chooses an order.
 *
 *   score     [channels, rows]: of the weights that read a channel; >= 0 and finite; read
 *   channels  a multiple of `of`
 *   order     [channels]: position i takes channel order[i]; written
 *   kept      the sums of scores that N:M keeps, before and after; written
 *
 * Returns PARE_OK, PARE_EINVAL (keep, of, channels), PARE_ENOMEM, PARE_EINTERRUPTED. Memory  with
 * s = min(span, channels): s / of x (rows x 4 + s / of x 8) + channels x 24 bytes from `scratch`,
 * given back.   Work  channels x rows x span / of multiply-adds and span^2 / of^2 x channels more.
 * For 2:4 and 4096 rows, on one AVX2 core with span 1024: 4096 channels 2.1 s, 11008 channels 5.1 s
 * and 5 MiB for either; dealing alone 0.4 s and 1.0 s. Linear in channels, not their square, for a
 * fixed span; with span 4096 the former take 17 s and 25 MiB.
 * Threads over groups; exact: sums in double in a fixed order. */
PARE_CHECKED pare_status pare_permute_choose(pare_ctx *cx, pare_arena *scratch,
                                             const pare_permute_opts *opts, const float *score,
                                             size_t channels, size_t rows, uint32_t *order,
                                             double kept[2]);

/* The assignment by itself: gain [n, n], of giving column j to row i; column [n]: of each row, so
 * that the sum of gains is largest. 24 n bytes from `scratch`; n^3 operations. PARE_ENOMEM. */
PARE_CHECKED pare_status pare_permute_assign(pare_arena *scratch, const double *gain, size_t n,
                                             uint32_t *column);

#endif
