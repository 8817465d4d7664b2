/* U from one factorization, without ever forming H^-1.
 *
 * With R the reversal of the order of rows, R H R = L L^T gives
 *     H^-1 = R L^-T L^-1 R = (R L^-1 R)^T (R L^-1 R),
 * and U = R L^-1 R is upper triangular: reversing the rows and columns of a lower triangle makes it
 * an upper one. Cost k^3 / 3 for L and k^3 / 3 for its inverse; the road over H^-1 takes 4/3 k^3.
 *
 * Each rung of the ladder starts from H again: the reversed, permuted and damped matrix is a copy,
 * and becomes U in its place, since reversing all rows and columns reverses the order in memory. */
#include "solve/factor.h"

#include <float.h>
#include <math.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/linalg.h"
#include "runtime/threads.h"

enum { ROWS_PER_CHUNK = 64 };

static const float damp_max = 1.0F;

typedef struct factor_job {
    const pare_ctx *cx;
    const float *h;
    size_t k;
    const uint32_t *order; /* column of H at each position */
    const uint8_t *dead;
    double mean;   /* of the diagonal, live columns */
    double lambda; /* of this rung */
    void *a;       /* reversed copy, [k, k], then U */
    bool f64;
    atomic_size_t bad_row; /* k when there is none */
} factor_job;

/* The lower triangle to be checked: H, or the factor at hand. */
typedef struct finite_job {
    const void *a;
    size_t k;
    bool f64;
    atomic_size_t bad_row;
} finite_job;

static bool usable(const finite_job *job, size_t i, size_t j)
{
    const size_t at = i * job->k + j;
    const double x = job->f64 ? ((const double *)job->a)[at] : (double)((const float *)job->a)[at];
    return fabs(x) <= (double)FLT_MAX;
}

static void check_rows(void *arg, size_t begin, size_t end, size_t worker)
{
    finite_job *const job = arg;
    (void)worker;
    for (size_t i = begin; i < end; i++) {
        bool good = true;
        for (size_t j = 0; j <= i; j++)
            good &= usable(job, i, j);
        size_t first = atomic_load(&job->bad_row);
        while (!good && i < first && !atomic_compare_exchange_weak(&job->bad_row, &first, i))
            continue;
    }
}

/* First row of a lower triangle with an entry that no float holds, k when there is none. */
static size_t first_bad_row(const pare_ctx *cx, const void *a, size_t k, bool f64)
{
    finite_job job = {.a = a, .k = k, .f64 = f64, .bad_row = k};
    pare_parallel(cx, k, ROWS_PER_CHUNK, check_rows, &job);
    return atomic_load(&job.bad_row);
}

static pare_status check_finite(pare_ctx *cx, const float *h, size_t k)
{
    const size_t row = first_bad_row(cx, h, k, false);
    for (size_t j = 0; row < k && j <= row; j++)
        if (!(fabsf(h[row * k + j]) <= FLT_MAX))
            return pare_fail(cx, PARE_ENUMERIC,
                             "H[%zu, %zu] is %g: the inputs of this linear were not finite or too "
                             "large during calibration",
                             row, j, (double)h[row * k + j]);
    return PARE_OK;
}

static float damped(const factor_job *job, size_t i, size_t j)
{
    const size_t pi = job->order[job->k - 1 - i], pj = job->order[job->k - 1 - j];
    return job->h[pi > pj ? pi * job->k + pj : pj * job->k + pi];
}

static double damped_diagonal(const factor_job *job, size_t i)
{
    const size_t p = job->order[job->k - 1 - i];
    return (job->dead[p] ? job->mean : (double)job->h[p * job->k + p]) + job->lambda;
}

/* Copies squares of 64 x 64, since one side of the copy runs down a column. */
static void copy_rows(void *arg, size_t begin, size_t end, size_t worker)
{
    const factor_job *const job = arg;
    const size_t k = job->k;
    (void)worker;
    for (size_t from = 0; from < end; from += ROWS_PER_CHUNK)
        for (size_t i = begin; i < end; i++) {
            const size_t to = from + ROWS_PER_CHUNK < i ? from + ROWS_PER_CHUNK : i;
            for (size_t j = from; j < to; j++)
                if (job->f64)
                    ((double *)job->a)[i * k + j] = (double)damped(job, i, j);
                else
                    ((float *)job->a)[i * k + j] = damped(job, i, j);
        }
    for (size_t i = begin; i < end; i++)
        if (job->f64)
            ((double *)job->a)[i * k + i] = damped_diagonal(job, i);
        else
            ((float *)job->a)[i * k + i] = (float)damped_diagonal(job, i);
}

static void swap_f32(float *x, float *y)
{
    const float z = *x;
    *x = *y;
    *y = z;
}

static void swap_f64(double *x, double *y)
{
    const double z = *x;
    *x = *y;
    *y = z;
}

