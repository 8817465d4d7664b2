/* kernels/x86/decode_avx2.h - packed codes as F32 values, in registers. Codes of an atom come as
 * words of 4 columns of 8 rows; transposed they are rows of 32 bytes, which are widened and looked
 * up or computed, eight at a time. Included only by files compiled with -mavx2 -mfma -mf16c. */
#ifndef PARE_KERNELS_X86_DECODE_AVX2_H
#define PARE_KERNELS_X86_DECODE_AVX2_H

#include <assert.h>
#include <stdbool.h>

#include "kernels/half.h"
#include "kernels/layout.h"
#include "kernels/x86/avx2_internal.h"

#ifdef __AVX2__

/* The values of one row within one group. */
typedef struct row_values {
    float step[2];          /* not of codebooks and signs; the second one: of columns 16 .. of an
                               atom, where they have their own */
    float least;            /* of super-blocks of 4 bits */
    int32_t zero;           /* of PARE_DECODE_F32 */
    const float *level;     /* of tables, codebooks and signs: up to 16 */
    const uint8_t *salient; /* of signs: of the 32 columns of the atom, or NULL */
} row_values;

/* The two halves of 16 columns of an atom of 2, 3, 4 or 8 bits, as unsigned bytes by rows. */
PARE_INLINE void whole_halves(__m256i half[2][4], const uint8_t *atom, unsigned bits)
{
    __m256i v[8];
    if (bits < 4) {
        unpack_atom(v, atom, bits);
    } else {
        for (size_t l = 0; l < bits; l++)
            v[l] = load_32(atom + 32 * l);
    }
    transpose_words(half[0], v);
    if (bits != 4)
        transpose_words(half[1], v + 4);
    const __m256i low = _mm256_set1_epi8(15), flip = _mm256_set1_epi8(-128);
    for (size_t i = 0; i < 4; i++) {
        if (bits == 8) {
            half[0][i] = _mm256_xor_si256(half[0][i], flip);
            half[1][i] = _mm256_xor_si256(half[1][i], flip);
        } else if (bits == 4) {
            half[1][i] = _mm256_and_si256(_mm256_srli_epi16(half[0][i], 4), low);
            half[0][i] = _mm256_and_si256(half[0][i], low);
        }
    }
}

/* The same of any width. */
PARE_INLINE void atom_halves(__m256i half[2][4], const uint8_t *atom, unsigned bits)
{
    if (bits != 6) {
        whole_halves(half, atom, bits);
        return;
    }
    __m256i high[2][4];
    whole_halves(half, atom, 4);
    whole_halves(high, atom + pare_atom_bytes(4), 2);
    for (size_t h = 0; h < 2; h++)
        for (size_t i = 0; i < 4; i++)
            half[h][i] = _mm256_or_si256(half[h][i], _mm256_slli_epi16(high[h][i], 4));
}

/* The 8-bit floats in the low half of u. Their bits lie in those of an F32 at another exponent;
 * exponent 0 counts as 1, without the leading one, which is taken away. Nothing here is subnormal.
 */
PARE_INLINE __m256 of_fp8(__m128i u, __m256 scale)
{
    const __m256i code = _mm256_cvtepu8_epi32(u),
                  rest = _mm256_and_si256(code, _mm256_set1_epi32(0x7f));
    const __m256i sign = _mm256_slli_epi32(_mm256_xor_si256(code, rest), 24);
    const __m256i first = _mm256_cmpgt_epi32(_mm256_set1_epi32(8), rest);
    const __m256i bits =
        _mm256_add_epi32(_mm256_slli_epi32(rest, 20), _mm256_set1_epi32(120 << 23));
    const __m256i raised = _mm256_sub_epi32(bits, _mm256_slli_epi32(first, 23));
    const __m256 one = _mm256_and_ps(_mm256_castsi256_ps(first), _mm256_set1_ps(0x1p-6f));
    const __m256 size = _mm256_sub_ps(_mm256_castsi256_ps(raised), one);
    const __m256 value = _mm256_mul_ps(_mm256_or_ps(size, _mm256_castsi256_ps(sign)), scale);
    const __m256i odd = _mm256_cmpeq_epi32(rest, _mm256_set1_epi32(0x7f));
    const __m256i nan = _mm256_or_si256(sign, _mm256_set1_epi32(0x7fc00000));
    return _mm256_blendv_ps(value, _mm256_castsi256_ps(nan), _mm256_castsi256_ps(odd));
}

/* Values of the eight codes in the low half of u; scale is a broadcast. */
PARE_INLINE __m256 values_8(__m128i u, const row_values *row, __m256 scale, pare_decoding kd,
                            bool wide)
{
    if (kd == PARE_DECODE_FP8)
        return of_fp8(u, scale);
    const __m256i code = _mm256_cvtepu8_epi32(u);
    if (kd == PARE_DECODE_SUPER) {
        const __m256 q = _mm256_cvtepi32_ps(_mm256_sub_epi32(code, _mm256_set1_epi32(row->zero)));
        return _mm256_fmsub_ps(q, scale, _mm256_set1_ps(row->least));
    }
    if (kd == PARE_DECODE_F32) {
        const __m256i d = _mm256_sub_epi32(code, _mm256_set1_epi32(row->zero));
        return _mm256_mul_ps(_mm256_cvtepi32_ps(d), scale);
    }
    __m256 v = _mm256_permutevar8x32_ps(_mm256_loadu_ps(row->level), code);
    if (wide) {
        const __m256 high = _mm256_permutevar8x32_ps(_mm256_loadu_ps(row->level + 8), code);
        v = _mm256_blendv_ps(v, high, _mm256_castsi256_ps(_mm256_slli_epi32(code, 28)));
    }
    return kd == PARE_DECODE_TABLE ? _mm256_mul_ps(v, scale) : v;
}

