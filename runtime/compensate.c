/* One task owns a tile of rows and walks all blocks of columns with it:
 *
 *     fit the grids of the groups that begin in the block
 *     for each strip of 64 rows of the tile, transposed so that a column lies in one piece:
 *         for each column of the block: round it, divide the error by U_jj, and take
 *         error * U_ji from each later column i of the block
 *     W[tile, behind] -= E[tile, block] U[block, behind]           one product, the lazy update
 *
 * Every inner loop runs over the 64 rows of a strip, which are independent: the chain of roundings
 * of one row is hidden behind the other rows, and the loops vectorize on any CPU. Errors take the
 * place of the weights they come from. */
#include "runtime/compensate.h"

#include <math.h>
#include <string.h>

#include "runtime/linalg.h"
#include "runtime/scales.h"
#include "runtime/threads.h"

enum { TILE = 128, STRIP = 64 };

/* Scratch of one worker. */
typedef struct strip {
    float *t;       /* [block, STRIP] weights, then errors, of the block */
    uint8_t *codes; /* [block, STRIP] */
    float *row;     /* [k] for reordering */
    float scale[STRIP], divisor[STRIP], zero[STRIP];
    double loss[STRIP];
} strip;

/* First fault of a tile. */
typedef struct tile_fault {
    pare_grid_fault fault;
    size_t row, group;
    float value;
} tile_fault;

typedef struct gptq_job {
    const pare_grid *grid;
    const pare_factor *factor;
    pare_codes *out;
    float *w;
    size_t n, k, block;
    strip *strips;     /* per worker */
    double *loss;      /* per tile */
    tile_fault *fault; /* per tile */
} gptq_job;

static size_t column_at(const gptq_job *job, size_t position)
{
    return job->factor->order ? job->factor->order[position] : position;
}

static size_t group_of(const gptq_job *job, size_t column)
{
    return job->grid->group ? column / job->grid->group : 0;
}

/* Fits groups [first, end) of rows [r0, r1) to the weights as they stand. */
static bool fit_groups(const gptq_job *job, size_t r0, size_t r1, size_t first, size_t end,
                       tile_fault *fault)
{
    const size_t k = job->k, group = job->grid->group, groups = job->out->groups;
    for (size_t i = r0; i < r1; i++)
        for (size_t g = first; g < end; g++) {
            const size_t begin = g * group, stop = g + 1 < groups ? begin + group : k;
            float *const scale = &job->out->scales[i * groups + g];
            const pare_grid_fault f = pare_grid_fit(job->grid, job->w + i * k + begin, stop - begin,
                                                    scale, &job->out->zeros[i * groups + g]);
            if (f != PARE_GRID_OK) {
                *fault = (tile_fault){f, i, g, *scale};
                return false;
            }
        }
    return true;
}

/* Fits the groups whose first column lies in [c0, c1). */
static bool fit_block(const gptq_job *job, size_t r0, size_t r1, size_t c0, size_t c1,
                      tile_fault *fault)
{
    const size_t group = job->grid->group;
    if (job->factor->order || pare_grid_whole(job->grid))
        return true; /* fitted beforehand */
    if (group == 0)
        return c0 > 0 || fit_groups(job, r0, r1, 0, 1, fault);
    return fit_groups(job, r0, r1, (c0 + group - 1) / group, (c1 + group - 1) / group, fault);
}

static void zero_dead(const gptq_job *job, size_t r0, size_t r1)
{
    const size_t k = job->k;
    for (size_t i = r0; i < r1 && job->factor->damping.dead; i++)
        for (size_t j = 0; j < k; j++)
            job->w[i * k + j] = job->factor->dead[j] ? 0 : job->w[i * k + j];
}

/* Zeroes dead columns; with an order, fits every group and sorts the columns of the rows. */
static bool prepare_rows(const gptq_job *job, size_t r0, size_t r1, float *row, tile_fault *fault)
{
    const pare_factor *const factor = job->factor;
    const size_t k = job->k;
    zero_dead(job, r0, r1);
    if (!factor->order)
        return true;
    if (!pare_grid_whole(job->grid) && !fit_groups(job, r0, r1, 0, job->out->groups, fault))
        return false;
    for (size_t i = r0; i < r1; i++) {
        float *const w = job->w + i * k;
        memcpy(row, w, k * sizeof *row);
        for (size_t j = 0; j < k; j++)
            w[j] = row[factor->order[j]];
    }
    return true;
}

