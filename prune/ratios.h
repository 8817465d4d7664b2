/* prune/ratios.h - how much of each matrix goes, when their mean is given.
 *
 * A rule tells how much each matrix matters; matrices that matter more lose less. What is shared
 * out are weights, so means are weighted by them, and in the end whole weights go. */
#ifndef PARE_PRUNE_RATIOS_H
#define PARE_PRUNE_RATIOS_H

#include <stdbool.h>
#include <stddef.h>

typedef struct pare_ratio {
    size_t n, k;       /* of the matrix */
    bool by_row;       /* the same number of weights goes in each row */
    double importance; /* finite */
    double ratio;      /* written: the share that goes */
} pare_ratio;

/* Ratios that fall as importance rises:
 *
 *   ratio = target - spread (importance - mean) / max |importance - mean|
 *
 * so they lie within target +- spread, their mean (by weights) is the target, and one of them is
 * off by all of the spread. All of equal importance: all the target.
 *
 * Work  O(count). Not threaded; Exact. */
void pare_ratios_spread(pare_ratio *r, size_t count, double target, double spread);

/* Ratios become those of whole weights (or of whole weights in each row), in order: what rounding
 * leaves is passed on to the next matrix, so that of all weights as many go as the ratios said, up
 * to half a weight, or half a weight in each row of the last one. At least one goes and one stays
 * where there are two. */
void pare_ratios_settle(pare_ratio *r, size_t count);

#endif
