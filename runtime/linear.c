/* A product is cut into tiles of 64 rows of W by 64 tokens, tokens innermost, so that the tiles a
 * worker takes one after the other find their rows of W in its cache. Where W is decoded, a tile
 * has all tokens. Processors with tile registers unpack the rows of W once for as many tokens as
 * the cache holds, and rows are innermost. The kernels fix the order of every sum, so a tile
 * computes what any other tiling would. */
#include "runtime/linear.h"

#include <assert.h>
#include <math.h>
#include <string.h>

#include "kernels/exl3.h"
#include "kernels/layout.h"
#include "runtime/hadamard.h"
#include "runtime/linear_exl3.h"
#include "runtime/linear_internal.h"
#include "runtime/threads.h"

enum {
    FEW_TOKENS = 4,     /* below, the time goes into decoding: panels stay small */
    FEW_X86 = 9,        /* the same there, where 8 tokens meet rows of floats as they lie */
    DENSE_TOKENS = 128, /* that meet rows of floats once they are packed, where there are many */
    TOKENS_MIN = 96,
    TOKENS_MAX = 512,
    TOKENS_BYTES = 1 << 20 /* of the codes of tokens, in a second-level cache of 2 MB */
};

static size_t row_tiles(const pare_linear *w)
{
    return (w->n + PARE__TILE_ROWS - 1) / PARE__TILE_ROWS;
}

static void gemm_x8(const pare_kernels *kernels, const pare_linear *w, float *y, size_t ldy,
                    const pare_x8 *x, const pare_panel *p)
{
    if (pare_encodings[w->encoding].decoding ==
        PARE_DECODE_TABLE) { /* ternary: the others have none */
        kernels->gemm_x8_t2(y, ldy, x, p);
        return;
    }
    if (w->sparsity) {
        (w->bits == 4 ? kernels->gemm_x8_s4 : kernels->gemm_x8_s8)(y, ldy, x, p);
        return;
    }
    switch (w->bits) {
    case 2: kernels->gemm_x8_q2(y, ldy, x, p); break;
    case 3: kernels->gemm_x8_q3(y, ldy, x, p); break;
    case 4: kernels->gemm_x8_q4(y, ldy, x, p); break;
    default: assert(w->bits == 8); kernels->gemm_x8_q8(y, ldy, x, p);
    }
}

/* Tokens [t0, t1). */
static pare_x8 x8_tokens(const pare_x8 *x, size_t t0, size_t t1)
{
    const size_t groups = (x->k + x->group - 1) / x->group;
    return (pare_x8){x->codes + t0 * x->k,
                     x->scales + t0 * groups,
                     x->sums + t0 * groups,
                     t1 - t0,
                     x->k,
                     x->group};
}

/* y += outlier columns times their x. */
static void add_outliers(const pare__work *w, const pare__job *j, size_t r0, size_t r1, size_t t0,
                         size_t t1, float *buffer)
{
    enum { ROWS = PARE__TILE_ROWS };
    const pare_outliers *const o = &j->w->outliers;
    const size_t m = t1 - t0, n = r1 - r0, count = o->count;
    float sum[PARE__TILE_TOKENS * ROWS];
    if (o->f16) {
        assert(buffer);
        for (size_t t = 0; t < m; t++)
            for (size_t c = 0; c < count; c++)
                buffer[t * count + c] = w->x[(t0 + t) * w->ldx + o->column[c]];
        w->kernels->gemm_f32_f16(sum, ROWS, buffer, count, o->f16 + r0 * count, count, m, n, count);
    } else {
        const pare_x8 x = x8_tokens(&j->outlier_x8, t0, t1);
        const pare_panel p = pare__outlier_rows(o, r0, n);
        w->kernels->gemm_x8_q8(sum, ROWS, &x, &p);
    }
    for (size_t t = 0; t < m; t++)
        for (size_t r = 0; r < n; r++)
            j->y[(t0 + t) * j->ldy + r0 + r] += sum[t * ROWS + r];
}

