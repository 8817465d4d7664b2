/* U from one factorization, without ever forming H^-1.
 *
 * With R the reversal of the order of rows, R H R = L L^T gives
 *     H^-1 = R L^-T L^-1 R = (R L^-1 R)^T (R L^-1 R),
 * and U = R L^-1 R is upper triangular: reversing the rows and columns of a lower triangle makes it
 * an upper one. Cost k^3 / 3 for L and k^3 / 3 for its inverse; the road over H^-1 takes 4/3 k^3.
 *
 * Each rung of the ladder starts from H again: the reversed, permuted and damped matrix is a copy,
 * of the triangle alone, in which it is factored and inverted. */
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
    pare_lower l;  /* reversed copy, then the inverse of its factor */
} factor_job;

/* The lower triangle to be checked: H, or the factor at hand. */
typedef struct finite_job {
    const pare_lower *l;
    atomic_size_t bad_row; /* n when there is none */
} finite_job;

static bool usable(const pare_lower *l, size_t at)
{
    const double x = l->f64 ? ((const double *)l->a)[at] : (double)((const float *)l->a)[at];
    return fabs(x) <= (double)FLT_MAX;
}

static void check_rows(void *arg, size_t begin, size_t end, size_t worker)
{
    finite_job *const job = arg;
    (void)worker;
    for (size_t i = begin; i < end; i++) {
        const size_t row = pare_lower_place(job->l, i);
        bool good = true;
        for (size_t j = 0; j <= i; j++)
            good &= usable(job->l, row + j);
        size_t first = atomic_load(&job->bad_row);
        while (!good && i < first && !atomic_compare_exchange_weak(&job->bad_row, &first, i))
            continue;
    }
}

/* First row of a lower triangle with an entry that no float holds, n when there is none. */
static size_t first_bad_row(const pare_ctx *cx, const pare_lower *l)
{
    finite_job job = {.l = l, .bad_row = l->n};
    pare_parallel(cx, l->n, ROWS_PER_CHUNK, check_rows, &job);
    return atomic_load(&job.bad_row);
}

static pare_status check_entry(pare_ctx *cx, const float *h, size_t k, size_t row, size_t column)
{
    const float x = h[row * k + column];
    return fabsf(x) <= FLT_MAX
               ? PARE_OK
               : pare_fail(cx, PARE_ENUMERIC,
                           "H[%zu, %zu] is %g: the inputs of this linear were not finite or too "
                           "large during calibration",
                           row, column, (double)x);
}

static pare_status check_finite(pare_ctx *cx, float *h, size_t k, bool diagonal)
{
    const size_t row = diagonal ? k : first_bad_row(cx, &(pare_lower){h, k, k, false});
    for (size_t j = 0; row < k && j <= row; j++)
        PARE_TRY(check_entry(cx, h, k, row, j));
    for (size_t j = 0; diagonal && j < k; j++)
        PARE_TRY(check_entry(cx, h, k, j, j));
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
    double *const wide = job->l.f64 ? job->l.a : NULL;
    float *const a = job->l.a;
    (void)worker;
    for (size_t from = 0; from < end; from += ROWS_PER_CHUNK)
        for (size_t i = begin; i < end; i++) {
            const size_t to = from + ROWS_PER_CHUNK < i ? from + ROWS_PER_CHUNK : i;
            const size_t row = pare_lower_place(&job->l, i);
            for (size_t j = from; j < to; j++)
                if (wide)
                    wide[row + j] = (double)damped(job, i, j);
                else
                    a[row + j] = damped(job, i, j);
        }
    for (size_t i = begin; i < end; i++) {
        const size_t at = pare_lower_place(&job->l, i) + i;
        if (wide)
            wide[at] = damped_diagonal(job, i);
        else
            a[at] = (float)damped_diagonal(job, i);
    }
}

/* An entry of the triangle. */
static float entry(const pare_lower *l, size_t at)
{
    return l->f64 ? (float)((const double *)l->a)[at] : ((const float *)l->a)[at];
}

typedef struct turn_job {
    const pare_lower *l;
    pare_factor *out;
    bool above; /* nothing but what is above the diagonal is written */
} turn_job;

/* Rows of U: those of the reversed factor from the last on, each backwards. */
static void turn_rows(void *arg, size_t begin, size_t end, size_t worker)
{
    const turn_job *const job = arg;
    const size_t k = job->l->n;
    (void)worker;
    for (size_t i = begin; i < end; i++) {
        float *const u = job->out->u + i * k;
        const size_t row = pare_lower_place(job->l, k - 1 - i);
        job->out->pivot[i] = entry(job->l, row + k - 1 - i);
        for (size_t j = i + 1; j < k; j++)
            u[j] = entry(job->l, row + k - 1 - j);
        if (job->above)
            continue;
        memset(u, 0, i * sizeof *u);
        u[i] = job->out->pivot[i];
    }
}

