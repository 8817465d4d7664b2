/* Ternary weights, int8 activations. Codes are 0 .. 2 (3 at most): a product pair is at most
 * 3 * 127 * 2 = 762, and 32 of them, the 128 columns of four atoms, still fit in 16 bits, so sums
 * are widened once per 128 columns. Two blocks of 8 rows share each broadcast of activation codes;
 * a word of weights is unpacked where it is used, once for all tokens of the tile. */
#include "kernels/x86/avx2_internal.h"

#ifdef __AVX2__
#include <assert.h>

#include "kernels/layout.h"

enum {
    MT = 4,     /* tokens of a register tile */
    BLOCKS = 2, /* row blocks of a register tile */
    ATOM = 64,
    WIDEN = 128,        /* columns added in 16 bits */
    BLOCK = 128 * 1024, /* bytes of codes that stay in the second-level cache for all tokens */
    AHEAD = 1024,       /* bytes of prefetch distance for one token, where memory is the limit */
};

/* s[r][t] += 32 columns, in 16 bits. */
PARE_INLINE void add_atom(__m256i s[BLOCKS][MT], const uint8_t *const atom[BLOCKS], const int8_t *x,
                          size_t ldx, size_t rows, size_t mt)
{
    const __m256i low = _mm256_set1_epi8(3);
    for (size_t half = 0; half < 2; half++) {
        __m256i w[BLOCKS];
        for (size_t r = 0; r < rows; r++)
            w[r] = load_32(atom[r] + 32 * half);
        for (int f = 0; f < 4; f++) {
            __m256i v[BLOCKS];
            for (size_t r = 0; r < rows; r++)
                v[r] = _mm256_and_si256(_mm256_srli_epi16(w[r], 2 * f), low);
            for (size_t t = 0; t < mt; t++) {
                const __m256i q = broadcast4(x + t * ldx + 16 * half + 4 * (size_t)f);
                for (size_t r = 0; r < rows; r++) {
                    s[r][t] = _mm256_add_epi16(s[r][t], _mm256_maddubs_epi16(v[r], q));
                    /* Keeps the compiler from making trees of sums, for which registers are few. */
                    __asm__("" : "+x"(s[r][t]));
                }
            }
        }
    }
}

/* d[r][t] += columns [0, width), at most WIDEN. */
PARE_INLINE void add_columns(__m256i d[BLOCKS][MT], const uint8_t *const first[BLOCKS],
                             const int8_t *x, size_t ldx, size_t width, size_t rows, size_t mt)
{
    __m256i s[BLOCKS][MT];
    for (size_t r = 0; r < rows; r++)
        for (size_t t = 0; t < mt; t++)
            s[r][t] = _mm256_setzero_si256();
    const uint8_t *atom[BLOCKS];
    for (size_t r = 0; r < rows; r++)
        atom[r] = first[r];
    for (size_t k = 0; k < width; k += PARE_ATOM_K) {
        for (size_t r = 0; mt == 1 && r < rows; r++)
            _mm_prefetch((const char *)atom[r] + AHEAD, _MM_HINT_T0);
        add_atom(s, atom, x + k, ldx, rows, mt);
        for (size_t r = 0; r < rows; r++)
            atom[r] += ATOM;
    }
    const __m256i one = _mm256_set1_epi16(1);
    for (size_t r = 0; r < rows; r++)
        for (size_t t = 0; t < mt; t++)
            d[r][t] = _mm256_add_epi32(d[r][t], _mm256_madd_epi16(s[r][t], one));
}

/* Every code stands for 1 less than it is. */
PARE_INLINE void start_group(__m256i d[BLOCKS][MT], const int32_t *sums, size_t lds, size_t rows,
                             size_t mt)
{
    for (size_t r = 0; r < rows; r++)
        for (size_t t = 0; t < mt; t++)
            d[r][t] = _mm256_set1_epi32(-sums[t * lds]);
}