/* Grids of group g for `rows` rows. A group of zeros has scale 0: dividing by infinity instead
 * keeps its codes at the zero point. */
static void load_grids(const gptq_job *job, strip *s, size_t r0, size_t rows, size_t g)
{
    const size_t groups = job->out->groups;
    for (size_t r = 0; r < rows; r++) {
        const size_t at = (r0 + r) * groups + g;
        s->scale[r] = job->out->scales[at];
        s->divisor[r] = s->scale[r] > 0 ? s->scale[r] : INFINITY;
        s->zero[r] = (float)job->out->zeros[at];
    }
}

/* Rounds one column of a strip: x, weights in, becomes (w - q) / u_jj. pare_grid_code over rows. */
static void round_column(strip *s, float *restrict x, uint8_t *restrict codes, float u_jj,
                         float top)
{
    const float magic = 12582912.0F;
    for (size_t r = 0; r < STRIP; r++) {
        const float zero = s->zero[r];
        float t = x[r] / s->divisor[r];
        t = t < 512 ? t : 512;
        t = t > -512 ? t : -512;
        t = (t + magic) - magic + zero;
        t = t < top ? t : top;
        t = t > 0 ? t : 0;
        codes[r] = (uint8_t)(int)t;
        const float e = (x[r] - (t - zero) * s->scale[r]) / u_jj;
        s->loss[r] += (double)e * (double)e;
        x[r] = e;
    }
}

/* The same on any other grid, row by row: r0 is the first row of the strip, which has `rows`. */
static void round_levels(const gptq_job *job, strip *s, float *x, uint8_t *codes, float u_jj,
                         size_t r0, size_t rows)
{
    const pare_grid *const grid = job->grid;
    for (size_t r = 0; r < rows; r++) {
        codes[r] = pare_grid_encode(grid, r0 + r, x[r], s->scale[r], 0);
        const float e = (x[r] - pare_grid_decode(grid, r0 + r, codes[r], s->scale[r], 0)) / u_jj;
        s->loss[r] += (double)e * (double)e;
        x[r] = e;
    }
}

static void take_error(float *restrict y, const float *restrict e, float u)
{
    for (size_t r = 0; r < STRIP; r++)
        y[r] -= e[r] * u;
}

/* Columns [c0, c1) of a strip, which lie in s->t. */
static void sweep(const gptq_job *job, strip *s, size_t r0, size_t rows, size_t c0, size_t c1)
{
    const float top = (float)((1u << job->grid->bits) - 1);
    size_t loaded = SIZE_MAX;
    for (size_t j = c0; j < c1; j++) {
        const float *const u = job->factor->u + j * job->k;
        const size_t g = group_of(job, column_at(job, j));
        float *const e = s->t + (j - c0) * STRIP;
        if (g != loaded)
            load_grids(job, s, r0, rows, g);
        loaded = g;
        if (job->grid->encoding == PARE_ENCODING_UNIFORM)
            round_column(s, e, s->codes + (j - c0) * STRIP, u[j], top);
        else
            round_levels(job, s, e, s->codes + (j - c0) * STRIP, u[j], r0, rows);
        for (size_t i = j + 1; i < c1; i++)
            take_error(s->t + (i - c0) * STRIP, e, u[i]);
    }
}

/* What lies behind the last row of a short strip is computed along and never looked at. */
static void load_strip(const gptq_job *job, strip *s, size_t r0, size_t rows, size_t c0, size_t c1)
{
    for (size_t r = 0; r < rows; r++) {
        const float *const w = job->w + (r0 + r) * job->k;
        for (size_t j = c0; j < c1; j++)
            s->t[(j - c0) * STRIP + r] = w[j];
    }
    memset(s->loss, 0, sizeof s->loss);
}

static void store_strip(const gptq_job *job, const strip *s, size_t r0, size_t rows, size_t c0,
                        size_t c1)
{
    for (size_t r = 0; r < rows; r++) {
        float *const w = job->w + (r0 + r) * job->k;
        uint8_t *const codes = job->out->codes + (r0 + r) * job->k;
        for (size_t j = c0; j < c1; j++) {
            w[j] = s->t[(j - c0) * STRIP + r];
            codes[column_at(job, j)] = s->codes[(j - c0) * STRIP + r];
        }
    }
}

