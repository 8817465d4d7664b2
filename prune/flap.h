/* prune/flap.h - FLAP: parts whose contribution hardly changes go, and a bias takes their place.
 *
 * Source: An et al., "Fluctuation-based Adaptive Structured Pruning for LLMs", AAAI 2024, equations
 * 4 and 5. A unit's score is the sum over its columns j of o or down of
 *
 *     var(x_j) |W_:j|^2
 *
 * over the calibration tokens: what is left of its output once its mean is kept. The mean is kept
 * by b += sum over the columns that go of W_:j mean(x_j). All blocks lose the same share, because a
 * configuration has one size for all of them; so scores are compared inside a block only, where the
 * paper's standardization changes no order. */
#ifndef PARE_PRUNE_FLAP_H
#define PARE_PRUNE_FLAP_H

#include "prune/structure.h"

/* score [pare_part_units]; written. PARE_ENOMEM; scratch is given back. Threads; Exact. */
PARE_CHECKED pare_status pare_flap_score(pare_ctx *cx, pare_arena *scratch, const pare_structure *s,
                                         double *score);

/* Adds to bias [hidden] what the units with keep[i] == 0 give on average. Before they are moved.
 * Sums in double. */
void pare_flap_bias(const pare_structure *s, const uint8_t *keep, float *bias);

#endif
