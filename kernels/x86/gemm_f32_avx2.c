/* F32 activations with F32, F16 or BF16 weights. Lanes run over k, as the definition asks, so every
 * output has one vector accumulator and its result does not depend on the tiling.
 *
 *   few tokens   weights are read once from memory, several rows at a time
 *   many tokens  a panel of ROWS x DEPTH weights is converted into the second-level cache and meets
 *                TOKENS tokens in tiles of 3 x 4 accumulators, parked between the steps over k; the
 *                activations of a tile stay in the first-level cache for all rows */
#include "kernels/x86/avx2_internal.h"

#ifdef __AVX2__
#include <stdbool.h>

enum {
    TR = 3, /* rows of a register tile */
    TT = 4, /* tokens of a register tile */
    ROWS = 66,
    TOKENS = 64, /* with the panel, 200 KB of stack */
    DEPTH = 256,
    LINES = 4,        /* rows read at once for few tokens, at most */
    FEW = 8,          /* tokens that are few */
    LINE = 64,        /* bytes of a line of the caches */
    AHEAD = 8 * 1024, /* bytes of prefetch distance for few tokens, at least */
};

typedef enum type { F32, F16, BF16 } type;

PARE_INLINE size_t type_bytes(type ty)
{
    return ty == F32 ? 4 : 2;
}

PARE_INLINE __m256 load_8(const uint8_t *w, type ty)
{
    if (ty == F32)
        return _mm256_loadu_ps((const float *)(const void *)w);
    const __m128i h = _mm_loadu_si128((const __m128i *)(const void *)w);
    if (ty == F16)
        return _mm256_cvtph_ps(h);
    return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(h), 16));
}

/* The first n < 8 weights, zeros behind. */
PARE_INLINE __m256 load_tail(const uint8_t *w, size_t n, type ty)
{
    uint8_t full[32] = {0};
    memcpy(full, w, n * type_bytes(ty));
    return load_8(full, ty);
}

/* Lanes at and above the tail keep their value: adding 0 would turn -0 into +0. */
PARE_INLINE __m256 fma_tail(__m256 x, __m256 w, __m256 acc, __m256i mask)
{
    return _mm256_blendv_ps(acc, _mm256_fmadd_ps(x, w, acc), _mm256_castsi256_ps(mask));
}

/* acc[r][t] += eight columns from j on. */
PARE_INLINE void add_8(__m256 acc[LINES][FEW], const float *x, size_t ldx, const uint8_t *w,
                       size_t row_bytes, size_t j, size_t lines, size_t tokens, type ty)
{
    for (size_t r = 0; r < lines; r++) {
        const __m256 v = load_8(w + r * row_bytes + j * type_bytes(ty), ty);
        for (size_t t = 0; t < tokens; t++)
            acc[r][t] = _mm256_fmadd_ps(_mm256_loadu_ps(x + t * ldx + j), v, acc[r][t]);
    }
}

/* y[t, r] for `lines` rows and `tokens` tokens, at most FEW. Several rows are read at once, but
 * they are one stretch of memory, which is asked for from its begin to its end, `ahead` bytes
 * before: memory answers that faster than as many streams. */
PARE_INLINE void rows_dot(float *y, size_t ldy, const float *x, size_t ldx, const uint8_t *w,
                          size_t row_bytes, size_t k, size_t ahead, size_t lines, size_t tokens,
                          type ty)
{
    const size_t size = type_bytes(ty), whole = k / 8 * 8, step = LINE / size;
    const char *next = (const char *)w + ahead;
    __m256 acc[LINES][FEW];
    for (size_t i = 0; i < lines * tokens; i++)
        acc[i / tokens][i % tokens] = _mm256_setzero_ps();
    size_t j = 0;
    for (; j + step <= k; j += step, next += lines * LINE) {
        for (size_t r = 0; r < lines; r++)
            _mm_prefetch(next + r * LINE, _MM_HINT_T1);
        for (size_t r = 0; r < lines; r++)
            _mm_prefetch((const char *)w + r * row_bytes + j * size + NEAR, _MM_HINT_T0);
        for (size_t i = 0; i < step; i += 8)
            add_8(acc, x, ldx, w, row_bytes, j + i, lines, tokens, ty);
    }
    for (; j < whole; j += 8)
        add_8(acc, x, ldx, w, row_bytes, j, lines, tokens, ty);
    if (whole < k) {
        const __m256i mask = mask_first(k - whole);
        for (size_t r = 0; r < lines; r++) {
            const __m256 v = load_tail(w + r * row_bytes + whole * size, k - whole, ty);
            for (size_t t = 0; t < tokens; t++)
                acc[r][t] =
                    fma_tail(_mm256_maskload_ps(x + t * ldx + whole, mask), v, acc[r][t], mask);
        }
    }
    for (size_t i = 0; i < lines * tokens; i++)
        y[i % tokens * ldy + i / tokens] = lane_sum(acc[i / tokens][i % tokens]);
}

