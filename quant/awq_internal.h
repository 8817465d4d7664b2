/* quant/awq_internal.h - what the files of AWQ share. */
#ifndef PARE_QUANT_AWQ_INTERNAL_H
#define PARE_QUANT_AWQ_INTERNAL_H

#include "quant/awq.h"

/* Width of a group, of a row of k. */
static inline size_t pare__awq_group(const pare_grid *g, size_t k)
{
    return g->group && g->group < k ? g->group : k;
}

/* pare_awq_round without a message: *bad is the first (row, group) without a grid, counted row by
 * row, or the number of all. PARE_ENOMEM. */
PARE_CHECKED pare_status pare__awq_try(pare_ctx *cx, pare_arena *scratch, const pare_grid *grid,
                                       const float *w, const float *s, size_t n, size_t k, float *q,
                                       size_t *bad);

/* Fits the group number `bad` of W diag s once more and records why it has no grid. */
pare_status pare__awq_fail(pare_ctx *cx, const pare_grid *grid, const float *w, size_t k,
                           size_t bad);

#endif
