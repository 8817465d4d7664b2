/* F32 activations with F32, F16 or BF16 weights, two tokens and more; AVX2 takes one token, and the
 * last n % 4 rows of a few. The eight lanes of an output are half of a vector: it holds eight
 * columns of two rows, and meets those of a token twice. Tiles are of 2 pairs of rows by 8 tokens.
 * Few tokens meet weights as they lie; for many, as with AVX2, a panel of 2 PAIRS x DEPTH weights
 * is converted into the second-level cache. */
#define PARE_VNNI_BITS 512
#include "kernels/x86/gemv_avx512.h"

#ifdef PARE_VNNI

enum {
    TR = 2,  /* pairs of rows of a register tile */
    TT = 8,  /* tokens of a register tile */
    FEW = 8, /* tokens that are few: a panel would cost more than it saves */
    PAIRS = 32,
    TOKENS = 128, /* with the panel, 390 KB of stack */
    DEPTH = 512,
    STEPS = DEPTH / 8,
};

typedef enum type { F32, F16, BF16 } type;

/* Columns [8 j, 8 j + 8) of a pair of rows are a vector. */
typedef __m512 panel[PAIRS / TR][STEPS][TR];

PARE_INLINE size_t type_bytes(type ty)
{
    return ty == F32 ? 4 : 2;
}

/* Eight columns of two rows. */
PARE_INLINE __m512 load_pair(const uint8_t *one, const uint8_t *two, type ty)
{
    if (ty == F32)
        return _mm512_insertf32x8(
            _mm512_castps256_ps512(_mm256_loadu_ps((const float *)(const void *)one)),
            _mm256_loadu_ps((const float *)(const void *)two), 1);
    const __m128i a = _mm_loadu_si128((const __m128i *)(const void *)one);
    const __m128i b = _mm_loadu_si128((const __m128i *)(const void *)two);
    if (ty == F16)
        return _mm512_cvtph_ps(_mm256_inserti128_si256(_mm256_castsi128_si256(a), b, 1));
    const __m512i wide = _mm512_inserti64x4(_mm512_castsi256_si512(_mm256_cvtepu16_epi32(a)),
                                            _mm256_cvtepu16_epi32(b), 1);
    return _mm512_castsi512_ps(_mm512_slli_epi32(wide, 16));
}

/* The first n columns of both, zeros behind. */
PARE_INLINE __m512 load_first(const uint8_t *one, const uint8_t *two, size_t n, type ty)
{
    if (n >= 8)
        return load_pair(one, two, ty);
    uint8_t full[2][32] = {{0}};
    memcpy(full[0], one, n * type_bytes(ty));
    memcpy(full[1], two, n * type_bytes(ty));
    return load_pair(full[0], full[1], ty);
}

PARE_INLINE __m512 twice(__m256 v)
{
    return _mm512_broadcast_f32x8(v);
}

/* Columns behind `depth` are zero up to a multiple of 8; rows behind the last are the last again.
 */
PARE_INLINE void fill_panel(panel p, const uint8_t *w, size_t row_bytes, size_t rows, size_t depth,
                            type ty)
{
    const size_t tiles = (rows + 2 * TR - 1) / (2 * TR);
    for (size_t i = 0; i < tiles * TR; i++) {
        const uint8_t *const one = w + (2 * i < rows ? 2 * i : rows - 1) * row_bytes;
        const uint8_t *const two = w + (2 * i + 1 < rows ? 2 * i + 1 : rows - 1) * row_bytes;
        for (size_t j = 0; j < depth; j += 8) {
            const size_t at = j * type_bytes(ty);
            p[i / TR][j / 8][i % TR] = load_first(one + at, two + at, depth - j, ty);
        }
    }
}

/* The last `width` columns, from `begin` on. Other lanes keep their value: adding 0 would turn -0
 * into +0. */
static void add_tail(__m512 acc[TR][TT], const __m512 (*w)[TR], const float *const x[TT],
                     size_t begin, size_t width)
{
    const unsigned half = (1u << width) - 1;
    const __mmask16 mask = (__mmask16)(half << 8 | half);
    for (size_t t = 0; t < TT; t++) {
        const __m512 v = twice(_mm256_maskload_ps(x[t] + begin, mask_first(width)));
        for (size_t r = 0; r < TR; r++)
            acc[r][t] = _mm512_mask3_fmadd_ps(v, (*w)[r], acc[r][t], mask);
    }
}

