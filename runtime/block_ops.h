/* runtime/block_ops.h - the operations that a block is made of, at the size of a batch: one list,
 * filled by every backend. forward_block.c, forward_experts.c and forward.c call nothing else, so
 * what a block computes is written once; the CPU runs it (cpu_ops.c), the tape keeps what its
 * gradient needs (tape.h).
 *
 * An array lies where its backend keeps it, and so does a cache. Of one with a place of its
 * own the host cannot read them: what the host has goes there by put and comes back by get, what
 * callers hand to pare_block_forward and pare_logits as well as what a tap looks at. Weights and
 * tables are host memory for every backend.
 *
 * Each returns a pare_status and leaves its message in the context. Arrays do not overlap unless
 * it says so. Sums have one order, whatever the batch and the number of threads. */
#ifndef PARE_RUNTIME_BLOCK_OPS_H
#define PARE_RUNTIME_BLOCK_OPS_H

#include "runtime/forward.h"

/* A row-major matrix of floats of a backend. */
typedef struct pare_array {
    float *at;
    size_t rows, width;
    struct pare_slot *slot; /* on a tape */
} pare_array;

/* The norm of pieces of a row. */
typedef struct pare_norm_of {
    pare_norm_kind kind;
    const float *w, *bias; /* [width / pieces]; bias NULL: none */
    size_t pieces;         /* a head each, or 1: the row */
    double eps;
} pare_norm_of;

/* What attention needs beside q, k and v. */
typedef struct pare_attend {
    const pare_forward *f;
    const pare_kv_levels *levels; /* of the block; KVQUANT */
    size_t window;                /* of the block; 0: none */
    bool apart;                   /* pare_block.apart */
    pare_batch batch;
    pare_kv *kv;
    const float *sinks; /* [heads], or NULL */
} pare_attend;

/* Channels that go from rows of x to rows of y: of each row `count` pieces of `width`. */
typedef struct pare_pieces {
    size_t count, width;
    size_t from, from_step; /* channel where the first begins, from one to the next; of x */
    size_t to, to_step;     /* likewise, of y */
} pare_pieces;

/* How a router picks experts (route.c). */
typedef struct pare_router {
    size_t used;                /* by a row */
    bool norm;                  /* the weights of a row sum to 1, before the scale */
    size_t groups, groups_used; /* of equal size; groups 0: there are none */
    double scale;               /* of weights; 0: 1 */
    const float *correction;    /* [experts], with sigmoids; NULL: a softmax */
    bool inward; /* none of this: the largest logits, weights 1, and logits stay as they are */
} pare_router;

/* What a recurrent state needs beside its inputs. */
typedef struct pare_recur {
    const pare_forward *f;
    const pare_recurrence *weights;
    pare_batch batch;
    pare_kv *kv;
} pare_recur;

enum { PARE_RECUR_INPUTS = 4 };

/* Which rows each expert runs; of one expert rows stay in order. Host memory, whatever the backend.
 * Those of expert e are visit[start[e]] .. visit[start[e + 1] - 1]. */
typedef struct pare_routes {
    size_t rows, experts, used;
    pare_router router;
    uint32_t *picked;  /* [rows, used] */
    float *weight;     /* [rows, used] */
    pare_visit *visit; /* [rows used] */
    size_t *start;     /* [experts + 1] */
    void *there;       /* of a backend with a place of its own: its copy of visit */
} pare_routes;

/* What a row of logits says of the token that follows, and beside another row. */
typedef struct pare_score {
    double nll;  /* -ln softmax at the token */
    double kl;   /* pare_divergence from the other row; 0: there is none */
    size_t best; /* first largest */
} pare_score;

typedef struct pare_ops pare_ops;

