#include "quant/rtn.h"

#include <stdatomic.h>

#include "runtime/threads.h"

enum { ROWS_PER_CHUNK = 8 };

typedef struct rtn_job {
    const pare_grid *grid;
    const float *w;
    const pare_codes *out;
    atomic_size_t bad_row; /* first row with a fault, n when there is none */
} rtn_job;

static size_t group_end(const pare_codes *out, const pare_grid *grid, size_t g)
{
    return g + 1 < out->groups ? (g + 1) * grid->group : out->k;
}

static pare_grid_fault quantize_group(const rtn_job *job, size_t i, size_t g)
{
    const pare_codes *const out = job->out;
    const size_t begin = g * job->grid->group, count = group_end(out, job->grid, g) - begin;
    const float *const w = job->w + i * out->k + begin;
    uint8_t *const codes = out->codes + i * out->k + begin;
    float *const scale = &out->scales[i * out->groups + g];
    uint8_t *const zero = &out->zeros[i * out->groups + g];

    const pare_grid_fault fault = pare_grid_fit(job->grid, w, count, scale, zero);
    if (fault != PARE_GRID_OK)
        return fault;
    const float s = *scale;
    const uint8_t z = *zero;
    for (size_t j = 0; j < count; j++)
        codes[j] = pare_grid_code(job->grid->bits, w[j], s, z);
    return PARE_GRID_OK;
}

static void note_bad_row(rtn_job *job, size_t row)
{
    size_t first = atomic_load(&job->bad_row);
    while (row < first && !atomic_compare_exchange_weak(&job->bad_row, &first, row))
        continue;
}

static void quantize_rows(void *arg, size_t begin, size_t end, size_t worker)
{
    rtn_job *const job = arg;
    (void)worker;
    for (size_t i = begin; i < end; i++)
        for (size_t g = 0; g < job->out->groups; g++)
            if (quantize_group(job, i, g) != PARE_GRID_OK) {
                note_bad_row(job, i);
                break;
            }
}

pare_status pare_rtn_quantize(pare_ctx *cx, const pare_grid *grid, const float *w, size_t n,
                              size_t k, pare_codes *out)
{
    PARE_TRY(pare_grid_check(cx, grid, n, k, out));
    rtn_job job = {.grid = grid, .w = w, .out = out, .bad_row = n};
    pare_parallel(cx, n, ROWS_PER_CHUNK, quantize_rows, &job);

    const size_t row = atomic_load(&job.bad_row);
    for (size_t g = 0; row < n && g < out->groups; g++) {
        const pare_grid_fault fault = quantize_group(&job, row, g);
        if (fault != PARE_GRID_OK)
            return pare_grid_fail(cx, fault, row, g, out->scales[row * out->groups + g]);
    }
    return PARE_OK;
}