/* Rows whose sums with all tokens stay in 16 registers, beside what is read. */
PARE_INLINE size_t lines_of(size_t tokens)
{
    return tokens <= 3 ? LINES : tokens <= 6 ? 2 : 1;
}

/* The last of the rows are asked for when the first ones of their block are being read, so the
 * distance is a block. */
PARE_INLINE void gemv(float *y, size_t ldy, const float *x, size_t ldx, const uint8_t *w,
                      size_t row_bytes, size_t tokens, size_t n, size_t k, type ty)
{
    const size_t lines = lines_of(tokens), block = lines * row_bytes;
    const size_t ahead = block < AHEAD ? AHEAD : block;
    size_t r = 0;
    for (; r + lines <= n; r += lines, w += block)
        rows_dot(y + r, ldy, x, ldx, w, row_bytes, k, ahead, lines, tokens, ty);
    for (; r < n; r++, w += row_bytes)
        rows_dot(y + r, ldy, x, ldx, w, row_bytes, k, ahead, 1, tokens, ty);
}

/* Weights of one panel as F32; columns behind `depth` are zero up to a multiple of 8, rows behind
 * `rows` stay what they are and their sums are not used. */
PARE_INLINE void fill_panel(float panel[ROWS][DEPTH], const uint8_t *w, size_t row_bytes,
                            size_t rows, size_t depth, type ty)
{
    const size_t whole = depth / 8 * 8, size = type_bytes(ty);
    for (size_t r = 0; r < rows; r++, w += row_bytes) {
        for (size_t j = 0; j < whole; j += 8)
            _mm256_store_ps(&panel[r][j], load_8(w + j * size, ty));
        if (whole < depth)
            _mm256_store_ps(&panel[r][whole], load_tail(w + whole * size, depth - whole, ty));
    }
}

/* acc[r][t] += over `depth` columns, 3 rows by 4 tokens. */
static void tile(__m256 acc[TR][TT], const float panel[TR][DEPTH], const float *const x[TT],
                 size_t depth)
{
    __m256 a[TR][TT];
    for (size_t r = 0; r < TR; r++)
        for (size_t t = 0; t < TT; t++)
            a[r][t] = acc[r][t];
    const float *const x0 = x[0], *const x1 = x[1], *const x2 = x[2], *const x3 = x[3];
    const size_t whole = depth / 8 * 8;
    for (size_t j = 0; j < whole; j += 8) {
        const __m256 w[TR] = {_mm256_load_ps(&panel[0][j]), _mm256_load_ps(&panel[1][j]),
                              _mm256_load_ps(&panel[2][j])};
        __m256 v = _mm256_loadu_ps(x0 + j);
        for (size_t r = 0; r < TR; r++)
            a[r][0] = _mm256_fmadd_ps(v, w[r], a[r][0]);
        v = _mm256_loadu_ps(x1 + j);
        for (size_t r = 0; r < TR; r++)
            a[r][1] = _mm256_fmadd_ps(v, w[r], a[r][1]);
        v = _mm256_loadu_ps(x2 + j);
        for (size_t r = 0; r < TR; r++)
            a[r][2] = _mm256_fmadd_ps(v, w[r], a[r][2]);
        v = _mm256_loadu_ps(x3 + j);
        for (size_t r = 0; r < TR; r++)
            a[r][3] = _mm256_fmadd_ps(v, w[r], a[r][3]);
    }
    for (size_t r = 0; r < TR; r++)
        for (size_t t = 0; t < TT; t++)
            acc[r][t] = a[r][t];
    if (whole == depth)
        return;
    const __m256i mask = mask_first(depth - whole);
    for (size_t t = 0; t < TT; t++) {
        const __m256 v = _mm256_maskload_ps(x[t] + whole, mask);
        for (size_t r = 0; r < TR; r++)
            acc[r][t] = fma_tail(v, _mm256_load_ps(&panel[r][whole]), acc[r][t], mask);
    }
}

/* Columns [k0, k0 + depth) of the four tokens from t on; behind the last token, the last again. */
PARE_INLINE void token_rows(const float *rows[TT], const float *x, size_t ldx, size_t m, size_t t,
                            size_t k0)
{
    for (size_t i = 0; i < TT; i++)
        rows[i] = x + (t + i < m ? t + i : m - 1) * ldx + k0;
}

