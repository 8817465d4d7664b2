/* Rows go through the head and back in chunks. */
#include "runtime/head_gradient.h"

#include <math.h>
#include <string.h>

#include "runtime/ops.h"
#include "runtime/random.h"
#include "runtime/small.h"
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

enum { WORD = 32, LANES = 8 };

/* e_v of four bits, without a branch that a processor cannot foresee. */
#define SIGN(bits, i) ((bits) >> (i)&1 ? 1.0F : -1.0F)
#define SIGNS(bits)                                                                                \
    {                                                                                              \
        SIGN(bits, 0), SIGN(bits, 1), SIGN(bits, 2), SIGN(bits, 3)                                 \
    }
static const float sign_of[16][4] = {
    SIGNS(0), SIGNS(1), SIGNS(2),  SIGNS(3),  SIGNS(4),  SIGNS(5),  SIGNS(6),  SIGNS(7),
    SIGNS(8), SIGNS(9), SIGNS(10), SIGNS(11), SIGNS(12), SIGNS(13), SIGNS(14), SIGNS(15)};

/* e_v sqrt(p_v) of up to WORD probabilities; `bits` has those of e. */
static void take_roots(float *root, const float *p, uint32_t bits, size_t count)
{
    float x[WORD] = {0};
    memcpy(x, p, count * sizeof *p);
    for (size_t i = 0; i < WORD; i++)
        x[i] = sqrtf(x[i]);
    for (size_t i = 0; i < WORD; i += 4)
        for (size_t j = 0; j < 4; j++)
            root[i + j] = x[i + j] * sign_of[bits >> i & 15][j];
}

/* Bits of e from v on, a multiple of WORD. */
static uint32_t signs_at(const head_job *job, size_t at, size_t v)
{
    return (uint32_t)(pare_random_u64(job->seed, at, v / 64) >> v % 64);
}

/* The logits of a row become dl. The sum over u has LANES parts: part i that of u % LANES = i. */
static bool draw_row(const head_job *job, float *row, size_t at)
{
    const size_t vocab = job->vocab;
    float max = -INFINITY, root[WORD];
    double total = 0, part[LANES] = {0}, sum = 0;
    (void)job->kernels->softmax_f32(row, vocab, 1, &max, &total);
    if (!isfinite(max) || !isfinite(total))
        return false;
    const float inverse = (float)(1 / total);
    for (size_t v = 0; v < vocab; v++)
        row[v] *= inverse;
    for (size_t v = 0; v < vocab; v += WORD) {
        take_roots(root, row + v, signs_at(job, at, v), pare_smaller(WORD, vocab - v));
        for (size_t i = 0; i < WORD; i += LANES)
            for (size_t j = 0; j < LANES; j++)
                part[j] += (double)root[i + j];
    }
    for (size_t i = 0; i < LANES; i++)
        sum += part[i];
    for (size_t v = 0; v < vocab; v += WORD) {
        const size_t count = pare_smaller(WORD, vocab - v);
        take_roots(root, row + v, signs_at(job, at, v), count);
        for (size_t i = 0; i < count; i++)
            row[v + i] = root[i] - row[v + i] * (float)sum;
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
