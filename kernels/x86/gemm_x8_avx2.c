/* Packed weights, int8 activations. One vector holds 4 consecutive k of 8 rows, so a broadcast of 4
 * activation codes meets it in one multiply. Sums of 32-bit lanes are exact, in any order.
 *
 *   2, 3, 4 bit  codes are unsigned: a product pair is at most 15 * 127 * 2 = 3810, and eight of
 *                them, the 32 columns of an atom, still fit in 16 bits
 *   8 bit        codes minus 128 are signed: |code| times the activation with the code's sign; a
 *                pair is at most 128 * 127 * 2 = 32512, so each is widened at once
 *
 * The zero points come in as -z * (sum of the activation codes), before the first product. */
#include "kernels/x86/avx2_internal.h"

#ifdef __AVX2__
#include <assert.h>
#include <stdbool.h>

#include "kernels/layout.h"

enum {
    MT = 4,             /* tokens of a register tile */
    BLOCK = 128 * 1024, /* bytes of codes that stay in the second-level cache for all tokens */
    AHEAD = 8192,       /* bytes of prefetch distance for one token, where memory is the limit */
};

/* Eight row sums of one atom with the 32 codes of one token. */
PARE_INLINE __m256i dot_unsigned(const __m256i v[8], const int8_t *x)
{
    __m256i s[8];
    for (size_t l = 0; l < 8; l++)
        s[l] = _mm256_maddubs_epi16(v[l], broadcast4(x + 4 * l));
    const __m256i a = _mm256_add_epi16(_mm256_add_epi16(s[0], s[1]), _mm256_add_epi16(s[2], s[3]));
    const __m256i b = _mm256_add_epi16(_mm256_add_epi16(s[4], s[5]), _mm256_add_epi16(s[6], s[7]));
    return _mm256_madd_epi16(_mm256_add_epi16(a, b), _mm256_set1_epi16(1));
}

/* d[t] += atom times the 32 codes at x + t * ldx. */
PARE_INLINE void add_atom(__m256i d[MT], const uint8_t *atom, const int8_t *x, size_t ldx,
                          unsigned bits, size_t mt)
{
    if (bits < 8) {
        __m256i v[8];
        unpack_atom(v, atom, bits);
        for (size_t t = 0; t < mt; t++)
            d[t] = _mm256_add_epi32(d[t], dot_unsigned(v, x + t * ldx));
        return;
    }
    for (size_t l = 0; l < 8; l++) {
        const __m256i w = load_32(atom + 32 * l), abs = _mm256_abs_epi8(w);
        for (size_t t = 0; t < mt; t++) {
            const __m256i q = _mm256_sign_epi8(broadcast4(x + t * ldx + 4 * l), w);
            d[t] = _mm256_add_epi32(
                d[t], _mm256_madd_epi16(_mm256_maddubs_epi16(abs, q), _mm256_set1_epi16(1)));
        }
    }
}

/* d[t] = -z * sum of the token's codes; 8-bit codes are stored less 128. */
PARE_INLINE void start_group(__m256i d[MT], const uint8_t *zeros, const int32_t *sums, size_t lds,
                             unsigned bits, size_t mt)
{
    if (!zeros) {
        const int32_t z = bits == 8 ? 0 : 1 << (bits - 1);
        for (size_t t = 0; t < mt; t++)
            d[t] = _mm256_set1_epi32(-z * sums[t * lds]);
        return;
    }
    const __m128i bytes = _mm_loadl_epi64((const __m128i *)(const void *)zeros);
    const __m256i z =
        _mm256_sub_epi32(_mm256_set1_epi32(bits == 8 ? 128 : 0), _mm256_cvtepu8_epi32(bytes));
    for (size_t t = 0; t < mt; t++)
        d[t] = _mm256_mullo_epi32(z, _mm256_set1_epi32(sums[t * lds]));
}

