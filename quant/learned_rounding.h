/* quant/learned_rounding.h - rounding of a matrix with ranges and offsets that are learned.
 *
 *     lo = min(0, min w), hi = max(0, max w) of a group;  floor = low lo, ceil = high hi
 *     d = scale of the grid that is fitted to [floor, ceil]
 *     v = clamp(w + d offset, floor, ceil),  q = v rounded to nearest on that grid
 *
 * Offsets count for no weight that is 0 or sets the range of its group (w = lo or w = hi): zeros
 * stay, and v has the range that the grid was fitted to. So rounding v to nearest gives the same
 * codes: pare_learned_apply leaves v to the quantizer that stores them.
 *
 * The gradient of q, rounding being the identity (straight-through):
 *
 *     dq = dv + (q - v) / d dd
 *     dv = dw + offset dd + d doffset inside the range, that of the bound it was clamped to outside
 *     dd = (dceil - dfloor) / (2^bits - 1), symmetric: that of the bound that sets d
 *
 * and the bounds move with low, high and with the smallest and largest weight. Who uses it:
 * quant/omniquant.h (ranges), quant/signround.h (ranges and offsets). */
#ifndef PARE_QUANT_LEARNED_ROUNDING_H
#define PARE_QUANT_LEARNED_ROUNDING_H

#include "solve/grid.h"

typedef struct pare_learned_rounding {
    const pare_grid *grid; /* UNIFORM; its own clip is not applied */
    size_t n, k;
    const float *low, *high; /* [n, groups] in (0, 1]; NULL: all 1 */
    const float *offset;     /* [n, k] in steps of the grid, -0.5 .. 0.5; NULL: none */
} pare_learned_rounding;

/* w [n, k] becomes v. A group without a grid (pare_grid_fit) is only clamped: the quantizer that
 * follows will name it. Threads over rows; exact. */
void pare_learned_apply(const pare_ctx *cx, const pare_learned_rounding *r, float *w);

/* q [n, k] of w; without a grid v. Threads over rows; exact. */
void pare_learned_values(const pare_ctx *cx, const pare_learned_rounding *r, const float *w,
                         float *q);

/* Gradients: d [n, k] comes as that of q and becomes that of w; with offsets it becomes theirs,
 * and w is taken as fixed. dlow, dhigh [n, groups] are written. Threads over rows; exact. */
void pare_learned_backward(const pare_ctx *cx, const pare_learned_rounding *r, const float *w,
                           float *d, float *dlow, float *dhigh);

#endif
