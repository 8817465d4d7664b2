#include "solve/scales.h"

#include <float.h>
#include <math.h>
#include <stdatomic.h>
#include <string.h>

#include "kernels/half.h"
#include "runtime/threads.h"
#include "solve/nf4.h"
#include "solve/nvfp4.h"
#include "solve/super.h"

enum { ROWS_PER_CHUNK = 8 };

typedef struct scales_job {
    const pare_kernels *kernels;
    const pare_grid *grid;
    const float *w, *cost;
    const pare_codes *out;
    atomic_size_t bad_row; /* first row with a fault, n when there is none */
} scales_job;

static pare_grid_fault fit_group(const scales_job *job, size_t i, size_t g)
{
    const pare_codes *const out = job->out;
    const size_t begin = g * job->grid->group;
    const size_t end = g + 1 < out->groups ? begin + job->grid->group : out->k;
    const size_t at = i * out->groups + g;
    const float *const cost = job->cost ? job->cost + begin : NULL;
    if (pare_encoding_is_super(job->grid->encoding))
        return pare_super_fit(job->grid->encoding, job->w + i * out->k + begin, cost,
                              &out->scales[at], &out->minima[at], out->sub + at * PARE_SUPER_BYTES);
    return pare_grid_fit_by(job->kernels, job->grid, job->w + i * out->k + begin, cost, end - begin,
                            &out->scales[at], &out->zeros[at]);
}

static void note_bad_row(scales_job *job, size_t row)
{
    size_t first = atomic_load(&job->bad_row);
    while (row < first && !atomic_compare_exchange_weak(&job->bad_row, &first, row))
        continue;
}

static void fit_rows(void *arg, size_t begin, size_t end, size_t worker)
{
    scales_job *const job = arg;
    (void)worker;
    for (size_t i = begin; i < end; i++)
        for (size_t g = 0; g < job->out->groups; g++)
            if (fit_group(job, i, g) != PARE_GRID_OK) {
                note_bad_row(job, i);
                break;
            }
}

static pare_status fit_each(pare_ctx *cx, scales_job *job)
{
    const pare_codes *const out = job->out;
    pare_parallel(cx, out->n, ROWS_PER_CHUNK, fit_rows, job);
    const size_t row = atomic_load(&job->bad_row);
    for (size_t g = 0; row < out->n && g < out->groups; g++) {
        const pare_grid_fault fault = fit_group(job, row, g);
        if (fault != PARE_GRID_OK)
            return pare_grid_fail(cx, fault, row, g, out->scales[row * out->groups + g]);
    }
    return PARE_OK;
}

/* One scale for all rows: a row that is not finite is named, the rest concerns the matrix. */
static pare_status fit_tensor(pare_ctx *cx, const scales_job *job)
{
    const pare_codes *const out = job->out;
    for (size_t i = 0; i < out->n * out->k; i++)
        if (!(fabsf(job->w[i]) <= FLT_MAX))
            return pare_grid_fail(cx, PARE_GRID_NOT_FINITE, i / out->k, 0, job->w[i]);
    float scale;
    uint8_t zero;
    const pare_grid_fault fault =
        pare_grid_fit(job->kernels, job->grid, job->w, out->n * out->k, &scale, &zero);
    if (fault != PARE_GRID_OK)
        return pare_grid_fail(cx, fault, 0, 0, scale);
    for (size_t i = 0; i < out->n; i++) {
        out->scales[i] = scale;
        out->zeros[i] = zero;
    }
    return PARE_OK;
}

/* The largest magnitude of the rows that are finite; the others are found when they are fitted. */
static float largest(const pare_kernels *kernels, const float *w, size_t n, size_t k)
{
    float most = 0, lo, hi;
    for (size_t i = 0; i < n; i++)
        if (kernels->range_f32(w + i * k, k, &lo, &hi)) {
            most = hi > most ? hi : most;
            most = -lo > most ? -lo : most;
        }
    return most;
}

void pare_scales_finish(const pare_grid *grid, pare_codes *out)
{
    const pare_encoding_row *const row = &pare_encodings[grid->encoding];
    if (row->scales == PARE_SCALES_STEPS)
        pare_nf4_scales(out);
    if (row->scales == PARE_SCALES_E4M3)
        pare_nvfp4_scales(out);
    if (row->scales == PARE_SCALES_POWERS)
        for (size_t i = 0; i < out->n * out->groups; i++)
            out->scale_codes[i] = (uint8_t)(pare_f32_bits(out->scales[i]) >> 23);
    if (row->decoding == PARE_DECODE_BOOK)
        memcpy(out->book, grid->book, (out->n << grid->bits) * sizeof *out->book);
}

pare_status pare_scales_fit(pare_ctx *cx, const pare_grid *grid, const float *w, const float *cost,
                            size_t n, size_t k, pare_codes *out)
{
    PARE_TRY(pare_grid_check(cx, grid, n, k, out));
    pare_grid known = *grid;
    if (pare_encodings[grid->encoding].scales == PARE_SCALES_E4M3)
        known.factor = pare_nvfp4_factor(largest(&cx->kernels, w, n, k), grid->clip);
    scales_job job = {
        .kernels = &cx->kernels, .grid = &known, .w = w, .cost = cost, .out = out, .bad_row = n};
    PARE_TRY(grid->tensor ? fit_tensor(cx, &job) : fit_each(cx, &job));
    pare_scales_finish(grid, out);
    return PARE_OK;
}
