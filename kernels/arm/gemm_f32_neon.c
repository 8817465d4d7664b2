/* F32 activations with F32, F16 or BF16 weights. The eight lanes over k that the definition asks
 * for are two registers, so every output has accumulators of its own and does not depend on the
 * tiling.
 *
 *   few tokens   weights are read once from memory, several rows at a time
 *   many tokens  a panel of ROWS x DEPTH weights is converted into the second-level cache and meets
 *                TOKENS tokens in tiles of 3 x 4, whose accumulators fill 24 of 32 registers; they
 *                are parked between the steps over k */
#include "kernels/arm/neon_internal.h"

#ifdef __aarch64__

enum {
    TR = 3, /* rows of a register tile */
    TT = 4, /* tokens of a register tile */
    ROWS = 66,
    TOKENS = 64, /* with the panel, 200 KB of stack */
    DEPTH = 256,
    LINES = 8,    /* rows read at once for few tokens */
    AHEAD = 1024, /* bytes of prefetch distance for few tokens */
};

typedef enum type { F32, F16, BF16 } type;

PARE_INLINE size_t type_bytes(type ty)
{
    return ty == F32 ? 4 : 2;
}

PARE_INLINE f32x8 weights_8(const uint8_t *w, type ty)
{
    if (ty == F32)
        return load_8((const float *)(const void *)w);
    const uint16x8_t h = vld1q_u16((const uint16_t *)(const void *)w);
    if (ty == F16)
        return of_halves(h);
    return (f32x8){vreinterpretq_f32_u32(vshll_n_u16(vget_low_u16(h), 16)),
                   vreinterpretq_f32_u32(vshll_high_n_u16(h, 16))};
}

/* The first n < 8 weights, zeros behind. */
PARE_INLINE f32x8 weights_tail(const uint8_t *w, size_t n, type ty)
{
    _Alignas(16) uint8_t full[32] = {0};
    memcpy(full, w, n * type_bytes(ty));
    return weights_8(full, ty);
}

/* y[r] for `lines` rows and one token. */
PARE_INLINE void rows_dot(float *y, const float *x, const uint8_t *w, size_t row_bytes, size_t k,
                          size_t lines, type ty)
{
    const size_t size = type_bytes(ty), whole = k / 8 * 8;
    float32x4_t lo[LINES], hi[LINES];
    for (size_t r = 0; r < lines; r++)
        lo[r] = hi[r] = vdupq_n_f32(0.0f);
    for (size_t j = 0; j < whole; j += 8) {
        const f32x8 v = load_8(x + j);
        for (size_t r = 0; r < lines; r++) {
            const uint8_t *const p = w + r * row_bytes + j * size;
            const f32x8 u = weights_8(p, ty);
            if (j % 16 == 0)
                __builtin_prefetch(p + AHEAD);
            lo[r] = vfmaq_f32(lo[r], v.lo, u.lo);
            hi[r] = vfmaq_f32(hi[r], v.hi, u.hi);
        }
    }
    f32x8 acc[LINES]; /* lo and hi stay in registers: their places are constants, everywhere */
    for (size_t r = 0; r < lines; r++)
        acc[r] = (f32x8){lo[r], hi[r]};
    for (size_t r = 0; r < lines && whole < k; r++)
        acc[r] = fma_first(load_first(x + whole, k - whole),
                           weights_tail(w + r * row_bytes + whole * size, k - whole, ty), acc[r],
                           k - whole);
    for (size_t r = 0; r < lines; r++)
        y[r] = lane_sum(acc[r]);
}

PARE_INLINE void gemv(float *y, size_t ldy, const float *x, size_t ldx, const uint8_t *w,
                      size_t row_bytes, size_t m, size_t n, size_t k, type ty)
{
    size_t r = 0;
    for (; r + LINES <= n; r += LINES)
        for (size_t t = 0; t < m; t++)
            rows_dot(y + t * ldy + r, x + t * ldx, w + r * row_bytes, row_bytes, k, LINES, ty);
    for (; r < n; r++)
        for (size_t t = 0; t < m; t++)
            rows_dot(y + t * ldy + r, x + t * ldx, w + r * row_bytes, row_bytes, k, 1, ty);
}