/* The kernels write whole blocks of 8 rows: the last block of a matrix may be cut, so it goes
 * through a buffer. */
static void packed_tokens(const pare__work *w, const pare__job *j, size_t r0, size_t r1, size_t t0,
                          size_t t1, float *buffer)
{
    const pare_x8 x = x8_tokens(&j->x8, t0, t1);
    const size_t whole = (r1 - r0) / PARE_ATOM_N * PARE_ATOM_N, rest = r1 - r0 - whole;
    const pare_sparse *const s = &j->w->sparse;
    float *const y = j->y + t0 * j->ldy + r0;
    if (whole) {
        const pare_panel p = pare__panel_rows(j->w, r0, whole);
        gemm_x8(w->kernels, j->w, y, j->ldy, &x, &p);
    }
    if (rest) {
        float cut[PARE__TILE_TOKENS * PARE_ATOM_N];
        const pare_panel p = pare__panel_rows(j->w, r0 + whole, rest);
        gemm_x8(w->kernels, j->w, cut, PARE_ATOM_N, &x, &p);
        for (size_t t = 0; t < t1 - t0; t++)
            memcpy(y + t * j->ldy + whole, cut + t * PARE_ATOM_N, rest * sizeof *cut);
    }
    if (j->w->outliers.count)
        add_outliers(w, j, r0, r1, t0, t1, buffer);
    if (s->start)
        w->kernels->gemm_sparse_f32(y, j->ldy, w->x + t0 * w->ldx, w->ldx, s->start + r0, s->column,
                                    s->value, t1 - t0, r1 - r0);
}

/* What goes through buffers takes PARE__TILE_TOKENS at a time. */
static void packed_tile(const pare__work *w, const pare__job *j, size_t r0, size_t r1, size_t t0,
                        size_t t1, float *buffer)
{
    const bool buffered = j->w->outliers.count || (r1 - r0) % PARE_ATOM_N;
    const size_t step = buffered ? PARE__TILE_TOKENS : t1 - t0;
    for (size_t t = t0; t < t1; t += step)
        packed_tokens(w, j, r0, r1, t, t1 - t < step ? t1 : t + step, buffer);
}

/* One token; a block of rows that the matrix cuts goes through a buffer. */
static void fused_tile(const pare__work *w, const pare__job *j, size_t r0, size_t r1)
{
    const size_t whole = (r1 - r0) / PARE_ATOM_N * PARE_ATOM_N, rest = r1 - r0 - whole;
    if (whole)
        pare__linear_gemv(w->kernels, j->w, r0, whole, j->x, j->y + r0);
    if (rest) {
        float cut[PARE_ATOM_N];
        pare__linear_gemv(w->kernels, j->w, r0 + whole, rest, j->x, cut);
        memcpy(j->y + r0 + whole, cut, rest * sizeof *cut);
    }
}

static void decoded_tile(const pare__work *w, const pare__job *j, size_t r0, size_t r1,
                         float *panel)
{
    const size_t few = w->cpu & PARE_CPU_AVX2 ? FEW_X86 : FEW_TOKENS;
    const size_t least = pare_encoding_turns(j->w->encoding) ? PARE_EXL3_TILE : PARE_ATOM_N;
    const size_t step = w->m < few && !pare__linear_turns(j->w) ? least : PARE__TILE_ROWS,
                 ldw = j->w->panel.k;
    for (size_t r = r0; r < r1; r += step) {
        const size_t rows = r1 - r < step ? r1 - r : step;
        pare__linear_decode(w->kernels, j->w, r, rows, panel);
        w->kernels->gemm_f32_f32(j->y + r, j->ldy, j->x, j->ldx, panel, ldw, w->m, rows, j->w->k);
    }
}

