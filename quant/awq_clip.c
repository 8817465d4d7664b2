/* The clip search. For a band of rows and one group, D [rows, count] holds what rounding changes
 * with the bound of this step; d H_gg d^T of all rows is summed over squares of H_gg on and below
 * the diagonal, one product P = D[:, j] H[j, l] each, then P * D[:, l] in double per row. */
#include <math.h>
#include <stdatomic.h>
#include <string.h>

#include "quant/awq_internal.h"
#include "runtime/linalg.h"
#include "runtime/threads.h"

enum { SIDE = 128, ROWS = 32, STEPS = 20, TRIED = 10 };

typedef struct clip_job {
    const pare_kernels *kernels;
    const pare_grid *grid;
    const float *h;
    float *w;
    float *d; /* [workers, ROWS, group] */
    size_t n, k, group;
    double *error, *unclipped; /* of each band: added in order afterwards */
    size_t *clipped;
    atomic_size_t bad;
} clip_job;

/* A band of rows at one group. */
typedef struct band {
    size_t row, rows, at, count;
    float *d; /* [rows, count] */
    float most[ROWS], bound[ROWS];
    double error[ROWS], best[ROWS];
    float p[ROWS * SIDE], square[SIDE * SIDE];
} band;

static const float *diagonal_square(const clip_job *job, band *b, size_t j, size_t side)
{
    for (size_t r = 0; r < side; r++)
        for (size_t c = 0; c < side; c++) {
            const float x = c <= r ? job->h[(b->at + j + r) * job->k + b->at + j + c] : 0;
            b->square[r * SIDE + c] = c == r ? x / 2 : x;
        }
    return b->square;
}

/* Adds what the square (j, l), l <= j, gives to the error of every row. */
static void add_square(const clip_job *job, band *b, size_t j, size_t l)
{
    const size_t side = b->count - j < SIDE ? b->count - j : SIDE;
    const size_t cols = j == l ? side : SIDE;
    const float *const h =
        j == l ? diagonal_square(job, b, j, side) : job->h + (b->at + j) * job->k + b->at + l;
    memset(b->p, 0, sizeof b->p);
    pare_gemm_sub(job->kernels, b->p, SIDE, b->d + j, b->count, h, j == l ? SIDE : job->k, b->rows,
                  cols, side);
    for (size_t r = 0; r < b->rows; r++) {
        double sum = 0;
        for (size_t c = 0; c < cols; c++)
            sum -= (double)b->p[r * SIDE + c] * (double)b->d[r * b->count + l + c];
        b->error[r] += 2 * sum;
    }
}

/* D of row r with its weights clamped to +-bound. False: no grid. */
static bool load_row(const clip_job *job, band *b, size_t r, float bound)
{
    const float *const w = job->w + (b->row + r) * job->k + b->at;
    float *const d = b->d + r * b->count;
    for (size_t j = 0; j < b->count; j++) {
        const float x = w[j] < bound ? w[j] : bound;
        d[j] = w[j] != w[j] ? w[j] : x > -bound ? x : -bound;
    }
    if (pare_grid_round(job->kernels, job->grid, b->row + r, d, b->count, d) != PARE_GRID_OK)
        return false;
    for (size_t j = 0; j < b->count; j++)
        d[j] -= w[j];
    return true;
}

static float bound_at(const band *b, size_t r, int step)
{
    return step == 0 ? b->most[r] : (float)((double)b->most[r] * (1 - (double)step / STEPS));
}

static void note_bad(clip_job *job, const band *b, size_t r)
{
    const size_t here = (b->row + r) * pare_grid_groups(job->grid, job->k) + b->at / job->group;
    size_t first = atomic_load(&job->bad);
    while (here < first && !atomic_compare_exchange_weak(&job->bad, &first, here))
        continue;
}

