/* One task owns a tile of rows: G [TILE, k] and E [TILE, k], by how much values fell since G last
 * followed: G -= E H. Inside the group, or the block of a long one, that is being worked on G
 * follows each step at once; the rest of G follows in one product when it ends. */
#include "quant/refine.h"

#include <math.h>
#include <string.h>

#include "kernels/half.h"
#include "runtime/linalg.h"
#include "runtime/threads.h"

enum { TILE = 128, STRIP = PARE_OUTPUT_BLOCK, BLOCK = 128 };

typedef struct refine_worker {
    float *g, *e;               /* [TILE, k] */
    float *c;                   /* [TILE, widest group] code - zero */
    float *p;                   /* [TILE, widest group] -C H */
    float *turned;              /* [widest group, STRIP] G of a strip, a column in one piece */
    float strip[BLOCK * STRIP]; /* G of a block, a column in one piece */
    float code[BLOCK * STRIP];
    float free[BLOCK * STRIP]; /* 0: stays */
    float step[STRIP], scale[STRIP], zero[STRIP];
    double gain[STRIP];
} refine_worker;

typedef struct refine_job {
    const pare_kernels *kernels;
    const pare_refine_opts *opts;
    const pare_grid *grid;
    const float *h, *w; /* H whole, lambda on its diagonal */
    float *diagonal;    /* [k] of H as it came */
    pare_codes *codes;
    size_t n, k;
    refine_worker *workers;
    double *gain; /* per tile */
} refine_job;

/* Rows of a tile and a range of columns in one group. */
typedef struct range {
    size_t row, rows, begin, end, group;
} range;

static size_t group_width(const pare_grid *grid, size_t k)
{
    return grid->group && grid->group < k ? grid->group : k;
}

/* G behind and before the range follows E in it. */
static void spread(const refine_job *job, refine_worker *at, const range *x)
{
    const size_t k = job->k, width = x->end - x->begin;
    const float *const e = at->e + x->begin, *const h = job->h + x->begin * k;
    if (x->begin > 0)
        pare_gemm_sub(job->kernels, at->g, k, e, k, h, k, x->rows, x->begin, width);
    if (x->end < k)
        pare_gemm_sub(job->kernels, at->g + x->end, k, e, k, h + x->end, k, x->rows, k - x->end,
                      width);
}

/* The scale that s becomes by a step, or s where that cannot be stored or has another sign. */
static float stored_scale(const pare_grid *grid, float s, double step)
{
    float t = (float)((double)s + step);
    if (grid->f16_scales)
        t = pare_f16_to_f32(pare_f32_to_f16(t));
    const float size = fabsf(t);
    return size >= 0x1p-14F && size <= 65504 && (t > 0) == (s > 0) ? t : s;
}

/* The row of O of row r of a tile, or NULL. */
static const float *outputs_of(const refine_job *job, const range *x, size_t r)
{
    return job->opts->o ? job->opts->o + (x->row + r) * STRIP : NULL;
}

/* sum_j (O G)_rj c_j / O_rr over the range; o NULL: sum_j G_rj c_j. */
static double slope_of(const refine_job *job, const refine_worker *at, const range *x, size_t r,
                       const float *o)
{
    const size_t width = x->end - x->begin, first = r / STRIP * STRIP;
    const size_t rows = x->rows - first < STRIP ? x->rows - first : STRIP;
    const float *const c = at->c + r * width, *const g = at->g + r * job->k + x->begin;
    double sum = 0, dot[STRIP] = {0};
    for (size_t j = 0; !o && j < width; j++)
        sum += (double)g[j] * (double)c[j];
    if (!o)
        return sum;
    for (size_t j = 0; j < width; j++)
        for (size_t l = 0; l < STRIP; l++)
            dot[l] += (double)at->turned[j * STRIP + l] * (double)c[j];
    for (size_t l = 0; l < rows; l++)
        sum += o[l] != 0 ? (double)o[l] / (double)o[r - first] * dot[l] : 0;
    return sum;
}

