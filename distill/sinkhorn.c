#include "distill/sinkhorn.h"

#include <math.h>
#include <string.h>

#include "distill/losses.h"
#include "distill/soften_internal.h"
#include "runtime/small.h"
#include "runtime/threads.h"

enum { MOST = PARE_SINKHORN_ROWS, STEPS = 20, LANES = 8 };
static const double entropy = 0.1;

/* A plan and its way back. */
typedef struct plan {
    double w[MOST][MOST], k[MOST][MOST], d[MOST][MOST]; /* d: dK, then D */
    double a[STEPS][MOST], b[STEPS + 1][MOST];
} plan;

typedef struct group_job {
    const pare_kernels *kernels;
    const float *z, *t;
    size_t vocab, count;
    size_t row[MOST]; /* [count] */
    double temperature, scale;
    float *dz;  /* X first */
    float *y;   /* [count, vocab] */
    double *dx; /* [workers, vocab] */
    plan *plan;
} group_job;

static void soften_rows(void *arg, size_t begin, size_t end, size_t worker)
{
    const group_job *const job = arg;
    const size_t vocab = job->vocab;
    (void)worker;
    for (size_t i = begin; i < end; i++) {
        const size_t at = job->row[i] * vocab;
        (void)pare__soften(job->kernels, job->z + at, vocab, job->temperature, job->dz + at);
        (void)pare__soften(job->kernels, job->t + at, vocab, job->temperature, job->y + i * vocab);
    }
}

static double distance(const float *x, const float *y, size_t n)
{
    double lane[LANES] = {0}, sum = 0;
    size_t i = 0;
    for (; i + LANES <= n; i += LANES)
        for (size_t l = 0; l < LANES; l++)
            lane[l] += fabs((double)x[i + l] - (double)y[i + l]);
    for (size_t l = 0; l < LANES; l++)
        sum += lane[l];
    for (; i < n; i++)
        sum += fabs((double)x[i] - (double)y[i]);
    return sum;
}

static void measure_rows(void *arg, size_t begin, size_t end, size_t worker)
{
    const group_job *const job = arg;
    plan *const p = job->plan;
    (void)worker;
    for (size_t i = begin; i < end; i++)
        for (size_t j = 0; j < job->count; j++) {
            p->w[i][j] =
                distance(job->dz + job->row[i] * job->vocab, job->y + j * job->vocab, job->vocab);
            p->k[i][j] = exp(-p->w[i][j] / entropy);
        }
}

/* out_i = sum_j k_ij x_j */
static void times(const plan *p, size_t n, const double *x, double *out)
{
    for (size_t i = 0; i < n; i++) {
        out[i] = 0;
        for (size_t j = 0; j < n; j++)
            out[i] += p->k[i][j] * x[j];
    }
}

/* out_j = sum_i k_ij x_i */
static void times_transposed(const plan *p, size_t n, const double *x, double *out)
{
    memset(out, 0, n * sizeof *out);
    for (size_t i = 0; i < n; i++)
        for (size_t j = 0; j < n; j++)
            out[j] += p->k[i][j] * x[i];
}

/* Steps of the plan. Returns sum P o W. */
static double balance(plan *p, size_t n)
{
    double sum = 0;
    for (size_t j = 0; j < n; j++)
        p->b[0][j] = 1;
    for (size_t s = 0; s < STEPS; s++) {
        times(p, n, p->b[s], p->a[s]);
        for (size_t i = 0; i < n; i++)
            p->a[s][i] = 1 / p->a[s][i];
        times_transposed(p, n, p->a[s], p->b[s + 1]);
        for (size_t j = 0; j < n; j++)
            p->b[s + 1][j] = 1 / p->b[s + 1][j];
    }
    for (size_t i = 0; i < n; i++)
        for (size_t j = 0; j < n; j++)
            sum += p->a[STEPS - 1][i] * p->k[i][j] * p->b[STEPS][j] * p->w[i][j];
    return sum;
}

