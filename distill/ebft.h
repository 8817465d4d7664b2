/* distill/ebft.h - EBFT: trains the weights that a pruner left of a block, on the outputs of the
 * block.
 *
 *     loss = sum |F(x) - y|^2 / sum |y|^2                           (calib/block_loss.h)
 *
 * F is the pruned block, x the inputs that reach it, y what the float model makes of its own
 * inputs. AdamW (distill/adamw.h) moves the linears in `roles`, without decay and clipping, beta1
 * 0.9 and beta2 0.95: its rate rises over the first twentieth of the steps and falls as a cosine to
 * a tenth. A weight that is 0 stays 0.
 *
 * An epoch sees each window once, in an order of its own, but for one window of eight, the last
 * ones, which are held out (below eight windows none is: then all are measured). The weights found,
 * or those at the end of an epoch, are taken, whichever have the least loss there.
 *
 * Source: Guo et al., EBFT, 2024, the objective of the block; its program has a rate of 2e-4.
 * Deviations: norms and biases stay as they are; the schedule, and the windows held out. */
#ifndef PARE_DISTILL_EBFT_H
#define PARE_DISTILL_EBFT_H

#include <stdint.h>

#include "calib/block_loss.h"

typedef struct pare_ebft_opts {
    size_t epochs, batch;  /* rounds through the windows; windows of a step */
    double rate;           /* the largest */
    uint64_t seed, stream; /* of the order of windows */
} pare_ebft_opts;

typedef struct pare_ebft_found {
    bool kept;            /* no epoch did better than what was found: w are those */
    float *w[PARE_ROLES]; /* [n, k]; NULL: not trained */
    double before, after; /* loss on the windows held out */
} pare_ebft_found;

/* Trains the linears of one block with a bit in `roles`; block->grid is not read. What is found
 * lives in `a`.
 *
 * Returns PARE_OK, PARE_ENOMEM, PARE_EINTERRUPTED (asked before each batch), what `read` returned,
 * or
 *   PARE_ENUMERIC  the loss of the weights found is not finite
 *
 * Memory   pare_ebft_bytes.      Work   epochs * (forward and backward of all windows).
 * Threads  those of the backward pass; same bytes for any number of threads. */
PARE_CHECKED pare_status pare_ebft_train(pare_ctx *cx, pare_arena *a, const pare_ebft_opts *opts,
                                         const pare_block_data *block, unsigned roles,
                                         pare_ebft_found *found);

/* Bytes that pare_ebft_train takes from the arena, upper bound; SIZE_MAX: too many. */
size_t pare_ebft_bytes(const pare_ctx *cx, const pare_config *c, size_t batch, size_t samples,
                       size_t window);

#endif
