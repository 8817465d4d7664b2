/* prune/magnitude.h - the smallest weights go: score |w_ij|. Needs no calibration; the baseline.
 * What is compared makes a difference: a row, or the whole matrix (solve/sparsity.h). */
#ifndef PARE_PRUNE_MAGNITUDE_H
#define PARE_PRUNE_MAGNITUDE_H

#include "solve/sparsity.h"

/* w [n, k] f32; changed. As pare_prune_scored without channels. */
PARE_CHECKED pare_status pare_magnitude_prune(pare_ctx *cx, pare_arena *scratch,
                                              const pare_sparsity *s, float *w, size_t n, size_t k);

#endif
