/* quant/omniquant.h - OmniQuant: ranges and equivalent scales learned on the output of a block.
 *
 * Rounding leaves two things free that floats do not see: how far the range of a group of weights
 * reaches, and how large each channel is between two linears. Both are learned by descent on
 *
 *     loss = sum |F_q(x) - y|^2 / sum |y|^2                            (calib/block_loss.h)
 *
 * x are the inputs that reach the block through those compressed before, y what the float block
 * makes of them. What is learned:
 *
 *   clip    per group, shares low = sigmoid(b), high = sigmoid(c), b = c = 4 at first:
 *           w is clamped to [low min(0, min w), high max(0, max w)], and the grid is fitted to that
 *           (quant/learned_rounding.h)
 *   scales  per channel of a site, s = exp(t), t = 0 at first: columns times s, producer over s
 *           (runtime/fold.h), so that floats do not change
 *
 * The gradient of ranges is that of quant/learned_rounding.h. That of t needs the folded block
 * only: dt = sum over columns w dw - sum over the producer's rows p dp.
 *
 * Steps are AdamW (0.9, 0.999, e = 1e-8 of a loss of order 1), batches in order. When the learned
 * block is not better on all windows than plain rounding, plain rounding is kept.
 *
 * Deviations from the paper: scales are learned as logarithms, from 1; shifts and the scales
 * between queries and keys are left out (the authors' program leaves shifts out for llama, too);
 * the zero point's rounding is straight-through as well.
 * Source: Shao et al., ICLR 2024, eq. (1) to (3), and the program published with it, restated. */
#ifndef PARE_QUANT_OMNIQUANT_H
#define PARE_QUANT_OMNIQUANT_H

#include "calib/block_loss.h"
#include "quant/learned_rounding.h"
#include "runtime/fold.h"

typedef struct pare_omniquant_opts {
    size_t epochs; /* 20 */
    size_t batch;  /* windows of a step: 1 */
    bool clip;
    double clip_rate;    /* 1e-2 */
    double scale_rate;   /* 5e-3 */
    double weight_decay; /* 0; of both, per step and rate */
    unsigned scales;     /* bit per pare_site: learn its scales; each has a producer */
} pare_omniquant_opts;

typedef struct pare_omniquant_found {
    bool kept;                                 /* plain rounding was not beaten: all below NULL */
    float *scale[PARE_SITES];                  /* [pare_fold_channels], or NULL */
    float *low[PARE_ROLES], *high[PARE_ROLES]; /* [n, groups] of the folded weights, or NULL */
    double before, after;                      /* loss of plain rounding, of what was learned */
} pare_omniquant_found;

/* Learns one block. What is found lives in `a`.
 *
 * Returns PARE_OK, PARE_ENOMEM, PARE_EINTERRUPTED (asked before each batch), what `read` returned,
 * or
 *   PARE_ENOTSUP   a grid is not uniform
 *   PARE_ENUMERIC  the loss of plain rounding is not finite
 *
 * Memory   pare_omniquant_bytes.      Work   epochs * (forward and backward of all windows).
 * Threads  those of the backward pass; same bytes for any number of threads. */
PARE_CHECKED pare_status pare_omniquant_learn(pare_ctx *cx, pare_arena *a,
                                              const pare_omniquant_opts *opts,
                                              const pare_block_data *block,
                                              pare_omniquant_found *found);

/* Bytes that pare_omniquant_learn takes from the arena, upper bound. */
size_t pare_omniquant_bytes(const pare_ctx *cx, const pare_config *c,
                            const pare_omniquant_opts *opts, size_t window);

#endif