/* Rows i and k - 1 - i of U from those of the reversed factor: each becomes the other backwards,
 * and 0 in front of the diagonal. */
static void reverse_rows(void *arg, size_t begin, size_t end, size_t worker)
{
    const factor_job *const job = arg;
    const size_t k = job->k;
    (void)worker;
    for (size_t i = begin; i < end; i++) {
        const size_t top = i * k, last = (k - i) * k - 1; /* of row k - 1 - i */
        const size_t count = i == k - 1 - i ? k / 2 : k;
        for (size_t j = 0; j < count; j++)
            if (job->f64)
                swap_f64((double *)job->a + top + j, (double *)job->a + last - j);
            else
                swap_f32((float *)job->a + top + j, (float *)job->a + last - j);
        const size_t size = job->f64 ? sizeof(double) : sizeof(float);
        memset((char *)job->a + top * size, 0, i * size);
        memset((char *)job->a + (last + 1 - k) * size, 0, (k - 1 - i) * size);
    }
}

/* The first `count` doubles become floats in front of where they were. */
static void narrow(void *a, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        double wide;
        memcpy(&wide, (const char *)a + i * sizeof wide, sizeof wide);
        const float x = (float)wide;
        memcpy((char *)a + i * sizeof x, &x, sizeof x);
    }
}

/* Row of L that has no usable pivot (1-based), or 0. */
static size_t factor_and_invert(const factor_job *job)
{
    const pare_ctx *const cx = job->cx;
    const size_t k = job->k;
    const size_t bad =
        job->f64 ? pare_cholesky_f64(cx, job->a, k) : pare_cholesky_f32(cx, job->a, k);
    if (bad)
        return bad;
    if (job->f64)
        pare_triangular_inverse_f64(cx, job->a, k);
    else
        pare_triangular_inverse_f32(cx, job->a, k);
    for (size_t i = 0; i < k; i++) {
        const size_t at = i * (k + 1);
        if ((job->f64 ? ((double *)job->a)[at] : (double)((float *)job->a)[at]) < (double)FLT_MIN)
            return i + 1;
    }
    const size_t row = first_bad_row(cx, job->a, k, job->f64);
    return row < k ? row + 1 : 0;
}

/* All rungs in one precision; U is in job->a unless d->failed. */
static void climb(factor_job *job, float damp, pare_damping *d)
{
    const size_t k = job->k;
    d->f64 = job->f64;
    d->raises = 0;
    for (;; d->raises++) {
        d->damp = damp;
        job->lambda = d->lambda = (double)damp * job->mean;
        pare_parallel(job->cx, k, ROWS_PER_CHUNK, copy_rows, job);
        const size_t bad = factor_and_invert(job);
        d->failed = bad != 0;
        if (bad)
            d->pivot = (size_t)job->order[k - bad] + 1;
        if (!bad || damp >= damp_max)
            break;
        damp = damp > 0 ? damp * 10 : 0.01F;
        damp = damp < 0.99F * damp_max ? damp : damp_max;
    }
    if (!d->failed)
        pare_parallel(job->cx, (k + 1) / 2, ROWS_PER_CHUNK, reverse_rows, job);
}

static pare_status climb_f32(pare_arena *scratch, factor_job *job, float damp, pare_factor *out)
{
    const pare_mark mark = pare_arena_mark(scratch);
    float *const u = PARE_NEW(scratch, float, job->k * job->k);
    if (!u)
        return PARE_ENOMEM;
    job->a = u;
    climb(job, damp, &out->damping);
    if (out->damping.failed)
        pare_arena_rewind(scratch, mark);
    else
        out->u = u;
    return PARE_OK;
}

/* The wide matrix is made apart, and half of it is given back before U gets its place: together
 * they never take more than the wide one. */
static pare_status climb_f64(pare_ctx *cx, pare_arena *scratch, factor_job *job, float damp,
                             pare_factor *out)
{
    const pare_alloc *const alloc = &cx->alloc;
    const size_t count = job->k * job->k;
    size_t bytes = count * sizeof(double);
    pare_status s = PARE_OK;
    job->f64 = true;
    job->a = alloc->resize(alloc->self, NULL, 0, bytes);
    if (!job->a)
        return pare_fail(cx, PARE_ENOMEM, "out of memory: a matrix of %zu x %zu doubles", job->k,
                         job->k);
    memset(job->a, 0, bytes);
    climb(job, damp, &out->damping);
    if (!out->damping.failed) {
        narrow(job->a, count);
        void *const half = alloc->resize(alloc->self, job->a, bytes, bytes / 2);
        bytes = half ? bytes / 2 : bytes;
        job->a = half ? half : job->a;
        out->u = pare_arena_take_raw(scratch, count, sizeof *out->u);
        s = out->u ? PARE_OK : PARE_ENOMEM;
        if (out->u)
            memcpy(out->u, job->a, count * sizeof *out->u);
    }
    (void)alloc->resize(alloc->self, job->a, bytes, 0);
    return s;
}