/* dK of the steps, from da and db behind the last. */
static void unbalance(plan *p, size_t n, double *da, double *db)
{
    double c[MOST], r[MOST];
    for (size_t s = STEPS; s-- > 0;) {
        for (size_t j = 0; j < n; j++)
            c[j] = -p->b[s + 1][j] * p->b[s + 1][j] * db[j];
        times(p, n, c, r);
        for (size_t i = 0; i < n; i++)
            r[i] = -p->a[s][i] * p->a[s][i] * (da[i] + r[i]);
        for (size_t i = 0; i < n; i++)
            for (size_t j = 0; j < n; j++)
                p->d[i][j] += p->a[s][i] * c[j] + r[i] * p->b[s][j];
        times_transposed(p, n, r, db);
        memset(da, 0, n * sizeof *da);
    }
}

/* d becomes D. */
static void differentiate(plan *p, size_t n)
{
    const double *const a = p->a[STEPS - 1], *const b = p->b[STEPS];
    double da[MOST] = {0}, db[MOST] = {0};
    for (size_t i = 0; i < n; i++)
        for (size_t j = 0; j < n; j++) {
            da[i] += p->k[i][j] * p->w[i][j] * b[j];
            db[j] += p->k[i][j] * p->w[i][j] * a[i];
            p->d[i][j] = a[i] * b[j] * p->w[i][j];
        }
    unbalance(p, n, da, db);
    for (size_t i = 0; i < n; i++)
        for (size_t j = 0; j < n; j++)
            p->d[i][j] = p->k[i][j] * (a[i] * b[j] - p->d[i][j] / entropy);
}

/* dz in the place of X. */
static void undo_rows(void *arg, size_t begin, size_t end, size_t worker)
{
    const group_job *const job = arg;
    const size_t vocab = job->vocab;
    double *const dx = job->dx + worker * vocab;
    for (size_t i = begin; i < end; i++) {
        float *const x = job->dz + job->row[i] * vocab;
        double mean = 0;
        memset(dx, 0, vocab * sizeof *dx);
        for (size_t j = 0; j < job->count; j++) {
            const float *const y = job->y + j * vocab;
            const double d = job->plan->d[i][j];
            for (size_t v = 0; v < vocab; v++)
                dx[v] += x[v] > y[v] ? d : x[v] < y[v] ? -d : 0;
        }
        for (size_t v = 0; v < vocab; v++)
            mean += (double)x[v] * dx[v];
        for (size_t v = 0; v < vocab; v++)
            x[v] = (float)(job->scale * (double)x[v] * (dx[v] - mean));
    }
}

size_t pare_sinkhorn_bytes(const pare_ctx *cx, size_t vocab)
{
    return MOST * vocab * sizeof(float) + pare_threads(cx) * vocab * sizeof(double) + sizeof(plan) +
           (size_t)3 * PARE_ALIGN;
}

pare_status pare_sinkhorn(pare_ctx *cx, pare_arena *scratch, const float *z, const float *t,
                          const int32_t *label, size_t rows, size_t vocab, double temperature,
                          double scale, float *dz, double *value)
{
    const pare_mark mark = pare_arena_mark(scratch);
    group_job job = {.kernels = &cx->kernels,
                     .z = z,
                     .t = t,
                     .vocab = vocab,
                     .temperature = temperature,
                     .scale = scale,
                     .dz = dz,
                     .y = PARE_NEW(scratch, float, MOST *vocab),
                     .dx = PARE_NEW(scratch, double, pare_threads(cx) * vocab),
                     .plan = PARE_NEW(scratch, plan, 1)};
    if (!job.y || !job.dx || !job.plan)
        return PARE_ENOMEM;
    *value = 0;
    memset(dz, 0, rows * vocab * sizeof *dz);
    for (size_t first = 0; first < rows; first += MOST) {
        const size_t end = first + pare_smaller(rows - first, MOST);
        job.count = 0;
        for (size_t i = first; i < end; i++)
            if (label[i] != PARE_NO_LABEL)
                job.row[job.count++] = i;
        pare_parallel(cx, job.count, 1, soften_rows, &job);
        pare_parallel(cx, job.count, 1, measure_rows, &job);
        *value += temperature * balance(job.plan, job.count);
        differentiate(job.plan, job.count);
        pare_parallel(cx, job.count, 1, undo_rows, &job);
    }
    pare_arena_rewind(scratch, mark);
    return PARE_OK;
}
