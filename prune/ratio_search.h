/* prune/ratio_search.h - ratios of least summed error, when the error of each matrix is known at a
 * few ratios.
 *
 * Between the points an error is taken to run straight, along the lower hull of its points: then
 * taking what costs least per weight, first, is the optimum. Points that a hull leaves out were
 * passed over: more may go there for less. */
#ifndef PARE_PRUNE_RATIO_SEARCH_H
#define PARE_PRUNE_RATIO_SEARCH_H

#include "prune/ratios.h"
#include "runtime/arena.h"

enum { PARE_RATIO_POINTS = 5 };

/* The error of one matrix at ratios pare_ratio_point(0 .. PARE_RATIO_POINTS - 1). */
typedef struct pare_ratio_curve {
    double error[PARE_RATIO_POINTS];
} pare_ratio_curve;

/* From target - spread to target + spread, evenly. */
double pare_ratio_point(size_t point, double target, double spread);

/* Ratios within target +- spread, of mean (by weights) target, that make the sum of the errors
 * least. Of equal costs the matrix that comes first loses first.
 *
 *   r      [count]; importance is not used; ratio is written
 *   curve  [count], finite
 *
 * PARE_ENOMEM. Work  O(count log count). Not threaded; Exact. */
PARE_CHECKED pare_status pare_ratios_search(pare_arena *scratch, pare_ratio *r, size_t count,
                                            const pare_ratio_curve *curve, double target,
                                            double spread);

#endif
