#include "prune/ratios.h"

#include <math.h>

void pare_ratios_spread(pare_ratio *r, size_t count, double target, double spread)
{
    double sum = 0, weights = 0, most = 0;
    for (size_t i = 0; i < count; i++) {
        const double own = (double)r[i].n * (double)r[i].k;
        sum += own * r[i].importance;
        weights += own;
    }
    const double mean = sum / weights;
    for (size_t i = 0; i < count; i++)
        most = fmax(most, fabs(r[i].importance - mean));
    /* the mean of equal numbers may be off by a rounding */
    const double scale = most > 1e-12 * fabs(mean) ? spread / most : 0;
    for (size_t i = 0; i < count; i++)
        r[i].ratio = target - scale * (r[i].importance - mean);
}

void pare_ratios_settle(pare_ratio *r, size_t count)
{
    double left = 0;
    for (size_t i = 0; i < count; i++) {
        const double sets = r[i].by_row ? (double)r[i].n : 1;
        const double size = r[i].by_row ? (double)r[i].k : (double)r[i].n * (double)r[i].k;
        const double want = r[i].ratio * size * sets + left;
        const double gone = fmin(fmax(floor(want / sets + 0.5), 1), size - 1);
        if (size < 2)
            continue;
        r[i].ratio = gone / size;
        left = want - gone * sets;
    }
}
