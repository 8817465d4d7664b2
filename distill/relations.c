#include "distill/relations.h"

#include <math.h>
#include <string.h>

#include "runtime/linalg.h"
#include "runtime/small.h"
#include "runtime/threads.h"

enum { TILE = 64 /* rows of relations that are there at once */ };

size_t pare_qkv_floats(const pare_config *c)
{
    return (c->heads + 2 * c->kv_heads) * c->head_dim;
}

pare_status pare_qkv_take(pare_arena *a, const pare_config *c, size_t rows, pare_qkv *out)
{
    for (size_t i = 0; i < PARE_RELATIONS; i++) {
        out->width[i] = (i ? c->kv_heads : c->heads) * c->head_dim;
        out->at[i] = PARE_NEW(a, float, rows * out->width[i]);
        if (!out->at[i])
            return PARE_ENOMEM;
    }
    return PARE_OK;
}

pare_status pare_qkv_keep(void *self, const float *q, const float *k, const float *v, size_t rows)
{
    const pare_qkv *const to = self;
    const float *const from[PARE_RELATIONS] = {q, k, v};
    for (size_t i = 0; i < PARE_RELATIONS; i++)
        memcpy(to->at[i], from[i], rows * to->width[i] * sizeof(float));
    return PARE_OK;
}

typedef struct relations_job {
    const pare_kernels *kernels;
    const pare_qkv *s, *t, *d;
    size_t length, pieces;
    double weight;  /* of a row in the gradient */
    float *scratch; /* [workers][2][TILE, length] */
    double *value;  /* [tasks] */
} relations_job;

/* One piece of one kind of a sequence: [length, e], rows `width` apart. */
typedef struct piece {
    const float *x;
    size_t e, width;
} piece;

static size_t piece_at(const relations_job *job, const pare_qkv *of, size_t task)
{
    const size_t kind = task % PARE_RELATIONS, rest = task / PARE_RELATIONS;
    const size_t width = of->width[kind];
    return rest / job->pieces * job->length * width + rest % job->pieces * (width / job->pieces);
}

static piece piece_of(const relations_job *job, const pare_qkv *of, size_t task)
{
    const size_t kind = task % PARE_RELATIONS, width = of->width[kind];
    return (piece){of->at[kind] + piece_at(job, of, task), width / job->pieces, width};
}

/* r [rows, columns] = R of rows first .. first + rows - 1; 0 where j > i. */
static void relate(const relations_job *job, const piece *p, size_t first, size_t rows, float *r)
{
    const size_t columns = first + rows;
    const float scale = (float)(1 / sqrt((double)p->e));
    pare_gemm_run(job->kernels, &(pare_gemm){rows, columns, p->e, p->x + first * p->width, p->width,
                                             false, p->x, p->width, true, r, columns, 1, 0});
    for (size_t i = 0; i < rows; i++, r += columns) {
        const size_t end = first + i + 1;
        float max = -INFINITY;
        double total = 0;
        (void)job->kernels->softmax_f32(r, end, scale, &max, &total);
        for (size_t j = 0; j < end; j++)
            r[j] = (float)((double)r[j] / total);
        memset(r + end, 0, (columns - end) * sizeof *r);
    }
}

/* The sum of the rows' divergences; rs becomes weight (Rs - Rt) / sqrt(e). */
static double diverge(const relations_job *job, size_t e, size_t first, size_t rows, float *rs,
                      const float *rt)
{
    const size_t columns = first + rows;
    const double factor = job->weight / sqrt((double)e);
    double sum = 0;
    for (size_t i = 0; i < rows; i++, rs += columns, rt += columns)
        for (size_t j = 0; j <= first + i; j++) {
            const double s = (double)rs[j], t = (double)rt[j];
            sum += t * log(t / s);
            rs[j] = (float)(factor * (s - t));
        }
    return sum;
}

static void run_piece(const relations_job *job, size_t task, float *rs, float *rt)
{
    const piece s = piece_of(job, job->s, task), t = piece_of(job, job->t, task);
    float *const d = job->d->at[task % PARE_RELATIONS] + piece_at(job, job->s, task);
    double sum = 0;
    for (size_t i = 0; i < job->length; i++)
        memset(d + i * s.width, 0, s.e * sizeof *d);
    for (size_t first = 0; first < job->length; first += TILE) {
        const size_t rows = pare_smaller(job->length - first, TILE), columns = first + rows;
        const float *const x = s.x + first * s.width;
        relate(job, &s, first, rows, rs);
        relate(job, &t, first, rows, rt);
        sum += diverge(job, s.e, first, rows, rs, rt);
        pare_gemm_run(job->kernels,
                      &(pare_gemm){rows, s.e, columns, rs, columns, false, s.x, s.width, false,
                                   d + first * s.width, s.width, 1, 1});
        pare_gemm_run(job->kernels, &(pare_gemm){columns, s.e, rows, rs, columns, true, x, s.width,
                                                 false, d, s.width, 1, 1});
    }
    job->value[task] = sum;
}

static void run_pieces(void *arg, size_t begin, size_t end, size_t worker)
{
    const relations_job *const job = arg;
    float *const rs = job->scratch + worker * 2 * TILE * job->length;
    for (size_t task = begin; task < end; task++)
        run_piece(job, task, rs, rs + TILE * job->length);
}

static size_t tasks_of(pare_batch batch, size_t pieces)
{
    return batch.sequences * pieces * PARE_RELATIONS;
}

size_t pare_relations_bytes(const pare_ctx *cx, pare_batch batch, size_t pieces)
{
    return pare_threads(cx) * 2 * TILE * batch.length * sizeof(float) +
           tasks_of(batch, pieces) * sizeof(double) + (size_t)2 * PARE_ALIGN;
}

pare_status pare_relations(pare_ctx *cx, pare_arena *scratch, pare_batch batch, size_t pieces,
                           const pare_qkv *s, const pare_qkv *t, double scale, const pare_qkv *d,
                           double *value)
{
    const pare_mark mark = pare_arena_mark(scratch);
    const size_t tasks = tasks_of(batch, pieces);
    const double all = (double)tasks * (double)batch.length;
    relations_job job = {.kernels = &cx->kernels,
                         .s = s,
                         .t = t,
                         .d = d,
                         .length = batch.length,
                         .pieces = pieces,
                         .weight = scale / all,
                         .scratch =
                             PARE_NEW(scratch, float, pare_threads(cx) * 2 * TILE * batch.length),
                         .value = PARE_NEW(scratch, double, tasks)};
    if (!job.scratch || !job.value)
        return PARE_ENOMEM;
    pare_parallel(cx, tasks, 1, run_pieces, &job);
    *value = 0;
    for (size_t i = 0; i < tasks; i++)
        *value += job.value[i] / all;
    pare_arena_rewind(scratch, mark);
    return PARE_OK;
}
