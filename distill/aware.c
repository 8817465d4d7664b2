#include "distill/aware.h"

#include <math.h>
#include <string.h>

#include "distill/aware_internal.h"
#include "kernels/half.h"
#include "runtime/threads.h"
#include "solve/scales.h"

enum { ROWS_PER_CHUNK = 8 };

pare_status pare_aware_take(pare_arena *a, const pare_grid *grid, size_t n, size_t k,
                            pare_aware *out)
{
    const bool fixed = pare_aware_fixed(grid->encoding);
    *out = (pare_aware){.grid = *grid,
                        .seen = PARE_NEW(a, float, n *k),
                        .start = fixed ? PARE_NEW(a, float, n + k) : NULL};
    return out->seen && (out->start || !fixed) ? pare_codes_take(a, grid, n, k, &out->codes)
                                               : PARE_ENOMEM;
}

size_t pare_aware_steps(const pare_grid *g, size_t n, size_t k)
{
    if (pare_aware_fixed(g->encoding))
        return n + k;
    return pare_encodings[g->encoding].uniform ? n * pare_grid_groups(g, k) : 0;
}

static bool is_uniform(const pare_aware *t)
{
    return pare_encodings[t->grid.encoding].uniform;
}

typedef struct rows_job {
    pare_aware *t;
    const pare_kernels *kernels;
} rows_job;

/* Calls `act` on each group of rows begin .. end - 1: its first weight, how many, its place. */
static void each_group(const rows_job *job, size_t begin, size_t end,
                       void (*act)(const rows_job *job, size_t at, size_t count, size_t group))
{
    const pare_codes *const c = &job->t->codes;
    const size_t width = job->t->grid.group ? job->t->grid.group : c->k;
    for (size_t i = begin; i < end; i++)
        for (size_t g = 0; g < c->groups; g++) {
            const size_t first = g * width, left = c->k - first;
            act(job, i * c->k + first, left < width ? left : width, i * c->groups + g);
        }
}

void pare_aware_begin(pare_aware *t)
{
    if (pare_aware_fixed(t->grid.encoding))
        pare__aware_multiply_begin(t);
    else if (t->step)
        memcpy(t->step->value, t->codes.scales, t->step->count * sizeof *t->step->value);
}

/* --- forward -----------------------------------------------------------------------------------
 */

static void values_of(const uint8_t *restrict codes, size_t count, float s, uint8_t z,
                      float *restrict seen)
{
    for (size_t j = 0; j < count; j++)
        seen[j] = pare_grid_value(codes[j], s, z);
}

static void round_group(const rows_job *job, size_t at, size_t count, size_t group)
{
    const pare_aware *const t = job->t;
    const pare_codes *const c = &t->codes;
    const float s = c->scales[group];
    const uint8_t z = c->zeros[group];
    const float *const w = t->master->value;
    if (is_uniform(t)) {
        job->kernels->round_codes(c->codes + at, w + at, count, s, z, t->grid.bits);
        values_of(c->codes + at, count, s, z, t->seen + at);
        return;
    }
    for (size_t j = at; j < at + count; j++) {
        c->codes[j] = pare_grid_encode(&t->grid, 0, w[j], s, z);
        t->seen[j] = pare_grid_decode(&t->grid, 0, c->codes[j], s, z);
    }
}

static void round_rows(void *arg, size_t begin, size_t end, size_t worker)
{
    (void)worker;
    each_group(arg, begin, end, round_group);
}

/* As it is stored: an F16 of either sign. */
float pare__aware_stored(float step)
{
    const float most = 65504, size = fabsf(step);
    return copysignf(pare_f16_scale(size < most ? size : most), step);
}

