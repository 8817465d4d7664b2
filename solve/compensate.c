/* One task owns a tile of rows and walks all blocks of columns with it:
 *
 *     fit the grids of the groups that begin in the block
 *     for each strip of 64 rows of the tile, transposed so that a column lies in one piece:
 *         for each column of the block: round it, divide the error by U_jj, and take
 *         error * U_ji from each later column i of the block
 *     W[tile, behind] -= E[tile, block] U[block, behind]           one product, the lazy update
 *
 * Columns kept apart are blocks of their own, behind all others; before the first of them the
 * scales of the rows are fitted (compensate_apart.c).
 *
 * What goes unstructured is chosen block by block over all rows (compensate_mask.c), and then tiles
 * wait for each other after each block instead of after the last.
 *
 * Every inner loop runs over the 64 rows of a strip, which are independent: the chain of roundings
 * of one row is hidden behind the other rows, and the loops vectorize on any CPU. Errors take the
 * place of the weights they come from. */
#include "solve/compensate_internal.h"

#include <math.h>
#include <string.h>

#include "runtime/linalg.h"
#include "runtime/threads.h"
#include "solve/scales.h"
#include "solve/super.h"

enum { TILE = PARE__TILE, STRIP = PARE__STRIP };

static size_t column_at(const pare__sweep *job, size_t position)
{
    return job->factor->order ? job->factor->order[position] : position;
}

static size_t group_of(const pare__sweep *job, size_t column)
{
    return job->grid->group ? column / job->grid->group : 0;
}

static bool is_super(const pare__sweep *job)
{
    return job->grid && pare_encoding_is_super(job->grid->encoding);
}

/* Fits group g of row i, whose first weight is w. */
static pare_grid_fault fit_group(const pare__sweep *job, size_t i, size_t g, const float *w)
{
    const size_t at = i * job->out->groups + g;
    float *const scale = &job->out->scales[at];
    if (is_super(job))
        return pare_super_fit(job->grid->encoding, w, job->loss_of + g * PARE_SUPER, scale,
                              &job->out->minima[at], job->out->sub + at * PARE_SUPER_BYTES);
    return pare_grid_fit_by(job->kernels, job->grid, w, job->factor->diagonal + job->begins[g],
                            job->begins[g + 1] - job->begins[g], scale, &job->out->zeros[at]);
}

/* Fits groups [first, end) of rows [r0, r1) to the weights w [n, k]. */
static bool fit_groups(const pare__sweep *job, const float *w, size_t r0, size_t r1, size_t first,
                       size_t end, pare__tile_fault *fault)
{
    const size_t k = job->k, groups = job->out->groups;
    for (size_t i = r0; i < r1; i++)
        for (size_t g = first; g < end; g++) {
            const pare_grid_fault f = fit_group(job, i, g, w + i * k + job->begins[g]);
            if (f != PARE_GRID_OK) {
                *fault = (pare__tile_fault){f, i, g, job->out->scales[i * groups + g]};
                return false;
            }
        }
    return true;
}

static bool fitted_before(const pare__sweep *job)
{
    return (job->factor->order && !job->factor->apart) || pare_grid_whole(job->grid);
}

/* Fits the groups whose first position lies in [c0, c1). */
static bool fit_block(const pare__sweep *job, size_t r0, size_t r1, size_t c0, size_t c1,
                      pare__tile_fault *fault)
{
    if (!job->grid || fitted_before(job))
        return true;
    size_t first = 0, end = 0;
    while (first < job->out->groups && job->begins[first] < c0)
        first++;
    while (end < job->out->groups && job->begins[end] < c1)
        end++;
    return fit_groups(job, job->w, r0, r1, first, end, fault) &&
           (c0 != job->inner || pare__sweep_fit_apart(job, r0, r1, fault));
}

static void zero_dead(const pare__sweep *job, size_t r0, size_t r1)
{
    const size_t k = job->k;
    for (size_t i = r0; i < r1 && job->factor->damping.dead; i++)
        for (size_t j = 0; j < k; j++)
            job->w[i * k + j] = job->factor->dead[j] ? 0 : job->w[i * k + j];
}

/* Zeroes dead columns; with an order, sorts the columns of the rows, and fits every group unless
 * columns are kept apart. */
