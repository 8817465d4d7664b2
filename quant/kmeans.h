/* quant/kmeans.h - the best codebook of one row: weighted k-means in one dimension, solved exactly.
 */
#ifndef PARE_QUANT_KMEANS_H
#define PARE_QUANT_KMEANS_H

#include "runtime/arena.h"

enum { PARE_KMEANS_CENTERS = 16 };

typedef struct pare_kmeans_point {
    float value;
    uint32_t column; /* orders equal values */
    double weight;
} pare_kmeans_point;

/* Memory of one solver, for up to `points`. */
typedef struct pare_kmeans {
    pare_kmeans_point *point; /* [points]: the caller fills in values, columns, weights */
    double *sum[3];           /* [points + 1] of weight, weight value, weight value^2 */
    double *best[2];          /* [points + 1] */
    uint32_t *first;          /* [centers][points + 1] */
    size_t points;
} pare_kmeans;

PARE_CHECKED pare_status pare_kmeans_take(pare_arena *scratch, size_t points, pare_kmeans *out);

/* Centers, ascending, of the first `count` points; these are sorted by value. Finds the global
 * minimum of sum weight (value - center)^2: clusters are runs of sorted values, and the best first
 * point of the last run moves right with its end, so a layer of the dynamic program is solved by
 * halving. The last center is repeated when there are fewer points than centers; without points
 * they are 0. weight > 0.
 *
 * Returns the minimum.   Work  centers * count * log2 count.   Exact: same bytes on every CPU.
 * Source  Wang and Song, R Journal 3/2 (2011): optimal k-means in one dimension. */
double pare_kmeans_solve(pare_kmeans *s, size_t count, size_t centers, float *center);

#endif
