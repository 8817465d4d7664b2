#include "calib/loudness.h"

#include <math.h>

#include "runtime/threads.h"

enum { ROWS = 256, TASK = 8, LANES = 8 }; /* rows at once and of a task; sums of a row */

typedef struct batch {
    const float *x;
    size_t k;
    double energy[ROWS];
} batch;

static double energy_of(const float *x, size_t k)
{
    double lane[LANES] = {0}, sum = 0;
    size_t j = 0;
    for (; j + LANES <= k; j += LANES)
        for (size_t i = 0; i < LANES; i++)
            lane[i] += (double)x[j + i] * (double)x[j + i];
    for (; j < k; j++)
        sum += (double)x[j] * (double)x[j];
    for (size_t i = 0; i < LANES; i++)
        sum += lane[i];
    return sum;
}

static void measure(void *arg, size_t begin, size_t end, size_t worker)
{
    batch *const b = arg;
    (void)worker;
    for (size_t i = begin; i < end; i++)
        b->energy[i] = energy_of(b->x + i * b->k, b->k);
}

void pare_loudness_add(const pare_ctx *cx, pare_loudness *l, const float *x, const float *weight,
                       size_t rows, size_t k)
{
    for (size_t first = 0, count; first < rows; first += count) {
        batch b = {.x = x + first * k, .k = k};
        count = rows - first < ROWS ? rows - first : ROWS;
        pare_parallel(cx, count, TASK, measure, &b);
        for (size_t i = 0; i < count; i++) {
            const double energy = weight ? (double)weight[first + i] * b.energy[i] : b.energy[i];
            l->sum += energy;
            l->most = energy > l->most ? energy : l->most;
        }
    }
}

double pare_loudness_share(const pare_loudness *l)
{
    return l->sum > 0 && isfinite(l->sum) ? l->most / l->sum : 0;
}