static bool prepare_rows(const pare__sweep *job, size_t r0, size_t r1, float *row,
                         pare__tile_fault *fault)
{
    const pare_factor *const factor = job->factor;
    const size_t k = job->k;
    zero_dead(job, r0, r1);
    if (!factor->order)
        return true;
    if (job->grid && !factor->apart && !pare_grid_whole(job->grid) &&
        !fit_groups(job, job->fitted_to ? job->fitted_to : job->w, r0, r1, 0, job->out->groups,
                    fault))
        return false;
    for (size_t i = r0; i < r1; i++) {
        float *const w = job->w + i * k;
        memcpy(row, w, k * sizeof *row);
        for (size_t j = 0; j < k; j++)
            w[j] = row[factor->order[j]];
    }
    return true;
}

/* Grids of group g for `rows` rows; behind the last group: of the columns kept apart, codes + 128.
 * A group of zeros has scale 0: dividing by infinity instead keeps its codes at the zero point. */
static void load_grids(const pare__sweep *job, pare__strip *s, size_t r0, size_t rows, size_t g)
{
    const size_t groups = job->out->groups;
    for (size_t r = 0; r < rows; r++) {
        const size_t at = (r0 + r) * groups + g;
        s->scale[r] = g < groups ? job->out->scales[at] : job->out->outlier_scale[r0 + r];
        s->divisor[r] = s->scale[r] != 0 ? s->scale[r] : INFINITY;
        s->zero[r] = g < groups ? (float)job->out->zeros[at] : 128;
    }
}

/* The grids of the sub-block of a column, for `rows` rows. In natural order s and o are first
 * chosen anew for the weights as they stand, x [.., STRIP] from this column on. */
static void load_super(const pare__sweep *job, pare__strip *s, const float *x, size_t r0,
                       size_t rows, size_t column)
{
    const pare_encoding e = job->grid->encoding;
    const size_t n = pare_super_sub(e);
    for (size_t r = 0; r < rows; r++) {
        const size_t at = (r0 + r) * job->out->groups + column / PARE_SUPER;
        if (!job->factor->order) {
            float w[PARE_SUPER];
            for (size_t j = 0; j < n; j++)
                w[j] = x[j * STRIP + r];
            pare_super_refit(e, w, job->loss_of + column, job->out->scales[at],
                             job->out->minima[at], pare_super_at(job->out, e, r0 + r, column));
        }
        const pare_sub_grid g = pare_super_column(job->out, e, r0 + r, column);
        s->scale[r] = g.step;
        s->divisor[r] = g.step != 0 ? g.step : INFINITY;
        s->zero[r] = (float)g.zero;
        s->least[r] = g.least;
    }
}

/* Rounds one column of a strip: x, weights in, becomes (w - q) / u_jj. pare_grid_code over rows,
 * codes from `low` to `top`. */
static void round_column(pare__strip *s, float *restrict x, uint8_t *restrict codes, float u_jj,
                         float low, float top)
{
    const float magic = 12582912.0F;
    for (size_t r = 0; r < STRIP; r++) {
        const float zero = s->zero[r];
        float t = x[r] / s->divisor[r];
        t = t < 512 ? t : 512;
        t = t > -512 ? t : -512;
        t = (t + magic) - magic + zero;
        t = t < top ? t : top;
        t = t > low ? t : low;
        codes[r] = (uint8_t)(int)t;
        const float e = (x[r] - (t - zero) * s->scale[r]) / u_jj;
        s->loss[r] += (double)e * (double)e;
        x[r] = e;
    }
}

/* The same on the grids of sub-blocks. */
static void round_super(pare__strip *s, float *restrict x, uint8_t *restrict codes, float u_jj,
                        float top)
{
    const float magic = 12582912.0F;
    for (size_t r = 0; r < STRIP; r++) {
        const float zero = s->zero[r];
        float t = (x[r] + s->least[r]) / s->divisor[r];
        t = t < 512 ? t : 512;
        t = t > -512 ? t : -512;
        t = (t + magic) - magic + zero;
        t = t < top ? t : top;
        t = t > 0 ? t : 0;
        codes[r] = (uint8_t)(int)t;
        const float e = (x[r] - (s->scale[r] * (t - zero) - s->least[r])) / u_jj;
        s->loss[r] += (double)e * (double)e;
        x[r] = e;
    }
}

/* The same on any other grid, row by row: r0 is the first row of the strip, which has `rows`. */
static void round_levels(const pare__sweep *job, pare__strip *s, float *x, uint8_t *codes,
                         float u_jj, size_t r0, size_t rows)
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