static void quantize_tile(const gptq_job *job, size_t tile, strip *s)
{
    const size_t k = job->k, r0 = tile * TILE, r1 = r0 + TILE < job->n ? r0 + TILE : job->n;
    tile_fault *const fault = &job->fault[tile];
    if (!prepare_rows(job, r0, r1, s->row, fault))
        return;
    for (size_t c0 = 0; c0 < k; c0 += job->block) {
        const size_t c1 = k - c0 < job->block ? k : c0 + job->block;
        if (!fit_block(job, r0, r1, c0, c1, fault))
            return;
        for (size_t r = r0; r < r1; r += STRIP) {
            const size_t rows = r1 - r < STRIP ? r1 - r : STRIP;
            load_strip(job, s, r, rows, c0, c1);
            sweep(job, s, r, rows, c0, c1);
            store_strip(job, s, r, rows, c0, c1);
            for (size_t i = 0; i < rows; i++)
                job->loss[tile] += s->loss[i] / 2;
        }
        if (c1 < k)
            pare_gemm_sub(job->w + r0 * k + c1, k, job->w + r0 * k + c0, k,
                          job->factor->u + c0 * k + c1, k, r1 - r0, k - c1, c1 - c0);
    }
}

static void quantize_tiles(void *arg, size_t begin, size_t end, size_t worker)
{
    const gptq_job *const job = arg;
    for (size_t tile = begin; tile < end; tile++)
        quantize_tile(job, tile, &job->strips[worker]);
}

static pare_status take_scratch(pare_ctx *cx, pare_arena *scratch, gptq_job *job, size_t tiles)
{
    const size_t workers = pare_threads(cx);
    job->strips = PARE_NEW(scratch, strip, workers);
    job->loss = job->strips ? PARE_NEW(scratch, double, tiles) : NULL;
    job->fault = job->loss ? PARE_NEW(scratch, tile_fault, tiles) : NULL;
    for (size_t i = 0; i < workers; i++) {
        if (!job->fault)
            return PARE_ENOMEM;
        strip *const s = &job->strips[i];
        s->t = PARE_NEW(scratch, float, job->block *STRIP);
        s->codes = s->t ? PARE_NEW(scratch, uint8_t, job->block * STRIP) : NULL;
        s->row = s->codes ? PARE_NEW(scratch, float, job->k) : NULL;
        if (!s->row)
            return PARE_ENOMEM;
    }
    return PARE_OK;
}

static pare_status run_tiles(pare_ctx *cx, gptq_job *job, size_t tiles, double *loss)
{
    if (pare_grid_whole(job->grid)) {
        zero_dead(job, 0, job->n);
        PARE_TRY(pare_scales_fit(cx, job->grid, job->w, job->n, job->k, job->out));
    }
    pare_parallel(cx, tiles, 1, quantize_tiles, job);
    double sum = 0;
    for (size_t i = 0; i < tiles; i++) {
        const tile_fault *const f = &job->fault[i];
        if (f->fault != PARE_GRID_OK)
            return pare_grid_fail(cx, f->fault, f->row, f->group, f->value);
        sum += job->loss[i];
    }
    if (!isfinite(sum))
        return pare_fail(cx, PARE_ENUMERIC,
                         "the compensated weights left the range of F32: raise the damping");
    if (loss)
        *loss = sum;
    if (!pare_grid_whole(job->grid))
        pare_scales_finish(job->grid, job->out);
    return PARE_OK;
}

pare_status pare_compensate_run(pare_ctx *cx, pare_arena *scratch, const pare_compensate *c,
                                float *w, size_t n, size_t k, pare_codes *out, double *loss)
{
    PARE_TRY(pare_grid_check(cx, c->grid, n, k, out));
    if (c->block == 0 || c->block % 32 != 0)
        return pare_fail(cx, PARE_EINVAL, "block of %zu columns is not a multiple of 32", c->block);
    if (!c->factor->u)
        return pare_fail(cx, PARE_EINVAL, "the Hessian has no factor: round to nearest instead");
    if (c->factor->k != k)
        return pare_fail(cx, PARE_ESHAPE, "factor of %zu columns given for %zu", c->factor->k, k);

    const size_t tiles = n / TILE + (n % TILE != 0);
    const pare_mark mark = pare_arena_mark(scratch);
    gptq_job job = {.grid = c->grid, .factor = c->factor, .out = out, .w = w, .n = n, .k = k};
    job.block = c->block < k ? c->block : k;
    pare_status s = take_scratch(cx, scratch, &job, tiles);
    if (s == PARE_OK)
        s = run_tiles(cx, &job, tiles, loss);
    pare_arena_rewind(scratch, mark);
    return s;
}