/* Weights of one panel as F32; columns behind `depth` are zero up to a multiple of 8, rows behind
 * `rows` stay what they are and their sums are not used. */
PARE_INLINE void fill_panel(float panel[ROWS][DEPTH], const uint8_t *w, size_t row_bytes,
                            size_t rows, size_t depth, type ty)
{
    const size_t whole = depth / 8 * 8, size = type_bytes(ty);
    for (size_t r = 0; r < rows; r++, w += row_bytes) {
        for (size_t j = 0; j < whole; j += 8)
            store_8(&panel[r][j], weights_8(w + j * size, ty));
        if (whole < depth)
            store_8(&panel[r][whole], weights_tail(w + whole * size, depth - whole, ty));
    }
}

/* Eight columns or sums of each of TR rows. Not an array: compilers keep its parts in registers. */
typedef struct rows3 {
    f32x8 a, b, c;
} rows3;

PARE_INLINE rows3 load_rows(const float *panel)
{
    return (rows3){load_8(panel), load_8(panel + DEPTH), load_8(panel + (size_t)2 * DEPTH)};
}

/* Four columns of TR rows. */
typedef struct half3 {
    float32x4_t a, b, c;
} half3;

PARE_INLINE half3 load_half(const float *panel)
{
    return (half3){vld1q_f32(panel), vld1q_f32(panel + DEPTH),
                   vld1q_f32(panel + (size_t)2 * DEPTH)};
}

PARE_INLINE half3 fma_half(half3 acc, const float *x, half3 w)
{
    const float32x4_t v = vld1q_f32(x);
    return (half3){vfmaq_f32(acc.a, v, w.a), vfmaq_f32(acc.b, v, w.b), vfmaq_f32(acc.c, v, w.c)};
}

PARE_INLINE half3 low_of(rows3 v)
{
    return (half3){v.a.lo, v.b.lo, v.c.lo};
}

PARE_INLINE half3 high_of(rows3 v)
{
    return (half3){v.a.hi, v.b.hi, v.c.hi};
}

PARE_INLINE rows3 both(half3 lo, half3 hi)
{
    return (rows3){{lo.a, hi.a}, {lo.b, hi.b}, {lo.c, hi.c}};
}

/* acc[t] += over `depth` columns, 3 rows by 4 tokens. The weights of four columns and 24 sums leave
 * no room for those of the next four: the empty statement keeps these from being read early. */
static void tile(rows3 acc[TT], const float *panel, const float *const x[TT], size_t depth)
{
    half3 l0 = low_of(acc[0]), l1 = low_of(acc[1]), l2 = low_of(acc[2]), l3 = low_of(acc[3]);
    half3 h0 = high_of(acc[0]), h1 = high_of(acc[1]), h2 = high_of(acc[2]), h3 = high_of(acc[3]);
    const float *const x0 = x[0], *const x1 = x[1], *const x2 = x[2], *const x3 = x[3];
    const size_t whole = depth / 8 * 8, tail = depth - whole;
    for (size_t j = 0; j < whole; j += 8) {
        half3 w = load_half(panel + j);
        l0 = fma_half(l0, x0 + j, w);
        l1 = fma_half(l1, x1 + j, w);
        l2 = fma_half(l2, x2 + j, w);
        l3 = fma_half(l3, x3 + j, w);
        __asm__("" ::: "memory");
        w = load_half(panel + j + 4);
        h0 = fma_half(h0, x0 + j + 4, w);
        h1 = fma_half(h1, x1 + j + 4, w);
        h2 = fma_half(h2, x2 + j + 4, w);
        h3 = fma_half(h3, x3 + j + 4, w);
    }
    acc[0] = both(l0, h0);
    acc[1] = both(l1, h1);
    acc[2] = both(l2, h2);
    acc[3] = both(l3, h3);
    for (size_t t = 0; t < TT && tail > 0; t++) {
        const rows3 w = load_rows(panel + whole);
        const f32x8 v = load_first(x[t] + whole, tail);
        acc[t] = (rows3){fma_first(v, w.a, acc[t].a, tail), fma_first(v, w.b, acc[t].b, tail),
                         fma_first(v, w.c, acc[t].c, tail)};
    }
}

