/* A product is cut into tiles of 64 rows of W by 64 tokens, tokens innermost, so that the tiles a
 * worker takes one after the other find their rows of W in its cache. The kernels fix the order of
 * every sum, so a tile computes what any other tiling would. */
#include "runtime/linear.h"

#include <assert.h>
#include <string.h>

#include "kernels/layout.h"
#include "runtime/forward_internal.h"
#include "runtime/threads.h"

enum { TILE_ROWS = 64, TILE_TOKENS = 64 };

typedef struct job {
    const pare_linear *w;
    float *y;
    size_t ldy;
    pare_x8 x;     /* packed, not exact */
    int8_t *codes; /* the planes of x, while they are written */
    float *scales;
    int32_t *sums;
} job;

typedef struct work {
    const pare_kernels *kernels;
    const float *x;
    size_t ldx, m;
    job job[PARE__LINEARS_MAX];
    size_t jobs;
    size_t tile_tokens, token_tiles;
    float *panel; /* exact: [workers][panel_floats] */
    size_t panel_floats;
} work;

static size_t row_tiles(const pare_linear *w)
{
    return (w->n + TILE_ROWS - 1) / TILE_ROWS;
}

/* Rows [first, first + count) of a panel; first is a multiple of 8, count is rounded up to one. */
static pare_panel panel_rows(const pare_linear *w, size_t first, size_t count)
{
    pare_panel p = w->panel;
    const size_t block = first / PARE_ATOM_N, groups = (p.k + p.group - 1) / p.group;
    p.codes += block * (p.k / PARE_ATOM_K) * pare_atom_bytes(w->bits);
    p.scales += block * groups * PARE_ATOM_N;
    if (p.zeros)
        p.zeros += block * groups * PARE_ATOM_N;
    p.n = pare_round_up(count, PARE_ATOM_N);
    return p;
}

static void gemm_x8(const pare_kernels *kernels, unsigned bits, float *y, size_t ldy,
                    const pare_x8 *x, const pare_panel *p)
{
    switch (bits) {
    case 2: kernels->gemm_x8_q2(y, ldy, x, p); break;
    case 3: kernels->gemm_x8_q3(y, ldy, x, p); break;
    case 4: kernels->gemm_x8_q4(y, ldy, x, p); break;
    default: assert(bits == 8); kernels->gemm_x8_q8(y, ldy, x, p);
    }
}

/* The kernels write whole blocks of 8 rows: the last block of a matrix may be cut, so it goes
 * through a buffer. */
static void packed_tile(const work *w, const job *j, size_t r0, size_t r1, size_t t0, size_t t1)
{
    const size_t groups = (j->x.k + j->x.group - 1) / j->x.group;
    const pare_x8 x = {j->x.codes + t0 * j->x.k,
                       j->x.scales + t0 * groups,
                       j->x.sums + t0 * groups,
                       t1 - t0,
                       j->x.k,
                       j->x.group};
    const size_t whole = (r1 - r0) / PARE_ATOM_N * PARE_ATOM_N, rest = r1 - r0 - whole;
    float *const y = j->y + t0 * j->ldy + r0;
    if (whole) {
        const pare_panel p = panel_rows(j->w, r0, whole);
        gemm_x8(w->kernels, j->w->bits, y, j->ldy, &x, &p);
    }
    if (rest) {
        float cut[TILE_TOKENS * PARE_ATOM_N];
        const pare_panel p = panel_rows(j->w, r0 + whole, rest);
        gemm_x8(w->kernels, j->w->bits, cut, PARE_ATOM_N, &x, &p);
        for (size_t t = 0; t < t1 - t0; t++)
            memcpy(y + t * j->ldy + whole, cut + t * PARE_ATOM_N, rest * sizeof *cut);
    }
}

static void exact_tile(const work *w, const job *j, size_t r0, size_t r1, float *panel)
{
    const pare_panel p = panel_rows(j->w, r0, r1 - r0);
    w->kernels->dequant_f32(panel, p.k, &p, j->w->bits);
    w->kernels->gemm_f32_f32(j->y + r0, j->ldy, w->x, w->ldx, panel, p.k, w->m, r1 - r0, j->w->k);
}

