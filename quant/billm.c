#include "quant/billm.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/half.h"
#include "runtime/linalg.h"
#include "runtime/threads.h"

enum { BLOCK = PARE_BILLM_BLOCK, SALIENT = PARE_BILLM_SALIENT, TILE = 128 };

/* Sums of one tile of rows; added over tiles in order. */
typedef struct tile_sums {
    double salience[BLOCK];
    double error[SALIENT + 1]; /* by number of salient columns */
    size_t bad_row;            /* 1-based first row with a fault, 0: none */
    float bad;
} tile_sums;

typedef struct billm_job {
    const pare_kernels *kernels;
    const pare_factor *factor;
    float *w;
    const pare_codes *out;
    size_t n, k, c0, cols; /* of the block */
    size_t rank[BLOCK];    /* columns of the block by falling salience */
    size_t salient, limit; /* chosen, and the most that may be */
    tile_sums *sums;
} billm_job;

pare_grid pare_billm_grid(void)
{
    return (pare_grid){
        .bits = 2, .group = BLOCK, .encoding = PARE_ENCODING_BINARY, .f16_scales = true};
}

static size_t tile_end(const billm_job *job, size_t tile)
{
    return (tile + 1) * TILE < job->n ? (tile + 1) * TILE : job->n;
}

static void note_fault(tile_sums *sums, size_t row, float value)
{
    if (sums->bad_row == 0) {
        sums->bad_row = row + 1;
        sums->bad = value;
    }
}

static void add_salience(void *arg, size_t begin, size_t end, size_t worker)
{
    const billm_job *const job = arg;
    (void)worker;
    for (size_t tile = begin; tile < end; tile++) {
        tile_sums *const sums = &job->sums[tile];
        memset(sums->salience, 0, sizeof sums->salience);
        for (size_t i = tile * TILE; i < tile_end(job, tile); i++)
            for (size_t j = 0; j < job->cols; j++) {
                const float x = job->w[i * job->k + job->c0 + j];
                const double u = (double)job->factor->pivot[job->c0 + j];
                if (!(fabsf(x) <= FLT_MAX))
                    note_fault(sums, i, x);
                sums->salience[j] += (double)x * (double)x / (u * u);
            }
    }
}

/* Squared error of a row for each number of salient columns. Of m magnitudes with sum a, one mean
 * takes a^2 / m off the sum of squares. */
static void add_errors(const billm_job *job, const float *w, double *error)
{
    double rest = 0, squares = 0, head = 0;
    for (size_t j = 0; j < job->cols; j++) {
        rest += (double)fabsf(w[j]);
        squares += (double)w[j] * (double)w[j];
    }
    for (size_t count = 0; count <= job->limit; count++) {
        double left = 0; /* magnitudes of what the first sign leaves */
        for (size_t s = 0; s < count; s++)
            left += fabs((double)fabsf(w[job->rank[s]]) - head / (double)count);
        error[count] += squares - rest * rest / (double)(job->cols - count);
        if (count)
            error[count] -= (head * head + left * left) / (double)count;
        if (count < job->limit) {
            const double a = (double)fabsf(w[job->rank[count]]);
            rest -= a;
            head += a;
        }
    }
}

static void add_split_errors(void *arg, size_t begin, size_t end, size_t worker)
{
    const billm_job *const job = arg;
    (void)worker;
    for (size_t tile = begin; tile < end; tile++) {
        tile_sums *const sums = &job->sums[tile];
        memset(sums->error, 0, sizeof sums->error);
        for (size_t i = tile * TILE; i < tile_end(job, tile); i++)
            add_errors(job, job->w + i * job->k + job->c0, sums->error);
    }
}

static double tiles_sum(const billm_job *job, size_t tiles, size_t at, bool error)
{
    double sum = 0;
    for (size_t t = 0; t < tiles; t++)
        sum += error ? job->sums[t].error[at] : job->sums[t].salience[at];
    return sum;
}

