#include "prune/ratio_search.h"

#include <math.h>
#include <stdlib.h>

/* A straight piece of a hull. */
typedef struct piece {
    double slope; /* error per weight that goes */
    double ratio; /* by how much it raises the matrix's */
    size_t matrix, turn;
} piece;

static int by_slope(const void *x, const void *y)
{
    const piece *const p = x, *const q = y;
    if (p->slope != q->slope)
        return p->slope < q->slope ? -1 : 1;
    if (p->matrix != q->matrix)
        return p->matrix < q->matrix ? -1 : 1;
    return (p->turn > q->turn) - (p->turn < q->turn);
}

double pare_ratio_point(size_t point, double target, double spread)
{
    return target + spread * (2.0 * (double)point / (PARE_RATIO_POINTS - 1) - 1.0);
}

/* The pieces of one curve's lower hull, from the left; returns how many. */
static size_t add_hull(const pare_ratio_curve *c, double weights, double step, size_t matrix,
                       piece *out)
{
    size_t count = 0;
    for (size_t at = 0; at + 1 < PARE_RATIO_POINTS;) {
        size_t best = at + 1;
        double least = INFINITY;
        for (size_t to = at + 1; to < PARE_RATIO_POINTS; to++) {
            const double slope = (c->error[to] - c->error[at]) / (double)(to - at);
            if (slope <= least) {
                least = slope;
                best = to;
            }
        }
        out[count] = (piece){.slope = least / (step * weights),
                             .ratio = step * (double)(best - at),
                             .matrix = matrix,
                             .turn = count};
        count++;
        at = best;
    }
    return count;
}

pare_status pare_ratios_search(pare_arena *scratch, pare_ratio *r, size_t count,
                               const pare_ratio_curve *curve, double target, double spread)
{
    const pare_mark mark = pare_arena_mark(scratch);
    piece *const p = PARE_NEW(scratch, piece, count * PARE_RATIO_POINTS);
    const double step = 2.0 * spread / (PARE_RATIO_POINTS - 1);
    double left = 0; /* weights that still have to go */
    size_t pieces = 0;
    if (!p)
        return PARE_ENOMEM;
    for (size_t i = 0; i < count; i++) {
        const double weights = (double)r[i].n * (double)r[i].k;
        pieces += add_hull(&curve[i], weights, step, i, p + pieces);
        r[i].ratio = target - spread;
        left += spread * weights;
    }
    qsort(p, pieces, sizeof *p, by_slope);
    for (size_t i = 0; i < pieces && left > 0; i++) {
        pare_ratio *const to = &r[p[i].matrix];
        const double weights = (double)to->n * (double)to->k;
        const double taken = fmin(p[i].ratio * weights, left);
        to->ratio += taken / weights;
        left -= taken;
    }
    pare_arena_rewind(scratch, mark);
    return PARE_OK;
}
