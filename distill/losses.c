#include "distill/losses.h"

#include <math.h>
#include <string.h>

#include "distill/sinkhorn.h"
#include "distill/soften_internal.h"
#include "runtime/threads.h"

enum { ARRAYS = 3 /* of a worker, each [vocab] */ };

/* A row while its gradient is made. */
typedef struct row {
    const pare_kernels *kernels;
    const pare_losses *l;
    const float *z, *t;
    size_t vocab;
    float *q, *p, *dz; /* [vocab] */
    double value;
} row;

static void add_ce(row *r, size_t label)
{
    const double weight = r->l->ce;
    const double all = pare__soften(r->kernels, r->z, r->vocab, 1, r->q);
    r->value += weight * (all - (double)r->z[label]);
    for (size_t i = 0; i < r->vocab; i++)
        r->dz[i] += (float)(weight * ((double)r->q[i] - (i == label ? 1 : 0)));
}

/* ln(q / p) of a logit, `apart` being that of the sums. */
static double log_ratio(const row *r, size_t i, double apart)
{
    const double over = (double)(float)(1 / r->l->temperature);
    return ((double)r->z[i] - (double)r->t[i]) * over - apart;
}

static void add_kl(row *r, double apart)
{
    const double temperature = r->l->temperature, weight = r->l->kl * temperature;
    double sum = 0;
    for (size_t i = 0; i < r->vocab; i++) {
        sum -= (double)r->p[i] * log_ratio(r, i, apart);
        r->dz[i] += (float)(weight * ((double)r->q[i] - (double)r->p[i]));
    }
    r->value += weight * temperature * sum;
}

static void add_reverse_kl(row *r, double apart)
{
    const double temperature = r->l->temperature, weight = r->l->reverse_kl * temperature;
    double sum = 0;
    for (size_t i = 0; i < r->vocab; i++)
        sum += (double)r->q[i] * log_ratio(r, i, apart);
    for (size_t i = 0; i < r->vocab; i++)
        r->dz[i] += (float)(weight * (double)r->q[i] * (log_ratio(r, i, apart) - sum));
    r->value += weight * temperature * sum;
}

/* x ln(x / m), 0 for x = 0. */
static double part_of(double x, double m)
{
    return x > 0 ? x * log(x / m) : 0;
}

static void add_jsd(row *r)
{
    const double b = r->l->beta, temperature = r->l->temperature;
    const double weight = r->l->jsd * temperature / (r->l->scaled ? b * (1 - b) : 1);
    double of_p = 0, of_q = 0;
    for (size_t i = 0; i < r->vocab; i++) {
        const double p = (double)r->p[i], q = (double)r->q[i], m = b * p + (1 - b) * q;
        of_p += part_of(p, m);
        of_q += part_of(q, m);
    }
    for (size_t i = 0; i < r->vocab; i++) {
        const double p = (double)r->p[i], q = (double)r->q[i], m = b * p + (1 - b) * q;
        r->dz[i] += (float)(weight * (1 - b) * (part_of(q, m) - q * of_q));
    }
    r->value += weight * temperature * (b * of_p + (1 - b) * of_q);
}

static void add_skew_kl(row *r)
{
    const double a = r->l->skew, temperature = r->l->temperature;
    const double weight = r->l->skew_kl * temperature;
    double of_p = 0, mean = 0; /* mean: sum q r */
    for (size_t i = 0; i < r->vocab; i++) {
        const double p = (double)r->p[i], q = (double)r->q[i], m = a * p + (1 - a) * q;
        of_p += part_of(p, m);
        mean += q * p / m;
    }
    for (size_t i = 0; i < r->vocab; i++) {
        const double p = (double)r->p[i], q = (double)r->q[i], m = a * p + (1 - a) * q;
        r->dz[i] -= (float)(weight * (1 - a) * q * (p / m - mean));
    }
    r->value += weight * temperature * of_p;
}