/* Without a grid: what stays is right as it is. */
static void keep_column(const pare__sweep *job, pare__strip *s, float *x, size_t row, size_t rows,
                        size_t j)
{
    for (size_t r = 0; r < rows; r++)
        s->kept[(row + r) * job->block + j] = x[r];
    memset(x, 0, STRIP * sizeof *x);
}

/* Rounds column j of a strip, x; the errors take its place. */
static void round_one(const pare__sweep *job, pare__strip *s, float *x, uint8_t *codes, size_t r0,
                      size_t rows, size_t j)
{
    const float u_jj = job->factor->pivot[j];
    const bool apart = j >= job->inner;
    const size_t g = apart ? job->out->groups : group_of(job, column_at(job, j));
    if (is_super(job)) {
        const size_t column = column_at(job, j), sub = column / pare_super_sub(job->grid->encoding);
        if (sub != s->loaded)
            load_super(job, s, x, r0, rows, column);
        s->loaded = sub;
        round_super(s, x, codes, u_jj, (float)((1u << job->grid->bits) - 1));
        return;
    }
    if (g != s->loaded)
        load_grids(job, s, r0, rows, g);
    s->loaded = g;
    if (apart)
        round_column(s, x, codes, u_jj, 1, 255);
    else if (pare_encodings[job->grid->encoding].uniform)
        round_column(s, x, codes, u_jj, 0, (float)((1u << job->grid->bits) - 1));
    else
        round_levels(job, s, x, codes, u_jj, r0, rows);
}

/* Rounds the first column of all as if it were job->start. */
static void round_first(const pare__sweep *job, pare__strip *s, float *x, uint8_t *codes, size_t r0,
                        size_t rows)
{
    const float u_jj = job->factor->pivot[0];
    float away[STRIP] = {0};
    for (size_t r = 0; r < rows; r++) {
        away[r] = (x[r] - job->start[r0 + r]) / u_jj;
        x[r] = job->start[r0 + r];
    }
    round_one(job, s, x, codes, r0, rows, 0);
    for (size_t r = 0; r < rows; r++) {
        const double e = (double)x[r];
        x[r] += away[r];
        s->loss[r] += (double)x[r] * (double)x[r] - e * e;
    }
}

/* Columns [c0, c1) of a strip, which lie in s->t. */
static void sweep(const pare__sweep *job, pare__strip *s, size_t r0, size_t rows, size_t c0,
                  size_t c1)
{
    const size_t of = job->sparsity ? job->sparsity->of : 0, row = r0 % TILE;
    s->loaded = SIZE_MAX;
    for (size_t j = c0; j < c1; j++) {
        const float *const u = job->factor->u ? job->factor->u + j * job->k : NULL;
        float *const e = s->t + (j - c0) * STRIP;
        uint8_t *const keep = job->sparsity ? s->keep + (j - c0) * STRIP : NULL;
        if (job->keep_zeros)
            pare__sweep_zero_column(job, s, e, r0, rows, j);
        if (of && j % of == 0)
            pare__sweep_choose_group(job, r0, rows, j, e, keep);
        if (keep)
            pare__sweep_hold_back(s, e, keep);
        if (job->spread)
            memcpy(s->before + (j - c0) * STRIP, e, STRIP * sizeof *e);
        if (job->start && j == 0)
            round_first(job, s, e, s->codes, r0, rows);
        else if (job->grid)
            round_one(job, s, e, s->codes + (j - c0) * STRIP, r0, rows, j);
        else
            keep_column(job, s, e, row, rows, j - c0);
        if (keep)
            pare__sweep_lose_held(s, e, keep, job->factor->pivot[j]);
        for (size_t i = j + 1; u && i < c1; i++)
            take_error(s->t + (i - c0) * STRIP, e, u[i]);
        if (job->spread)
            pare__sweep_spread_column(job, s, row, rows, c0, c1, j);
    }
}

/* What lies behind the last row of a short strip is computed along and never looked at. */
static void load_strip(const pare__sweep *job, pare__strip *s, size_t r0, size_t rows, size_t c0,
                       size_t c1)
{
    for (size_t r = 0; r < rows; r++) {
        const float *const w = job->w + (r0 + r) * job->k;
        for (size_t j = c0; j < c1; j++)
            s->t[(j - c0) * STRIP + r] = w[j];
        for (size_t j = c0; job->keep && j < c1; j++)
            s->keep[(j - c0) * STRIP + r] = job->keep[(r0 + r) * (c1 - c0) + j - c0];
    }
    memset(s->loss, 0, sizeof s->loss);
}

