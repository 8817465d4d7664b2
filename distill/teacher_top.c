#include "distill/teacher_top.h"

#include <float.h>
#include <math.h>
#include <string.h>

#include "distill/losses.h"
#include "distill/soften_internal.h"
#include "runtime/small.h"
#include "runtime/threads.h"

pare_status pare_teacher_top_take(pare_arena *a, size_t rows, size_t vocab, size_t k,
                                  double temperature, pare_teacher_top *out)
{
    *out = (pare_teacher_top){.k = pare_smaller(k, vocab), .temperature = temperature};
    out->id = PARE_NEW(a, int32_t, rows * out->k);
    out->p = PARE_NEW(a, float, rows * out->k);
    out->rest = PARE_NEW(a, float, rows);
    return out->id && out->p && out->rest ? PARE_OK : PARE_ENOMEM;
}

uint64_t pare_teacher_top_bytes(uint64_t rows, size_t vocab, size_t k)
{
    return rows * (pare_smaller(k, vocab) * (sizeof(int32_t) + sizeof(float)) + sizeof(float)) +
           (uint64_t)3 * PARE_ALIGN;
}

typedef struct top_job {
    const pare_kernels *kernels;
    const pare_teacher_top *top;
    const float *x; /* [rows, vocab] logits: of the teacher, or of the student */
    const size_t *at;
    const int32_t *label;
    size_t vocab;
    double scale;
    float *work; /* [workers, vocab] */
    float *dz;
    double *value; /* [rows] */
} top_job;

/* --- keep --------------------------------------------------------------------------------------
 */

/* Whether token a goes before token b would: the smaller p, of equal ones the later. */
static bool goes_first(const float *p, int32_t a, int32_t b)
{
    return p[a] < p[b] || (p[a] == p[b] && a > b);
}

/* Entry i of a heap sinks to its place; the first to go lies on top. */
static void sink(const float *p, int32_t *heap, size_t count, size_t i)
{
    for (size_t child = 2 * i + 1; child < count; i = child, child = 2 * i + 1) {
        if (child + 1 < count && goes_first(p, heap[child + 1], heap[child]))
            child++;
        if (!goes_first(p, heap[child], heap[i]))
            return;
        const int32_t token = heap[i];
        heap[i] = heap[child];
        heap[child] = token;
    }
}

static void keep_rows(void *arg, size_t begin, size_t end, size_t worker)
{
    const top_job *const job = arg;
    const pare_teacher_top *const top = job->top;
    const size_t k = top->k;
    float *const p = job->work + worker * job->vocab;
    for (size_t i = begin; i < end; i++) {
        if (job->at[i] == SIZE_MAX)
            continue;
        int32_t *const id = top->id + job->at[i] * k;
        double rest = 0;
        (void)pare__soften(job->kernels, job->x + i * job->vocab, job->vocab, top->temperature, p);
        for (size_t j = 0; j < k; j++)
            id[j] = (int32_t)j;
        for (size_t j = k / 2; j-- > 0;)
            sink(p, id, k, j);
        for (size_t v = k; v < job->vocab; v++)
            if (goes_first(p, id[0], (int32_t)v)) {
                id[0] = (int32_t)v;
                sink(p, id, k, 0);
            }
        for (size_t j = 0; j < k; j++) {
            top->p[job->at[i] * k + j] = p[id[j]];
            p[id[j]] = 0;
        }
        for (size_t v = 0; v < job->vocab; v++)
            rest += (double)p[v];
        top->rest[job->at[i]] = (float)rest;
    }
}

uint64_t pare_teacher_top_scratch(const pare_ctx *cx, size_t rows, size_t vocab)
{
    return (uint64_t)pare_threads(cx) * vocab * sizeof(float) + rows * sizeof(double) +
           (uint64_t)2 * PARE_ALIGN;
}

pare_status pare_teacher_top_keep(pare_ctx *cx, pare_arena *scratch, pare_teacher_top *top,
                                  const float *t, const size_t *at, size_t rows, size_t vocab)
{
    const pare_mark mark = pare_arena_mark(scratch);
    top_job job = {.kernels = &cx->kernels,
                   .top = top,
                   .x = t,
                   .at = at,
                   .vocab = vocab,
                   .work = PARE_NEW(scratch, float, pare_threads(cx) * vocab)};
    if (!job.work)
        return PARE_ENOMEM;
    pare_parallel(cx, rows, 1, keep_rows, &job);
    pare_arena_rewind(scratch, mark);
    return PARE_OK;
}

/* --- compare -----------------------------------------------------------------------------------
 */

/* The value of row i; its dz is written. */
static double compare_row(const top_job *job, size_t i, float *q)
{
    const pare_teacher_top *const top = job->top;
    const size_t k = top->k, vocab = job->vocab;
    const double temperature = top->temperature, over = (double)(float)(1 / temperature);
    const int32_t *const id = top->id + job->at[i] * k;
    const float *const p = top->p + job->at[i] * k, *const z = job->x + i * vocab;
    const double all = pare__soften(job->kernels, z, vocab, temperature, q), factor = job->scale,
                 r = (double)top->rest[job->at[i]];
    float *const dz = job->dz + i * vocab;
    double sum = all - all, s = 0; /* not finite where z is not */
    for (size_t j = 0; j < k; j++) {
        const double of = (double)p[j];
        sum += of > 0 ? of * (log(of) - (double)z[id[j]] * over + all) : 0;
        dz[id[j]] = (float)(factor * temperature * ((double)q[id[j]] - of));
        q[id[j]] = 0;
    }
    for (size_t v = 0; v < vocab; v++)
        s += (double)q[v];
    s = s > FLT_MIN ? s : (double)FLT_MIN;
    sum += r > 0 ? r * log(r / s) : 0;
    for (size_t v = 0; v < vocab; v++)
        if (q[v] > 0)
            dz[v] = (float)(factor * temperature * (double)q[v] * (1 - r / s));
    return temperature * temperature * sum;
}

static void compare_rows(void *arg, size_t begin, size_t end, size_t worker)
{
    const top_job *const job = arg;
    for (size_t i = begin; i < end; i++) {
        memset(job->dz + i * job->vocab, 0, job->vocab * sizeof *job->dz);
        if (job->label[i] != PARE_NO_LABEL)
            job->value[i] = compare_row(job, i, job->work + worker * job->vocab);
    }
}

pare_status pare_teacher_top_kl(pare_ctx *cx, pare_arena *scratch, const pare_teacher_top *top,
                                const float *z, const size_t *at, const int32_t *label, size_t rows,
                                size_t vocab, double scale, float *dz, double *value)
{
    const pare_mark mark = pare_arena_mark(scratch);
    top_job job = {.kernels = &cx->kernels,
                   .top = top,
                   .x = z,
                   .at = at,
                   .label = label,
                   .vocab = vocab,
                   .scale = scale,
                   .work = PARE_NEW(scratch, float, pare_threads(cx) * vocab),
                   .dz = dz,
                   .value = PARE_NEW(scratch, double, rows)};
    if (!job.work || !job.value)
        return PARE_ENOMEM;
    pare_parallel(cx, rows, 1, compare_rows, &job);
    *value = 0;
    for (size_t i = 0; i < rows; i++)
        *value += job.value[i];
    pare_arena_rewind(scratch, mark);
    return PARE_OK;
}