typedef struct column {
    float diagonal;
    uint32_t index;
} column;

static int by_falling_diagonal(const void *left, const void *right)
{
    const column *const a = left, *const b = right;
    if (a->diagonal != b->diagonal)
        return a->diagonal > b->diagonal ? -1 : 1;
    return a->index < b->index ? -1 : a->index > b->index;
}

static int by_column(const void *left, const void *right)
{
    const uint32_t a = *(const uint32_t *)left, b = *(const uint32_t *)right;
    return (a > b) - (a < b);
}

/* Order of the columns: falling diagonal, or natural but for those of the largest diagonal last. */
static pare_status make_order(pare_arena *scratch, const float *h, size_t k,
                              const pare_factor_opts *opts, uint32_t *order)
{
    const size_t inner = k - opts->apart;
    const pare_mark mark = pare_arena_mark(scratch);
    column *const columns = PARE_NEW(scratch, column, k);
    if (!columns)
        return PARE_ENOMEM;
    for (size_t j = 0; j < k; j++)
        columns[j] = (column){h[j * (k + 1)], (uint32_t)j};
    if (opts->act_order || opts->apart)
        qsort(columns, k, sizeof *columns, by_falling_diagonal);
    for (size_t j = 0; j < k; j++)
        order[(j + inner) % k] = columns[j].index;
    if (opts->apart) {
        qsort(order, inner, sizeof *order, by_column);
        qsort(order + inner, opts->apart, sizeof *order, by_column);
    }
    pare_arena_rewind(scratch, mark);
    return PARE_OK;
}

/* The order that the caller gives. */
static pare_status copy_order(pare_ctx *cx, const pare_factor_opts *opts, size_t k, uint8_t *seen,
                              uint32_t *order)
{
    if (opts->act_order || opts->apart)
        return pare_fail(cx, PARE_EINVAL, "an order is given, and another asked for");
    for (size_t j = 0; j < k; j++) {
        order[j] = opts->order[j];
        if (order[j] >= k || seen[order[j]])
            return pare_fail(cx, PARE_EINVAL, "position %zu has column %u, %s", j, order[j],
                             order[j] >= k ? "which is none" : "as another has");
        seen[order[j]] = 1;
    }
    return PARE_OK;
}

/* Copies the diagonal and marks dead columns; its mean over the others, 1 when there are none. */
static double survey(const float *h, size_t k, float *diagonal, uint8_t *dead, size_t *dead_count)
{
    double sum = 0;
    size_t count = 0;
    for (size_t j = 0; j < k; j++) {
        const float d = h[j * (k + 1)];
        diagonal[j] = d;
        dead[j] = d == 0;
        count += dead[j];
        sum += (double)d;
    }
    *dead_count = count;
    return count < k ? sum / (double)(k - count) : 1;
}

pare_status pare_factorize(pare_ctx *cx, pare_arena *scratch, const pare_factor_opts *opts,
                           const float *h, size_t k, pare_factor *out)
{
    *out = (pare_factor){.k = k};
    if (!(opts->damp >= 0 && opts->damp <= damp_max))
        return pare_fail(cx, PARE_EINVAL, "damping %g is not between 0 and 1", (double)opts->damp);
    if (opts->apart > k || (opts->apart && opts->act_order))
        return pare_fail(cx, PARE_EINVAL, "%zu of %zu columns cannot be kept apart%s", opts->apart,
                         k, opts->act_order ? " in the order of the diagonal" : "");
    PARE_TRY(check_finite(cx, h, k));
    uint32_t *const order = PARE_NEW(scratch, uint32_t, k);
    out->diagonal = order ? PARE_NEW(scratch, float, k) : NULL;
    out->dead = out->diagonal ? PARE_NEW(scratch, uint8_t, k) : NULL;
    if (!out->dead)
        return PARE_ENOMEM;
    if (opts->order) /* dead is written only below */
        PARE_TRY(copy_order(cx, opts, k, out->dead, order));
    else
        PARE_TRY(make_order(scratch, h, k, opts, order));

    pare_damping *const d = &out->damping;
    factor_job job = {.cx = cx, .h = h, .k = k, .order = order, .dead = out->dead};
    job.mean = survey(h, k, out->diagonal, out->dead, &d->dead);
    PARE_TRY(climb_f32(scratch, &job, opts->damp, out));
    if (d->failed)
        PARE_TRY(climb_f64(cx, scratch, &job, opts->damp, out));
    out->order = opts->act_order || opts->apart || opts->order ? order : NULL;
    out->apart = opts->apart;
    return PARE_OK;
}
