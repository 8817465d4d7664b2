#include "distill/adamw.h"

#include <math.h>

#include "runtime/threads.h"

enum { SLICES = 64 };

typedef struct leaf_job {
    const pare_trained *leaf;
    const pare_adamw *o;
    double rate, clip; /* rate over 1 - b1^t; factor of the gradient */
    double shrink;     /* of the weights */
    double root;       /* sqrt(1 - b2^t) */
    double sum[SLICES];
} leaf_job;

/* The gradient of weight i, as it counts. */
static double gradient_of(const pare_trained *l, size_t i)
{
    return l->keeps_zeros && l->value[i] == 0 ? 0 : (double)l->gradient[i];
}

static void sum_slices(void *arg, size_t begin, size_t end, size_t worker)
{
    leaf_job *const job = arg;
    (void)worker;
    for (size_t slice = begin; slice < end; slice++) {
        const size_t last = job->leaf->count * (slice + 1) / SLICES;
        for (size_t i = job->leaf->count * slice / SLICES; i < last; i++) {
            const double g = gradient_of(job->leaf, i);
            job->sum[slice] += g * g;
        }
    }
}

double pare_trained_norm(const pare_ctx *cx, const pare_trained *leaf, size_t leaves)
{
    double sum = 0;
    for (size_t l = 0; l < leaves; l++) {
        leaf_job job = {.leaf = &leaf[l]};
        pare_parallel(cx, SLICES, 1, sum_slices, &job);
        for (size_t i = 0; i < SLICES; i++)
            sum += job.sum[i];
    }
    return sqrt(sum);
}

static void step_slices(void *arg, size_t begin, size_t end, size_t worker)
{
    const leaf_job *const job = arg;
    const pare_trained *const l = job->leaf;
    const double b1 = job->o->beta1, b2 = job->o->beta2;
    (void)worker;
    for (size_t slice = begin; slice < end; slice++) {
        const size_t last = l->count * (slice + 1) / SLICES;
        for (size_t i = l->count * slice / SLICES; i < last; i++) {
            const double g = job->clip * gradient_of(l, i);
            const double m = b1 * (double)l->m[i] + (1 - b1) * g;
            const double v = b2 * (double)l->v[i] + (1 - b2) * g * g;
            const double w = (double)l->value[i] * job->shrink;
            l->m[i] = (float)m;
            l->v[i] = (float)v;
            l->gradient[i] = 0;
            l->value[i] = (float)(w - job->rate * m / (sqrt(v) / job->root + job->o->eps));
        }
    }
}

void pare_adamw_step(const pare_ctx *cx, const pare_adamw *o, pare_trained *leaf, size_t leaves,
                     size_t t, double rate, double norm)
{
    const double over = o->clip / (norm + 1e-6);
    for (size_t l = 0; l < leaves; l++) {
        leaf_job job = {.leaf = &leaf[l],
                        .o = o,
                        .rate = rate / (1 - pow(o->beta1, (double)t)),
                        .clip = o->clip > 0 && over < 1 ? over : 1,
                        .shrink = leaf[l].decays ? 1 - rate * o->decay : 1,
                        .root = sqrt(1 - pow(o->beta2, (double)t))};
        pare_parallel(cx, SLICES, 1, step_slices, &job);
    }
}