static void dense_tile(const pare__work *w, const pare__job *j, size_t r0, size_t r1, size_t t0,
                       size_t t1)
{
    const size_t k = j->w->k, first = r0 * k, ldx = w->ldx;
    const float *const x = w->x + t0 * ldx;
    float *const y = j->y + t0 * j->ldy + r0;
    const size_t m = t1 - t0, n = r1 - r0;
    const void *const data = j->w->data;
    if (j->w->dtype == PARE_F16)
        w->kernels->gemm_f32_f16(y, j->ldy, x, ldx, (const uint16_t *)data + first, k, m, n, k);
    else if (j->w->dtype == PARE_BF16)
        w->kernels->gemm_f32_bf16(y, j->ldy, x, ldx, (const uint16_t *)data + first, k, m, n, k);
    else
        w->kernels->gemm_f32_f32(y, j->ldy, x, ldx, (const float *)data + first, k, m, n, k);
}

/* Whether one token meets weights that are decoded in registers. */
static bool fuses(const pare__work *w, const pare__job *j)
{
    return j->decode && w->m == 1 && pare__linear_fuses(w->cpu, j->w);
}

static void tile(const pare__work *w, const pare__job *j, size_t row_tile, size_t token_tile,
                 size_t worker)
{
    const size_t r0 = row_tile * PARE__TILE_ROWS, t0 = token_tile * j->tile_tokens;
    const size_t r1 = j->w->n - r0 < PARE__TILE_ROWS ? j->w->n : r0 + PARE__TILE_ROWS;
    const size_t t1 = w->m - t0 < j->tile_tokens ? w->m : t0 + j->tile_tokens;
    float *const buffer = w->buffer ? w->buffer + worker * w->buffer_floats : NULL;
    if (fuses(w, j))
        fused_tile(w, j, r0, r1);
    else if (j->decode)
        decoded_tile(w, j, r0, r1, buffer);
    else if (j->w->bits)
        packed_tile(w, j, r0, r1, t0, t1, buffer);
    else
        dense_tile(w, j, r0, r1, t0, t1);
    if (!j->w->bias)
        return;
    for (size_t t = t0; t < t1; t++)
        for (size_t r = r0; r < r1; r++)
            j->y[t * j->ldy + r] += j->w->bias[r];
}

/* Integer products by tile registers. */
static bool tokens_outside(const pare__work *w, const pare__job *j)
{
    return (w->cpu & PARE_CPU_AMX) && j->w->bits && !j->decode;
}

static void run_tiles(void *arg, size_t begin, size_t end, size_t worker)
{
    const pare__work *const w = arg;
    for (size_t i = begin; i < end; i++) {
        size_t at = i, j = 0;
        for (; at >= row_tiles(w->job[j].w) * w->job[j].token_tiles; j++)
            at -= row_tiles(w->job[j].w) * w->job[j].token_tiles;
        const size_t rows = row_tiles(w->job[j].w), across = w->job[j].token_tiles;
        if (tokens_outside(w, &w->job[j]))
            tile(w, &w->job[j], at % rows, at / rows, worker);
        else
            tile(w, &w->job[j], at / across, at % across, worker);
    }
}

static bool sparsity_fits(const pare_linear *w)
{
    const bool f16 = pare_encoding_is_float(w->encoding);
    switch (w->sparsity) {
    case PARE_SPARSITY_NONE: return !f16;
    case PARE_SPARSITY_2_4:
        return pare_encoding_fits_2_4(w->encoding, w->bits) && !w->panel.zeros &&
               !w->outliers.count && !w->sparse.start;
    case PARE_SPARSITY_BITMASK: return f16 && !w->outliers.count && !w->sparse.start;
    }
    return false;
}

