/* Groups of weights that are too small for their storage: what its smallest number makes of them is
 * counted here, told, and refused where a linear does not survive it. */
#include <math.h>

#include "compress/run/run_internal.h"
#include "kernels/half.h"
#include "quant/matrix_error.h"
#include "runtime/threads.h"

/* The largest share of a linear's squares that coarse storage may cost. */
static const double most_lost = 0.1;

enum { E4M3_NORMAL = 8 }; /* the first code with all bits of fraction */

/* Some rows. */
typedef struct coarse_part {
    size_t groups;
    uint64_t lost;
    double error;
} coarse_part;

typedef struct coarse_job {
    const pare_kernels *kernels;
    const pare_packed_linear *l;
    const pare_codes *codes;
    const float *w, *q, *h;
    size_t group, groups; /* columns of a group, groups of a row */
    coarse_part part[PARE_ERROR_PARTS];
} coarse_job;

static size_t group_width(const coarse_job *job, size_t g)
{
    const size_t left = job->l->k - g * job->group;
    return left < job->group ? left : job->group;
}

static float stored(const coarse_job *job, size_t at)
{
    return job->q ? job->q[at] : pare_f16_to_f32(pare_f32_to_f16(job->w[at]));
}

/* Whether inputs of a column were ever seen: passes that use H store 0 where they were not. */
static bool is_live(const coarse_job *job, size_t j)
{
    return !job->h || job->h[j * (job->l->k + 1)] > 0;
}

static bool is_apart(const pare_codes *c, size_t j)
{
    bool found = false;
    for (size_t o = 0; c && o < c->outliers; o++)
        found |= c->outlier_column[o] == j;
    return found;
}

/* Of the int8 columns kept apart in a row. */
static bool apart_is_coarse(const coarse_job *job, size_t row)
{
    const pare_codes *const c = job->codes;
    return c && c->outlier_scale && c->outlier_scale[row] < PARE_SCALE_COARSE;
}

static bool all_zero(const coarse_job *job, size_t at, size_t count)
{
    float lo, hi;
    return job->kernels->range_f32(job->q + at, count, &lo, &hi) && !(lo < hi);
}

/* Whether the storage is too coarse for a group whose largest magnitude is `most`. */
static bool is_coarse(const coarse_job *job, size_t row, size_t g, float most)
{
    const pare_encoding_row *const e = &pare_encodings[job->l->encoding];
    const size_t at = row * job->groups + g;
    const bool coarse = e->least > 0 ? most < e->least
                        : e->scales == PARE_SCALES_E4M3
                            ? job->codes->scale_codes[at] < E4M3_NORMAL
                            : fabsf(job->codes->scales[at]) < PARE_SCALE_COARSE;
    return coarse ||
           (e->vanishes && all_zero(job, row * job->l->k + g * job->group, group_width(job, g)));
}

/* Adds what became of the weights of a group that storage is coarse for. */
static void add_group(const coarse_job *job, size_t row, size_t g, bool coarse, coarse_part *to)
{
    const size_t begin = g * job->group, end = begin + group_width(job, g);
    const bool apart = apart_is_coarse(job, row);
    bool found = false;
    for (size_t j = begin; j < end; j++) {
        const float w = job->w[row * job->l->k + j], q = stored(job, row * job->l->k + j);
        const bool here = is_apart(job->codes, j) ? apart : coarse;
        if (w == 0 || !is_live(job, j) ||
            !(here || (pare_encoding_is_float(job->l->encoding) && q == 0)))
            continue;
        found |= here;
        to->lost += q == 0;
        to->error += ((double)w - (double)q) * ((double)w - (double)q);
    }
    to->groups += found;
}

/* Counts in a group of a row. */
static void count_group(const coarse_job *job, size_t row, size_t g, coarse_part *to)
{
    const float *const w = job->w + row * job->l->k + g * job->group;
    float lo, hi;
    if (!job->kernels->range_f32(w, group_width(job, g), &lo, &hi) || !(lo < hi))
        return;
    const bool coarse = is_coarse(job, row, g, hi > -lo ? hi : -lo);
    if (coarse || pare_encoding_is_float(job->l->encoding) || apart_is_coarse(job, row))
        add_group(job, row, g, coarse, to);
}

static void count_rows(void *arg, size_t begin, size_t end, size_t worker)
{
    coarse_job *const job = arg;
    const size_t n = job->l->n, step = n / PARE_ERROR_PARTS;
    (void)worker;
    for (size_t p = begin; p < end; p++) {
        const size_t last = p + 1 < PARE_ERROR_PARTS ? (p + 1) * step : n;
        for (size_t i = p * step; i < last; i++)
            for (size_t g = 0; g < job->groups; g++)
                count_group(job, i, g, &job->part[p]);
    }
}

static double squares(const float *w, size_t count)
{
    double sum = 0;
    for (size_t i = 0; i < count; i++)
        sum += (double)w[i] * (double)w[i];
    return sum;
}

static pare_status tell(pare_run *run, const coarse_job *job, double error,
                        const pare_linear_result *r)
{
    const pare_packed_linear *const l = job->l;
    const char *const unit = job->groups == 1 ? "row" : "group";
    const char *const storage = pare_encodings[l->encoding].storage; /* too coarse for them */
    const size_t all = l->n * ((l->k + job->group - 1) / job->group);
    const unsigned long long lost = r->lost;
    const double whole = error > 0 ? squares(job->w, l->n * l->k) : 0;
    if (error > most_lost * whole)
        return pare_fail(run->cx, PARE_ENUMERIC,
                         "%s: the weights of %zu of %zu %s%s are too small for %s: the error would "
                         "be %.2f of their squares, and %llu of them 0; leave this linear out with "
                         "skip, or give it larger weights",
                         l->name, r->coarse, all, unit, pare_plural(all), storage, error / whole,
                         lost);
    if (r->coarse)
        pare__notify(run, PARE_EVENT_NOTICE,
                     "%s: the weights of %zu of %zu %s%s are too small for %s: stored coarsely, "
                     "%llu of them as 0",
                     l->name, r->coarse, all, unit, pare_plural(all), storage, lost);
    else if (lost)
        pare__notify(run, PARE_EVENT_NOTICE, "%s: %llu weight%s too small for %s: stored as 0",
                     l->name, lost, lost == 1 ? " is" : "s are", storage);
    return PARE_OK;
}

pare_status pare__run_coarse(pare_run *run, const pare_packed_linear *l, const pare_codes *codes,
                             const float *w, const float *q, const float *h, pare_linear_result *r)
{
    coarse_job job = {.kernels = &run->cx->kernels,
                      .l = l,
                      .codes = codes,
                      .w = w,
                      .q = q,
                      .h = h,
                      .group = l->group ? l->group : l->k,
                      .groups = pare_packed_linear_groups(l)};
    double error = 0;
    pare_parallel(run->cx, PARE_ERROR_PARTS, 1, count_rows, &job);
    for (size_t i = 0; i < PARE_ERROR_PARTS; i++) {
        r->coarse += job.part[i].groups;
        r->lost += job.part[i].lost;
        error += job.part[i].error;
    }
    return r->coarse || r->lost ? tell(run, &job, error, r) : PARE_OK;
}