/* Asks for three lines of the next four tokens; the rows of a panel together ask for all. */
PARE_INLINE void prefetch_next(const float *const rows[TT], size_t r)
{
    enum { FLOATS = LINE / 4, PER_ROW = DEPTH / FLOATS };
    for (size_t i = r; i < r + TR && i < TT * PER_ROW; i++)
        _mm_prefetch((const char *)(rows[i / PER_ROW] + i % PER_ROW * FLOATS), _MM_HINT_T0);
}

/* At most ROWS x TOKENS outputs. Places of a tile behind the last token compute the last token
 * again; they are not stored. */
PARE_INLINE void block(float *y, size_t ldy, const float *x, size_t ldx, const uint8_t *w,
                       size_t row_bytes, size_t m, size_t n, size_t k, type ty)
{
    _Alignas(64) float panel[ROWS][DEPTH];
    __m256 acc[TOKENS / TT][ROWS / TR][TR][TT];
    memset(panel + n, 0, (ROWS - n < TR ? ROWS - n : TR) * sizeof panel[0]);
    memset(acc, 0, (m + TT - 1) / TT * sizeof acc[0]);
    for (size_t k0 = 0; k0 < k; k0 += DEPTH) {
        const size_t depth = k - k0 < DEPTH ? k - k0 : DEPTH;
        fill_panel(panel, w + k0 * type_bytes(ty), row_bytes, n, depth, ty);
        for (size_t t = 0; t < m; t += TT) {
            const float *rows[TT], *next[TT];
            token_rows(rows, x, ldx, m, t, k0);
            token_rows(next, x, ldx, m, t + TT, k0);
            for (size_t r = 0; r < n; r += TR) {
                prefetch_next(next, r);
                tile(acc[t / TT][r / TR], (const float(*)[DEPTH])panel + r, rows, depth);
            }
        }
    }
    for (size_t t = 0; t < m; t++)
        for (size_t r = 0; r < n; r++)
            y[t * ldy + r] = lane_sum(acc[t / TT][r / TR][r % TR][t % TT]);
}

PARE_INLINE void gemm(float *y, size_t ldy, const float *x, size_t ldx, const void *weights,
                      size_t ldw, size_t m, size_t n, size_t k, type ty)
{
    const uint8_t *const w = weights;
    const size_t row_bytes = ldw * type_bytes(ty);
    _Static_assert(FEW == 8, "each number of few tokens has a case");
    switch (m) {
    case 1: gemv(y, ldy, x, ldx, w, row_bytes, 1, n, k, ty); return;
    case 2: gemv(y, ldy, x, ldx, w, row_bytes, 2, n, k, ty); return;
    case 3: gemv(y, ldy, x, ldx, w, row_bytes, 3, n, k, ty); return;
    case 4: gemv(y, ldy, x, ldx, w, row_bytes, 4, n, k, ty); return;
    case 5: gemv(y, ldy, x, ldx, w, row_bytes, 5, n, k, ty); return;
    case 6: gemv(y, ldy, x, ldx, w, row_bytes, 6, n, k, ty); return;
    case 7: gemv(y, ldy, x, ldx, w, row_bytes, 7, n, k, ty); return;
    case 8: gemv(y, ldy, x, ldx, w, row_bytes, 8, n, k, ty); return;
    default: break;
    }
    for (size_t r = 0; r < n; r += ROWS)
        for (size_t t = 0; t < m; t += TOKENS)
            block(y + t * ldy + r, ldy, x + t * ldx, ldx, w + r * row_bytes, row_bytes,
                  m - t < TOKENS ? m - t : TOKENS, n - r < ROWS ? n - r : ROWS, k, ty);
}

void pare_gemm_f32_f32_avx2(float *y, size_t ldy, const float *x, size_t ldx, const float *w,
                            size_t ldw, size_t m, size_t n, size_t k)
{
    gemm(y, ldy, x, ldx, w, ldw, m, n, k, F32);
}

void pare_gemm_f32_f16_avx2(float *y, size_t ldy, const float *x, size_t ldx, const uint16_t *w,
                            size_t ldw, size_t m, size_t n, size_t k)
{
    gemm(y, ldy, x, ldx, w, ldw, m, n, k, F16);
}

void pare_gemm_f32_bf16_avx2(float *y, size_t ldy, const float *x, size_t ldx, const uint16_t *w,
                             size_t ldw, size_t m, size_t n, size_t k)
{
    gemm(y, ldy, x, ldx, w, ldw, m, n, k, BF16);
}

#endif
