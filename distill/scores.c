#include "distill/scores.h"

#include <math.h>
#include <string.h>

#include "runtime/linalg.h"
#include "runtime/ops.h"
#include "runtime/small.h"
#include "runtime/threads.h"

enum { TILE = 64 /* queries whose scores are there at once */ };

static size_t q_width(const pare_qk *x)
{
    return x->f->model->config.heads * x->f->model->config.head_dim;
}

static size_t k_width(const pare_qk *x)
{
    return x->f->model->config.kv_heads * x->f->model->config.head_dim;
}

size_t pare_qk_floats(const pare_config *c)
{
    return (c->heads + c->kv_heads) * c->head_dim;
}

pare_status pare_qk_take(pare_arena *a, const pare_forward *f, size_t block, size_t length,
                         size_t rows, pare_qk *out)
{
    const pare_block *const b = &f->model->block[block];
    *out = (pare_qk){.f = f, .length = length, .window = b->window, .apart = b->apart};
    out->q = PARE_NEW(a, float, rows *q_width(out));
    out->k = PARE_NEW(a, float, rows *k_width(out));
    return out->q && out->k ? PARE_OK : PARE_ENOMEM;
}

/* Turns the heads of x [rows, width] by the positions of their tokens, or back. */
static void turn(const pare_qk *of, void (*by)(float *, const float *, const float *, size_t, bool),
                 float *x, size_t rows, size_t width)
{
    const size_t d = of->f->model->config.head_dim, half = pare_rope_pairs(&of->f->model->config);
    const size_t table = pare_rope_table(of->f, of->apart, of->length);
    for (size_t i = 0; half && i < rows; i++) {
        const size_t at = table + i % of->length * half;
        for (size_t h = 0; h < width; h += d)
            by(x + i * width + h, of->f->rope_cos + at, of->f->rope_sin + at, half,
               of->f->model->config.turns_neighbours);
    }
}

void pare_qk_keep(pare_qk *x, const float *q, const float *k, size_t rows)
{
    memcpy(x->q, q, rows * q_width(x) * sizeof *q);
    memcpy(x->k, k, rows * k_width(x) * sizeof *k);
    turn(x, pare_rope_apply, x->q, rows, q_width(x));
    turn(x, pare_rope_apply, x->k, rows, k_width(x));
}

typedef struct scores_job {
    const pare_kernels *kernels;
    const pare_qk *s, *t;
    pare_batch batch;
    size_t groups;  /* key heads of the student */
    double weight;  /* scale 2 c / N */
    float *dq, *dk; /* behind RoPE */
    float *scratch; /* [workers][2][TILE, length] */
    double *value;  /* [sequences, groups] */
} scores_job;

static double factor_of(const pare_config *c)
{
    return c->attention_scale > 0 ? c->attention_scale : 1 / sqrt((double)c->head_dim);
}

/* The first key that a query sees in both models. */
static size_t low_of(const pare_qk *s, const pare_qk *t, size_t query)
{
    size_t low = 0;
    for (size_t i = 0; i < 2; i++) {
        const size_t window = i ? t->window : s->window;
        if (window && query + 1 > window && query + 1 - window > low)
            low = query + 1 - window;
    }
    return low;
}

/* A head of one model in a sequence. */
typedef struct head {
    const float *q, *k;
    size_t d, ldq, ldk, q_at, k_at;
} head;

static head head_of(const pare_qk *x, size_t sequence, size_t which)
{
    const pare_config *const c = &x->f->model->config;
    head h = {.d = c->head_dim, .ldq = q_width(x), .ldk = k_width(x)};
    h.q_at = sequence * x->length * h.ldq + which * h.d;
    h.k_at = sequence * x->length * h.ldk + which / (c->heads / c->kv_heads) * h.d;
    h.q = x->q + h.q_at;
    h.k = x->k + h.k_at;
    return h;
}

/* u [rows, first + rows]: products of queries first .. first + rows - 1 with all keys up to them.
 */
static void multiply(const scores_job *job, const head *h, size_t first, size_t rows, float *u)
{
    pare_gemm_run(job->kernels,
                  &(pare_gemm){rows, first + rows, h->d, h->q + first * h->ldq, h->ldq, false, h->k,
                               h->ldk, true, u, first + rows, 1, 0});
}

