/* compress/run/run_same.h - when two outputs of the float model count as the same. */
#ifndef PARE_COMPRESS_RUN_RUN_SAME_H
#define PARE_COMPRESS_RUN_RUN_SAME_H

#include <math.h>
#include <stdbool.h>

/* What a transform leaves of the float model may differ from it by this share of the largest
 * value. */
#define PARE__SAME 1e-5

/* The larger of two distances; once one of them is NaN, NaN. */
static inline double pare__farther(double a, double b)
{
    return isnan(a) || b <= a ? a : b;
}

/* Whether values of which the largest is `most` may have moved that far. */
static inline bool pare__same(double moved, double most)
{
    return isfinite(moved) && moved <= PARE__SAME * most;
}

#endif