pare_status pare_aware_round(pare_ctx *cx, pare_aware *t)
{
    pare_codes *const c = &t->codes;
    if (pare_aware_fixed(t->grid.encoding)) {
        pare__aware_multiply(cx, t);
        return PARE_OK;
    }
    if (is_uniform(t))
        for (size_t i = 0; i < t->step->count; i++)
            c->scales[i] = pare__aware_stored(t->step->value[i]);
    else
        PARE_TRY(pare_scales_fit(cx, &t->grid, t->master->value, NULL, c->n, c->k, c));
    pare_parallel(cx, c->n, ROWS_PER_CHUNK, round_rows, &(rows_job){t, &cx->kernels});
    return PARE_OK;
}

/* --- backward ----------------------------------------------------------------------------------
 */

/* Groups of `width` weights one behind the other, from the first weight and the first group on. */
static void undo_groups(const rows_job *job, size_t at, size_t group, size_t groups, size_t width)
{
    const pare_aware *const t = job->t;
    const pare_codes *const c = &t->codes;
    const unsigned top = (1u << t->grid.bits) - 1;
    const double most = t->grid.symmetric ? top / 2 : top;
    const pare_aware_groups of = {.w = t->master->value + at,
                                  .codes = c->codes + at,
                                  .scale = c->scales + group,
                                  .zero = c->zeros + group,
                                  .bits = t->grid.bits,
                                  .compensated = t->compensated,
                                  .over = sqrt((double)width * most)};
    job->kernels->aware_back(t->step->gradient + group, t->master->gradient + at, &of, groups,
                             width);
}

static void undo_rows(void *arg, size_t begin, size_t end, size_t worker)
{
    const rows_job *const job = arg;
    const pare_codes *const c = &job->t->codes;
    const size_t width = job->t->grid.group ? job->t->grid.group : c->k, rest = c->k % width;
    (void)worker;
    if (rest == 0) {
        undo_groups(job, begin * c->k, begin * c->groups, (end - begin) * c->groups, width);
        return;
    }
    for (size_t i = begin; i < end; i++) { /* the last group of a row is shorter */
        undo_groups(job, i * c->k, i * c->groups, c->groups - 1, width);
        undo_groups(job, (i + 1) * c->k - rest, (i + 1) * c->groups - 1, 1, rest);
    }
}

void pare_aware_gradient(const pare_ctx *cx, pare_aware *t)
{
    if (pare_aware_fixed(t->grid.encoding))
        pare__aware_multiply_back(cx, t);
    else if (is_uniform(t))
        pare_parallel(cx, t->codes.n, ROWS_PER_CHUNK, undo_rows, &(rows_job){t, &cx->kernels});
}

/* The step nearest to `to` that has the sign of `from`, at least half and at most twice as large.
 */
static float within(float to, float from)
{
    const float size = copysignf(1, from) * to, half = fabsf(from) / 2, twice = fabsf(from) * 2;
    const float kept = size < half ? half : size > twice ? twice : size;
    return copysignf(kept, from);
}

/* Masters go with their step, so that its move alone changes no code, but for rounding. */
static void carry_group(const rows_job *job, size_t at, size_t count, size_t group)
{
    const pare_aware *const t = job->t;
    const float from = t->codes.scales[group], to = pare__aware_stored(t->step->value[group]),
                by = to / from;
    float *const w = t->master->value + at;
    for (size_t j = 0; from != 0 && to != from && j < count; j++)
        w[j] *= by;
}

static void carry_rows(void *arg, size_t begin, size_t end, size_t worker)
{
    (void)worker;
    each_group(arg, begin, end, carry_group);
}

pare_status pare_aware_follow(pare_ctx *cx, pare_aware *t)
{
    for (size_t i = 0; is_uniform(t) && i < t->step->count; i++)
        t->step->value[i] = within(t->step->value[i], t->codes.scales[i]);
    if (t->compensated && is_uniform(t))
        pare_parallel(cx, t->codes.n, ROWS_PER_CHUNK, carry_rows, &(rows_job){t, &cx->kernels});
    return pare_aware_round(cx, t);
}
