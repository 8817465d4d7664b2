/* prune/depth.h - how much a block changes the residual stream.
 *
 *   influence = 1 - mean over tokens of cos(x_in, x_out)
 *
 * Blocks of little influence can go. Source: Men et al., "ShortGPT: Layers in Large Language Models
 * are More Redundant Than You Expect", 2024 (block influence). */
#ifndef PARE_PRUNE_DEPTH_H
#define PARE_PRUNE_DEPTH_H

#include "runtime/arena.h"

/* Cosines of pairs of rows, summed up token by token. */
typedef struct pare_depth {
    double sum;
    uint64_t tokens;
} pare_depth;

/* Adds rows [rows, k] in front of and behind a block. Two rows of zeros count as equal, one as
 * orthogonal. PARE_ENOMEM; scratch is given back. Threads over rows; Exact. */
PARE_CHECKED pare_status pare_depth_add(pare_ctx *cx, pare_arena *scratch, pare_depth *d,
                                        const float *in, const float *out, size_t rows, size_t k);

/* Never below 0; 0 before any token. */
double pare_depth_influence(const pare_depth *d);

#endif