/* us becomes D; returns the sum of squares. */
static double subtract(const scores_job *job, size_t first, size_t rows, float *us, const float *ut)
{
    const double cs = factor_of(&job->s->f->model->config),
                 ct = factor_of(&job->t->f->model->config);
    const size_t columns = first + rows;
    double sum = 0;
    for (size_t i = 0; i < rows; i++, us += columns, ut += columns) {
        const size_t low = low_of(job->s, job->t, first + i), end = first + i + 1;
        for (size_t j = low; j < end; j++) {
            const double off = cs * (double)us[j] - ct * (double)ut[j];
            sum += off * off;
            us[j] = (float)(job->weight * off);
        }
        memset(us, 0, low * sizeof *us);
        memset(us + end, 0, (columns - end) * sizeof *us);
    }
    return sum;
}

static double run_head(const scores_job *job, size_t sequence, size_t which, float *us, float *ut)
{
    const head s = head_of(job->s, sequence, which), t = head_of(job->t, sequence, which);
    float *const dq = job->dq + s.q_at, *const dk = job->dk + s.k_at;
    const size_t length = job->batch.length;
    double sum = 0;
    for (size_t first = 0; first < length; first += TILE) {
        const size_t rows = pare_smaller(length - first, TILE), columns = first + rows;
        multiply(job, &s, first, rows, us);
        multiply(job, &t, first, rows, ut);
        sum += subtract(job, first, rows, us, ut);
        pare_gemm_run(job->kernels, &(pare_gemm){rows, s.d, columns, us, columns, false, s.k, s.ldk,
                                                 false, dq + first * s.ldq, s.ldq, 1, 0});
        pare_gemm_run(job->kernels,
                      &(pare_gemm){columns, s.d, rows, us, columns, true, s.q + first * s.ldq,
                                   s.ldq, false, dk, s.ldk, 1, 1});
    }
    return sum;
}

static void run_groups(void *arg, size_t begin, size_t end, size_t worker)
{
    const scores_job *const job = arg;
    const size_t room = TILE * job->batch.length;
    const size_t heads = job->s->f->model->config.heads / job->groups;
    float *const us = job->scratch + worker * 2 * room;
    for (size_t i = begin; i < end; i++) {
        job->value[i] = 0;
        for (size_t h = 0; h < heads; h++)
            job->value[i] +=
                run_head(job, i / job->groups, i % job->groups * heads + h, us, us + room);
    }
}

uint64_t pare_scores_bytes(const pare_ctx *cx, const pare_config *c, pare_batch batch)
{
    const uint64_t rows = (uint64_t)batch.sequences * batch.length;
    return (rows * pare_qk_floats(c) + (uint64_t)pare_threads(cx) * 2 * TILE * batch.length) *
               sizeof(float) +
           batch.sequences * c->kv_heads * sizeof(double) + (uint64_t)4 * PARE_ALIGN;
}

pare_status pare_scores(pare_ctx *cx, pare_arena *scratch, pare_batch batch, const pare_qk *s,
                        const pare_qk *t, double scale, float *dq, float *dk, double *value)
{
    const pare_mark mark = pare_arena_mark(scratch);
    const pare_config *const c = &s->f->model->config;
    const size_t rows = batch.sequences * batch.length, tasks = batch.sequences * c->kv_heads;
    size_t pairs = 0;
    for (size_t i = 0; i < batch.length; i++)
        pairs += i + 1 - low_of(s, t, i);
    const double all = (double)pairs * (double)(batch.sequences * c->heads);
    scores_job job = {.kernels = &cx->kernels,
                      .s = s,
                      .t = t,
                      .batch = batch,
                      .groups = c->kv_heads,
                      .weight = scale * 2 * factor_of(c) / all,
                      .dq = PARE_NEW(scratch, float, rows *q_width(s)),
                      .dk = PARE_NEW(scratch, float, rows *k_width(s)),
                      .scratch =
                          PARE_NEW(scratch, float, pare_threads(cx) * 2 * TILE * batch.length),
                      .value = PARE_NEW(scratch, double, tasks)};
    if (!job.scratch || !job.value || !job.dq || !job.dk)
        return PARE_ENOMEM;
    pare_parallel(cx, tasks, 1, run_groups, &job);
    turn(s, pare_rope_undo, job.dq, rows, q_width(s));
    turn(s, pare_rope_undo, job.dk, rows, k_width(s));
    pare_add(dq, job.dq, rows * q_width(s));
    pare_add(dk, job.dk, rows * k_width(s));
    *value = 0;
    for (size_t i = 0; i < tasks; i++)
        *value += job.value[i] / all;
    pare_arena_rewind(scratch, mark);
    return PARE_OK;
}
