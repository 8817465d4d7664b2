/* prune/wanda.h - Wanda: weights that meet small inputs go.
 *
 * score_ij = |w_ij| |x_j|, |x_j| being the length of input j over the calibration tokens: the root
 * of the diagonal of H, whose factor does not matter. The paper compares within a row.
 * Source: Sun et al., ICLR 2024, equation 1. */
#ifndef PARE_PRUNE_WANDA_H
#define PARE_PRUNE_WANDA_H

#include "solve/sparsity.h"

/* channel [k] = root of squares [k]. PARE_ENUMERIC for a square that is negative or not finite, by
 * its input. */
PARE_CHECKED pare_status pare_wanda_lengths(pare_ctx *cx, const float *squares, size_t k,
                                            float *channel);

/* squares [k]: sum of x_j^2 over tokens times any factor; w [n, k] f32, changed. As
 * pare_prune_scored, k x 4 bytes more from `scratch`; PARE_ENUMERIC also for a square that is
 * negative or not finite, by its input. */
PARE_CHECKED pare_status pare_wanda_prune(pare_ctx *cx, pare_arena *scratch, const pare_sparsity *s,
                                          const float *squares, float *w, size_t n, size_t k);

#endif