/* Columns [k0, k0 + depth) of the four tokens from t on; behind the last token, the last again. */
PARE_INLINE void token_rows(const float *rows[TT], const float *x, size_t ldx, size_t m, size_t t,
                            size_t k0)
{
    for (size_t i = 0; i < TT; i++)
        rows[i] = x + (t + i < m ? t + i : m - 1) * ldx + k0;
}

/* At most ROWS x TOKENS outputs. Places of a tile behind the last token compute the last token
 * again; they are not stored. */
PARE_INLINE void block(float *y, size_t ldy, const float *x, size_t ldx, const uint8_t *w,
                       size_t row_bytes, size_t m, size_t n, size_t k, type ty)
{
    _Alignas(64) float panel[ROWS][DEPTH];
    rows3 acc[TOKENS / TT][ROWS / TR][TT];
    memset(panel + n, 0, (ROWS - n < TR ? ROWS - n : TR) * sizeof panel[0]);
    memset(acc, 0, (m + TT - 1) / TT * sizeof acc[0]);
    for (size_t k0 = 0; k0 < k; k0 += DEPTH) {
        const size_t depth = k - k0 < DEPTH ? k - k0 : DEPTH;
        fill_panel(panel, w + k0 * type_bytes(ty), row_bytes, n, depth, ty);
        for (size_t t = 0; t < m; t += TT) {
            const float *rows[TT];
            token_rows(rows, x, ldx, m, t, k0);
            for (size_t r = 0; r < n; r += TR)
                tile(acc[t / TT][r / TR], panel[r], rows, depth);
        }
    }
    for (size_t t = 0; t < m; t++)
        for (size_t r = 0; r < n; r += TR) {
            const rows3 *const sum = &acc[t / TT][r / TR][t % TT];
            const float out[TR] = {lane_sum(sum->a), lane_sum(sum->b), lane_sum(sum->c)};
            memcpy(y + t * ldy + r, out, (n - r < TR ? n - r : TR) * sizeof *out);
        }
}

PARE_INLINE void gemm(float *y, size_t ldy, const float *x, size_t ldx, const void *weights,
                      size_t ldw, size_t m, size_t n, size_t k, type ty)
{
    const uint8_t *const w = weights;
    const size_t row_bytes = ldw * type_bytes(ty);
    if (m < TT) {
        gemv(y, ldy, x, ldx, w, row_bytes, m, n, k, ty);
        return;
    }
    for (size_t r = 0; r < n; r += ROWS)
        for (size_t t = 0; t < m; t += TOKENS)
            block(y + t * ldy + r, ldy, x + t * ldx, ldx, w + r * row_bytes, row_bytes,
                  m - t < TOKENS ? m - t : TOKENS, n - r < ROWS ? n - r : ROWS, k, ty);
}

void pare_gemm_f32_f32_neon(float *y, size_t ldy, const float *x, size_t ldx, const float *w,
                            size_t ldw, size_t m, size_t n, size_t k)
{
    gemm(y, ldy, x, ldx, w, ldw, m, n, k, F32);
}

void pare_gemm_f32_f16_neon(float *y, size_t ldy, const float *x, size_t ldx, const uint16_t *w,
                            size_t ldw, size_t m, size_t n, size_t k)
{
    gemm(y, ldy, x, ldx, w, ldw, m, n, k, F16);
}

void pare_gemm_f32_bf16_neon(float *y, size_t ldy, const float *x, size_t ldx, const uint16_t *w,
                             size_t ldw, size_t m, size_t n, size_t k)
{
    gemm(y, ldy, x, ldx, w, ldw, m, n, k, BF16);
}

#endif
