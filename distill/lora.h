/* distill/lora.h - linears that are trained through a product of low rank (LoRA): adapters.
 *
 *   W' = W + s B A,   s = alpha / r, or alpha / sqrt(r) where `root` (rsLoRA)
 *   dA = s B^T dW',   dB = s dW' A^T
 *
 * W [n, k] stays, in its own encoding; A [r, k] and B [n, r] are trained. The model reads W', which
 * is made again once A and B moved, and the tape finds dW' as the gradient of any matrix. So the
 * model runs at the cost of W alone, and a step takes 6 r n k flops more for each linear: those of
 * r tokens. A begins uniform in +-1/sqrt(k), B at 0: at first W' is W.
 *
 * Memory   W' and dW', 8 bytes for each weight of W; 16 for each of A and B (value, gradient, two
 *          moments).
 * Exact    sums are those of runtime/product.h: the same bytes for any number of threads, on every
 *          CPU.
 * Source: Hu et al., LoRA, 2021, section 4.1; Kalajdzievski, rank-stabilized LoRA, 2023. They keep
 * W and B A apart on the way there; this is the same function. */
#ifndef PARE_DISTILL_LORA_H
#define PARE_DISTILL_LORA_H

#include "distill/adamw.h"
#include "runtime/model.h"

typedef struct pare_lora_opts {
    size_t rank; /* 1 .. the smaller side of every linear */
    double alpha;
    bool root;
    uint64_t seed; /* of A; its stream is the name of the linear */
} pare_lora_opts;

typedef struct pare_lora {
    pare_linear base;       /* W */
    float *seen, *gradient; /* [n, k] W', which the model reads, and dW', 0 at first */
    pare_trained *a, *b;    /* [r, k], [n, r]; both decay */
    size_t rank;
    float scale; /* s */
} pare_lora;

/* Takes A into *a, B into *b, W' and dW'; from here on the linear, dense, reads W', which is to be
 * made by pare_lora_merge. What W lies in must stay. PARE_ENOMEM. */
PARE_CHECKED pare_status pare_lora_take(pare_arena *arena, pare_linear *linear,
                                        const pare_lora_opts *o, pare_trained *a, pare_trained *b,
                                        pare_lora *out);

/* W' of A and B. */
void pare_lora_merge(pare_ctx *cx, pare_lora *l);

/* dA and dB from dW', which becomes 0. */
void pare_lora_gradient(const pare_ctx *cx, pare_lora *l);

#endif