/* X(name, (parameters)).
 *
 * mark     a point to return to; rewind: what was taken behind it is free, unless values are kept
 * take     y [rows, width] in the scratch, holding anything. PARE_ENOMEM.
 * put      y = x, which the host has; get: the way back. x and y [rows, width]
 * zero     y = 0
 * kv_take  an empty cache of one block in the scratch (pare_kv_take_format). PARE_ENOMEM.
 * kv_copy  pare_kv_copy
 * embed    y[i] = row tokens[i] of the embedding times its scale, plus the learned position of
 *          token i, batch.start + i % batch.length, where there are such; tokens are in range
 * norm     y = norm(x) (+ bias), piece by piece of each row (runtime/ops.h); y may be x
 * linears  y[i] = w[i] x for `count` <= 3 linears of equal k (runtime/linear.h)
 * attend   y = attention of q over the cache, to which k and v are added (runtime/kv.h); q and k
 *          come without their rotation, and q, k and v are overwritten. With sinks the weights of
 *          head h are e^s_j / (e^sinks[h] + sum e^s_j)
 * recur    what a recurrent state makes of its inputs, token by token (gated delta rule), which the
 *          cache takes along. x: mixed, made by the linears Q of the block, and gate z, beta b,
 *          decay a, which are those of K, weights->beta and weights->decay.
 *            c_t = silu(sum_i conv[i] mixed_(t - taps + 1 + i)),  channels q | k | v
 *          and for each value head, with q and k those of its key head:
 *            q = q / sqrt(sum q^2 + 1e-6) / sqrt(key_width),  k = k / sqrt(sum k^2 + 1e-6)
 *            S = S exp(-exp(rate) ln(1 + exp(a + shift)))
 *            S = S + k (sigmoid(b) (v - S^T k))^T
 *            y = norm(S^T q) silu(z)
 *          S [key_width, value_width] begins as 0 where the batch starts at 0, and what stands in
 *          front of the first mixed, too. PARE_EINVAL for a batch that does not continue the last
 * activate y = act(gate) up, or act(gate) where up.at is NULL; CLAMPED as pare_act says, with up;
 *          y may be gate
 * add      y = a + b; y may be b
 * pieces   some channels of y are some of x; the others stay
 * turn     x <- Q x, the rotation of runtime/hadamard.h
 * round    x <- x rounded to int8 with a scale for each row
 * route    the experts of each row and their weights, from the outputs of the router, which are
 *          overwritten (route.c has the formula). r comes from the scratch. PARE_ENOMEM.
 * gather   y[i] = x[row of visit i of an expert]
 * scatter  y[row of visit i] += weight of visit i x[i]
 * share    y = sigmoid(gate) x, gate [rows, 1]; or gate as wide as x, and y is x
 * rows     y[i] = x[row[i]]; row NULL: the first rows
 * cap      x <- cap tanh(x / cap)
 * score    out[i] of row i of logit, the token target[i] (target NULL: token 0) and row i of base;
 *          base.at NULL: none. The host has target and out */
#define PARE_BLOCK_OPS(X)                                                                          \
    X(mark, (const pare_ops *o, pare_mark *m))                                                     \
    X(rewind, (const pare_ops *o, pare_mark m))                                                    \
    X(take, (const pare_ops *o, size_t rows, size_t width, pare_array *y))                         \
    X(put, (const pare_ops *o, const float *x, pare_array y))                                      \
    X(get, (const pare_ops *o, pare_array x, float *y))                                            \
    X(zero, (const pare_ops *o, pare_array y))                                                     \
    X(kv_take, (const pare_ops *o, const pare_config *c, const pare_kv_format *f,                  \
                size_t sequences, size_t capacity, pare_kv *kv))                                   \
    X(kv_copy, (const pare_ops *o, const pare_config *c, const pare_kv *from, size_t f,            \
                pare_kv *to, size_t t))                                                            \
    X(embed, (const pare_ops *o, const pare_model *m, const int32_t *tokens, pare_batch batch,     \
              pare_array y))                                                                       \
    X(norm, (const pare_ops *o, const pare_norm_of *n, pare_array x, pare_array y))                \
    X(linears, (const pare_ops *o, const pare_linear *const *w, size_t count, bool exact,          \
                pare_array x, const pare_array *y))                                                \
    X(attend, (const pare_ops *o, const pare_attend *a, pare_array q, pare_array k, pare_array v,  \
               pare_array y))                                                                      \
    X(recur, (const pare_ops *o, const pare_recur *r, const pare_array *x, pare_array y))          \
    X(activate, (const pare_ops *o, pare_act act, pare_array gate, pare_array up, pare_array y))   \
    X(add, (const pare_ops *o, pare_array a, pare_array b, pare_array y))                          \
    X(turn, (const pare_ops *o, pare_array x))                                                     \
    X(round, (const pare_ops *o, pare_array x))                                                    \
    X(pieces, (const pare_ops *o, const pare_pieces *p, pare_array x, pare_array y))               \
    X(route, (const pare_ops *o, pare_array logit, const pare_router *how, pare_routes *r))        \
    X(gather,                                                                                      \
      (const pare_ops *o, const pare_routes *r, size_t expert, pare_array x, pare_array y))        \
    X(scatter,                                                                                     \
      (const pare_ops *o, const pare_routes *r, size_t expert, pare_array x, pare_array y))        \
    X(share, (const pare_ops *o, pare_array gate, pare_array x, pare_array y))                     \
    X(rows, (const pare_ops *o, const size_t *row, pare_array x, pare_array y))                    \
    X(cap, (const pare_ops *o, double cap, pare_array x))                                          \
    X(score, (const pare_ops *o, pare_array logit, pare_array base, const int32_t *target,         \
              pare_score *out))