static void dense_tile(const work *w, const job *j, size_t r0, size_t r1, size_t t0, size_t t1)
{
    const size_t k = j->w->k, first = r0 * k;
    const float *const x = w->x + t0 * w->ldx;
    float *const y = j->y + t0 * j->ldy + r0;
    const size_t m = t1 - t0, n = r1 - r0;
    const void *const data = j->w->data;
    if (j->w->dtype == PARE_F16)
        w->kernels->gemm_f32_f16(y, j->ldy, x, w->ldx, (const uint16_t *)data + first, k, m, n, k);
    else if (j->w->dtype == PARE_BF16)
        w->kernels->gemm_f32_bf16(y, j->ldy, x, w->ldx, (const uint16_t *)data + first, k, m, n, k);
    else
        w->kernels->gemm_f32_f32(y, j->ldy, x, w->ldx, (const float *)data + first, k, m, n, k);
}

static void tile(const work *w, const job *j, size_t row_tile, size_t token_tile, size_t worker)
{
    const size_t r0 = row_tile * TILE_ROWS, t0 = token_tile * w->tile_tokens;
    const size_t r1 = j->w->n - r0 < TILE_ROWS ? j->w->n : r0 + TILE_ROWS;
    const size_t t1 = w->m - t0 < w->tile_tokens ? w->m : t0 + w->tile_tokens;
    if (j->w->bits && w->panel)
        exact_tile(w, j, r0, r1, w->panel + worker * w->panel_floats);
    else if (j->w->bits)
        packed_tile(w, j, r0, r1, t0, t1);
    else
        dense_tile(w, j, r0, r1, t0, t1);
    if (!j->w->bias)
        return;
    for (size_t t = t0; t < t1; t++)
        for (size_t r = r0; r < r1; r++)
            j->y[t * j->ldy + r] += j->w->bias[r];
}

static void run_tiles(void *arg, size_t begin, size_t end, size_t worker)
{
    const work *const w = arg;
    for (size_t i = begin; i < end; i++) {
        size_t row_tile = i / w->token_tiles, j = 0;
        for (; row_tile >= row_tiles(w->job[j].w); j++)
            row_tile -= row_tiles(w->job[j].w);
        tile(w, &w->job[j], row_tile, i % w->token_tiles, worker);
    }
}

/* Arguments of the loop that quantizes the activations of one job. */
typedef struct quantize_call {
    const work *w;
    const job *j;
} quantize_call;

static void quantize_tokens(void *arg, size_t begin, size_t end, size_t worker)
{
    (void)worker;
    const quantize_call *const c = arg;
    const pare_x8 *const x = &c->j->x;
    const size_t groups = (x->k + x->group - 1) / x->group;
    for (size_t t = begin; t < end; t++)
        c->w->kernels->quant_x8(c->j->codes + t * x->k, c->j->scales + t * groups,
                                c->j->sums + t * groups, c->w->x + t * c->w->ldx, c->j->w->k,
                                x->group, x->group, 127);
}

static pare_status quantize(const pare_ctx *cx, pare_arena *scratch, const work *w, job *j)
{
    const size_t k = j->w->panel.k, group = pare_x8_group(j->w->panel.group);
    for (const job *other = w->job; other < j; other++)
        if (other->w->bits && other->x.group == group) {
            j->x = other->x;
            return PARE_OK;
        }
    const size_t groups = (k + group - 1) / group;
    j->codes = pare_arena_take(scratch, w->m, k);
    j->scales = pare_arena_take(scratch, w->m, groups * sizeof *j->scales);
    j->sums = pare_arena_take(scratch, w->m, groups * sizeof *j->sums);
    if (!j->codes || !j->scales || !j->sums)
        return PARE_ENOMEM;
    j->x = (pare_x8){j->codes, j->scales, j->sums, w->m, k, group};
    quantize_call call = {w, j};
    pare_parallel(cx, w->m, pare__chunk(k), quantize_tokens, &call);
    return PARE_OK;
}

/* Takes what the packed jobs need; exact ones need a panel for each worker. */
static pare_status prepare(const pare_ctx *cx, pare_arena *scratch, bool exact, work *w)
{
    size_t widest = 0;
    for (size_t i = 0; i < w->jobs; i++) {
        job *const j = &w->job[i];
        if (!j->w->bits)
            continue;
        widest = j->w->panel.k > widest ? j->w->panel.k : widest;
        if (!exact)
            PARE_TRY(quantize(cx, scratch, w, j));
    }
    if (!exact || !widest)
        return PARE_OK;
    w->panel_floats = TILE_ROWS * widest;
    w->panel = pare_arena_take(scratch, pare_threads(cx), w->panel_floats * sizeof(float));
    w->tile_tokens = w->m;
    return w->panel ? PARE_OK : PARE_ENOMEM;
}