static void add_skew_reverse_kl(row *r)
{
    const double a = r->l->skew, temperature = r->l->temperature;
    const double weight = r->l->skew_reverse_kl * temperature;
    double of_q = 0, mean = 0; /* mean: sum q g */
    for (size_t i = 0; i < r->vocab; i++) {
        const double p = (double)r->p[i], q = (double)r->q[i], m = (1 - a) * p + a * q;
        of_q += part_of(q, m);
        mean += part_of(q, m) + q * (1 - a * q / m);
    }
    for (size_t i = 0; i < r->vocab; i++) {
        const double p = (double)r->p[i], q = (double)r->q[i], m = (1 - a) * p + a * q;
        r->dz[i] += (float)(weight * (part_of(q, m) + q * (1 - a * q / m - mean)));
    }
    r->value += weight * temperature * of_q;
}

/* s of an entry. */
static double half_sign(double q, double p)
{
    return q > p ? .5 : q < p ? -.5 : 0;
}

static void add_total_variation(row *r)
{
    const double weight = r->l->total_variation;
    double sum = 0, mean = 0; /* mean: sum q s */
    for (size_t i = 0; i < r->vocab; i++) {
        const double p = (double)r->p[i], q = (double)r->q[i];
        sum += fabs(p - q) / 2;
        mean += q * half_sign(q, p);
    }
    for (size_t i = 0; i < r->vocab; i++) {
        const double p = (double)r->p[i], q = (double)r->q[i];
        r->dz[i] += (float)(weight * q * (half_sign(q, p) - mean));
    }
    r->value += weight * r->l->temperature * sum;
}

static void add_losses(row *r, size_t label)
{
    const pare_losses *const l = r->l;
    memset(r->dz, 0, r->vocab * sizeof *r->dz);
    r->value = 0;
    if (l->ce > 0)
        add_ce(r, label);
    if (!pare_losses_compare(l))
        return;
    const double apart = pare__soften(r->kernels, r->z, r->vocab, l->temperature, r->q) -
                         pare__soften(r->kernels, r->t, r->vocab, l->temperature, r->p);
    if (l->kl > 0)
        add_kl(r, apart);
    if (l->reverse_kl > 0)
        add_reverse_kl(r, apart);
    if (l->jsd > 0)
        add_jsd(r);
    if (l->skew_kl > 0)
        add_skew_kl(r);
    if (l->skew_reverse_kl > 0)
        add_skew_reverse_kl(r);
    if (l->total_variation > 0)
        add_total_variation(r);
}

typedef struct rows_job {
    const pare_ctx *cx;
    const pare_losses *l;
    float *z, *work; /* work: [workers, ARRAYS, vocab] */
    const float *t;
    const int32_t *label;
    size_t vocab;
    double scale, *value;  /* [rows] */
    const float *sinkhorn; /* [rows, vocab], what that adds to the gradient; NULL: nothing */
} rows_job;

static void run_rows(void *arg, size_t begin, size_t end, size_t worker)
{
    const rows_job *const job = arg;
    const size_t vocab = job->vocab;
    float *const work = job->work + worker * ARRAYS * vocab;
    for (size_t i = begin; i < end; i++) {
        float *const z = job->z + i * vocab;
        row r = {.kernels = &job->cx->kernels,
                 .l = job->l,
                 .z = z,
                 .t = job->t ? job->t + i * vocab : NULL,
                 .vocab = vocab,
                 .q = work,
                 .p = work + vocab,
                 .dz = work + 2 * vocab};
        if (job->label[i] == PARE_NO_LABEL) {
            memset(z, 0, vocab * sizeof *z);
            continue;
        }
        add_losses(&r, (size_t)job->label[i]);
        job->value[i] = r.value;
        for (size_t j = 0; j < vocab; j++)
            z[j] = (float)(job->scale * (double)r.dz[j]);
        for (size_t j = 0; job->sinkhorn && j < vocab; j++)
            z[j] += job->sinkhorn[i * vocab + j];
    }
}