#define PARE__MEMBER(name, parameters) pare_status(*name) parameters;
typedef struct pare_block_table {
    PARE_BLOCK_OPS(PARE__MEMBER)
} pare_block_table;
#undef PARE__MEMBER

/* Who runs the operations. */
typedef struct pare_backend {
    const pare_block_table *op;
    const void *place; /* where its arrays lie, which the host cannot read; NULL: with the host */
    bool keeps; /* values stay until the end: nothing that is read again may be overwritten */
    void *self;
} pare_backend;

/* One call of it. */
struct pare_ops {
    const pare_block_table *op;
    pare_backend backend;
    pare_ctx *cx;
    pare_arena *scratch;
};

extern const pare_backend pare_cpu;
extern const pare_backend pare_cpu_bf16; /* linears of floats rounded to BF16; the rest in F32 */

/* The operations of f's backend. */
pare_ops pare_ops_of(pare_ctx *cx, pare_arena *scratch, const pare_forward *f);

/* One block (pare_block_forward) of the array x.
 *   y  what is behind it: x where it is written over, else an array of its own; nothing when the
 *      tap stops the block, which leaves x as it is */
PARE_CHECKED pare_status pare_block_run(const pare_ops *o, const pare_forward *f,
                                        const pare_block *weights, pare_batch batch, pare_array x,
                                        pare_kv *kv, const pare_tap *tap, pare_array *y);

/* Rows first .. first + count - 1 of x. */
static inline pare_array pare_array_rows(pare_array x, size_t first, size_t count)
{
    return (pare_array){.at = x.at + first * x.width, .rows = count, .width = x.width};
}

/* An empty cache of block `block` of a model: kv_take by the configuration of that block. */
PARE_CHECKED pare_status pare_block_kv_take(const pare_ops *o, const pare_model *m, size_t block,
                                            size_t sequences, size_t capacity, pare_kv *kv);

/* y = the embeddings of the tokens of a batch (pare_embed_batch). */
PARE_CHECKED pare_status pare_embed_run(const pare_ops *o, const pare_model *m,
                                        const int32_t *tokens, pare_batch batch, pare_array y);

/* All blocks, in place (pare_model_forward). Not where values are kept. */
PARE_CHECKED pare_status pare_model_run(const pare_ops *o, const pare_forward *f, pare_batch batch,
                                        pare_array x, pare_kv *kv, size_t kvs);

/* logits [count, vocab] of rows of x (pare_logits). */
PARE_CHECKED pare_status pare_logits_run(const pare_ops *o, const pare_forward *f, pare_array x,
                                         const size_t *rows, pare_array logits);

/* The same for the host, which has room for `count` rows at logits. Scratch is rewound. */
PARE_CHECKED pare_status pare_logits_get(const pare_ops *o, const pare_forward *f, pare_array x,
                                         const size_t *rows, size_t count, float *logits);

/* next[i] = the token with the first largest logit of row rows[i] of x, -1 where that logit is not
 * finite. Of a backend with a place of its own only the tokens come back. `logits` is room for
 * `count` rows, whose content is nothing to rely on. Scratch is rewound. */
PARE_CHECKED pare_status pare_greedy_get(const pare_ops *o, const pare_forward *f, pare_array x,
                                         const size_t *rows, size_t count, float *logits,
                                         int32_t *next);

#endif
