/* runtime/forward_internal.h - the parts of the forward pass that its files share. */
#ifndef PARE_RUNTIME_FORWARD_INTERNAL_H
#define PARE_RUNTIME_FORWARD_INTERNAL_H

#include "runtime/forward.h"
#include "runtime/ops.h"

/* Below this many multiply-adds a piece of work is not worth handing to another thread. */
enum { PARE__CHUNK_WORK = 1 << 15 };

/* Items per chunk when one item takes `work` multiply-adds. Depends on shapes only. */
static inline size_t pare__chunk(size_t work)
{
    return work < PARE__CHUNK_WORK ? PARE__CHUNK_WORK / (work ? work : 1) : 1;
}

/* y = norm(x) + bias [hidden], the norm of the family; bias NULL: none. y may be x. */
void pare__norm(const pare_config *c, float *y, const float *x, const float *w, const float *bias);

/* gate = act(gate) * up; up NULL: act(gate). */
static inline void pare__activate(const pare_kernels *kernels, pare_act act, float *gate,
                                  const float *up, size_t n)
{
    if (up && act == PARE_ACT_SILU)
        kernels->silu_f32(gate, up, n);
    else
        pare_activate(act, gate, up, n);
}

/* Whether the block stops early. */
static inline bool pare__stops(const pare_tap *tap)
{
    return tap && tap->last < PARE_SITES;
}

/* Whether the tap sees inputs of a part. */
static inline bool pare__shows(const pare_tap *tap, size_t part)
{
    return tap && tap->see && (tap->parts == 0 || part - tap->first_part < tap->parts);
}

enum { PARE__LINEARS_MAX = 3 };

/* One of several linears that read the same x. */
typedef struct pare__product {
    const pare_linear *w;
    float *y; /* [m, n], rows ldy apart */
    size_t ldy;
} pare__product;

/* pare_linear_apply for `count` <= PARE__LINEARS_MAX linears of equal k in one parallel loop; equal
 * activation groups are quantized once. */
PARE_CHECKED pare_status pare__linear_apply_all(pare_ctx *cx, pare_arena *scratch,
                                                const pare__product *product, size_t count,
                                                bool exact, const float *x, size_t ldx, size_t m);

/* Scratch of it for `count` linears that read rows of k values, upper bound. */
size_t pare__linear_bytes(const pare_ctx *cx, size_t rows, size_t k, size_t count,
                          pare_inputs inputs);

/* *total += count * size and room for alignment; stays at SIZE_MAX once it would overflow. */
void pare__add_bytes(size_t *total, size_t count, size_t size);

/* The experts of one row: softmax of the router's outputs logit [n], which are overwritten; the
 * `used` <= n picked ones and their weights, largest first (forward_experts.c says how). */
void pare__route(float *logit, size_t n, size_t used, bool norm, uint32_t *picked, float *weight);

/* Scales the rows of out, what the MLP of part 0 gave, by the shared gate where there is one, and
 * adds what the experts give; shows their inputs to the tap. Where that stops the block, experts
 * run as far as it wants to see and out means nothing.
 *   x, out  [rows, hidden]; out is not x
 * PARE_ENOMEM, or what the tap returned. Takes scratch and leaves it to the caller to rewind. */
PARE_CHECKED pare_status pare__experts_forward(pare_ctx *cx, pare_arena *scratch,
                                               const pare_forward *f, const pare_block *weights,
                                               const pare_tap *tap, const float *x, size_t rows,
                                               float *out);

/* Scratch of it, upper bound. */
size_t pare__experts_bytes(const pare_ctx *cx, const pare_config *c, size_t rows);

#endif