/* acc[r][t] += over `depth` columns; at first acc is 0, whatever stands there. */
static void tile(__m512 acc[TR][TT], const __m512 (*w)[TR], const float *const x[TT], size_t depth,
                 bool first)
{
    __m512 a[TR][TT];
    for (size_t i = 0; i < TR * TT; i++)
        a[i / TT][i % TT] = first ? _mm512_setzero_ps() : acc[i / TT][i % TT];
    const float *at[TT];
    for (size_t t = 0; t < TT; t++)
        at[t] = x[t];
    const size_t whole = depth / 8 * 8;
    for (size_t j = 0; j < whole; j += 8, w++) {
#pragma GCC unroll 8
        for (size_t t = 0; t < TT; t++) {
            const __m512 v = twice(_mm256_loadu_ps(at[t] + j));
            for (size_t r = 0; r < TR; r++)
                a[r][t] = _mm512_fmadd_ps(v, (*w)[r], a[r][t]);
        }
    }
    for (size_t i = 0; i < TR * TT; i++)
        acc[i / TT][i % TT] = a[i / TT][i % TT];
    if (whole < depth)
        add_tail(acc, w, x, whole, depth - whole);
}

/* Columns [k0, k0 + depth) of the tokens from t on; behind the last token, the last again. */
PARE_INLINE void token_rows(const float *rows[TT], const float *x, size_t ldx, size_t m, size_t t,
                            size_t k0)
{
    for (size_t i = 0; i < TT; i++)
        rows[i] = x + (t + i < m ? t + i : m - 1) * ldx + k0;
}

/* Asks for lines of the next tokens; the tiles of a panel together ask for all. */
PARE_INLINE void prefetch_next(const float *const rows[TT], size_t i, size_t depth)
{
    enum { LINE = 16, TILES = PAIRS / TR / TT /* that ask for one token */ };
    const float *const row = rows[i / TILES];
    const size_t half = (depth / TILES + LINE - 1) / LINE * LINE, begin = i % TILES * half;
    for (size_t j = begin; j < begin + half && j < depth; j += LINE)
        _mm_prefetch((const char *)(row + j), _MM_HINT_T0);
}

/* Asks for the weights of the next panel, TT rows of them. */
PARE_INLINE void prefetch_rows(const uint8_t *w, size_t row_bytes, size_t row, size_t rows,
                               size_t bytes)
{
    for (size_t r = row; r < row + TT && r < rows; r++)
        for (size_t line = 0; line < bytes; line += 64)
            _mm_prefetch((const char *)w + r * row_bytes + line, _MM_HINT_T1);
}

/* The eight lanes of 16 outputs, rows 0 .. 15 of a token, by the tree of lane_sum: a vector of `v`
 * has two rows, v[2 i] and v[2 i + 1] those of tile i. */
PARE_INLINE __m512 sum_rows(const __m512 v[8])
{
    __m512 s[4], p[2];
    for (size_t i = 0; i < 4; i++) /* four rows each, four partial sums of each */
        s[i] = _mm512_add_ps(_mm512_shuffle_f32x4(v[2 * i], v[2 * i + 1], 0x88),
                             _mm512_shuffle_f32x4(v[2 * i], v[2 * i + 1], 0xdd));
    for (size_t i = 0; i < 2; i++) {
        const __m512d one = _mm512_castps_pd(s[2 * i]), two = _mm512_castps_pd(s[2 * i + 1]);
        p[i] = _mm512_add_ps(_mm512_castpd_ps(_mm512_unpacklo_pd(one, two)),
                             _mm512_castpd_ps(_mm512_unpackhi_pd(one, two)));
    }
    const __m512 mixed =
        _mm512_add_ps(_mm512_shuffle_ps(p[0], p[1], 0x88), _mm512_shuffle_ps(p[0], p[1], 0xdd));
    const __m512i order = _mm512_setr_epi32(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15);
    return _mm512_permutexvar_ps(order, mixed);
}

