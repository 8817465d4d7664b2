/* quant/omniquant.h - OmniQuant: ranges and equivalent scales learned on the output of a block.
 *
 * Rounding leaves two things free that floats do not see: how far the range of a group of weights
 * reaches, and how large each channel is between two linears. Both are learned by descent on
 *
 *     loss = sum |F_q(x) - y|^2 / sum |y|^2
 *
 * F_q the block with rounded weights, x the inputs that reach it through the blocks compressed
 * before, y the outputs of the float block. What is learned:
 *
 *   clip    per group, shares low = sigmoid(b), high = sigmoid(c), b = c = 4 at first:
 *           w is clamped to [low min(0, min w), high max(0, max w)], and the grid is fitted to that
 *   scales  per channel of a site, s = exp(t), t = 0 at first: columns times s, producer over s
 *           (runtime/fold.h), so that floats do not change
 *
 * The gradient of a rounded weight, v the clamped weight, q its value, d the scale of its group:
 *
 *     dq = dv + (q - v) / d dd      rounding counts as the identity (straight-through)
 *     dv = dw inside the range, that of the bound it was clamped to outside
 *     dd = (dhi - dlo) / (2^bits - 1), symmetric: that of the bound that sets d
 *
 * and the bounds move with low, high and with the smallest and largest weight. The gradient of t
 * needs the folded block only: dt = sum over columns w dw - sum over the producer's rows p dp.
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

#include "runtime/fold.h"
#include "runtime/forward.h"
#include "solve/grid.h"

typedef struct pare_omniquant_opts {
    size_t epochs; /* 20 */
    size_t batch;  /* windows of a step: 1 */
    bool clip;
    double clip_rate;    /* 1e-2 */
    double scale_rate;   /* 5e-3 */
    double weight_decay; /* 0; of both, per step and rate */
    unsigned scales;     /* bit per pare_site: learn its scales; each has a producer */
} pare_omniquant_opts;

/* Weights of one matrix, their grid, and the shares of the ranges that are kept. */
typedef struct pare_omniquant_clip {
    const pare_grid *grid; /* UNIFORM; its own clip is not applied */
    size_t n, k;
    const float *low, *high; /* [n, groups] in (0, 1]; NULL: all 1 */
} pare_omniquant_clip;

/* Clamps w [n, k] in place. Threads over rows; exact. */
void pare_omniquant_clamp(const pare_ctx *cx, const pare_omniquant_clip *c, float *w);

/* q [n, k] = w clamped and rounded. A group without a grid (pare_grid_fit) is only clamped: the
 * quantizer that follows will name it. Threads over rows; exact. */
void pare_omniquant_round(const pare_ctx *cx, const pare_omniquant_clip *c, const float *w,
                          float *q);

/* Gradient of pare_omniquant_round: d [n, k] comes as that of q and becomes that of w; dlow, dhigh
 * [n, groups] are written. Threads over rows; exact. */
void pare_omniquant_round_backward(const pare_ctx *cx, const pare_omniquant_clip *c, const float *w,
                                   float *d, float *dlow, float *dhigh);

/* A block and the data that it is learned on. */
typedef struct pare_omniquant_block {
    const pare_config *config;              /* of a model whose blocks are all like this one */
    const pare_forward *forward;            /* tables for the window */
    const pare_block *current;              /* in floats, read */
    const pare_grid *grid[PARE_ROLES];      /* UNIFORM; NULL: this linear stays in floats */
    pare_activation activation[PARE_SITES]; /* rounding of inputs that F_q shall see; bits 0: none.
                                               TENSOR counts as TOKEN */
    size_t samples, window;
    /* Inputs and wanted outputs [count * window, hidden] of windows first .. first + count - 1. */
    pare_status (*read)(void *self, size_t first, size_t count, float *x, float *y);
    void *self;
} pare_omniquant_block;

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
                                              const pare_omniquant_block *block,
                                              pare_omniquant_found *found);

/* Bytes that pare_omniquant_learn takes from the arena, upper bound. */
size_t pare_omniquant_bytes(const pare_ctx *cx, const pare_config *c,
                            const pare_omniquant_opts *opts, size_t window);

#endif
