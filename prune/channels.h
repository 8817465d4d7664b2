/* prune/channels.h - scores of the units of prune/structure.h that need no compensation.
 *
 *   wanda      sum over the unit's columns j of o or down: rms(x_j) mean_i |W_ij|. Source: An et
 *              al., FLAP, AAAI 2024, "Wanda-sp" (Sun et al., Wanda, ICLR 2024, by columns)
 *   magnitude  sum of w^2 over all weights of the unit: rows of what makes it, columns of what
 *              reads it. Source: Ma et al., LLM-Pruner, NeurIPS 2023 (grouped weights)
 *   random     uniform, a function of seed, block, part and unit
 *
 *   score  [pare_part_units]; written, >= 0
 *
 * PARE_ENOMEM; scratch is given back. Sums in double; threads over columns; Exact. */
#ifndef PARE_PRUNE_CHANNELS_H
#define PARE_PRUNE_CHANNELS_H

#include "prune/structure.h"

PARE_CHECKED pare_status pare_channels_wanda(pare_ctx *cx, pare_arena *scratch,
                                             const pare_structure *s, double *score);
PARE_CHECKED pare_status pare_channels_magnitude(pare_ctx *cx, pare_arena *scratch,
                                                 const pare_structure *s, double *score);
void pare_channels_random(const pare_structure *s, double *score);

/* out[j] = sum_i |w_ij| or w_ij^2 of w [n, k]. */
void pare_column_sums(const pare_ctx *cx, const float *w, size_t n, size_t k, bool squares,
                      double *out);

#endif