/* The eight rows from `row` on by the mt tokens from t0 on. */
PARE_INLINE void tile(float *y, size_t ldy, const pare_x8 *x, const pare_panel *w, size_t row,
                      size_t t0, unsigned bits, size_t mt, bool asymmetric)
{
    const size_t size = pare_atom_bytes(bits);
    const size_t xgroups = (x->k + x->group - 1) / x->group;
    const size_t groups = (w->k + w->group - 1) / w->group;
    const uint8_t *atom = w->codes + row / 8 * (w->k / 32) * size;
    const int8_t *const codes = x->codes + t0 * x->k;
    const float *const scales = x->scales + t0 * xgroups;
    const int32_t *const sums = x->sums + t0 * xgroups;
    __m256 acc[MT];
    for (size_t t = 0; t < mt; t++)
        acc[t] = _mm256_setzero_ps();
    for (size_t b = 0, k = 0; b < xgroups; b++) {
        const size_t g = row * groups + k / w->group * 8;
        const size_t end = x->k - k < x->group ? x->k : k + x->group;
        __m256i d[MT];
        start_group(d, asymmetric ? w->zeros + g : NULL, sums + b, xgroups, bits, mt);
        for (; k < end; k += 32, atom += size) {
            if (mt == 1)
                for (size_t line = 0; line < size; line += 64)
                    prefetch_stream(atom + line, AHEAD);
            add_atom(d, atom, codes + k, x->k, bits, mt);
        }
        const __m256 s = load_scales(w->scales + g);
        for (size_t t = 0; t < mt; t++) {
            const __m256 st = _mm256_mul_ps(s, _mm256_set1_ps(scales[t * xgroups + b]));
            acc[t] = _mm256_fmadd_ps(_mm256_cvtepi32_ps(d[t]), st, acc[t]);
        }
    }
    for (size_t t = 0; t < mt; t++)
        _mm256_storeu_ps(y + (t0 + t) * ldy + row, acc[t]);
}

/* One function per width and number of tokens, so that both are constants inside. */
typedef void tile_fn(float *y, size_t ldy, const pare_x8 *x, const pare_panel *w, size_t row,
                     size_t t0);

#define TILE(bits, mt)                                                                             \
    static void tile_q##bits##_##mt(float *y, size_t ldy, const pare_x8 *x, const pare_panel *w,   \
                                    size_t row, size_t t0)                                         \
    {                                                                                              \
        if (w->zeros)                                                                              \
            tile(y, ldy, x, w, row, t0, bits, mt, true);                                           \
        else                                                                                       \
            tile(y, ldy, x, w, row, t0, bits, mt, false);                                          \
    }
#define TILES(bits) TILE(bits, 1) TILE(bits, 2) TILE(bits, 3) TILE(bits, 4)

// clang-format off
TILES(2)
TILES(3)
TILES(4)
TILES(8)
// clang-format on

/* tiles[i] computes i + 1 tokens. A block of rows stays in cache while all tokens pass. */
static void gemm(float *y, size_t ldy, const pare_x8 *x, const pare_panel *w, unsigned bits,
                 tile_fn *const tiles[MT])
{
    assert(x->k == w->k && w->n % PARE_ATOM_N == 0);
    assert(w->group % x->group == 0 || w->group >= w->k);
    const size_t row_bytes = w->k / 8 * bits + 1;
    const size_t rows = pare_round_up(BLOCK / row_bytes + 1, PARE_ATOM_N);
    for (size_t r0 = 0; r0 < w->n; r0 += rows) {
        const size_t end = w->n - r0 < rows ? w->n : r0 + rows;
        for (size_t t = 0; t < x->m; t += MT) {
            tile_fn *const fn = tiles[x->m - t < MT ? x->m - t - 1 : MT - 1];
            for (size_t row = r0; row < end; row += PARE_ATOM_N)
                fn(y, ldy, x, w, row, t);
        }
    }
}

#define GEMM(bits)                                                                                 \
    void pare_gemm_x8_q##bits##_avx2(float *y, size_t ldy, const pare_x8 *x, const pare_panel *w)  \
    {                                                                                              \
        static tile_fn *const tiles[MT] = {tile_q##bits##_1, tile_q##bits##_2, tile_q##bits##_3,   \
                                           tile_q##bits##_4};                                      \
        gemm(y, ldy, x, w, bits, tiles);                                                           \
    }

// clang-format off
GEMM(2)
GEMM(3)
GEMM(4)
GEMM(8)
// clang-format on

#endif