pare_status pare_linear_check(pare_ctx *cx, const pare_linear *w)
{
    const pare_activation *const a = &w->activation;
    const pare_encoding_row *const row = &pare_encodings[w->encoding];
    if (w->rotated && !pare_hadamard_fits(w->k))
        return pare_fail(cx, PARE_ENOTSUP, "%s: inputs of %zu values cannot be rotated", w->name,
                         w->k);
    if (!w->bits)
        return PARE_OK;
    if (!pare_encoding_fits(w->encoding, w->bits))
        return pare_fail(cx, PARE_ENOTSUP, "%s: %s weights of %u bits", w->name, row->name,
                         w->bits);
    if (!sparsity_fits(w))
        return pare_fail(cx, PARE_ENOTSUP,
                         "%s: no product of %s weights of %u bits pruned like this", w->name,
                         row->name, w->bits);
    const bool floats = a->mode == PARE_ACTIVATION_FLOAT, fp4 = pare_encoding_is_fp4(w->encoding);
    if (floats && a->bits != 0 && a->bits != 8 && (a->bits != 4 || !fp4))
        return pare_fail(cx, PARE_ENOTSUP, "%s: float activations of %u bits; expected 8%s",
                         w->name, a->bits, fp4 ? " or 4" : "");
    if (!floats && !row->integer)
        return pare_fail(cx, PARE_ENOTSUP,
                         "%s: no integer product of %s weights; their activations stay float",
                         w->name, row->name);
    if (!floats && a->bits != 4 && a->bits != 8)
        return pare_fail(cx, PARE_ENOTSUP, "%s: activations of %u bits; expected 4 or 8", w->name,
                         a->bits);
    if (pare_activation_is_fixed(w->encoding, a) && !(isfinite(a->scale) && a->scale > 0.0f))
        return pare_fail(cx, PARE_ENOTSUP, "%s: input scale %g; expected a positive number",
                         w->name, (double)a->scale);
    return PARE_OK;
}

/* Floats that a worker needs for one job: a panel, or the inputs of outliers of a tile. */
static size_t buffer_floats(const pare__work *w, const pare__job *j)
{
    const size_t wide = j->w->bits ? j->w->panel.k : 0, gathered = j->w->outliers.count;
    if (j->decode)
        return fuses(w, j) ? 0 : PARE__TILE_ROWS * wide;
    if (pare__linear_tiled(j->w))
        return (wide + sizeof(float) - 1) / sizeof(float);
    if (!gathered)
        return 0;
    return gathered * PARE__TILE_TOKENS > wide ? gathered * PARE__TILE_TOKENS : wide;
}

static size_t tile_tokens(const pare__work *w, const pare__job *j)
{
    if (j->decode)
        return w->m;
    if (!j->w->bits && w->m >= 2 * DENSE_TOKENS)
        return DENSE_TOKENS;
    if (!tokens_outside(w, j))
        return PARE__TILE_TOKENS;
    const size_t fit = TOKENS_BYTES / j->w->panel.k / 32 * 32;
    return fit < TOKENS_MIN ? TOKENS_MIN : fit > TOKENS_MAX ? TOKENS_MAX : fit;
}

static pare_status prepare(pare_ctx *cx, pare_arena *scratch, bool exact, pare__work *w)
{
    for (size_t i = 0; i < w->jobs; i++) {
        pare__job *const j = &w->job[i];
        PARE_TRY(pare_linear_check(cx, j->w));
        const bool stay = j->w->activation.mode == PARE_ACTIVATION_FLOAT;
        j->decode = j->w->bits && (exact || stay);
        j->rounds = j->w->bits && !exact && stay && j->w->activation.bits;
        j->tile_tokens = tile_tokens(w, j);
        j->token_tiles = (w->m + j->tile_tokens - 1) / j->tile_tokens;
        const size_t floats = buffer_floats(w, j);
        w->buffer_floats = floats > w->buffer_floats ? floats : w->buffer_floats;
    }
    if (w->buffer_floats) {
        w->buffer =
            pare_arena_take_raw(scratch, pare_threads(cx), w->buffer_floats * sizeof(float));
        if (!w->buffer)
            return PARE_ENOMEM;
    }
    return pare__linear_inputs(cx, scratch, w);
}