/* Where columns are kept apart, the group code stands for 0. */
static void store_code(const pare__sweep *job, size_t row, size_t position, uint8_t code)
{
    uint8_t *const place = &job->out->codes[row * job->k + column_at(job, position)];
    if (position < job->inner) {
        *place = code;
        return;
    }
    *place = (uint8_t)(1u << (job->grid->bits - 1));
    job->out->outlier_code[row * job->factor->apart + position - job->inner] =
        (int8_t)((int)code - 128);
}

static void store_strip(const pare__sweep *job, const pare__strip *s, size_t r0, size_t rows,
                        size_t c0, size_t c1)
{
    for (size_t r = 0; r < rows; r++) {
        float *const w = job->w + (r0 + r) * job->k;
        for (size_t j = c0; j < c1; j++)
            w[j] = s->t[(j - c0) * STRIP + r];
        for (size_t j = c0; job->grid && j < c1; j++)
            store_code(job, r0 + r, j, s->codes[(j - c0) * STRIP + r]);
    }
}

/* Rows [r0, r1) of a block, whose errors take the place of the weights. */
static void sweep_block(const pare__sweep *job, pare__strip *s, size_t r0, size_t r1, size_t c0,
                        size_t c1, double *loss)
{
    for (size_t r = r0; r < r1; r += STRIP) {
        const size_t rows = r1 - r < STRIP ? r1 - r : STRIP;
        load_strip(job, s, r, rows, c0, c1);
        sweep(job, s, r, rows, c0, c1);
        store_strip(job, s, r, rows, c0, c1);
        for (size_t i = 0; i < rows; i++)
            *loss += s->loss[i] / 2;
    }
}

/* After a block: what stays in it takes the place of the errors, and zeros behind it are 0 again.
 */
static void settle_block(const pare__sweep *job, const pare__strip *s, size_t r0, size_t r1,
                         size_t c0, size_t c1, double *loss)
{
    for (size_t i = r0; i < r1; i++) {
        float *const w = job->w + i * job->k;
        const float *const kept = s->kept + (i - r0) * job->block;
        for (size_t j = c0; !job->grid && j < c1; j++) {
            w[j] = kept[j - c0];
            *loss = isfinite(w[j]) ? *loss : (double)NAN;
        }
    }
    if (job->keep_zeros)
        pare__sweep_zero_rest(job, s, r0, r1, c1);
}

/* Without a grid: columns back to where they came from. */
static void restore_order(const pare__sweep *job, pare__strip *s, size_t r0, size_t r1)
{
    const size_t k = job->k;
    for (size_t i = r0; i < r1; i++) {
        float *const w = job->w + i * k;
        memcpy(s->row, w, k * sizeof *w);
        for (size_t j = 0; j < k; j++)
            w[column_at(job, j)] = s->row[j];
    }
}

/* Columns [begin, end) of a tile. */
static void walk_tile(const pare__sweep *job, size_t tile, pare__strip *s)
{
    const size_t k = job->k, r0 = tile * TILE, r1 = r0 + TILE < job->n ? r0 + TILE : job->n;
    pare__tile_fault *const fault = &job->fault[tile];
    if (fault->fault != PARE_GRID_OK || (job->prepare && !prepare_rows(job, r0, r1, s->row, fault)))
        return;
    if (job->keep_zeros)
        pare__sweep_note_zeros(job, s, r0, r1);
    for (size_t c0 = job->begin, c1; c0 < job->end; c0 = c1) {
        const size_t stop = c0 < job->inner ? job->inner : k;
        c1 = stop - c0 < job->block ? stop : c0 + job->block;
        if (!fit_block(job, r0, r1, c0, c1, fault))
            return;
        sweep_block(job, s, r0, r1, c0, c1, &job->loss[tile]);
        if (c1 < k && job->factor->u)
            pare_gemm_sub(job->kernels, job->w + r0 * k + c1, k, job->w + r0 * k + c0, k,
                          job->factor->u + c0 * k + c1, k, r1 - r0, k - c1, c1 - c0);
        if (c1 < k && job->spread)
            pare__sweep_spread_block(job, s, r0, r1, c0, c1);
        settle_block(job, s, r0, r1, c0, c1, &job->loss[tile]);
    }
    if (!job->grid && job->factor->order && job->end == k)
        restore_order(job, s, r0, r1);
}

static void walk_tiles(void *arg, size_t begin, size_t end, size_t worker)
{
    const pare__sweep *const job = arg;
    for (size_t tile = begin; tile < end; tile++)
        walk_tile(job, tile, &job->strips[worker]);
}