size_t pare_losses_bytes(const pare_ctx *cx, const pare_losses *l, size_t rows, size_t vocab)
{
    return pare_threads(cx) * ARRAYS * vocab * sizeof(float) + rows * sizeof(double) +
           (l->sinkhorn > 0 ? rows * vocab * sizeof(float) + pare_sinkhorn_bytes(cx, vocab) : 0) +
           (size_t)3 * PARE_ALIGN;
}

/* Before z becomes its gradient. */
static pare_status add_sinkhorn(pare_ctx *cx, pare_arena *scratch, rows_job *job, size_t rows,
                                double *value)
{
    const double weight = job->l->sinkhorn;
    float *const dz = PARE_NEW(scratch, float, rows * job->vocab);
    if (!dz)
        return PARE_ENOMEM;
    PARE_TRY(pare_sinkhorn(cx, scratch, job->z, job->t, job->label, rows, job->vocab,
                           job->l->temperature, job->scale * weight, dz, value));
    *value *= weight;
    job->sinkhorn = dz;
    return PARE_OK;
}

pare_status pare_losses_rows(pare_ctx *cx, pare_arena *scratch, const pare_losses *l, float *z,
                             const float *t, const int32_t *label, size_t rows, size_t vocab,
                             double scale, double *value)
{
    const pare_mark mark = pare_arena_mark(scratch);
    rows_job job = {.cx = cx,
                    .l = l,
                    .z = z,
                    .t = t,
                    .label = label,
                    .vocab = vocab,
                    .scale = scale,
                    .value = PARE_NEW(scratch, double, rows),
                    .work = PARE_NEW(scratch, float, pare_threads(cx) * ARRAYS * vocab)};
    if (!job.value || !job.work)
        return PARE_ENOMEM;
    *value = 0;
    if (l->sinkhorn > 0)
        PARE_TRY(add_sinkhorn(cx, scratch, &job, rows, value));
    pare_parallel(cx, rows, 1, run_rows, &job);
    for (size_t i = 0; i < rows; i++)
        *value += job.value[i];
    pare_arena_rewind(scratch, mark);
    return PARE_OK;
}

/* --- hidden states -----------------------------------------------------------------------------
 */

enum { SLICES = 64 };

typedef struct hidden_job {
    const float *s, *u;
    float *ds;
    size_t count;
    double factor, off[SLICES], all[SLICES];
} hidden_job;

static void sum_slices(void *arg, size_t begin, size_t end, size_t worker)
{
    hidden_job *const job = arg;
    (void)worker;
    for (size_t slice = begin; slice < end; slice++) {
        const size_t last = job->count * (slice + 1) / SLICES;
        for (size_t i = job->count * slice / SLICES; i < last; i++) {
            const double u = (double)job->u[i], off = (double)job->s[i] - u;
            job->off[slice] += off * off;
            job->all[slice] += u * u;
        }
    }
}

static void add_slices(void *arg, size_t begin, size_t end, size_t worker)
{
    const hidden_job *const job = arg;
    (void)worker;
    for (size_t slice = begin; slice < end; slice++) {
        const size_t last = job->count * (slice + 1) / SLICES;
        for (size_t i = job->count * slice / SLICES; i < last; i++)
            job->ds[i] += (float)(job->factor * ((double)job->s[i] - (double)job->u[i]));
    }
}

double pare_losses_hidden(const pare_ctx *cx, const float *s, const float *u, size_t count,
                          double scale, float *ds)
{
    hidden_job job = {.s = s, .u = u, .ds = ds, .count = count};
    double off = 0, all = 0;
    pare_parallel(cx, SLICES, 1, sum_slices, &job);
    for (size_t i = 0; i < SLICES; i++) {
        off += job.off[i];
        all += job.all[i];
    }
    if (all == 0)
        return 0;
    job.factor = 2 * scale / all;
    pare_parallel(cx, SLICES, 1, add_slices, &job);
    return off / all;
}