static pare_status apply(pare_ctx *cx, pare_arena *scratch, const pare__product *product,
                         size_t count, bool exact, const float *x, size_t ldx, size_t m)
{
    assert(count <= PARE__LINEARS_MAX);
    if (m == 0 || count == 0)
        return PARE_OK;
    pare__work w = {
        .kernels = &cx->kernels, .cpu = cx->cpu, .x = x, .ldx = ldx, .m = m, .jobs = count};
    for (size_t i = 0; i < count; i++)
        w.job[i] = (pare__job){
            .w = product[i].w, .x = x, .ldx = ldx, .y = product[i].y, .ldy = product[i].ldy};
    const pare_mark mark = pare_arena_mark(scratch);
    const pare_status s = prepare(cx, scratch, exact, &w);
    if (s == PARE_OK) {
        size_t tiles = 0, tokens = m;
        for (size_t i = 0; i < count; i++) {
            tiles += row_tiles(w.job[i].w) * w.job[i].token_tiles;
            tokens = w.job[i].tile_tokens < tokens ? w.job[i].tile_tokens : tokens;
        }
        pare_parallel_apart(cx, tiles, pare__chunk(PARE__TILE_ROWS * tokens * product->w->k),
                            run_tiles, &w);
    }
    pare_arena_rewind(scratch, mark);
    return s;
}

/* Inputs and outputs of one product on their way into the basis of its codes and back. */
typedef struct turning {
    const pare_kernels *kernels;
    const pare__product *product;
    const float *x;
    float *to;
    size_t ldx;
} turning;

static void turn_inputs(void *arg, size_t begin, size_t end, size_t worker)
{
    const turning *const c = arg;
    const pare_linear *const w = c->product->w;
    (void)worker;
    for (size_t t = begin; t < end; t++)
        pare__exl3_turn_input(c->kernels, w, c->x + t * c->ldx, c->to + t * w->k);
}

static void turn_outputs(void *arg, size_t begin, size_t end, size_t worker)
{
    const turning *const c = arg;
    (void)worker;
    for (size_t t = begin; t < end; t++)
        pare__exl3_turn_output(c->kernels, c->product->w, c->product->y + t * c->product->ldy);
}

static pare_status apply_turned(pare_ctx *cx, pare_arena *scratch, const pare__product *product,
                                const float *x, size_t ldx, size_t m)
{
    pare_linear inner = *product->w;
    const size_t k = inner.k, n = inner.n;
    const pare_mark mark = pare_arena_mark(scratch);
    float *const to = pare_arena_take_raw(scratch, m, k * sizeof *to);
    turning c = {&cx->kernels, product, x, to, ldx};
    if (!to)
        return PARE_ENOMEM;
    inner.bias = NULL;
    inner.row_scales = inner.column_scales = NULL;
    pare_parallel(cx, m, pare__chunk(k), turn_inputs, &c);
    const pare__product there = {&inner, product->y, product->ldy};
    const pare_status s = apply(cx, scratch, &there, 1, false, to, k, m);
    if (s == PARE_OK)
        pare_parallel(cx, m, pare__chunk(n), turn_outputs, &c);
    pare_arena_rewind(scratch, mark);
    return s;
}

pare_status pare__linear_apply_all(pare_ctx *cx, pare_arena *scratch, const pare__product *product,
                                   size_t count, bool exact, const float *x, size_t ldx, size_t m)
{
    pare__product plain[PARE__LINEARS_MAX];
    size_t plains = 0;
    assert(count <= PARE__LINEARS_MAX);
    for (size_t i = 0; i < count; i++)
        if (pare__linear_turns(product[i].w) && !exact)
            PARE_TRY(apply_turned(cx, scratch, &product[i], x, ldx, m));
        else
            plain[plains++] = product[i];
    return apply(cx, scratch, plain, plains, exact, x, ldx, m);
}

pare_status pare_linear_apply(pare_ctx *cx, pare_arena *scratch, const pare_linear *w, bool exact,
                              const float *x, size_t ldx, size_t m, float *y, size_t ldy)
{
    const pare__product product = {w, y, ldy};
    return pare__linear_apply_all(cx, scratch, &product, 1, exact, x, ldx, m);
}