/* The sums of token t, n rows of them. */
PARE_INLINE void store_token(float *y, const __m512 acc[PAIRS / TR][TR][TT], size_t t, size_t n)
{
    for (size_t r = 0; r < n; r += 16) {
        __m512 v[8];
        for (size_t i = 0; i < 8; i++)
            v[i] = acc[r / (2 * TR) + i / TR][i % TR][t];
        const __mmask16 mask = (__mmask16)(n - r < 16 ? (1u << (n - r)) - 1 : 0xffff);
        _mm512_mask_storeu_ps(y + r, mask, sum_rows(v));
    }
}

/* At most 2 PAIRS rows by TOKENS tokens. */
PARE_INLINE void block(float *y, size_t ldy, const float *x, size_t ldx, const uint8_t *w,
                       size_t row_bytes, size_t m, size_t n, size_t k, type ty)
{
    panel p;
    __m512 acc[TOKENS / TT][PAIRS / TR][TR][TT];
    const size_t tiles = (n + 2 * TR - 1) / (2 * TR);
    const size_t panels = (k + DEPTH - 1) / DEPTH, each = ((k + panels - 1) / panels + 7) / 8 * 8;
    for (size_t k0 = 0; k0 < k; k0 += each) {
        const size_t depth = k - k0 < each ? k - k0 : each;
        fill_panel(p, w + k0 * type_bytes(ty), row_bytes, n, depth, ty);
        for (size_t t = 0; t < m; t += TT) {
            const float *rows[TT], *next[TT];
            token_rows(rows, x, ldx, m, t, k0);
            token_rows(next, x, ldx, m, t + TT, k0);
            prefetch_rows(w + (k0 + each) * type_bytes(ty), row_bytes, t, n, each * type_bytes(ty));
            for (size_t i = 0; i < tiles; i++) {
                prefetch_next(next, i, depth);
                tile(acc[t / TT][i], (const __m512(*)[TR])p[i], rows, depth, k0 == 0);
            }
        }
    }
    for (size_t t = 0; t < m; t++)
        store_token(y + t * ldy, (const __m512(*)[TR][TT])acc[t / TT], t % TT, n);
}

PARE_INLINE void gemm(float *y, size_t ldy, const float *x, size_t ldx, const void *weights,
                      size_t ldw, size_t m, size_t n, size_t k, type ty)
{
    const uint8_t *const w = weights;
    const size_t row_bytes = ldw * type_bytes(ty), rows = 2 * (size_t)PAIRS;
    for (size_t r = 0; r < n; r += rows)
        for (size_t t = 0; t < m; t += TOKENS)
            block(y + t * ldy + r, ldy, x + t * ldx, ldx, w + r * row_bytes, row_bytes,
                  m - t < TOKENS ? m - t : TOKENS, n - r < rows ? n - r : rows, k, ty);
}

/* --- few tokens ------------------------------------------------------------------------------- */

/* Columns [j, j + 8) of TR pairs of rows; of the last columns, n of them. */
PARE_INLINE void load_pairs(__m512 v[TR], const uint8_t *w, size_t row_bytes, size_t j, size_t n,
                            type ty)
{
    for (size_t r = 0; r < TR; r++, w += 2 * row_bytes)
        v[r] = load_first(w + j * type_bytes(ty), w + row_bytes + j * type_bytes(ty), n, ty);
}

/* y[t, r] of 2 TR rows and `tokens` tokens, at most FEW. The rows are one stretch of memory, asked
 * for from its begin to its end, as many bytes before as they take. */
PARE_INLINE void few_rows(float *y, size_t ldy, const float *x, size_t ldx, const uint8_t *w,
                          size_t row_bytes, size_t k, size_t tokens, type ty)
{
    enum { LINE = 64 };
    const size_t whole = k / 8 * 8, step = LINE / type_bytes(ty);
    const char *next = (const char *)w + 2 * TR * row_bytes;
    __m512 acc[FEW * TR], v[TR];
    for (size_t i = 0; i < FEW * TR; i++)
        acc[i] = _mm512_setzero_ps();
    for (size_t j = 0; j < whole; j += 8) {
        if (j % step == 0)
            for (size_t r = 0; r < (size_t)2 * TR; r++, next += LINE) {
                _mm_prefetch(next, _MM_HINT_T1);
                _mm_prefetch((const char *)w + r * row_bytes + j * type_bytes(ty) + NEAR,
                             _MM_HINT_T0);
            }
        load_pairs(v, w, row_bytes, j, 8, ty);
        for (size_t t = 0; t < tokens; t++)
            for (size_t r = 0; r < TR; r++)
                acc[t * TR + r] = add_8(acc[t * TR + r], x + t * ldx + j, v[r], 8);
    }
    if (whole < k) {
        load_pairs(v, w, row_bytes, whole, k - whole, ty);
        for (size_t t = 0; t < tokens; t++)
            for (size_t r = 0; r < TR; r++)
                acc[t * TR + r] = add_8(acc[t * TR + r], x + t * ldx + whole, v[r], k - whole);
    }
    for (size_t t = 0; t < tokens; t += 4) {
        float sum[4][2 * TR];
        _mm512_storeu_ps(sum, sum_rows(acc + t * TR));
        for (size_t i = t; i < tokens && i < t + 4; i++)
            memcpy(y + i * ldy, sum[i - t], sizeof sum[0]);
    }
}

