/* runtime/forward_internal.h - the parts of the forward pass that its files share. */
#ifndef PARE_RUNTIME_FORWARD_INTERNAL_H
#define PARE_RUNTIME_FORWARD_INTERNAL_H

#include "runtime/block_ops.h"
#include "runtime/ops.h"

/* Below this many multiply-adds a piece of work is not worth handing to another thread. */
enum { PARE__CHUNK_WORK = 1 << 15 };

/* Items per chunk when one item takes `work` multiply-adds. Depends on shapes only. */
static inline size_t pare__chunk(size_t work)
{
    return work < PARE__CHUNK_WORK ? PARE__CHUNK_WORK / (work ? work : 1) : 1;
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

/* What ends a block whose tap has seen enough; pare_block_forward makes PARE_OK of it. */
#define PARE__STOPPED ((pare_status)1)

static inline pare_status pare__unless_stopped(pare_status s)
{
    return s == PARE__STOPPED ? PARE_OK : s;
}

/* Rows of a batch. PARE_ENOMEM for more than there can be. */
PARE_CHECKED pare_status pare__rows_of(pare_ctx *cx, pare_batch batch, size_t *rows);

/* What the host has at x, [rows, width], as an array: that memory, or a copy far away. PARE_ENOMEM.
 */
PARE_CHECKED pare_status pare__from_host(const pare_ops *o, const float *x, size_t rows,
                                         size_t width, pare_array *y);

/* What x holds, for the host to look at: x itself, or a copy in the scratch. PARE_ENOMEM. */
PARE_CHECKED pare_status pare__look(const pare_ops *o, pare_array x, float **at);

/* Brings y, whose values belong to x of the host, back where it is a copy. */
static inline pare_status pare__to_host(const pare_ops *o, pare_array y, float *x)
{
    return o->backend.place ? o->op->get(o, y, x) : PARE_OK;
}

/* Shows the input of a site to the tap, and stops behind the last one. PARE_ENOMEM, or what the tap
 * returned. */
PARE_CHECKED pare_status pare__see(const pare_ops *o, const pare_tap *tap, size_t part,
                                   pare_site site, pare_array x);

/* y [rows, width] in the memory of x, which has room for it and is not read again; fresh where
 * values are kept. */
static inline pare_status pare__reuse(const pare_ops *o, pare_array x, size_t width, pare_array *y)
{
    if (o->backend.keeps)
        return o->op->take(o, x.rows, width, y);
    *y = x;
    y->width = width;
    return PARE_OK;
}

/* The score q k^T whose weight is that of a sink; with a cap, scores are capped before. */
static inline float pare__sink_score(const pare_config *c, float sink, double scale)
{
    return c->attention_cap > 0 ? sink : (float)((double)sink / scale);
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

/* pare_linear_apply_bf16 of several. */
PARE_CHECKED pare_status pare__linear_apply_bf16(pare_ctx *cx, pare_arena *scratch,
                                                 const pare__product *product, size_t count,
                                                 const float *x, size_t ldx, size_t m);

/* The experts of one row: of the router's outputs logit [n], which are overwritten, the
 * how->used <= n picked ones and their weights, best first (route.c says how). */
void pare__route(float *logit, size_t n, const pare_router *how, uint32_t *picked, float *weight);

/* Room in the scratch for the routes of logit.rows rows; PARE_ENOMEM. Then, behind picked and
 * weight, visit and start: what was picked, sorted by expert. */
PARE_CHECKED pare_status pare__routes_take(const pare_ops *o, pare_array logit,
                                           const pare_router *how, pare_routes *r);
void pare__routes_sort(pare_routes *r);

/* Scales the rows of out, what the MLP of part 0 gave, by the shared gate where there is one, and
 * adds what the experts give; shows their inputs to the tap. Where that stops the block, experts
 * run as far as it wants to see and out means nothing.
 *   x, out  [rows, hidden]; out is not x
 * PARE_ENOMEM, or what the tap returned. Takes scratch and leaves it to the caller to rewind. */
PARE_CHECKED pare_status pare__experts_forward(const pare_ops *o, const pare_forward *f,
                                               const pare_block *weights, const pare_tap *tap,
                                               pare_array x, pare_array *out);

#endif