/* The step of one scale; c and p: that row's. */
static void move_scale(const refine_job *job, refine_worker *at, const range *x, size_t r)
{
    const size_t width = x->end - x->begin;
    float *const scale = &job->codes->scales[(x->row + r) * job->codes->groups + x->group];
    float *const g = at->g + r * job->k + x->begin, *const e = at->e + r * job->k + x->begin;
    const float *const c = at->c + r * width, *const p = at->p + r * width, s = *scale;
    const float *const o = outputs_of(job, x, r);
    const double slope = slope_of(job, at, x, r, o);
    double bend = 0;
    for (size_t j = 0; j < width; j++)
        bend -= (double)p[j] * (double)c[j];
    if (s == 0 || !(bend > 0))
        return;
    const float next = stored_scale(job->grid, s, -slope / bend);
    const float d = next - s; /* of the same sign, near each other */
    const double gain = -(double)d * (2 * slope + (double)d * bend);
    if (!(gain > 0))
        return;
    *scale = next;
    at->gain[r % STRIP] += o ? gain * (double)o[r % STRIP] : gain;
    for (size_t j = 0; j < width; j++) {
        g[j] -= d * p[j];
        e[j] = c[j] * s - c[j] * next;
    }
    for (size_t j = 0; o && j < width; j++)
        at->turned[j * STRIP + r % STRIP] = g[j];
}

/* The strip that begins at row r. */
static void turn(const refine_job *job, refine_worker *at, const range *x, size_t r)
{
    const size_t width = x->end - x->begin;
    for (size_t l = 0; l < STRIP; l++)
        for (size_t j = 0; j < width; j++)
            at->turned[j * STRIP + l] =
                r + l < x->rows ? at->g[(r + l) * job->k + x->begin + j] : 0;
}

/* The scales of a group. */
static void move_scales(const refine_job *job, refine_worker *at, const range *x)
{
    const size_t k = job->k, width = x->end - x->begin;
    for (size_t r = 0; r < x->rows; r++) {
        const float zero = job->codes->zeros[(x->row + r) * job->codes->groups + x->group];
        const uint8_t *const code = job->codes->codes + (x->row + r) * k + x->begin;
        for (size_t j = 0; j < width; j++)
            at->c[r * width + j] = (float)code[j] - zero;
        memset(at->e + r * k + x->begin, 0, width * sizeof *at->e);
    }
    memset(at->p, 0, x->rows * width * sizeof *at->p);
    pare_gemm_sub(job->kernels, at->p, width, at->c, width, job->h + x->begin * (k + 1), k, x->rows,
                  width, width);
    for (size_t r = 0; r < x->rows; r++) {
        if (r % STRIP == 0 && job->opts->o)
            turn(job, at, x, r);
        move_scale(job, at, x, r);
    }
}

static void load_strip(const refine_job *job, refine_worker *at, const range *x, size_t first,
                       size_t rows)
{
    for (size_t r = 0; r < STRIP; r++) {
        const size_t row = x->row + first + (r < rows ? r : 0);
        const size_t group = row * job->codes->groups + x->group;
        at->scale[r] = job->codes->scales[group];
        at->zero[r] = job->codes->zeros[group];
        const float *const g = at->g + (row - x->row) * job->k;
        const uint8_t *const code = job->codes->codes + row * job->k;
        const float *const w = job->w + row * job->k;
        for (size_t j = x->begin; j < x->end; j++) {
            const size_t cell = (j - x->begin) * STRIP + r;
            at->strip[cell] = g[j];
            at->code[cell] = code[j];
            const bool zero = job->opts->keep_zeros && w[j] == 0;
            at->free[cell] = r < rows && at->scale[r] != 0 && !zero ? 1 : 0;
        }
    }
}

/* The code that is best where `step` below old would be; vectorized: rounds by adding `magic`. */
static inline float next_code(float old, float step, float top)
{
    const float magic = 12582912.0F;
    float t = step < 512 ? step : 512;
    t = t > -512 ? t : -512;
    t = (old - t + magic) - magic;
    t = t < top ? t : top;
    return t > 0 ? t : 0;
}

/* The codes of one column; step becomes by how much values rise. True when any did. */
static bool move_column(refine_worker *at, size_t column, float h_jj, float top)
{
    const float *const restrict g = at->strip + column * STRIP;
    const float *const restrict free = at->free + column * STRIP;
    float *const restrict code = at->code + column * STRIP;
    float moved = 0;
    for (size_t r = 0; r < STRIP; r++) {
        const float scale = free[r] != 0 ? at->scale[r] : 1, old = code[r];
        const float t = next_code(old, free[r] * g[r] / (h_jj * scale), top);
        const float d = (t - old) * scale;
        at->gain[r] -= (double)d * (2 * (double)g[r] + (double)d * (double)h_jj);
        code[r] = t;
        at->step[r] = d;
        moved += fabsf(d);
    }
    return moved != 0;
}

enum { LANES = 8 };

