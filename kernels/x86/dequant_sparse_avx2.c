/* Weights of which only some are stored, put into their columns. 2:4: a group of 4 columns looks at
 * its two places; each column takes the place whose index it is. Bitmask: a column takes the value
 * with the number of the bits below its own. */
#include "kernels/x86/avx2_internal.h"

#ifdef __AVX2__
#include <assert.h>

#include "kernels/half.h"
#include "kernels/layout.h"

enum { INDICES = 64 /* bytes of an atom's */, HALF = 32 /* columns of half an atom */ };

/* Rows of 16 bytes out of four vectors of 4 places of 8 rows. */
PARE_INLINE void rows_of(__m128i row[8], const __m256i v[4])
{
    __m256i out[4];
    transpose_words(out, v);
    for (size_t r = 0; r < 4; r++) {
        row[r] = _mm256_castsi256_si128(out[r]);
        row[r + 4] = _mm256_extracti128_si256(out[r], 1);
    }
}

/* Indices of the 16 places of half an atom, by rows. */
PARE_INLINE void rows_of_indices(__m128i row[8], const uint8_t *indices, size_t half)
{
    const __m256i e = load_32(indices + HALF * half), low = _mm256_set1_epi8(3);
    __m256i v[4];
    for (int f = 0; f < 4; f++)
        v[f] = _mm256_and_si256(_mm256_srli_epi16(e, 2 * f), low);
    rows_of(row, v);
}

/* Signed codes of the 16 places of half an atom, by rows. */
PARE_INLINE void rows_of_codes(__m128i row[8], const uint8_t *atom, size_t half, unsigned bits)
{
    const __m256i low = _mm256_set1_epi8(15), zero = _mm256_set1_epi8(8);
    __m256i v[4];
    for (size_t l = 0; l < 4; l++) {
        const __m256i w = load_32(atom + (bits == 8 ? 128 * half : 0) + 32 * l);
        const __m256i u = half ? _mm256_srli_epi16(w, 4) : w;
        v[l] = bits == 8 ? w : _mm256_sub_epi8(_mm256_and_si256(u, low), zero);
    }
    rows_of(row, v);
}

/* Which of 16 columns take the first (0) or second place of their groups; the 8 places of those are
 * the low half of `index`. Bytes of ones. */
PARE_INLINE __m128i takes(__m128i index, int place)
{
    const __m128i first = _mm_setr_epi8(0, 0, 0, 0, 2, 2, 2, 2, 4, 4, 4, 4, 6, 6, 6, 6);
    const __m128i column = _mm_set1_epi32(0x03020100);
    return _mm_cmpeq_epi8(_mm_shuffle_epi8(index, _mm_add_epi8(first, _mm_set1_epi8((char)place))),
                          column);
}

/* 16 columns of codes out of the 8 places in the low half of `code`. */
PARE_INLINE __m128i columns_of(__m128i code, __m128i index)
{
    const __m128i first = _mm_setr_epi8(0, 0, 0, 0, 2, 2, 2, 2, 4, 4, 4, 4, 6, 6, 6, 6);
    const __m128i second = _mm_add_epi8(first, _mm_set1_epi8(1));
    return _mm_or_si128(_mm_and_si128(takes(index, 0), _mm_shuffle_epi8(code, first)),
                        _mm_and_si128(takes(index, 1), _mm_shuffle_epi8(code, second)));
}

PARE_INLINE void store_codes(float *dst, __m128i code, __m128i index, __m256 scale)
{
    for (size_t i = 0; i < 2; i++) {
        const __m128i c = columns_of(code, index);
        const __m256 low = _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(c));
        const __m256 high = _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(_mm_srli_si128(c, 8)));
        _mm256_storeu_ps(dst + 16 * i, _mm256_mul_ps(low, scale));
        _mm256_storeu_ps(dst + 16 * i + 8, _mm256_mul_ps(high, scale));
        code = _mm_srli_si128(code, 8);
        index = _mm_srli_si128(index, 8);
    }
}

