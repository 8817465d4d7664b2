#include "distill/adamw.h"

#include <math.h>
#include <string.h>

#include "runtime/threads.h"

enum { SLICES = 64, QUAD = 4, MOMENTS8_LEAST = 4096 };

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
    const pare_kernels *kernels;
    pare_adamw_move by;
    const pare_state8_maps *maps;
    double sum[SLICES];
} leaf_job;

/* Of the gradient of weight i, as it counts. */
static inline double square_of(const pare_trained *l, size_t i)
{
    const double g = l->keeps_zeros && l->value[i] == 0 ? 0 : (double)l->gradient[i];
    return g * g;
}

/* Four slices at a time: an addition waits for the one before in its slice. */
static void sum_quads(void *arg, size_t begin, size_t end, size_t worker)
{
    leaf_job *const job = arg;
    const pare_trained *const l = job->leaf;
    const size_t shared = l->count / SLICES; /* the least that a slice has */
    (void)worker;
    for (size_t first = begin * QUAD; first < end * QUAD; first += QUAD) {
        double sum[QUAD] = {0};
        size_t at[QUAD + 1];
        for (size_t s = 0; s <= QUAD; s++)
            at[s] = l->count * (first + s) / SLICES;
        for (size_t i = 0; i < shared; i++)
            for (size_t s = 0; s < QUAD; s++)
                sum[s] += square_of(l, at[s] + i);
        for (size_t s = 0; s < QUAD; s++) {
            for (size_t i = at[s] + shared; i < at[s + 1]; i++)
                sum[s] += square_of(l, i);
            job->sum[first + s] = sum[s];
        }
    }
}

double pare_trained_norm(const pare_ctx *cx, const pare_trained *leaf, size_t leaves)
{
    double sum = 0;
    for (size_t l = 0; l < leaves; l++) {
        leaf_job job = {.leaf = &leaf[l]};
        if (!leaf[l].fixed)
            pare_parallel(cx, SLICES / QUAD, 1, sum_quads, &job);
        for (size_t i = 0; i < SLICES; i++)
            sum += job.sum[i];
    }
    return sqrt(sum);
}

/* Weights [begin, end) of a leaf, whose moments are at m and v. */
static void step_range(const leaf_job *job, size_t begin, size_t end, float *m, float *v)
{
    const pare_trained *const l = job->leaf;
    job->kernels->adamw_step(l->value + begin, l->gradient + begin, m, v, end - begin, &job->by);
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
    pare_state8_write(job->kernels, &job->maps->with_sign, m, count, mc, &l->m8.scale[block]);
    pare_state8_write(job->kernels, &job->maps->without, v, count, vc, &l->v8.scale[block]);
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
                        .kernels = &cx->kernels,
                        .by = {.beta1 = o->beta1,
                               .beta2 = o->beta2,
                               .eps = o->eps,
                               .clip = o->clip > 0 && over < 1 ? over : 1,
                               .shrink = leaf[l].decays ? 1 - rate * o->decay : 1,
                               .rate = rate / (1 - pow(o->beta1, (double)t)),
                               .root = sqrt(1 - pow(o->beta2, (double)t)),
                               .keeps_zeros = leaf[l].keeps_zeros},
                        .maps = &maps};
        if (leaf[l].fixed)
            memset(leaf[l].gradient, 0, leaf[l].count * sizeof *leaf[l].gradient);
        else
            pare_parallel(cx, SLICES, 1, step_slices, &job);
    }
}