PARE_INLINE void few_tokens(float *y, size_t ldy, const float *x, size_t ldx, const uint8_t *w,
                            size_t row_bytes, size_t tokens, size_t n, size_t k, type ty)
{
    const size_t rows = 2 * (size_t)TR;
    for (size_t r = 0; r < n; r += rows, w += rows * row_bytes)
        few_rows(y + r, ldy, x, ldx, w, row_bytes, k, tokens, ty);
}

/* Computes the rows that `few_rows` takes, of 2 to FEW tokens, and returns their number; those
 * behind them are left to AVX2, as is one token. */
PARE_INLINE size_t few(float *y, size_t ldy, const float *x, size_t ldx, const void *w, size_t ldw,
                       size_t m, size_t n, size_t k, type ty)
{
    const size_t rows = n / (2 * TR) * (2 * TR), bytes = ldw * type_bytes(ty);
    switch (m) {
    case 2: few_tokens(y, ldy, x, ldx, w, bytes, 2, rows, k, ty); break;
    case 3: few_tokens(y, ldy, x, ldx, w, bytes, 3, rows, k, ty); break;
    case 4: few_tokens(y, ldy, x, ldx, w, bytes, 4, rows, k, ty); break;
    case 5: few_tokens(y, ldy, x, ldx, w, bytes, 5, rows, k, ty); break;
    case 6: few_tokens(y, ldy, x, ldx, w, bytes, 6, rows, k, ty); break;
    case 7: few_tokens(y, ldy, x, ldx, w, bytes, 7, rows, k, ty); break;
    case 8: few_tokens(y, ldy, x, ldx, w, bytes, 8, rows, k, ty); break;
    default: return 0;
    }
    return rows;
}

void pare_gemm_f32_f32_avx512(float *y, size_t ldy, const float *x, size_t ldx, const float *w,
                              size_t ldw, size_t m, size_t n, size_t k)
{
    if (m > FEW && k > 0) {
        gemm(y, ldy, x, ldx, w, ldw, m, n, k, F32);
        return;
    }
    const size_t done = few(y, ldy, x, ldx, w, ldw, m, n, k, F32);
    if (done < n)
        pare_gemm_f32_f32_avx2(y + done, ldy, x, ldx, w + done * ldw, ldw, m, n - done, k);
}

void pare_gemm_f32_f16_avx512(float *y, size_t ldy, const float *x, size_t ldx, const uint16_t *w,
                              size_t ldw, size_t m, size_t n, size_t k)
{
    if (m > FEW && k > 0) {
        gemm(y, ldy, x, ldx, w, ldw, m, n, k, F16);
        return;
    }
    const size_t done = few(y, ldy, x, ldx, w, ldw, m, n, k, F16);
    if (done < n)
        pare_gemm_f32_f16_avx2(y + done, ldy, x, ldx, w + done * ldw, ldw, m, n - done, k);
}

void pare_gemm_f32_bf16_avx512(float *y, size_t ldy, const float *x, size_t ldx, const uint16_t *w,
                               size_t ldw, size_t m, size_t n, size_t k)
{
    if (m > FEW && k > 0) {
        gemm(y, ldy, x, ldx, w, ldw, m, n, k, BF16);
        return;
    }
    const size_t done = few(y, ldy, x, ldx, w, ldw, m, n, k, BF16);
    if (done < n)
        pare_gemm_f32_bf16_avx2(y + done, ldy, x, ldx, w + done * ldw, ldw, m, n - done, k);
}

#endif
