#include "prune/isc.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>

pare_status pare_isc_sensitivity(pare_ctx *cx, const float *h, size_t k, double *out)
{
    double sum = 0;
    for (size_t j = 0; j < k; j++) {
        const float d = h[j * (k + 1)];
        if (!(d >= 0 && d <= FLT_MAX))
            return pare_fail(cx, PARE_ENUMERIC,
                             "input %zu has a sum of squares of %g: the inputs of this linear were "
                             "not finite or too large during calibration",
                             j, (double)d);
        sum += (double)d;
    }
    *out = sum / (double)k;
    return PARE_OK;
}

typedef struct ranked {
    double importance;
    size_t index;
} ranked;

static int by_importance(const void *a, const void *b)
{
    const ranked *const x = a, *const y = b;
    if (x->importance != y->importance)
        return x->importance < y->importance ? -1 : 1;
    return x->index < y->index ? -1 : x->index > y->index;
}

pare_status pare_isc_rank(pare_arena *scratch, pare_ratio *r, size_t count)
{
    const pare_mark mark = pare_arena_mark(scratch);
    ranked *const sorted = PARE_NEW(scratch, ranked, count);
    if (!sorted)
        return PARE_ENOMEM;
    for (size_t i = 0; i < count; i++)
        sorted[i] = (ranked){r[i].importance, i};
    qsort(sorted, count, sizeof *sorted, by_importance);
    for (size_t i = 0; i < count; i++)
        r[sorted[i].index].importance = (double)i;
    pare_arena_rewind(scratch, mark);
    return PARE_OK;
}

void pare_isc_costs(const pare_factor *factor, const float *diagonal, float *cost)
{
    for (size_t j = 0; j < factor->k; j++) {
        const double u = (double)factor->pivot[j];
        const float own = diagonal[factor->order ? factor->order[j] : j];
        cost[j] = (float)sqrt((double)own + factor->damping.lambda + 1 / (u * u));
    }
}
