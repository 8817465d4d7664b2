#include "quant/kmeans.h"

#include <math.h>
#include <stdbool.h>
#include <stdlib.h>

pare_status pare_kmeans_take(pare_arena *scratch, size_t points, pare_kmeans *out)
{
    *out = (pare_kmeans){.points = points};
    out->point = PARE_NEW(scratch, pare_kmeans_point, points);
    for (size_t i = 0; i < 3; i++) {
        out->sum[i] = out->point ? PARE_NEW(scratch, double, points + 1) : NULL;
        if (!out->sum[i])
            return PARE_ENOMEM;
    }
    for (size_t i = 0; i < 2; i++) {
        out->best[i] = PARE_NEW(scratch, double, points + 1);
        if (!out->best[i])
            return PARE_ENOMEM;
    }
    out->first = PARE_NEW(scratch, uint32_t, PARE_KMEANS_CENTERS * (points + 1));
    return out->first ? PARE_OK : PARE_ENOMEM;
}

static int by_value(const void *left, const void *right)
{
    const pare_kmeans_point *const a = left, *const b = right;
    if (a->value != b->value)
        return a->value < b->value ? -1 : 1;
    return a->column < b->column ? -1 : a->column > b->column;
}

/* Cost of one cluster of the points [i, j). */
static inline double cost(const pare_kmeans *s, size_t i, size_t j)
{
    const double w = s->sum[0][j] - s->sum[0][i], x = s->sum[1][j] - s->sum[1][i],
                 c = s->sum[2][j] - s->sum[2][i] - x * x / w;
    return c > 0 ? c : 0;
}

/* One layer of the program: to[j] is the least cost of the points [0, j), from[i] the same with
 * one cluster less; the last cluster starts at first[j]. */
typedef struct layer {
    const pare_kmeans *s;
    const double *from;
    double *to;
    uint32_t *first;
} layer;

/* Solves j in [lo, hi], whose last clusters start in [a, b]. Depth log2 of the points. */
static void solve_range(const layer *l, size_t lo, size_t hi, size_t a, size_t b)
{
    const size_t j = lo + (hi - lo) / 2, end = b < j - 1 ? b : j - 1;
    double best = INFINITY;
    size_t at = a;
    for (size_t i = a; i <= end; i++) {
        const double c = l->from[i] + cost(l->s, i, j);
        if (c < best) {
            best = c;
            at = i;
        }
    }
    l->to[j] = best;
    l->first[j] = (uint32_t)at;
    if (j > lo)
        solve_range(l, lo, j - 1, a, at);
    if (j < hi)
        solve_range(l, j + 1, hi, at, b);
}

static void add_up(pare_kmeans *s, size_t count)
{
    double sum[3] = {0};
    for (size_t i = 0; i < 3; i++)
        s->sum[i][0] = 0;
    for (size_t p = 0; p < count; p++) {
        const double w = s->point[p].weight, v = (double)s->point[p].value;
        const double term[3] = {w, w * v, w * v * v};
        for (size_t i = 0; i < 3; i++)
            s->sum[i][p + 1] = sum[i] += term[i];
    }
}

/* Not from the sums: small weights behind large ones are lost there, and 0 / 0 is no mean. */
static float mean(const pare_kmeans_point *p, size_t count)
{
    double weight = 0, sum = 0;
    for (size_t i = 0; i < count; i++) {
        weight += p[i].weight;
        sum += p[i].weight * (double)p[i].value;
    }
    return (float)(sum / weight);
}

double pare_kmeans_solve(pare_kmeans *s, size_t count, size_t centers, float *center)
{
    const size_t clusters = count < centers ? count : centers, stride = s->points + 1;
    for (size_t c = 0; c < centers; c++)
        center[c] = 0;
    if (count == 0)
        return 0;
    qsort(s->point, count, sizeof *s->point, by_value);
    add_up(s, count);
    for (size_t j = 1; j <= count; j++)
        s->best[0][j] = cost(s, 0, j);
    for (size_t q = 1; q < clusters; q++) {
        const layer l = {s, s->best[(q - 1) % 2], s->best[q % 2], s->first + q * stride};
        const bool last = q + 1 == clusters;
        solve_range(&l, last ? count : q + 1, count, q, count - 1);
    }
    size_t end = count;
    for (size_t q = clusters; q-- > 0;) {
        const size_t begin = q ? s->first[q * stride + end] : 0;
        center[q] = mean(s->point + begin, end - begin);
        end = begin;
    }
    for (size_t c = clusters; c < centers; c++)
        center[c] = center[clusters - 1];
    return s->best[(clusters - 1) % 2][count];
}
