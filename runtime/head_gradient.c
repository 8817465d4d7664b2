/* Rows go through the head in chunks, and back through it in panels of its rows as floats. */
#include "runtime/head_gradient.h"

#include <math.h>
#include <string.h>

#include "runtime/linalg.h"
#include "runtime/linear.h"
#include "runtime/ops.h"
#include "runtime/random.h"
#include "runtime/threads.h"

enum { ROWS = 256, PANEL = 1024 };

typedef struct head_job {
    const pare_kernels *kernels;
    const pare_config *c;
    const pare_model *m;
    const float *x;
    uint64_t seed;
    size_t first;  /* number of the first row */
    float *logits; /* [ROWS, vocab] */
    float *dn;     /* [ROWS, hidden] */
    float *t;      /* [ROWS, hidden] */
    float *panel;  /* [PANEL, hidden] */
    float *dx;
    bool *finite; /* [ROWS] */
} head_job;

/* e_v sqrt(p_v), `bits` those of v's 64. */
static double signed_root(double p, uint64_t bits, size_t v)
{
    return bits >> v % 64 & 1 ? sqrt(p) : -sqrt(p);
}

/* The logits of a row become dl. */
static bool draw_row(const head_job *job, float *row, size_t at)
{
    const size_t vocab = job->m->head.n;
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
    const size_t vocab = job->m->head.n;
    (void)worker;
    for (size_t i = begin; i < end; i++)
        job->finite[i] = draw_row(job, job->logits + i * vocab, job->first + i);
}

static void undo_norm_rows(void *arg, size_t begin, size_t end, size_t worker)
{
    const head_job *const job = arg;
    const size_t hidden = job->c->hidden;
    (void)worker;
    for (size_t i = begin; i < end; i++) {
        float *const dx = job->dx + i * hidden;
        memset(dx, 0, hidden * sizeof *dx);
        pare_rms_norm_backward(dx, job->t + i * hidden, job->dn + i * hidden, job->x + i * hidden,
                               job->m->norm, hidden, job->c->norm_eps);
    }
}

/* dn = dl W. */
static void undo_head(pare_ctx *cx, const head_job *job, size_t rows)
{
    const pare_linear *const head = &job->m->head;
    const size_t bytes = head->k * pare_dtype_bits(head->dtype) / 8;
    for (size_t first = 0; first < head->n; first += PANEL) {
        pare_linear part = *head;
        part.data = (const uint8_t *)head->data + first * bytes;
        part.n = head->n - first < PANEL ? head->n - first : PANEL;
        pare_linear_to_f32(cx, &part, job->panel);
        pare_gemm_tiles(cx, &(pare_gemm){.m = rows,
                                         .n = head->k,
                                         .k = part.n,
                                         .a = job->logits + first,
                                         .lda = head->n,
                                         .b = job->panel,
                                         .ldb = head->k,
                                         .c = job->dn,
                                         .ldc = head->k,
                                         .alpha = 1,
                                         .beta = first ? 1 : 0});
    }
}

static pare_status undo_chunk(pare_ctx *cx, pare_arena *scratch, const pare_forward *f,
                              head_job *job, size_t rows)
{
    PARE_TRY(pare_logits(cx, scratch, f, job->x, NULL, rows, job->logits));
    pare_parallel(cx, rows, 1, draw_rows, job);
    for (size_t i = 0; i < rows; i++)
        if (!job->finite[i])
            return pare_fail(cx, PARE_ENUMERIC, "the logits of the float model are not finite");
    undo_head(cx, job, rows);
    pare_parallel(cx, rows, 16, undo_norm_rows, job);
    return PARE_OK;
}

static pare_status take(pare_arena *scratch, head_job *job)
{
    const size_t hidden = job->c->hidden;
    job->logits = PARE_NEW(scratch, float, ROWS * job->m->head.n);
    job->dn = PARE_NEW(scratch, float, ROWS *hidden);
    job->t = PARE_NEW(scratch, float, ROWS *hidden);
    job->panel = PARE_NEW(scratch, float, PANEL *hidden);
    job->finite = PARE_NEW(scratch, bool, ROWS);
    return job->logits && job->dn && job->t && job->panel && job->finite ? PARE_OK : PARE_ENOMEM;
}

uint64_t pare_head_gradient_bytes(const pare_config *c)
{
    return ((uint64_t)ROWS * c->vocab + (3 * ROWS + PANEL) * (uint64_t)c->hidden) * sizeof(float) +
           ROWS + (uint64_t)8 * PARE_ALIGN;
}

pare_status pare_head_gradient(pare_ctx *cx, pare_arena *scratch, const pare_forward *f,
                               const float *x, uint64_t seed, size_t first, size_t rows, float *dx)
{
    const pare_model *const m = f->model;
    if (m->head.bits || m->config.logit_cap > 0)
        return pare_fail(cx, PARE_ENOTSUP, "there is no gradient through %s",
                         m->head.bits ? "a packed head" : "capped logits");
    head_job job = {.kernels = &cx->kernels, .c = &m->config, .m = m, .seed = seed};
    const pare_mark mark = pare_arena_mark(scratch);
    pare_status s = take(scratch, &job);
    for (size_t i = 0; s == PARE_OK && i < rows; i += ROWS) {
        job.x = x + i * m->config.hidden;
        job.dx = dx + i * m->config.hidden;
        job.first = first + i;
        s = undo_chunk(cx, scratch, f, &job, rows - i < ROWS ? rows - i : ROWS);
    }
    pare_arena_rewind(scratch, mark);
    return s;
}
