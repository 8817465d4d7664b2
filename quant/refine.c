/* One task owns a tile of rows: G [TILE, k] and E [TILE, k], by how much values fell since G last
 * followed: G -= E H. Inside the group, or the block of a long one, that is being worked on G
 * follows each step at once; the rest of G follows in one product when it ends. */
#include "quant/refine.h"

#include <math.h>
#include <string.h>

#include "kernels/half.h"
#include "runtime/linalg.h"
#include "runtime/threads.h"

enum { TILE = 128, STRIP = PARE_OUTPUT_BLOCK, BLOCK = 128, STRIPS = TILE / STRIP };
_Static_assert((int)STRIP == (int)PARE_COUPLED && STRIPS == 2,
               "couple_codes takes strips in pairs");

/* Rows of a tile that are worked on side by side. */
typedef struct refine_strip {
    float g[BLOCK * STRIP]; /* a column in one piece */
    float code[BLOCK * STRIP];
    float free[BLOCK * STRIP]; /* 0: stays */
    float step[STRIP], scale[STRIP];
    double gain[STRIP];
} refine_strip;

typedef struct refine_worker {
    float *g, *e;   /* [TILE, k] */
    float *c;       /* [TILE, widest group] code - zero */
    float *p;       /* [TILE, widest group] -C H */
    double *turned; /* [widest group, STRIP] G of a strip, a column in one piece */
    refine_strip strip[STRIPS];
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

/* sum_j (O G)_rj c_j / O_rr over the range, and c H c^T; o NULL: sum_j G_rj c_j. */
static pare_slope slope_of(const refine_job *job, const refine_worker *at, const range *x, size_t r,
                           const float *o)
{
    const size_t width = x->end - x->begin;
    const float *const c = at->c + r * width, *const p = at->p + r * width,
                       *const g = at->g + r * job->k + x->begin;
    pare_slope sum = {0};
    if (o)
        return job->kernels->scale_slope(at->turned, c, p, o, r % STRIP, width);
    for (size_t j = 0; j < width; j++) {
        sum.slope += (double)g[j] * (double)c[j];
        sum.bend -= (double)p[j] * (double)c[j];
    }
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
    const pare_slope by = slope_of(job, at, x, r, o);
    const double slope = by.slope, bend = by.bend;
    if (s == 0 || !(bend > 0))
        return;
    const float next = stored_scale(job->grid, s, -slope / bend);
    const float d = next - s; /* of the same sign, near each other */
    const double gain = -(double)d * (2 * slope + (double)d * bend);
    if (!(gain > 0))
        return;
    *scale = next;
    at->strip[r / STRIP].gain[r % STRIP] += o ? gain * (double)o[r % STRIP] : gain;
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

/* Which weights of a strip may move. */
static void load_free(const refine_job *job, refine_strip *s, const range *x, size_t first,
                      size_t rows)
{
    float row[STRIP];
    for (size_t r = 0; r < STRIP; r++)
        row[r] = r < rows && s->scale[r] != 0 ? 1 : 0;
    for (size_t j = x->begin; j < x->end; j++) {
        float *const to = s->free + (j - x->begin) * STRIP;
        memcpy(to, row, sizeof row);
        for (size_t r = 0; job->opts->keep_zeros && r < rows; r++)
            to[r] = job->w[(x->row + first + r) * job->k + j] == 0 ? 0 : to[r];
    }
}

/* c, where the codes of the range begin in C of their group. Rows behind the last are 0. */
static void load_strip(const refine_job *job, const refine_worker *at, refine_strip *s,
                       const range *x, size_t first, size_t rows, const float *c, size_t ldc)
{
    const size_t width = x->end - x->begin;
    float zero[STRIP] = {0};
    if (rows < STRIP) {
        memset(s->g, 0, sizeof s->g);
        memset(s->code, 0, sizeof s->code);
        memset(s->scale, 0, sizeof s->scale);
    }
    for (size_t r = 0; r < rows; r++) {
        const size_t group = (x->row + first + r) * job->codes->groups + x->group;
        s->scale[r] = job->codes->scales[group];
        zero[r] = job->codes->zeros[group];
    }
    job->kernels->transpose_f32(s->g, STRIP, at->g + first * job->k + x->begin, job->k, rows,
                                width);
    job->kernels->transpose_f32(s->code, STRIP, c + first * ldc, ldc, rows, width);
    for (size_t j = 0; j < width; j++)
        for (size_t r = 0; r < STRIP; r++)
            s->code[j * STRIP + r] += zero[r];
    load_free(job, s, x, first, rows);
}

/* The codes of one column; step becomes by how much values rise. True when any did. */
static bool move_column(refine_strip *at, size_t column, float h_jj, float top)
{
    const float *const restrict g = at->g + column * STRIP;
    const float *const restrict free = at->free + column * STRIP;
    float *const restrict code = at->code + column * STRIP;
    float moved = 0;
    for (size_t r = 0; r < STRIP; r++) {
        const float scale = free[r] != 0 ? at->scale[r] : 1, old = code[r];
        const float t = pare_next_code(old, free[r] * g[r] / (h_jj * scale), top);
        const float d = (t - old) * scale;
        at->gain[r] -= (double)d * (2 * (double)g[r] + (double)d * (double)h_jj);
        code[r] = t;
        at->step[r] = d;
        moved += fabsf(d);
    }
    return moved != 0;
}

/* G of all columns follows the steps of one. */
static void follow_column(refine_strip *s, const float *h, size_t width)
{
    for (size_t i = 0; i < width; i++)
        for (size_t r = 0; r < STRIP; r++)
            s->g[i * STRIP + r] += s->step[r] * h[i];
}

/* C takes the codes on their way. */
static void store_strip(const refine_job *job, const refine_worker *at, const refine_strip *s,
                        const range *x, size_t first, size_t rows, float *c, size_t ldc)
{
    const size_t k = job->k, width = x->end - x->begin;
    c += first * ldc;
    job->kernels->transpose_f32(at->g + first * k + x->begin, k, s->g, STRIP, width, rows);
    job->kernels->transpose_f32(c, ldc, s->code, STRIP, width, rows);
    for (size_t r = 0; r < rows; r++, c += ldc) {
        float *const e = at->e + (first + r) * k + x->begin;
        uint8_t *const code = job->codes->codes + (x->row + first + r) * k + x->begin;
        for (size_t j = 0; j < width; j++) {
            e[j] += ((float)code[j] - c[j]) * s->scale[r];
            code[j] = (uint8_t)(int)c[j];
        }
    }
}

/* All strips a column at a time: with O rows wait for each other, strips do not. */
static void move_strips(const refine_job *job, refine_worker *at, const range *x, size_t strips)
{
    const size_t k = job->k, width = x->end - x->begin;
    const float top = (float)((1u << job->grid->bits) - 1);
    pare_couple couple[STRIPS];
    for (size_t i = 0; i < strips && job->opts->o; i++) {
        refine_strip *const s = &at->strip[i];
        couple[i] = (pare_couple){.g = s->g,
                                  .code = s->code,
                                  .free = s->free,
                                  .o = outputs_of(job, x, i * STRIP),
                                  .scale = s->scale,
                                  .gain = s->gain};
    }
    for (size_t j = 0; j < width; j++) {
        const float *const h = job->h + (x->begin + j) * k + x->begin;
        if (job->opts->dead[x->begin + j])
            continue;
        if (job->opts->o)
            job->kernels->couple_codes(couple, strips, j, h, width, top);
        for (size_t i = 0; i < strips && !job->opts->o; i++)
            if (move_column(&at->strip[i], j, h[j], top))
                follow_column(&at->strip[i], h, width);
    }
}

/* The codes of a range of at most BLOCK columns; c: where it begins in C of its group. */
static void move_codes(const refine_job *job, refine_worker *at, const range *x, float *c,
                       size_t ldc)
{
    const size_t strips = x->rows / STRIP + (x->rows % STRIP != 0);
    for (size_t i = 0; i < strips; i++) {
        const size_t left = x->rows - i * STRIP;
        load_strip(job, at, &at->strip[i], x, i * STRIP, left < STRIP ? left : STRIP, c, ldc);
    }
    move_strips(job, at, x, strips);
    for (size_t i = 0; i < strips; i++) {
        const size_t left = x->rows - i * STRIP;
        store_strip(job, at, &at->strip[i], x, i * STRIP, left < STRIP ? left : STRIP, c, ldc);
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
        move_codes(job, at, &x, at->c + x.begin - group->begin, group->end - group->begin);
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
    for (size_t i = 0; i < STRIPS; i++)
        memset(at->strip[i].gain, 0, sizeof at->strip[i].gain);
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
    for (size_t r = 0; r < TILE; r++)
        job->gain[tile] += at->strip[r / STRIP].gain[r % STRIP];
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
           STRIP * sizeof(double) * width + (size_t)6 * PARE_ALIGN;
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
            !(at->turned = PARE_NEW(scratch, double, STRIP *width)))
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