/* Codes 0 .. 3 of columns that are not salient, then of those that are. */
static void binary_levels(float level[8], const uint16_t *magnitude)
{
    float m[4];
    for (size_t i = 0; i < 4; i++)
        m[i] = pare_f16_to_f32(magnitude[i]);
    for (size_t u = 0; u < 4; u++) {
        const float sign = u & 1 ? 1.0f : -1.0f, second = u & 2 ? 1.0f : -1.0f;
        level[u] = sign * m[u >> 1];
        level[u + 4] = sign * m[2] + second * m[3];
    }
}

/* What eight rows know about the group at g of the planes. */
PARE_INLINE void group_values(row_values row[8], float own[8][16], const pare_panel *w, size_t g,
                              unsigned bits, const float *level, pare_decoding kd)
{
    float s[8] = {0};
    if (kd == PARE_DECODE_F32 || kd == PARE_DECODE_TABLE || kd == PARE_DECODE_FP8)
        _mm256_storeu_ps(s, load_scales(w->scales + g));
    for (size_t r = 0; r < PARE_ATOM_N; r++) {
        row[r].step[0] = s[r];
        row[r].zero = kd == PARE_DECODE_F32 && w->zeros ? w->zeros[g + r] : 1 << (bits - 1);
        row[r].level = kd == PARE_DECODE_TABLE ? level : own[r];
        if (kd == PARE_DECODE_BINARY)
            binary_levels(own[r], w->book + 4 * (g + r));
    }
}

/* The same of tables, whose groups have 16 columns: of that at g and of the next. */
PARE_INLINE void half_values(row_values row[8], const pare_panel *w, size_t g, const float *level)
{
    float s[2][8];
    for (size_t h = 0; h < 2; h++)
        _mm256_storeu_ps(s[h], load_scales(w->scales + g + PARE_ATOM_N * h));
    for (size_t r = 0; r < PARE_ATOM_N; r++)
        row[r] = (row_values){.step = {s[0][r], s[1][r]}, .level = level};
}

/* The steps of eight rows of 32 columns of super-blocks: g of scales, atom of sub-blocks. */
PARE_INLINE void super_values(row_values row[8], const pare_panel *w, size_t g, size_t atom,
                              unsigned bits)
{
    const uint8_t *const sub = w->sub + 2 * PARE_ATOM_N * atom;
    const __m256 scale = load_scales(w->scales + g);
    float step[2][8], least[8] = {0};
    for (size_t h = 0; h < 2; h++) {
        const __m128i s = _mm_loadl_epi64((const __m128i *)(const void *)(sub + PARE_ATOM_N * h));
        const __m256i wide = bits == 6 ? _mm256_cvtepi8_epi32(s) : _mm256_cvtepu8_epi32(s);
        _mm256_storeu_ps(step[h], _mm256_mul_ps(scale, _mm256_cvtepi32_ps(wide)));
        if (bits == 4 && h == 1)
            _mm256_storeu_ps(least,
                             _mm256_mul_ps(load_scales(w->minima + g), _mm256_cvtepi32_ps(wide)));
    }
    for (size_t r = 0; r < PARE_ATOM_N; r++)
        row[r] = (row_values){.step = {step[0][r], step[bits == 6][r]},
                              .least = least[r],
                              .zero = bits == 6 ? 32 : 0};
}

static void book_levels(float own[8][16], const uint16_t *book, unsigned bits)
{
    const size_t size = (size_t)1 << bits;
    for (size_t r = 0; r < PARE_ATOM_N; r++)
        for (size_t i = 0; i < size; i += 8)
            _mm256_storeu_ps(own[r] + i, load_scales(book + r * size + i));
}

/* 16 columns of row `r` of the atom, from column 16 h on, out of its halves; step: that of them. */
PARE_INLINE void values_16(__m256 v[2], const __m256i half[2][4], const row_values *row, size_t r,
                           size_t h, float step, pare_decoding kd, bool wide)
{
    const __m256i both = half[h][r % 4];
    __m128i u = r < 4 ? _mm256_castsi256_si128(both) : _mm256_extracti128_si256(both, 1);
    if (kd == PARE_DECODE_BINARY && row->salient) {
        const __m128i s = _mm_loadu_si128((const __m128i *)(const void *)(row->salient + 16 * h));
        u = _mm_or_si128(u, _mm_slli_epi16(_mm_and_si128(s, _mm_set1_epi8(1)), 2));
    }
    const __m256 scale = _mm256_set1_ps(step);
    v[0] = values_8(u, row, scale, kd, wide);
    v[1] = values_8(_mm_srli_si128(u, 8), row, scale, kd, wide);
}
#endif

#endif
