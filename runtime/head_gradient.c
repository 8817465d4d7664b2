/* Rows go through the head and back in chunks. */
#include "runtime/head_gradient.h"

#include <math.h>
#include <string.h>

#include "runtime/ops.h"
#include "runtime/random.h"
#include "runtime/tape.h"
#include "runtime/threads.h"

enum { ROWS = 256 };

typedef struct head_job {
    const pare_kernels *kernels;
    size_t vocab;
    uint64_t seed;
    size_t first;  /* number of the first row */
    float *logits; /* [ROWS, vocab] */
    bool *finite;  /* [ROWS] */
} head_job;

/* e_v sqrt(p_v), `bits` those of v's 64. */
static double signed_root(double p, uint64_t bits, size_t v)
{
    return bits >> v % 64 & 1 ? sqrt(p) : -sqrt(p);
}

/* The logits of a row become dl. */
static bool draw_row(const head_job *job, float *row, size_t at)
{
    const size_t vocab = job->vocab;
    float max = -INFINITY;
    double total = 0, sum = 0;
    uint64_t bits = 0;
    (void)job->kernels->softmax_f32(row, vocab, 1, &max, &total);
    if (!isfinite(max) || !isfinite(total))
        return false;
    for (size_t v = 0; v < vocab; v++) {
        bits = v % 64 ? bits : pare_random_u64(job->seed, at, v / 64);
        sum += signed_root((double)row[v] / total, bits, v);
    }
    for (size_t v = 0; v < vocab; v++) {
        const double p = (double)row[v] / total;
        bits = v % 64 ? bits : pare_random_u64(job->seed, at, v / 64);
        row[v] = (float)(signed_root(p, bits, v) - p * sum);
    }
    return true;
}

static void draw_rows(void *arg, size_t begin, size_t end, size_t worker)
{
    const head_job *const job = arg;
    const size_t vocab = job->vocab;
    (void)worker;
    for (size_t i = begin; i < end; i++)
        job->finite[i] = draw_row(job, job->logits + i * vocab, job->first + i);
}

static pare_status undo_chunk(pare_tape *t, const pare_forward *f, head_job *job, const float *x,
                              size_t rows, float *dx)
{
    const pare_ops o = pare_tape_ops(t);
    const size_t hidden = f->model->config.hidden;
    const pare_gradients none = {0};
    pare_array in, logits, dl;
    PARE_TRY(pare_tape_input(t, x, rows, hidden, true, &in));
    PARE_TRY(o.op->take(&o, rows, f->model->head.n, &logits));
    PARE_TRY(pare_logits_run(&o, f, in, NULL, logits));
    dl = logits;
    if (f->model->config.logit_cap > 0) { /* the way back through the cap reads them */
        PARE_TRY(o.op->take(&o, rows, f->model->head.n, &dl));
        memcpy(dl.at, logits.at, rows * f->model->head.n * sizeof *dl.at);
    }
    job->logits = dl.at;
    job->finite = PARE_NEW(o.scratch, bool, rows);
    if (!job->finite)
        return PARE_ENOMEM;
    pare_parallel(o.cx, rows, 1, draw_rows, job);
    for (size_t i = 0; i < rows; i++)
        if (!job->finite[i])
            return pare_fail(o.cx, PARE_ENUMERIC, "the logits of the float model are not finite");
    PARE_TRY(pare_tape_back(t, logits, dl.at, &none));
    memcpy(dx, pare_tape_gradient(in), rows * hidden * sizeof *dx);
    return PARE_OK;
}

uint64_t pare_head_gradient_bytes(const pare_ctx *cx, const pare_config *c, bool bf16)
{
    const uint64_t logits = (c->logit_cap > 0 ? 3 : 1) * (uint64_t)c->vocab;
    const uint64_t products = bf16 ? pare_tape_bf16_bytes(cx, ROWS, c->vocab, c->hidden) : 0;
    return (ROWS * (logits + 5 * (uint64_t)c->hidden) + 1024 * (uint64_t)c->hidden) *
               sizeof(float) +
           products + ROWS + (uint64_t)256 * PARE_ALIGN;
}

pare_status pare_head_gradient(pare_ctx *cx, pare_arena *scratch, const pare_forward *f,
                               const float *x, uint64_t seed, size_t first, size_t rows, float *dx)
{
    const size_t hidden = f->model->config.hidden;
    head_job job = {.kernels = &cx->kernels, .vocab = f->model->head.n, .seed = seed};
    pare_status s = PARE_OK;
    for (size_t i = 0; s == PARE_OK && i < rows; i += ROWS) {
        pare_tape t;
        job.first = first + i;
        pare_tape_begin(cx, scratch, f->backend, &t);
        s = undo_chunk(&t, f, &job, x + i * hidden, rows - i < ROWS ? rows - i : ROWS,
                       dx + i * hidden);
        pare_tape_end(&t);
    }
    return s;
}