static bool take_strip(pare_arena *scratch, const pare__sweep *job, pare__strip *s)
{
    const size_t cells = job->block * STRIP;
    s->t = PARE_NEW(scratch, float, cells);
    s->codes = PARE_NEW(scratch, uint8_t, cells);
    s->row = PARE_NEW(scratch, float, job->k);
    s->keep = PARE_NEW(scratch, uint8_t, job->sparsity ? cells : 1);
    s->kept = PARE_NEW(scratch, float, job->grid && !job->spread ? 1 : job->block * TILE);
    s->before = PARE_NEW(scratch, float, job->spread ? cells : 1);
    s->zeros = PARE_NEW(scratch, uint8_t, job->keep_zeros ? job->k * TILE : 1);
    return s->t && s->codes && s->row && s->keep && s->kept && s->before && s->zeros;
}

size_t pare_compensate_bytes(size_t block, size_t k)
{
    return block * STRIP * (2 * sizeof(float) + 2) + block * TILE * sizeof(float) +
           k * (sizeof(float) + TILE) + sizeof(pare__strip) + (size_t)9 * PARE_ALIGN;
}

static pare_status take_losses(pare_arena *scratch, pare__sweep *job)
{
    job->loss_of = PARE_NEW(scratch, float, job->k);
    for (size_t j = 0; job->loss_of && j < job->k; j++) {
        const size_t column = column_at(job, j);
        const float u = job->factor->pivot[j];
        job->loss_of[column] = job->factor->dead[column] ? 0 : 1 / (u * u);
    }
    return job->loss_of ? PARE_OK : PARE_ENOMEM;
}

static pare_status take_scratch(pare_ctx *cx, pare_arena *scratch, pare__sweep *job, size_t tiles)
{
    const size_t workers = pare_threads(cx);
    job->strips = PARE_NEW(scratch, pare__strip, workers);
    job->loss = job->strips ? PARE_NEW(scratch, double, tiles) : NULL;
    job->fault = job->loss ? PARE_NEW(scratch, pare__tile_fault, tiles) : NULL;
    for (size_t i = 0; i < workers; i++)
        if (!job->fault || !take_strip(scratch, job, &job->strips[i]))
            return PARE_ENOMEM;
    if (is_super(job))
        PARE_TRY(take_losses(scratch, job));
    if (job->grid)
        PARE_TRY(pare__sweep_take_starts(scratch, job));
    if (!pare__sweep_by_blocks(job))
        return PARE_OK;
    job->score = PARE_NEW(scratch, float, job->n * job->block);
    job->keep = job->score ? PARE_NEW(scratch, uint8_t, job->n * job->block) : NULL;
    return job->keep ? PARE_OK : PARE_ENOMEM;
}

static pare_status first_fault(pare_ctx *cx, const pare__sweep *job, size_t tiles)
{
    for (size_t i = 0; i < tiles; i++) {
        const pare__tile_fault *const f = &job->fault[i];
        if (f->fault != PARE_GRID_OK && f->group == job->out->groups)
            return pare__sweep_fail_apart(cx, f);
        if (f->fault != PARE_GRID_OK)
            return pare_grid_fail(cx, f->fault, f->row, f->group, f->value);
    }
    return PARE_OK;
}

/* All tiles as far as the end of a block, then a choice over them, and so on. */
static pare_status walk_by_blocks(pare_ctx *cx, pare_arena *scratch, pare__sweep *job, size_t tiles)
{
    pare_parallel(cx, tiles, 1, walk_tiles, job);
    job->prepare = false;
    for (job->begin = 0; job->begin < job->k; job->begin = job->end) {
        job->end = job->k - job->begin < job->block ? job->k : job->begin + job->block;
        PARE_TRY(first_fault(cx, job, tiles));
        PARE_TRY(pare_ctx_interrupted(cx));
        PARE_TRY(pare__sweep_choose(cx, scratch, job));
        pare_parallel(cx, tiles, 1, walk_tiles, job);
    }
    return PARE_OK;
}