pare_status pare__linear_apply_all(pare_ctx *cx, pare_arena *scratch, const pare__product *product,
                                   size_t count, bool exact, const float *x, size_t ldx, size_t m)
{
    assert(count <= PARE__LINEARS_MAX);
    if (m == 0)
        return PARE_OK;
    work w = {.kernels = &cx->kernels, .x = x, .ldx = ldx, .m = m, .jobs = count};
    w.tile_tokens = TILE_TOKENS;
    size_t tiles = 0;
    for (size_t i = 0; i < count; i++) {
        w.job[i] = (job){.w = product[i].w, .y = product[i].y, .ldy = product[i].ldy};
        tiles += row_tiles(product[i].w);
    }
    const pare_mark mark = pare_arena_mark(scratch);
    const pare_status s = prepare(cx, scratch, exact, &w);
    if (s == PARE_OK) {
        w.token_tiles = (m + w.tile_tokens - 1) / w.tile_tokens;
        const size_t tokens = m < w.tile_tokens ? m : w.tile_tokens;
        pare_parallel(cx, tiles * w.token_tiles, pare__chunk(TILE_ROWS * tokens * product->w->k),
                      run_tiles, &w);
    }
    pare_arena_rewind(scratch, mark);
    return s;
}

pare_status pare_linear_apply(pare_ctx *cx, pare_arena *scratch, const pare_linear *w, bool exact,
                              const float *x, size_t ldx, size_t m, float *y, size_t ldy)
{
    const pare__product product = {w, y, ldy};
    return pare__linear_apply_all(cx, scratch, &product, 1, exact, x, ldx, m);
}

/* Arguments of the loop over blocks of 8 rows. */
typedef struct unpack_call {
    const pare_kernels *kernels;
    const pare_linear *w;
    float *dst;
} unpack_call;

/* Atom by atom: the one way that also fits where rows or columns are cut. */
static void unpack_packed(const unpack_call *c, size_t r0, size_t rows)
{
    const pare_linear *const w = c->w;
    pare_panel atom = panel_rows(w, r0, rows);
    const pare_panel all = atom;
    atom.k = atom.group = PARE_ATOM_K;
    for (size_t k = 0; k < w->k; k += PARE_ATOM_K) {
        const size_t g = k / all.group, columns = w->k - k < PARE_ATOM_K ? w->k - k : PARE_ATOM_K;
        float value[PARE_ATOM_N * PARE_ATOM_K];
        atom.codes = all.codes + k / PARE_ATOM_K * pare_atom_bytes(w->bits);
        atom.scales = all.scales + g * PARE_ATOM_N;
        atom.zeros = all.zeros ? all.zeros + g * PARE_ATOM_N : NULL;
        c->kernels->dequant_f32(value, PARE_ATOM_K, &atom, w->bits);
        for (size_t r = 0; r < rows; r++)
            memcpy(c->dst + (r0 + r) * w->k + k, value + r * PARE_ATOM_K, columns * sizeof *value);
    }
}

static void unpack_rows(void *arg, size_t begin, size_t end, size_t worker)
{
    (void)worker;
    const unpack_call *const c = arg;
    const pare_linear *const w = c->w;
    for (size_t i = begin; i < end; i++) {
        const size_t r0 = i * PARE_ATOM_N;
        const size_t rows = w->n - r0 < PARE_ATOM_N ? w->n - r0 : PARE_ATOM_N;
        const size_t first = r0 * w->k, count = rows * w->k;
        if (w->bits)
            unpack_packed(c, r0, rows);
        else if (w->dtype == PARE_F16)
            c->kernels->cvt_f16_f32(c->dst + first, (const uint16_t *)w->data + first, count);
        else if (w->dtype == PARE_BF16)
            c->kernels->cvt_bf16_f32(c->dst + first, (const uint16_t *)w->data + first, count);
        else
            memcpy(c->dst + first, (const float *)w->data + first, count * sizeof(float));
    }
}

void pare_linear_to_f32(pare_ctx *cx, const pare_linear *w, float *dst)
{
    unpack_call c = {&cx->kernels, w, dst};
    pare_parallel(cx, (w->n + PARE_ATOM_N - 1) / PARE_ATOM_N, pare__chunk(PARE_ATOM_N * w->k),
                  unpack_rows, &c);
}