/* 32 columns of values of 16 bits out of 16 places. */
PARE_INLINE void store_values(float *dst, const uint16_t *value, __m128i index)
{
    const __m128i pair = _mm_setr_epi8(0, 1, 0, 1, 0, 1, 0, 1, 4, 5, 4, 5, 4, 5, 4, 5);
    const __m256i first = _mm256_setr_m128i(pair, _mm_add_epi8(pair, _mm_set1_epi8(8)));
    const __m256i second = _mm256_add_epi8(first, _mm256_set1_epi8(2));
    for (size_t i = 0; i < 2; i++) {
        const __m256i v = _mm256_broadcastsi128_si256(
            _mm_loadu_si128((const __m128i *)(const void *)(value + 8 * i)));
        const __m256i a =
            _mm256_and_si256(_mm256_cvtepi8_epi16(takes(index, 0)), _mm256_shuffle_epi8(v, first));
        const __m256i b =
            _mm256_and_si256(_mm256_cvtepi8_epi16(takes(index, 1)), _mm256_shuffle_epi8(v, second));
        const __m256i h = _mm256_or_si256(a, b);
        _mm256_storeu_ps(dst + 16 * i, _mm256_cvtph_ps(_mm256_castsi256_si128(h)));
        _mm256_storeu_ps(dst + 16 * i + 8, _mm256_cvtph_ps(_mm256_extracti128_si256(h, 1)));
        index = _mm_srli_si128(index, 8);
    }
}

PARE_INLINE void decode(float *dst, size_t ldd, const pare_panel *w, unsigned bits)
{
    const size_t atoms = pare_24_kept(w->k) / PARE_ATOM_K;
    const size_t groups = (w->k + w->group - 1) / w->group;
    for (size_t row = 0; row < w->n; row += PARE_ATOM_N)
        for (size_t k = 0; k < w->k; k += PARE_ATOM_K) {
            const size_t at = row / PARE_ATOM_N * atoms + k / 64, half = k % 64 / PARE_ATOM_K;
            __m128i index[8], code[8];
            rows_of_indices(index, w->indices + at * INDICES, half);
            float scale[8] = {0};
            if (bits < 16) {
                const size_t g = row * groups + k / w->group * PARE_ATOM_N;
                rows_of_codes(code, w->codes + at * pare_atom_bytes(bits), half, bits);
                _mm256_storeu_ps(scale, load_scales(w->scales + g));
            }
            for (size_t r = 0; r < PARE_ATOM_N; r++) {
                float *const to = dst + (row + r) * ldd + k;
                if (bits == 16)
                    store_values(to, w->values + (row + r) * w->ldv + k / 2, index[r]);
                else
                    store_codes(to, code[r], index[r], _mm256_set1_ps(scale[r]));
            }
        }
}

void pare_dequant_24_avx2(float *dst, size_t ldd, const pare_panel *w, unsigned bits)
{
    switch (bits) {
    case 4: decode(dst, ldd, w, 4); break;
    case 8: decode(dst, ldd, w, 8); break;
    default: assert(bits == 16); decode(dst, ldd, w, 16);
    }
}

/* Numbers of the bits of the lanes of x, each below 256. */
PARE_INLINE __m256i count_bits(__m256i x)
{
    const __m256i ones =
        _mm256_broadcastsi128_si256(_mm_setr_epi8(0, 1, 1, 2, 1, 2, 2, 3, 1, 2, 2, 3, 2, 3, 3, 4));
    const __m256i low = _mm256_and_si256(x, _mm256_set1_epi32(15));
    return _mm256_add_epi32(_mm256_shuffle_epi8(ones, low),
                            _mm256_shuffle_epi8(ones, _mm256_srli_epi32(x, 4)));
}

/* Eight columns; returns how many values they took. At least 8 values can be read. */
PARE_INLINE size_t spread(float *dst, unsigned bits, const uint16_t *value)
{
    const __m256i lane = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
    const __m256i bit = _mm256_sllv_epi32(_mm256_set1_epi32(1), lane);
    const __m256i all = _mm256_set1_epi32((int)bits);
    const __m256i below =
        count_bits(_mm256_and_si256(all, _mm256_sub_epi32(bit, _mm256_set1_epi32(1))));
    const __m256i has = _mm256_cmpeq_epi32(_mm256_and_si256(all, bit), bit);
    const __m256 v = _mm256_permutevar8x32_ps(load_scales(value), below);
    _mm256_storeu_ps(dst, _mm256_and_ps(v, _mm256_castsi256_ps(has)));
    return (size_t)_mm256_extract_epi32(below, 7) + (bits >> 7);
}

void pare_dequant_mask_avx2(float *dst, size_t ldd, const pare_mask *w)
{
    const uint16_t *const end = w->value + w->start[w->n];
    for (size_t r = 0; r < w->n; r++) {
        const uint8_t *const bits = w->bits + r * ((w->k + 7) / 8);
        const uint16_t *value = w->value + w->start[r];
        float *const to = dst + r * ldd;
        size_t j = 0;
        for (; j + 8 <= w->k && end - value >= 8; j += 8)
            value += spread(to + j, bits[j / 8], value);
        for (; j < w->k; j++)
            to[j] = bits[j / 8] >> j % 8 & 1 ? pare_f16_to_f32(*value++) : 0.0F;
    }
}

#endif