/* One row of O by G of a column. */
static float weigh(const float *restrict o, const float *restrict g)
{
    float part[LANES] = {0}, sum = 0;
    for (size_t l = 0; l < STRIP; l += LANES)
        for (size_t i = 0; i < LANES; i++)
            part[i] += o[l + i] * g[l + i];
    for (size_t i = 0; i < LANES; i++)
        sum += part[i];
    return sum;
}

/* The same with O [STRIP, STRIP], row after row. */
static bool move_coupled(refine_worker *at, size_t column, float h_jj, float top, const float *o)
{
    const float *const free = at->free + column * STRIP;
    float *const code = at->code + column * STRIP, g[STRIP];
    bool moved = false;
    memcpy(g, at->strip + column * STRIP, sizeof g);
    for (size_t r = 0; r < STRIP; r++, o += STRIP) {
        at->step[r] = 0;
        if (free[r] == 0)
            continue;
        const float slope = weigh(o, g), bend = o[r] * h_jj;
        const float t = next_code(code[r], slope / (bend * at->scale[r]), top);
        const float d = (t - code[r]) * at->scale[r];
        at->gain[r] -= (double)d * (2 * (double)slope + (double)d * (double)bend);
        code[r] = t;
        at->step[r] = d;
        g[r] += d * h_jj;
        moved = moved || d != 0;
    }
    return moved;
}

static void store_strip(const refine_job *job, refine_worker *at, const range *x, size_t first,
                        size_t rows)
{
    for (size_t r = 0; r < rows; r++) {
        float *const g = at->g + (first + r) * job->k, *const e = at->e + (first + r) * job->k;
        uint8_t *const code = job->codes->codes + (x->row + first + r) * job->k;
        for (size_t j = x->begin; j < x->end; j++) {
            const size_t cell = (j - x->begin) * STRIP + r;
            const float now = at->code[cell];
            g[j] = at->strip[cell];
            e[j] += ((float)code[j] - now) * at->scale[r];
            code[j] = (uint8_t)(int)now;
        }
    }
}

/* The codes of a range of at most BLOCK columns. */
static void move_codes(const refine_job *job, refine_worker *at, const range *x)
{
    const size_t k = job->k, width = x->end - x->begin;
    const float top = (float)((1u << job->grid->bits) - 1);
    for (size_t first = 0; first < x->rows; first += STRIP) {
        const size_t rows = x->rows - first < STRIP ? x->rows - first : STRIP;
        const float *const o = outputs_of(job, x, first);
        load_strip(job, at, x, first, rows);
        for (size_t j = 0; j < width; j++) {
            const float *const h = job->h + (x->begin + j) * k + x->begin;
            if (job->opts->dead[x->begin + j] ||
                !(o ? move_coupled(at, j, h[j], top, o) : move_column(at, j, h[j], top)))
                continue;
            for (size_t i = 0; i < width; i++)
                for (size_t r = 0; r < STRIP; r++)
                    at->strip[i * STRIP + r] += at->step[r] * h[i];
        }
        store_strip(job, at, x, first, rows);
    }
}

static void refine_group(const refine_job *job, refine_worker *at, const range *group)
{
    move_scales(job, at, group);
    if (group->end - group->begin > BLOCK) {
        spread(job, at, group);
        for (size_t r = 0; r < group->rows; r++)
            memset(at->e + r * job->k + group->begin, 0,
                   (group->end - group->begin) * sizeof *at->e);
    }
    range x = *group;
    for (x.end = x.begin; x.begin < group->end; x.begin = x.end) {
        x.end = group->end - x.begin < BLOCK ? group->end : x.begin + BLOCK;
        move_codes(job, at, &x);
        spread(job, at, &x);
    }
}

/* G = (Q - W) H of a tile. */
static void begin_tile(const refine_job *job, refine_worker *at, size_t row, size_t rows)
{
    const size_t k = job->k, width = group_width(job->grid, k);
    for (size_t r = 0; r < rows; r++)
        for (size_t j = 0; j < k; j++) {
            const size_t group = (row + r) * job->codes->groups + j / width;
            const float q = pare_grid_value(job->codes->codes[(row + r) * k + j],
                                            job->codes->scales[group], job->codes->zeros[group]);
            at->e[r * k + j] = job->opts->dead[j] ? 0 : job->w[(row + r) * k + j] - q;
        }
    memset(at->g, 0, rows * k * sizeof *at->g);
    pare_gemm_sub(job->kernels, at->g, k, at->e, k, job->h, k, rows, k, k);
}

