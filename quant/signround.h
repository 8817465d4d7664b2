/* quant/signround.h - SignRound: which way to round, and ranges, learned by signs of gradients on
 * the output of a block.
 *
 * Of every weight an offset v in steps of its grid, -0.5 .. 0.5, and of every group the shares low,
 * high of its range (quant/learned_rounding.h):
 *
 *     q = round(w / d + v) d,  d from [low lo, high hi];   v = 0, low = high = 1 at first
 *
 * Step t of T moves each by the sign of the gradient g of the loss (calib/block_loss.h) alone:
 *
 *     v, low, high -= rate (1 - t / T) sign(g),   rate 1 / T where opts.rate is 0
 *
 * so an offset comes as far as half a step, and a code changes by one at most. A step looks at
 * `batch` windows, drawn anew each time. When the learned block is not better on all windows than
 * plain rounding, plain rounding is kept.
 *
 * Deviations from the authors' program: symmetric grids are those of solve/grid.h, which cover both
 * sides of a group; offsets count for no weight that is 0 or sets the range of its group, and move
 * no weight out of that range; what the last step leaves counts, not the step
 * whose batch had the least loss; shares stay at 0.1 or more.
 * Source: Cheng et al., Findings of EMNLP 2024, eq. (3) to (5) and algorithm 1. */
#ifndef PARE_QUANT_SIGNROUND_H
#define PARE_QUANT_SIGNROUND_H

#include <stdint.h>

#include "calib/block_loss.h"
#include "quant/learned_rounding.h"

typedef struct pare_signround_opts {
    size_t steps;          /* 200 */
    size_t batch;          /* windows of a step: 8 */
    double rate;           /* 0: 1 / steps */
    bool clip;             /* learns ranges, too */
    uint64_t seed, stream; /* of the windows that steps draw */
} pare_signround_opts;

typedef struct pare_signround_found {
    bool kept;                                 /* plain rounding was not beaten: all below NULL */
    float *offset[PARE_ROLES];                 /* [n, k], or NULL */
    float *low[PARE_ROLES], *high[PARE_ROLES]; /* [n, groups], or NULL */
    double before, after;                      /* loss of plain rounding, of what was learned */
} pare_signround_found;

/* Learns one block. What is found lives in `a`.
 *
 * Returns PARE_OK, PARE_ENOMEM, PARE_EINTERRUPTED (asked before each batch), what `read` returned,
 * or
 *   PARE_ENOTSUP   a grid is not uniform
 *   PARE_ENUMERIC  the loss of plain rounding is not finite
 *
 * Memory   pare_signround_bytes.      Work   steps * (forward and backward of a batch).
 * Threads  those of the backward pass; same bytes for any number of threads. */
PARE_CHECKED pare_status pare_signround_learn(pare_ctx *cx, pare_arena *a,
                                              const pare_signround_opts *opts,
                                              const pare_block_data *block,
                                              pare_signround_found *found);

/* Bytes that pare_signround_learn takes from the arena, upper bound. */
size_t pare_signround_bytes(const pare_ctx *cx, const pare_config *c,
                            const pare_signround_opts *opts, size_t window);

#endif
