/* Ternary weights, int8 activations. Codes are 0 .. 2 (3 at most): a product pair is at most
 * 3 * 127 * 2 = 762, and 32 of them, the 128 columns of four atoms, still fit in 16 bits, so sums
 * are widened once per 128 columns.
 *
 *   one token     a block of 8 rows is read front to back, one stream that prefetching keeps up
 *                 with; then the vector units are the limit, so fields are masked with few shifts
 *   more tokens   two blocks share each broadcast of activation codes; a word of weights is
 *                 unpacked where it is used, once for all tokens of the tile */
#include "kernels/x86/avx2_internal.h"

#ifdef __AVX2__
#include <assert.h>
#include <stdbool.h>

#include "kernels/layout.h"

enum {
    MT = 4,     /* tokens of a register tile */
    BLOCKS = 2, /* row blocks of a register tile */
    ATOM = 64,
    WIDEN = 128,        /* columns added in 16 bits */
    BLOCK = 128 * 1024, /* bytes of codes that stay in the second-level cache for all tokens */
    AHEAD = 4096,       /* bytes of prefetch distance for one token */
};

/* --- one token -------------------------------------------------------------------------------- */

/* Sums of 16 bits: fields in their places, 1 or 4 times the code. Of 128 columns the first two of a
 * nibble have 16 pairs of 762 in one sum, the others 8 of 3048 in each of two. */
typedef struct fields {
    __m256i low, high[2];
} fields;

/* sum + pairs of products; the first ones are the sum. */
PARE_INLINE __m256i add_pairs(__m256i sum, __m256i w, const int8_t *x, bool first)
{
    const __m256i pairs = _mm256_maddubs_epi16(w, broadcast4(x));
    __m256i s = first ? pairs : _mm256_add_epi16(sum, pairs);
    /* Keeps the compiler from making trees of sums, for which registers are few. */
    __asm__("" : "+x"(s));
    return s;
}

PARE_INLINE void add_half(fields *f, const uint8_t *half, const int8_t *x, bool first)
{
    const __m256i low = _mm256_set1_epi8(3), high = _mm256_set1_epi8(12);
    const __m256i w = load_32(half), v = _mm256_srli_epi16(w, 4);
    f->low = add_pairs(f->low, _mm256_and_si256(w, low), x, first);
    f->high[0] = add_pairs(f->high[0], _mm256_and_si256(w, high), x + 4, first);
    f->low = add_pairs(f->low, _mm256_and_si256(v, low), x + 8, false);
    f->high[1] = add_pairs(f->high[1], _mm256_and_si256(v, high), x + 12, first);
}

/* Sums of up to four atoms. */
PARE_INLINE __m256i atoms_dot(const uint8_t *atom, const int8_t *x, size_t atoms)
{
    const __m256i zero = _mm256_setzero_si256();
    fields f = {zero, {zero, zero}};
#pragma GCC unroll 4
    for (size_t i = 0; i < atoms; i++) {
        const uint8_t *const at = atom + i * ATOM;
        prefetch_stream(at, AHEAD);
        add_half(&f, at, x + i * PARE_ATOM_K, i == 0);
        add_half(&f, at + ATOM / 2, x + i * PARE_ATOM_K + PARE_ATOM_K / 2, false);
    }
    const __m256i high =
        _mm256_add_epi16(_mm256_srai_epi16(f.high[0], 2), _mm256_srai_epi16(f.high[1], 2));
    return _mm256_madd_epi16(_mm256_add_epi16(f.low, high), _mm256_set1_epi16(1));
}

/* Eight rows from `row` on by token t. */
static void one_token(float *y, size_t ldy, const pare_x8 *x, const pare_panel *w, size_t row,
                      size_t t)
{
    const size_t xgroups = (x->k + x->group - 1) / x->group;
    const size_t groups = (w->k + w->group - 1) / w->group;
    const uint8_t *atom = w->codes + row / 8 * (w->k / PARE_ATOM_K) * ATOM;
    const int8_t *const codes = x->codes + t * x->k;
    __m256 acc = _mm256_setzero_ps();
    for (size_t b = t * xgroups, k = 0; k < x->k; b++) {
        const size_t g = row * groups + k / w->group * 8;
        const size_t end = x->k - k < x->group ? x->k : k + x->group;
        __m256i d = _mm256_set1_epi32(-x->sums[b]); /* every code stands for 1 less than it is */
        for (; end - k >= WIDEN; k += WIDEN, atom += WIDEN / PARE_ATOM_K * ATOM)
            d = _mm256_add_epi32(d, atoms_dot(atom, codes + k, WIDEN / PARE_ATOM_K));
        const size_t rest = (end - k) / PARE_ATOM_K;
        if (rest)
            d = _mm256_add_epi32(d, atoms_dot(atom, codes + k, rest));
        k = end;
        atom += rest * ATOM;
        const __m256 s = _mm256_mul_ps(load_scales(w->scales + g), _mm256_set1_ps(x->scales[b]));
        acc = _mm256_fmadd_ps(_mm256_cvtepi32_ps(d), s, acc);
    }
    _mm256_storeu_ps(y + t * ldy + row, acc);
}

/* --- more tokens ------------------------------------------------------------------------------ */

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
#define TILES(rows) TILE(rows, 2) TILE(rows, 3) TILE(rows, 4)

// clang-format off
TILES(1)
TILES(2)
// clang-format on

void pare_gemm_x8_t2_avx2(float *y, size_t ldy, const pare_x8 *x, const pare_panel *w)
{
    static tile_fn *const one[MT] = {one_token, tile_1_2, tile_1_3, tile_1_4};
    static tile_fn *const two[MT] = {NULL, tile_2_2, tile_2_3, tile_2_4};
    assert(x->k == w->k && w->n % PARE_ATOM_N == 0);
    assert(w->group % x->group == 0 || w->group >= w->k);
    const size_t wide = (size_t)BLOCKS * PARE_ATOM_N;
    const size_t rows = pare_round_up(BLOCK / (w->k / 4 + 1) + 1, wide);
    for (size_t r0 = 0; r0 < w->n; r0 += rows) {
        const size_t end = w->n - r0 < rows ? w->n : r0 + rows;
        for (size_t t = 0; t < x->m; t += MT) {
            const size_t i = x->m - t < MT ? x->m - t - 1 : MT - 1;
            size_t row = r0;
            for (; i > 0 && row + wide <= end; row += wide)
                two[i](y, ldy, x, w, row, t);
            for (; row < end; row += PARE_ATOM_N)
                one[i](y, ldy, x, w, row, t);
        }
    }
}

#endif