static void refine_tile(const refine_job *job, refine_worker *at, size_t tile)
{
    const size_t row = tile * TILE, rows = job->n - row < TILE ? job->n - row : TILE;
    const size_t width = group_width(job->grid, job->k);
    memset(at->gain, 0, sizeof at->gain);
    begin_tile(job, at, row, rows);
    for (size_t round = 0; round < job->opts->rounds; round++)
        for (size_t begin = 0; begin < job->k; begin += width) {
            const range group = {.row = row,
                                 .rows = rows,
                                 .begin = begin,
                                 .end = job->k - begin < width ? job->k : begin + width,
                                 .group = begin / width};
            refine_group(job, at, &group);
        }
    for (size_t r = 0; r < STRIP; r++)
        job->gain[tile] += at->gain[r];
}

static void refine_tiles(void *arg, size_t begin, size_t end, size_t worker)
{
    const refine_job *const job = arg;
    for (size_t tile = begin; tile < end; tile++)
        refine_tile(job, &job->workers[worker], tile);
}

/* H gets its upper triangle, and lambda on its diagonal, which is kept in `diagonal`. Squares,
 * since one side of the copy runs down a column. */
static void complete(const pare_refine_opts *opts, size_t k, float *diagonal)
{
    float *const h = opts->h;
    for (size_t from = 0; from < k; from += TILE)
        for (size_t i = from; i < k; i++) {
            const size_t end = from + TILE < i ? from + TILE : i;
            for (size_t j = from; j < end; j++)
                h[j * k + i] = h[i * k + j];
        }
    for (size_t i = 0; i < k; i++) {
        diagonal[i] = h[i * (k + 1)];
        h[i * (k + 1)] = (float)((double)diagonal[i] + opts->lambda);
    }
}

static void restore(const pare_refine_opts *opts, size_t k, const float *diagonal)
{
    for (size_t i = 0; i < k; i++)
        opts->h[i * (k + 1)] = diagonal[i];
}

size_t pare_refine_bytes(size_t group, size_t k)
{
    const size_t width = group && group < k ? group : k;
    return sizeof(refine_worker) + TILE * sizeof(float) * 2 * (k + width) +
           STRIP * sizeof(float) * width + (size_t)6 * PARE_ALIGN;
}

static pare_status take(pare_ctx *cx, pare_arena *scratch, refine_job *job, size_t tiles)
{
    const size_t workers = pare_threads(cx), width = group_width(job->grid, job->k);
    job->diagonal = PARE_NEW(scratch, float, job->k);
    job->gain = job->diagonal ? PARE_NEW(scratch, double, tiles) : NULL;
    job->workers = job->gain ? PARE_NEW(scratch, refine_worker, workers) : NULL;
    for (size_t i = 0; i < workers; i++) {
        refine_worker *const at = job->workers ? &job->workers[i] : NULL;
        if (!at || !(at->g = PARE_NEW(scratch, float, TILE * job->k)) ||
            !(at->e = PARE_NEW(scratch, float, TILE * job->k)) ||
            !(at->c = PARE_NEW(scratch, float, TILE *width)) ||
            !(at->p = PARE_NEW(scratch, float, TILE *width)) ||
            !(at->turned = PARE_NEW(scratch, float, STRIP *width)))
            return PARE_ENOMEM;
    }
    return PARE_OK;
}

pare_status pare_refine_codes(pare_ctx *cx, pare_arena *scratch, const pare_refine_opts *opts,
                              const pare_grid *grid, const float *w, pare_codes *codes,
                              double *gain)
{
    if (!pare_encodings[grid->encoding].uniform)
        return pare_fail(cx, PARE_EINVAL, "codes are refined on uniform grids only");
    refine_job job = {.kernels = &cx->kernels,
                      .opts = opts,
                      .grid = grid,
                      .h = opts->h,
                      .w = w,
                      .codes = codes,
                      .n = codes->n,
                      .k = codes->k};
    const size_t tiles = job.n / TILE + (job.n % TILE != 0);
    const pare_mark mark = pare_arena_mark(scratch);
    const pare_status s = take(cx, scratch, &job, tiles);
    double sum = 0;
    if (s == PARE_OK) {
        complete(opts, job.k, job.diagonal);
        pare_parallel(cx, tiles, 1, refine_tiles, &job);
        restore(opts, job.k, job.diagonal);
    }
    for (size_t i = 0; s == PARE_OK && i < tiles; i++)
        sum += job.gain[i];
    pare_arena_rewind(scratch, mark);
    PARE_TRY(s);
    if (!isfinite(sum))
        return pare_fail(cx, PARE_ENUMERIC, "refined weights left the range of F32: say refine: 0");
    if (gain)
        *gain = sum;
    return PARE_OK;
}