static pare_status run_tiles(pare_ctx *cx, pare_arena *scratch, pare__sweep *job, size_t tiles,
                             double *loss)
{
    const bool whole = job->grid && pare_grid_whole(job->grid);
    if (whole) {
        zero_dead(job, 0, job->n);
        PARE_TRY(pare_scales_fit(cx, job->grid, job->w, job->factor->diagonal, job->n, job->k,
                                 job->out));
    }
    job->prepare = true;
    job->end = pare__sweep_by_blocks(job) ? 0 : job->k;
    if (pare__sweep_by_blocks(job))
        PARE_TRY(walk_by_blocks(cx, scratch, job, tiles));
    else
        pare_parallel(cx, tiles, 1, walk_tiles, job);
    PARE_TRY(first_fault(cx, job, tiles));
    double sum = 0;
    for (size_t i = 0; i < tiles; i++)
        sum += job->loss[i];
    if (!isfinite(sum))
        return pare_fail(cx, PARE_ENUMERIC,
                         "the compensated weights left the range of F32: raise the damping");
    if (loss)
        *loss = sum;
    if (job->grid && !whole)
        pare_scales_finish(job->grid, job->out);
    return PARE_OK;
}

static pare_status check(pare_ctx *cx, const pare_compensate *c, size_t n, size_t k,
                         const pare_codes *out)
{
    const bool zeros = c->sparsity || c->keep_zeros;
    if (c->grid)
        PARE_TRY(pare_grid_check(cx, c->grid, n, k, out));
    if (c->sparsity)
        PARE_TRY(pare_sparsity_check(cx, c->sparsity));
    if (c->block == 0 || c->block % 32 != 0)
        return pare_fail(cx, PARE_EINVAL, "block of %zu columns is not a multiple of 32", c->block);
    if (c->factor->damping.failed)
        return pare_fail(cx, PARE_EINVAL, "the Hessian has no factor: round to nearest instead");
    if (c->factor->k != k)
        return pare_fail(cx, PARE_ESHAPE, "factor of %zu columns given for %zu", c->factor->k, k);
    if (!c->grid && !c->sparsity)
        return pare_fail(cx, PARE_EINVAL, "neither a grid nor a sparsity: nothing would change");
    if ((c->spread || c->start || c->fitted_to) && (!c->grid || c->sparsity || !c->factor->u))
        return pare_fail(cx, PARE_EINVAL, "what inputs have moved is made up for on a grid only");
    if (c->spread && (c->spread->n != k || c->spread->panel % c->block || c->factor->apart))
        return pare_fail(cx, PARE_EINVAL,
                         "panels of %zu rows of what inputs have moved, %zu columns "
                         "of a block",
                         c->spread->panel, c->block);
    if (c->sparsity && c->keep_zeros)
        return pare_fail(cx, PARE_EINVAL, "what is pruned already is not pruned again");
    if (c->sparsity && c->sparsity->of && c->factor->order)
        return pare_fail(cx, PARE_EINVAL, "groups of %u inputs need columns in natural order",
                         c->sparsity->of);
    if (zeros && c->grid && pare_encodings[c->grid->encoding].no_zero)
        return pare_fail(cx, PARE_EINVAL, "%s has no code for a weight that is 0",
                         pare_encodings[c->grid->encoding].name);
    if (c->sparsity && c->grid && pare_encoding_is_super(c->grid->encoding))
        return pare_fail(cx, PARE_EINVAL, "super-blocks and a sparsity take a sweep each");
    return pare__sweep_check_apart(cx, c, out);
}

pare_status pare_compensate_run(pare_ctx *cx, pare_arena *scratch, const pare_compensate *c,
                                float *w, size_t n, size_t k, pare_codes *out, double *loss)
{
    PARE_TRY(check(cx, c, n, k, out));
    pare__sweep job = {.kernels = &cx->kernels,
                       .grid = c->grid,
                       .factor = c->factor,
                       .out = out,
                       .w = w,
                       .n = n,
                       .k = k};
    job.sparsity = c->sparsity;
    job.cost = c->cost;
    job.spread = c->spread;
    job.start = c->start;
    job.fitted_to = c->fitted_to;
    job.keep_zeros = c->keep_zeros;
    job.inner = k - c->factor->apart;
    const size_t of = c->sparsity && c->sparsity->of ? c->sparsity->of : 1;
    job.block = c->block < of ? of : c->block - c->block % of; /* no group spans two blocks */
    job.block = job.block < k ? job.block : k;

    const size_t tiles = n / TILE + (n % TILE != 0);
    const pare_mark mark = pare_arena_mark(scratch);
    pare_status s = take_scratch(cx, scratch, &job, tiles);
    if (s == PARE_OK)
        s = run_tiles(cx, scratch, &job, tiles, loss);
    pare_arena_rewind(scratch, mark);
    return s;
}