/* d[r][t] += sums of columns [k, end). */
PARE_INLINE void group_dot(__m256i d[BLOCKS][MT], const uint8_t *codes, size_t stride,
                           const int8_t *x, size_t ldx, size_t k, size_t end, size_t rows,
                           size_t mt)
{
    for (; k < end; k += WIDEN) {
        const uint8_t *at[BLOCKS];
        for (size_t r = 0; r < rows; r++)
            at[r] = codes + r * stride + k / PARE_ATOM_K * ATOM;
        add_columns(d, at, x + k, ldx, end - k < WIDEN ? end - k : WIDEN, rows, mt);
    }
}

/* `rows` blocks of eight rows from `row` on by the mt tokens from t0 on. */
PARE_INLINE void tile(float *y, size_t ldy, const pare_x8 *x, const pare_panel *w, size_t row,
                      size_t t0, size_t rows, size_t mt)
{
    const size_t xgroups = (x->k + x->group - 1) / x->group;
    const size_t groups = (w->k + w->group - 1) / w->group;
    const size_t stride = w->k / PARE_ATOM_K * ATOM;
    const int8_t *const codes = x->codes + t0 * x->k;
    const float *const scales = x->scales + t0 * xgroups;
    const int32_t *const sums = x->sums + t0 * xgroups;
    __m256 acc[BLOCKS][MT];
    for (size_t i = 0; i < rows * mt; i++)
        acc[i / mt][i % mt] = _mm256_setzero_ps();
    for (size_t b = 0, k = 0; b < xgroups; b++) {
        const size_t end = x->k - k < x->group ? x->k : k + x->group, g = k / w->group * 8;
        __m256i d[BLOCKS][MT];
        start_group(d, sums + b, xgroups, rows, mt);
        group_dot(d, w->codes + row / 8 * stride, stride, codes, x->k, k, end, rows, mt);
        for (size_t r = 0; r < rows; r++) {
            const __m256 s = load_scales(w->scales + (row + 8 * r) * groups + g);
            for (size_t t = 0; t < mt; t++) {
                const __m256 st = _mm256_mul_ps(s, _mm256_set1_ps(scales[t * xgroups + b]));
                acc[r][t] = _mm256_fmadd_ps(_mm256_cvtepi32_ps(d[r][t]), st, acc[r][t]);
            }
        }
        k = end;
    }
    for (size_t i = 0; i < rows * mt; i++)
        _mm256_storeu_ps(y + (t0 + i % mt) * ldy + row + 8 * (i / mt), acc[i / mt][i % mt]);
}

/* One function per number of row blocks and tokens, so that both are constants inside. */
typedef void tile_fn(float *y, size_t ldy, const pare_x8 *x, const pare_panel *w, size_t row,
                     size_t t0);

#define TILE(rows, mt)                                                                             \
    static void tile_##rows##_##mt(float *y, size_t ldy, const pare_x8 *x, const pare_panel *w,    \
                                   size_t row, size_t t0)                                          \
    {                                                                                              \
        tile(y, ldy, x, w, row, t0, rows, mt);                                                     \
    }
#define TILES(rows) TILE(rows, 1) TILE(rows, 2) TILE(rows, 3) TILE(rows, 4)

// clang-format off
TILES(1)
TILES(2)
// clang-format on

void pare_gemm_x8_t2_avx2(float *y, size_t ldy, const pare_x8 *x, const pare_panel *w)
{
    static tile_fn *const one[MT] = {tile_1_1, tile_1_2, tile_1_3, tile_1_4};
    static tile_fn *const two[MT] = {tile_2_1, tile_2_2, tile_2_3, tile_2_4};
    assert(x->k == w->k && w->n % PARE_ATOM_N == 0);
    assert(w->group % x->group == 0 || w->group >= w->k);
    const size_t wide = (size_t)BLOCKS * PARE_ATOM_N;
    const size_t rows = pare_round_up(BLOCK / (w->k / 4 + 1) + 1, wide);
    for (size_t r0 = 0; r0 < w->n; r0 += rows) {
        const size_t end = w->n - r0 < rows ? w->n : r0 + rows;
        for (size_t t = 0; t < x->m; t += MT) {
            const size_t i = x->m - t < MT ? x->m - t - 1 : MT - 1;
            size_t row = r0;
            for (; row + wide <= end; row += wide)
                two[i](y, ldy, x, w, row, t);
            if (row < end)
                one[i](y, ldy, x, w, row, t);
        }
    }
}

#endif
