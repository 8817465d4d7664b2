/* runtime/forward_internal.h - the parts of the forward pass that its files share. */
#ifndef PARE_RUNTIME_FORWARD_INTERNAL_H
#define PARE_RUNTIME_FORWARD_INTERNAL_H

#include "runtime/forward.h"

/* Below this many multiply-adds a piece of work is not worth handing to another thread. */
enum { PARE__CHUNK_WORK = 1 << 15 };

/* Items per chunk when one item takes `work` multiply-adds. Depends on shapes only. */
static inline size_t pare__chunk(size_t work)
{
    return work < PARE__CHUNK_WORK ? PARE__CHUNK_WORK / (work ? work : 1) : 1;
}

/* y = norm(x) + bias [hidden], the norm of the family; bias NULL: none. y may be x. */
void pare__norm(const pare_config *c, float *y, const float *x, const float *w, const float *bias);

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

#endif
