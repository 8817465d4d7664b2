#include "prune/depth.h"

#include <math.h>

#include "runtime/threads.h"

enum { ROWS = 16 };

typedef struct pairs {
    const float *in, *out;
    size_t k;
    double *cosine;
} pairs;

static void compare_rows(void *arg, size_t begin, size_t end, size_t worker)
{
    const pairs *const p = arg;
    (void)worker;
    for (size_t i = begin; i < end; i++) {
        double dot = 0.0, a = 0.0, b = 0.0;
        for (size_t j = 0; j < p->k; j++) {
            const double x = (double)p->in[i * p->k + j], y = (double)p->out[i * p->k + j];
            dot += x * y;
            a += x * x;
            b += y * y;
        }
        const double length = sqrt(a) * sqrt(b);
        p->cosine[i] = length > 0 ? dot / length : a == b ? 1.0 : 0.0;
    }
}

pare_status pare_depth_add(pare_ctx *cx, pare_arena *scratch, pare_depth *d, const float *in,
                           const float *out, size_t rows, size_t k)
{
    const pare_mark mark = pare_arena_mark(scratch);
    pairs p = {in, out, k, PARE_NEW(scratch, double, rows)};
    if (!p.cosine)
        return PARE_ENOMEM;
    pare_parallel(cx, rows, ROWS, compare_rows, &p);
    for (size_t i = 0; i < rows; i++)
        d->sum += p.cosine[i];
    d->tokens += rows;
    pare_arena_rewind(scratch, mark);
    return PARE_OK;
}

double pare_depth_influence(const pare_depth *d)
{
    const double influence = d->tokens ? 1.0 - d->sum / (double)d->tokens : 0.0;
    return influence > 0.0 ? influence : 0.0;
}