/* One step of the search for all rows of the band. */
static void try_step(clip_job *job, band *b, int step)
{
    bool fits[ROWS];
    for (size_t r = 0; r < b->rows; r++) {
        b->error[r] = 0;
        fits[r] = load_row(job, b, r, bound_at(b, r, step));
        if (!fits[r])
            memset(b->d + r * b->count, 0, b->count * sizeof *b->d);
    }
    for (size_t j = 0; j < b->count; j += SIDE)
        for (size_t l = 0; l <= j; l += SIDE)
            add_square(job, b, j, l);
    for (size_t r = 0; r < b->rows; r++) {
        if (!fits[r] && step == 0)
            note_bad(job, b, r);
        if (!fits[r] || (step && !(b->error[r] < b->best[r])))
            continue;
        b->best[r] = b->error[r];
        b->bound[r] = bound_at(b, r, step);
    }
}

static void clamp_row(const clip_job *job, const band *b, size_t r)
{
    float *const w = job->w + (b->row + r) * job->k + b->at;
    for (size_t j = 0; j < b->count; j++) {
        const float x = w[j] < b->bound[r] ? w[j] : b->bound[r];
        w[j] = x > -b->bound[r] ? x : -b->bound[r];
    }
}

static void clip_group(clip_job *job, band *b, size_t index)
{
    for (size_t r = 0; r < b->rows; r++) {
        const float *const w = job->w + (b->row + r) * job->k + b->at;
        b->most[r] = 0;
        b->best[r] = 0;
        for (size_t j = 0; j < b->count; j++)
            b->most[r] = fmaxf(b->most[r], fabsf(w[j]));
        b->bound[r] = b->most[r];
    }
    for (int step = 0; step < TRIED; step++) {
        try_step(job, b, step);
        for (size_t r = 0; step == 0 && r < b->rows; r++)
            job->unclipped[index] += b->best[r];
    }
    for (size_t r = 0; r < b->rows; r++) {
        job->error[index] += b->best[r];
        if (!(b->bound[r] < b->most[r]))
            continue;
        job->clipped[index]++;
        clamp_row(job, b, r);
    }
}

static void clip_bands(void *arg, size_t begin, size_t end, size_t worker)
{
    clip_job *const job = arg;
    band b = {.d = job->d + worker * ROWS * job->group};
    for (size_t i = begin; i < end; i++) {
        b.row = i * ROWS;
        b.rows = job->n - b.row < ROWS ? job->n - b.row : ROWS;
        for (b.at = 0; b.at < job->k; b.at += job->group) {
            b.count = job->k - b.at < job->group ? job->k - b.at : job->group;
            clip_group(job, &b, i);
        }
    }
}

pare_status pare_awq_clip(pare_ctx *cx, pare_arena *scratch, const pare_grid *grid, const float *h,
                          float *w, size_t n, size_t k, pare_awq_clipped *found)
{
    const pare_mark mark = pare_arena_mark(scratch);
    const size_t bands = n / ROWS + (n % ROWS != 0), groups = n * pare_grid_groups(grid, k);
    clip_job job = {.kernels = &cx->kernels,
                    .grid = grid,
                    .h = h,
                    .w = w,
                    .n = n,
                    .k = k,
                    .group = pare__awq_group(grid, k)};
    job.error = PARE_NEW(scratch, double, bands);
    job.unclipped = PARE_NEW(scratch, double, bands);
    job.clipped = PARE_NEW(scratch, size_t, bands);
    job.d = PARE_NEW(scratch, float, pare_threads(cx) * ROWS * job.group);
    if (!job.error || !job.unclipped || !job.clipped || !job.d)
        return PARE_ENOMEM;
    atomic_init(&job.bad, groups);
    pare_parallel(cx, bands, 1, clip_bands, &job);
    const size_t bad = atomic_load(&job.bad);
    if (bad < groups)
        return pare__awq_fail(cx, grid, w, k, bad);
    *found = (pare_awq_clipped){.groups = groups};
    for (size_t i = 0; i < bands; i++) {
        found->error += job.error[i];
        found->unclipped += job.unclipped[i];
        found->clipped += job.clipped[i];
    }
    pare_arena_rewind(scratch, mark);
    if (!isfinite(found->unclipped))
        return pare_fail(cx, PARE_ENUMERIC, "the error of rounding is %g: H is not finite",
                         found->unclipped);
    return PARE_OK;
}