/* Columns of the block by falling salience, equal ones from left to right. */
static void rank_columns(billm_job *job, size_t tiles)
{
    double salience[BLOCK];
    for (size_t j = 0; j < job->cols; j++) {
        salience[j] = tiles_sum(job, tiles, j, false);
        size_t at = j;
        for (; at > 0 && salience[job->rank[at - 1]] < salience[j]; at--)
            job->rank[at] = job->rank[at - 1];
        job->rank[at] = j;
    }
}

static void choose_salient(const pare_ctx *cx, billm_job *job, size_t tiles)
{
    job->limit = job->cols / 2 < SALIENT ? job->cols / 2 : SALIENT;
    pare_parallel(cx, tiles, 1, add_split_errors, job);
    double least = INFINITY;
    for (size_t count = 0; count <= job->limit; count++) {
        const double e = tiles_sum(job, tiles, count, true);
        if (e < least) {
            least = e;
            job->salient = count;
        }
    }
    for (size_t s = 0; s < job->salient; s++)
        job->out->salient[job->c0 + job->rank[s]] = 1;
}

static int by_magnitude(const void *left, const void *right)
{
    const float a = *(const float *)left, b = *(const float *)right;
    return (a > b) - (a < b);
}

/* Means of the two parts of ascending magnitudes, split where the squared error is least. */
static void split(const float *a, size_t count, float *small, float *large)
{
    double sum = 0, below = 0, most = -1;
    for (size_t i = 0; i < count; i++)
        sum += (double)a[i];
    for (size_t i = 1; i <= count; i++) {
        below += (double)a[i - 1];
        const double above = sum - below, behind = (double)(count - i);
        const double taken = below * below / (double)i + (i < count ? above * above / behind : 0);
        if (taken > most) {
            most = taken;
            *small = (float)(below / (double)i);
            *large = i < count ? (float)(above / behind) : *small;
        }
    }
}

/* Magnitudes of a row of the block: small, large, first, second. */
static void fit_row(const billm_job *job, const float *w, float *magnitude)
{
    float other[BLOCK];
    double first = 0, second = 0;
    const double salient = job->salient ? (double)job->salient : 1;
    for (size_t s = 0; s < job->salient; s++)
        first += (double)fabsf(w[job->rank[s]]) / salient;
    for (size_t s = 0; s < job->salient; s++)
        second += fabs((double)fabsf(w[job->rank[s]]) - first) / salient;
    for (size_t s = job->salient; s < job->cols; s++)
        other[s - job->salient] = fabsf(w[job->rank[s]]);
    qsort(other, job->cols - job->salient, sizeof *other, by_magnitude);
    split(other, job->cols - job->salient, &magnitude[0], &magnitude[1]);
    magnitude[2] = (float)first;
    magnitude[3] = (float)second;
    for (size_t m = 0; m < 4; m++)
        magnitude[m] = pare_f16_to_f32(pare_f32_to_f16(magnitude[m]));
}

/* The nearest of the four values of a column: bit 0 of the code is the first sign. */
static float nearest(const float *magnitude, bool salient, float x, uint8_t *code)
{
    float best = 0;
    for (uint8_t c = 0; c < 4; c++) {
        float v = magnitude[salient ? 2 : c >> 1];
        v = c & 1 ? v : -v;
        if (salient)
            v += c & 2 ? magnitude[3] : -magnitude[3];
        if (c == 0 || fabsf(x - v) < fabsf(x - best)) {
            best = v;
            *code = c;
        }
    }
    return best;
}

/* Codes of a row of the block; its weights become errors / U_jj. */
static void sweep_row(const billm_job *job, float *restrict w, uint8_t *codes,
                      const float *magnitude)
{
    const pare_factor *const f = job->factor;
    for (size_t j = 0; j < job->cols; j++) {
        const float *restrict const u = f->u ? f->u + (job->c0 + j) * job->k + job->c0 : NULL;
        const float q = nearest(magnitude, job->out->salient[job->c0 + j], w[j], &codes[j]);
        const float e = (w[j] - q) / f->pivot[job->c0 + j];
        w[j] = e;
        for (size_t i = j + 1; u && i < job->cols; i++)
            w[i] -= e * u[i];
    }
}

