/* distill/adamw.h - AdamW, clipping by the global norm, and weights that stay 0.
 *
 *   n = sqrt(sum over all leaves of g^2),  g becomes g min(1, clip / (n + 1e-6))
 *   w = w (1 - rate decay)                                    where the leaf decays
 *   m = b1 m + (1 - b1) g,    v = b2 v + (1 - b2) g^2
 *   w = w - rate / (1 - b1^t) m / (sqrt(v) / sqrt(1 - b2^t) + eps),  t = 1, 2, ..
 *
 * Where a leaf keeps zeros, a weight that is 0 has no gradient: it does not count in n, and stays
 * 0. Weights in F32, moments in F32 or 8 bits (state8.h; each step reads a block, moves it and
 * writes it), each step in double; sums have one order, so the same bytes for any number of
 * threads. Source: Loshchilov, Hutter, 2017; the order of torch.optim.AdamW and of
 * torch.nn.utils.clip_grad_norm_. */
#ifndef PARE_DISTILL_ADAMW_H
#define PARE_DISTILL_ADAMW_H

#include "distill/state8.h"
#include "runtime/arena.h"

/* One tensor that is trained. Moments are 0 at first. */
typedef struct pare_trained {
    float *value, *gradient, *m, *v; /* [count] each; m and v NULL: they are in m8 and v8 */
    size_t count, block;             /* of the model; any number where it has no such leaf */
    bool decays, keeps_zeros;
    bool fixed;  /* has no moments, does not move, and does not count in n */
    float *read; /* what the model reads, whose gradient the tape finds: value, or what stands for
                    it; NULL: the model has no such leaf */
    pare_state8 m8, v8;
} pare_trained;

/* Value, gradient and moments of `count` weights, all 0. With moments8 both moments are in 8 bits
 * (state8.h) where there are 4096 weights or more. PARE_ENOMEM. */
PARE_CHECKED pare_status pare_trained_take(pare_arena *a, size_t count, bool moments8,
                                           pare_trained *out);

/* Bytes of these. */
uint64_t pare_trained_bytes(uint64_t count, bool moments8);

typedef struct pare_adamw {
    double beta1, beta2, eps, decay;
    double clip; /* 0: gradients are not clipped */
} pare_adamw;

/* n over all leaves. */
double pare_trained_norm(const pare_ctx *cx, const pare_trained *leaf, size_t leaves);

/* Step t of all leaves, whose gradients have norm n; gradients become 0. */
void pare_adamw_step(const pare_ctx *cx, const pare_adamw *o, pare_trained *leaf, size_t leaves,
                     size_t t, double rate, double norm);

#endif
