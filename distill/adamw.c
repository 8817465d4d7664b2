#include "distill/adamw.h"

#include <math.h>

#include "runtime/threads.h"

enum { SLICES = 64, MOMENTS8_LEAST = 4096 };

static bool in_codes(uint64_t count, bool moments8)
{
    return moments8 && count >= MOMENTS8_LEAST;
}

static bool take_state8(pare_arena *a, size_t count, pare_state8 *out)
{
    *out = (pare_state8){.code = PARE_NEW(a, uint8_t, count),
                         .scale = PARE_NEW(a, float, pare_state8_blocks(count))};
    return out->code && out->scale;
}

pare_status pare_trained_take(pare_arena *a, size_t count, bool moments8, pare_trained *out)
{
    const bool codes = in_codes(count, moments8);
    *out = (pare_trained){.value = PARE_NEW(a, float, count),
                          .gradient = PARE_NEW(a, float, count),
                          .m = codes ? NULL : PARE_NEW(a, float, count),
                          .v = codes ? NULL : PARE_NEW(a, float, count),
                          .count = count};
    const bool there = codes ? take_state8(a, count, &out->m8) && take_state8(a, count, &out->v8)
                             : out->m && out->v;
    return out->value && out->gradient && there ? PARE_OK : PARE_ENOMEM;
}

uint64_t pare_trained_bytes(uint64_t count, bool moments8)
{
    const uint64_t blocks = count / PARE_STATE8_BLOCK + 1;
    return in_codes(count, moments8) ? count * (2 * sizeof(float) + 2) + 2 * blocks * sizeof(float)
                                     : count * 4 * sizeof(float);
}

typedef struct leaf_job {
    const pare_trained *leaf;
    const pare_adamw *o;
    double rate, clip; /* rate over 1 - b1^t; factor of the gradient */
    double shrink;     /* of the weights */
    double root;       /* sqrt(1 - b2^t) */
    const pare_state8_maps *maps;
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

/* Weights [begin, end) of a leaf, whose moments are at m and v. */
static void step_range(const leaf_job *job, size_t begin, size_t end, float *m, float *v)
{
    const pare_trained *const l = job->leaf;
    const double b1 = job->o->beta1, b2 = job->o->beta2;
    for (size_t i = begin; i < end; i++) {
        const double g = job->clip * gradient_of(l, i);
        const double mi = b1 * (double)m[i - begin] + (1 - b1) * g;
        const double vi = b2 * (double)v[i - begin] + (1 - b2) * g * g;
        const double w = (double)l->value[i] * job->shrink;
        m[i - begin] = (float)mi;
        v[i - begin] = (float)vi;
        l->gradient[i] = 0;
        l->value[i] = (float)(w - job->rate * mi / (sqrt(vi) / job->root + job->o->eps));
    }
}

/* Moments in codes are read, moved and written block by block. */
static void step_block(const leaf_job *job, size_t block)
{
    const pare_trained *const l = job->leaf;
    const size_t begin = block * PARE_STATE8_BLOCK, left = l->count - begin;
    const size_t count = left < PARE_STATE8_BLOCK ? left : PARE_STATE8_BLOCK;
    uint8_t *const mc = l->m8.code + begin, *const vc = l->v8.code + begin;
    float m[PARE_STATE8_BLOCK], v[PARE_STATE8_BLOCK];
    pare_state8_read(&job->maps->with_sign, mc, l->m8.scale[block], count, m);
    pare_state8_read(&job->maps->without, vc, l->v8.scale[block], count, v);
    step_range(job, begin, begin + count, m, v);
    pare_state8_write(&job->maps->with_sign, m, count, mc, &l->m8.scale[block]);
    pare_state8_write(&job->maps->without, v, count, vc, &l->v8.scale[block]);
}

static void step_slices(void *arg, size_t begin, size_t end, size_t worker)
{
    const leaf_job *const job = arg;
    const pare_trained *const l = job->leaf;
    (void)worker;
    for (size_t slice = begin; slice < end; slice++) {
        const size_t units = l->m ? l->count : pare_state8_blocks(l->count);
        const size_t first = units * slice / SLICES, last = units * (slice + 1) / SLICES;
        if (l->m)
            step_range(job, first, last, l->m + first, l->v + first);
        for (size_t block = first; !l->m && block < last; block++)
            step_block(job, block);
    }
}

void pare_adamw_step(const pare_ctx *cx, const pare_adamw *o, pare_trained *leaf, size_t leaves,
                     size_t t, double rate, double norm)
{
    const double over = o->clip / (norm + 1e-6);
    pare_state8_maps maps;
    pare_state8_maps_make(&maps);
    for (size_t l = 0; l < leaves; l++) {
        leaf_job job = {.leaf = &leaf[l],
                        .o = o,
                        .rate = rate / (1 - pow(o->beta1, (double)t)),
                        .clip = o->clip > 0 && over < 1 ? over : 1,
                        .shrink = leaf[l].decays ? 1 - rate * o->decay : 1,
                        .root = sqrt(1 - pow(o->beta2, (double)t)),
                        .maps = &maps};
        pare_parallel(cx, SLICES, 1, step_slices, &job);
    }
}
