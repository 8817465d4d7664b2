/* runtime/tape.h - gradients: a backend of the block operations that runs another one, keeps what
 * its operations read and wrote, and walks back through them.
 *
 * d. is the derivative of a scalar loss with respect to the value named; every one is added to:
 *
 *   linears   dW += dy^T x,  db += colsum dy,  dx += dy W
 *   norm      runtime/ops.h;  dw += colsum dy t,  db += colsum dy
 *   attend    P = softmax(S), S = c tanh(s q k^T / c) or s q k^T, masked as the forward pass:
 *             dv += P^T dy,  dS = P (dy v^T - rowsum(dy v^T P)),  dU = dS (1 - (S / c)^2),
 *             dq += s dU k,  dk += s dU^T q, both rotated back
 *   recur     runtime/tape_recur.c
 *   activate  runtime/ops.h
 *   add       da += dy,  db += dy          turn   dx = Q^T dy
 *   round     dx = dy (straight-through)   cap    dx = dy (1 - (y / c)^2)
 *   gather    dx[row] += dy[i]             rows   dx[row[i]] += dy[i]
 *   scatter   dx[i] += w dy[row],  dw = <dy[row], x[i]>
 *   route     dp = dw, or (dw - sum of w dw) / sum of the picked p; 0 where not picked;
 *             dlogit += p (dp - <p, dp>). Which experts are picked has no gradient.
 *   share     dx += s dy,  dgate += <dy, x> s (1 - s),  s = sigmoid(gate); a gate for each channel:
 *             dx = s dy in place,  dgate += dy x s (1 - s)
 *   embed     dE[token] += scale dy,  dposition += dy
 *
 * Attention's P is made again tile by tile. The same bytes for any number of threads. Memory: all
 * values of the forward pass, and gradients in the places of values that nothing reads any more. */
#ifndef PARE_RUNTIME_TAPE_H
#define PARE_RUNTIME_TAPE_H

#include "runtime/block_ops.h"

/* Where the gradient of a weight goes. */
typedef struct pare_leaf_gradient {
    const void *value; /* the data of a linear, a bias, a norm */
    float *gradient;   /* as many floats; added to */
} pare_leaf_gradient;

/* What is asked for on the way back. */
typedef struct pare_gradients {
    const pare_leaf_gradient *leaf;
    size_t leaves;
    /* What is added to the gradients of attention's queries and keys before RoPE and of its values,
     * in the shapes of pare_tap.see_qkv; NULL: nothing. Of a tape with one block. */
    const float *qkv[3];
    /* Shown the gradient behind each linear, dy [rows, n]; NULL: nobody looks. */
    void (*see)(void *self, const pare_linear *w, const float *dy, size_t rows, size_t n);
    void *self;
} pare_gradients;

/* What ran since pare_tape_begin. It stays where it is until pare_tape_end. */
typedef struct pare_tape {
    pare_backend backend;
    pare_ops inner; /* who computes; its scratch keeps everything */
    pare_mark start;
    struct pare_step *last;
    struct pare_spare *spare;
    unsigned char *slab; /* room for records */
    size_t slab_left;
    const pare_gradients *wanted;
    const struct pare_step *in_expert; /* on the way back: its first gather, or NULL */
    pare_mark expert;                  /* where its gradients begin */
    bool unread; /* what linears and sums from here on make is not computed: nobody reads it */
    bool bf16;   /* dx = dy W, dW = dy^T x of what is rounded to BF16: over pare_cpu_bf16 */
    bool dry;    /* only counts what it would take: pare_tape_block_bytes */
} pare_tape;

/* An empty tape over a backend of the host, NULL: pare_cpu. It keeps its values in `a`; other
 * things taken from `a` meanwhile go with them. */
void pare_tape_begin(pare_ctx *cx, pare_arena *a, const pare_backend *over, pare_tape *t);

/* Forgets all records and frees what they hold. */
void pare_tape_end(pare_tape *t);

/* The operations on the tape. */
pare_ops pare_tape_ops(pare_tape *t);

/* x [rows, width], the caller's, as an input. `gradient`: its gradient is asked for. PARE_ENOMEM.
 */
PARE_CHECKED pare_status pare_tape_input(pare_tape *t, const float *x, size_t rows, size_t width,
                                         bool gradient, pare_array *out);

/* One block on the tape (pare_block_run) with a cache of its own. PARE_ENOMEM, PARE_ENOTSUP for
 * linears that are not dense, or what the tap returned. */
PARE_CHECKED pare_status pare_tape_block(pare_tape *t, const pare_forward *f,
                                         const pare_block *weights, pare_batch batch, pare_array x,
                                         const pare_tap *tap, pare_array *y);

/* The same of a block whose output nobody reads: its last product is left out where no norm and no
 * expert stands behind it. *y is only what pare_tape_back begins with. */
PARE_CHECKED pare_status pare_tape_block_for_gradients(pare_tape *t, const pare_forward *f,
                                                       const pare_block *weights, pare_batch batch,
                                                       pare_array x, pare_array *y);

/* Walks back from y, whose gradient is dy [rows, width]; dy may be the memory of y itself, unless y
 * was capped. Values of the forward pass are gone afterwards.
 * PARE_ENOMEM. */
PARE_CHECKED pare_status pare_tape_back(pare_tape *t, pare_array y, const float *dy,
                                        const pare_gradients *wanted);

/* The gradient of an input, behind pare_tape_back; NULL where none came through. */
const float *pare_tape_gradient(pare_array input);

/* Bytes that a block of this configuration takes from the arena, there and back, upper bound;
 * bf16: over pare_cpu_bf16. */
size_t pare_tape_block_bytes(const pare_ctx *cx, const pare_config *c, pare_batch batch, bool bf16);

/* Of these, what a block that went there holds while it waits for the way back. */
size_t pare_tape_held_bytes(const pare_ctx *cx, const pare_config *c, pare_batch batch, bool bf16);

/* The same of one linear [n, k] over `rows` inputs in BF16, beside what it reads and writes. */
size_t pare_tape_bf16_bytes(const pare_ctx *cx, size_t rows, size_t n, size_t k);

#endif
