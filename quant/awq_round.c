/* Rounding with scales on the input channels: q = Q(W diag s) diag(s)^-1. */
#include <stdatomic.h>
#include <string.h>

#include "quant/awq_internal.h"
#include "runtime/threads.h"

enum { ROWS_PER_CHUNK = 8 };

typedef struct round_job {
    const pare_kernels *kernels;
    const pare_grid *grid;
    const float *w, *s;
    float *q, *row; /* row [workers, k] */
    size_t k, groups;
    atomic_size_t bad; /* first group without a grid */
} round_job;

static void note_bad(round_job *job, size_t at)
{
    size_t first = atomic_load(&job->bad);
    while (at < first && !atomic_compare_exchange_weak(&job->bad, &first, at))
        continue;
}

static void round_row(round_job *job, size_t i, float *row)
{
    const size_t k = job->k, group = pare__awq_group(job->grid, k);
    const float *const w = job->w + i * k, *const s = job->s;
    for (size_t j = 0; j < k; j++)
        row[j] = s ? w[j] * s[j] : w[j];
    for (size_t g = 0; g < job->groups; g++) {
        const size_t at = g * group, count = k - at < group ? k - at : group;
        if (pare_grid_round(job->kernels, job->grid, i, row + at, count, row + at) != PARE_GRID_OK)
            note_bad(job, i * job->groups + g);
    }
    for (size_t j = 0; j < k; j++)
        job->q[i * k + j] = s ? row[j] / s[j] : row[j];
}

static void round_rows(void *arg, size_t begin, size_t end, size_t worker)
{
    round_job *const job = arg;
    for (size_t i = begin; i < end; i++)
        round_row(job, i, job->row + worker * job->k);
}

pare_status pare__awq_try(pare_ctx *cx, pare_arena *scratch, const pare_grid *grid, const float *w,
                          const float *s, size_t n, size_t k, float *q, size_t *bad)
{
    const pare_mark mark = pare_arena_mark(scratch);
    const size_t groups = pare_grid_groups(grid, k);
    round_job job = {
        .kernels = &cx->kernels, .grid = grid, .w = w, .s = s, .q = q, .k = k, .groups = groups};
    job.row = PARE_NEW(scratch, float, pare_threads(cx) * k);
    if (!job.row)
        return PARE_ENOMEM;
    atomic_init(&job.bad, n * groups);
    pare_parallel(cx, n, ROWS_PER_CHUNK, round_rows, &job);
    *bad = atomic_load(&job.bad);
    pare_arena_rewind(scratch, mark);
    return PARE_OK;
}

pare_status pare__awq_fail(pare_ctx *cx, const pare_grid *grid, const float *w, size_t k,
                           size_t bad)
{
    const size_t groups = pare_grid_groups(grid, k), group = pare__awq_group(grid, k);
    const size_t row = bad / groups, at = bad % groups * group;
    float scale;
    uint8_t zero;
    const pare_grid_fault fault = pare_grid_fit(&cx->kernels, grid, w + row * k + at,
                                                k - at < group ? k - at : group, &scale, &zero);
    if (fault == PARE_GRID_OK)
        return pare_fail(cx, PARE_ENUMERIC,
                         "row %zu, group %zu: scaled, its weights leave the range of the grid", row,
                         bad % groups);
    return pare_grid_fail(cx, fault, row, bad % groups, scale);
}

pare_status pare_awq_round(pare_ctx *cx, pare_arena *scratch, const pare_grid *grid, const float *w,
                           const float *s, size_t n, size_t k, float *q)
{
    size_t bad;
    PARE_TRY(pare__awq_try(cx, scratch, grid, w, s, n, k, q, &bad));
    return bad == n * pare_grid_groups(grid, k) ? PARE_OK : pare__awq_fail(cx, grid, w, k, bad);
}