/* Behind the last block nothing looks at the weights again. */
static void check_errors(const billm_job *job, size_t tile, size_t row)
{
    const float *const e = job->w + row * job->k + job->c0;
    for (size_t j = 0; j < job->cols; j++)
        if (!(fabsf(e[j]) <= FLT_MAX))
            note_fault(&job->sums[tile], row, e[j]);
}

static void quantize_tiles(void *arg, size_t begin, size_t end, size_t worker)
{
    const billm_job *const job = arg;
    const size_t k = job->k, c0 = job->c0, c1 = c0 + job->cols, g = c0 / BLOCK;
    (void)worker;
    for (size_t tile = begin; tile < end; tile++) {
        const size_t r0 = tile * TILE, r1 = tile_end(job, tile);
        for (size_t i = r0; i < r1; i++) {
            float *const magnitude = job->out->book + (i * job->out->groups + g) * 4;
            fit_row(job, job->w + i * k + c0, magnitude);
            for (size_t m = 0; m < 4; m++)
                if (!(magnitude[m] <= 65504))
                    note_fault(&job->sums[tile], i, magnitude[m]);
            sweep_row(job, job->w + i * k + c0, job->out->codes + i * k + c0, magnitude);
            check_errors(job, tile, i);
        }
        if (c1 < k && job->factor->u)
            pare_gemm_sub(job->kernels, job->w + r0 * k + c1, k, job->w + r0 * k + c0, k,
                          job->factor->u + c0 * k + c1, k, r1 - r0, k - c1, job->cols);
    }
}

static pare_status report_fault(pare_ctx *cx, const billm_job *job, size_t tiles)
{
    for (size_t t = 0; t < tiles; t++)
        if (job->sums[t].bad_row)
            return pare_fail(cx, PARE_ENUMERIC,
                             "row %zu, group %zu: weight or magnitude %g is not finite in F16: "
                             "repair the checkpoint, raise the damping, or leave this linear out",
                             job->sums[t].bad_row - 1, job->c0 / BLOCK, (double)job->sums[t].bad);
    return PARE_OK;
}

static pare_status run_blocks(pare_ctx *cx, billm_job *job, size_t tiles)
{
    for (job->c0 = 0; job->c0 < job->k; job->c0 += BLOCK) {
        job->cols = job->k - job->c0 < BLOCK ? job->k - job->c0 : BLOCK;
        pare_parallel(cx, tiles, 1, add_salience, job);
        PARE_TRY(report_fault(cx, job, tiles));
        rank_columns(job, tiles);
        choose_salient(cx, job, tiles);
        pare_parallel(cx, tiles, 1, quantize_tiles, job);
        PARE_TRY(report_fault(cx, job, tiles));
    }
    return PARE_OK;
}

pare_status pare_billm_quantize(pare_ctx *cx, pare_arena *scratch, const pare_factor *factor,
                                float *w, pare_codes *out)
{
    const pare_grid grid = pare_billm_grid();
    PARE_TRY(pare_grid_check(cx, &grid, out->n, out->k, out));
    if (factor->damping.failed || factor->order)
        return pare_fail(cx, PARE_EINVAL,
                         "binary weights need a factor of the Hessian in the "
                         "order of its columns");
    if (factor->k != out->k)
        return pare_fail(cx, PARE_ESHAPE, "factor of %zu columns given for %zu", factor->k, out->k);
    const size_t tiles = out->n / TILE + (out->n % TILE != 0);
    const pare_mark mark = pare_arena_mark(scratch);
    billm_job job = {
        .kernels = &cx->kernels, .factor = factor, .w = w, .out = out, .n = out->n, .k = out->k};
    job.sums = PARE_NEW(scratch, tile_sums, tiles);
    for (size_t i = 0; i < out->n * out->k && factor->damping.dead; i++)
        w[i] = factor->dead[i % out->k] ? 0 : w[i];
    memset(out->salient, 0, out->k);
    const pare_status s = job.sums ? run_blocks(cx, &job, tiles) : PARE_ENOMEM;
    pare_arena_rewind(scratch, mark);
    return s;
}
