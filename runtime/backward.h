/* runtime/backward.h - the gradient of one block: what learned transforms and distillation descend.
 *
 * The forward pass of a block in F32, keeping what its gradient needs, and the backward pass:
 *
 *   n1 = norm1(x)   q, k = rope(Q n1, K n1)   v = V n1   P = softmax(q k^T / sqrt(d)), causal
 *   h  = x + O (P v)                         n2 = norm2(h)
 *   y  = h + D a,   a = silu(g) u,   g = G n2,   u = U n2
 *
 * and, d. being the derivative of a scalar loss with respect to the value named:
 *
 *   dD += dy^T a     da = dy D     du = da silu(g)     dg = da u s (1 + g (1 - s)),  s = sigmoid(g)
 *   dn2 = dg G + du U              dh = dy + dnorm2(dn2)
 *   dO += dh^T (P v)               dz = dh O           dv = P^T dz
 *   dS = P (dz v^T - rowsum(dz P v)) / sqrt(d)         dq = dS k,  dk = dS^T q, rotated back
 *   dn1 = dq Q + dk K + dv V       dx = dh + dnorm1(dn1)
 *   norm: y = w x r + b, r = 1 / sqrt(mean x^2 + eps):
 *         dw += dy x r,  db += dy,  dx = r (w dy - x r mean(w dy x r))
 *
 * Keys and values of grouped heads gather from the query heads of their group. P is not kept: it is
 * made again tile by tile. Families that compute something else have no gradient yet:
 * pare_config_no_gradient says why. A row of x^T y style products is summed over all tokens of the
 * batch. */
#ifndef PARE_RUNTIME_BACKWARD_H
#define PARE_RUNTIME_BACKWARD_H

#include "runtime/forward.h"

/* What the forward pass of one batch leaves for the backward pass; rows = sequences * length. */
typedef struct pare_trace {
    pare_batch batch; /* start is 0 */
    const float *x;   /* [rows, hidden], the caller's */
    float *normed[2]; /* [rows, hidden] behind the attention norm and the MLP's */
    float *q;         /* [rows, heads * head_dim], rotated */
    pare_kv kv;       /* keys rotated */
    float *attended;  /* [rows, heads * head_dim] */
    float *h;         /* [rows, hidden] */
    float *gate, *up; /* [rows, intermediate] */
    float *activated; /* [rows, intermediate] */
} pare_trace;

/* Where gradients are added; NULL: not asked for. Index 0 is the attention norm, 1 the MLP's. */
typedef struct pare_block_gradient {
    float *weight[PARE_ROLES]; /* [n, k] */
    float *bias[PARE_ROLES];   /* [n] */
    float *norm[2];            /* [hidden] */
    float *norm_bias[2];       /* [hidden] */
    /* Shown the gradient behind each linear, dy [rows, n]; NULL: nobody looks. */
    void (*see)(void *self, pare_role role, const float *dy, size_t rows, size_t n);
    void *self;
} pare_block_gradient;

/* Changes the input of the linears of a site in place, x [rows, k]: rounding of activations. The
 * backward pass takes it for the identity (straight-through). */
typedef struct pare_alter {
    void (*change)(void *self, pare_site site, float *x, size_t rows, size_t k);
    void *self;
} pare_alter;

/* Room for the trace of a batch, to be filled again and again by batches that are not larger.
 * PARE_ENOMEM. Memory: rows * (3 hidden + 2 heads head_dim + 2 kv_heads head_dim + 3 intermediate)
 * floats. */
PARE_CHECKED pare_status pare_trace_take(pare_arena *a, const pare_config *c, pare_batch batch,
                                         pare_trace *trace);

/* Runs one block: y = block(x), pare_block_forward on an F32 block up to the order of the sums in
 * its products (alter NULL), which go through BLAS.
 *   weights  dense F32 linears
 *   batch    start 0, not larger than the trace was taken for
 *   x        [rows, hidden]; read now and by pare_block_backward
 *   alter    NULL: nothing changes the inputs of the linears
 *   y        [rows, hidden]; written, not x
 * Returns PARE_OK, PARE_ENOMEM (scratch, rewound), PARE_EINVAL (a linear that is not dense F32, or
 * a rotated one). Threads  over tiles; same bytes for any number of them. */
PARE_CHECKED pare_status pare_block_trace(pare_ctx *cx, pare_arena *scratch, const pare_forward *f,
                                          const pare_block *weights, pare_batch batch,
                                          const float *x, const pare_alter *alter,
                                          pare_trace *trace, float *y);

/* Gradient of the same block at the same x.
 *   trace     of pare_block_trace with these weights
 *   dy        [rows, hidden]; read
 *   dx        [rows, hidden]; written, may be dy; NULL: not asked for
 *   gradient  added to
 *
 * Returns PARE_OK or PARE_ENOMEM.
 * Memory   scratch, rewound: rows * (3 hidden + 2 heads head_dim + 2 kv_heads head_dim +
 *          2 intermediate) floats and two tiles of scores per worker.
 * Work     twice the multiply-adds of the forward pass, the scores once more.
 * Threads  over fixed tiles of the products, (sequence, key head) pairs, rows and columns; class
 *          MACHINE (BLAS), same bytes for any number of threads. */
PARE_CHECKED pare_status pare_block_backward(pare_ctx *cx, pare_arena *scratch,
                                             const pare_forward *f, const pare_block *weights,
                                             const pare_trace *trace, const float *dy, float *dx,
                                             const pare_block_gradient *gradient);

/* Bytes of trace and scratch for a batch, upper bound of the two together. */
size_t pare_block_backward_bytes(const pare_ctx *cx, const pare_config *c, pare_batch batch);

#endif