/* Row of L that has no usable pivot (1-based), or 0. */
static size_t factor_and_invert(const factor_job *job)
{
    const pare_lower *const l = &job->l;
    const size_t bad = pare_cholesky(job->cx, l);
    if (bad)
        return bad;
    pare_triangular_inverse(job->cx, l);
    for (size_t i = 0; i < l->n; i++) {
        const size_t at = pare_lower_place(l, i) + i;
        if ((l->f64 ? ((double *)l->a)[at] : (double)((float *)l->a)[at]) < (double)FLT_MIN)
            return i + 1;
    }
    const size_t row = first_bad_row(job->cx, l);
    return row < l->n ? row + 1 : 0;
}

/* All rungs in one precision; the factor is in job->l unless d->failed. */
static void climb(factor_job *job, float damp, pare_damping *d)
{
    const size_t k = job->k;
    d->f64 = job->l.f64;
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
}

/* U from the factor: above the diagonal of h, or in a square of its own. */
static pare_status put(pare_arena *scratch, const factor_job *job, float *h, pare_factor *out)
{
    turn_job turn = {&job->l, out, h != NULL};
    out->u = h ? h : pare_arena_take_raw(scratch, job->k * job->k, sizeof *out->u);
    if (!out->u)
        return PARE_ENOMEM;
    pare_parallel(job->cx, job->k, ROWS_PER_CHUNK, turn_rows, &turn);
    return PARE_OK;
}

/* The triangle is made apart and given back, so that nothing of it stays beside U. */
static pare_status climb_apart(pare_ctx *cx, pare_arena *scratch, factor_job *job, bool f64,
                               const pare_factor_opts *opts, float *h, pare_factor *out)
{
    const pare_alloc *const alloc = &cx->alloc;
    pare_status s = PARE_OK;
    job->l = (pare_lower){NULL, job->k, pare_lower_panel(job->k), f64};
    const size_t bytes = pare_lower_place(&job->l, job->k) * (f64 ? sizeof(double) : sizeof(float));
    job->l.a = alloc->resize(alloc->self, NULL, 0, bytes);
    if (!job->l.a)
        return pare_fail(cx, PARE_ENOMEM, "out of memory: a triangle of %zu rows", job->k);
    climb(job, opts->damp, &out->damping);
    if (!out->damping.failed)
        s = put(scratch, job, opts->above ? h : NULL, out);
    (void)alloc->resize(alloc->self, job->l.a, bytes, 0);
    return s;
}

/* U of a diagonal H, of which only U_jj are kept. Its columns have nothing to do with each other,
 * so that there is no rung but the first. */
static void invert_diagonal(const factor_job *job, float damp, pare_factor *out)
{
    const size_t k = job->k;
    out->damping.damp = damp;
    out->damping.lambda = (double)damp * job->mean;
    for (size_t i = 0; i < k; i++) {
        const size_t column = job->order[i];
        const double h = job->dead[column] ? job->mean : (double)job->h[column * (k + 1)];
        out->pivot[i] = 1 / sqrtf((float)(h + out->damping.lambda));
    }
}

uint64_t pare_factor_bytes(size_t k)
{
    const pare_lower l = {.n = k, .panel = pare_lower_panel(k)};
    return (uint64_t)pare_lower_place(&l, k) * sizeof(double) + (uint64_t)k * 64;
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
                           float *h, size_t k, pare_factor *out)
{
    *out = (pare_factor){.k = k};
    if (!(opts->damp >= 0 && opts->damp <= damp_max))
        return pare_fail(cx, PARE_EINVAL, "damping %g is not between 0 and 1", (double)opts->damp);
    if (opts->apart > k || (opts->apart && opts->act_order))
        return pare_fail(cx, PARE_EINVAL, "%zu of %zu columns cannot be kept apart%s", opts->apart,
                         k, opts->act_order ? " in the order of the diagonal" : "");
    PARE_TRY(check_finite(cx, h, k, opts->diagonal));
    uint32_t *const order = PARE_NEW(scratch, uint32_t, k);
    out->diagonal = order ? PARE_NEW(scratch, float, k) : NULL;
    out->pivot = out->diagonal ? PARE_NEW(scratch, float, k) : NULL;
    out->dead = out->pivot ? PARE_NEW(scratch, uint8_t, k) : NULL;
    if (!out->dead)
        return PARE_ENOMEM;
    if (opts->order) /* dead is written only below */
        PARE_TRY(copy_order(cx, opts, k, out->dead, order));
    else
        PARE_TRY(make_order(scratch, h, k, opts, order));

    pare_damping *const d = &out->damping;
    factor_job job = {.cx = cx, .h = h, .k = k, .order = order, .dead = out->dead};
    job.mean = survey(h, k, out->diagonal, out->dead, &d->dead);
    if (opts->diagonal)
        invert_diagonal(&job, opts->damp, out);
    else
        PARE_TRY(climb_apart(cx, scratch, &job, false, opts, h, out));
    if (d->failed)
        PARE_TRY(climb_apart(cx, scratch, &job, true, opts, h, out));
    out->order = opts->act_order || opts->apart || opts->order ? order : NULL;
    out->apart = opts->apart;
    return PARE_OK;
}
