/* Weights of which only some are stored, put into their columns by an instruction that expands
 * values by the bits of a mask: those of a bitmask as they are, those of 2:4 weights made of the
 * indices of a whole atom. One token meets them in registers, each the same columns of two rows. */
#define PARE_VNNI_BITS 512
#include "kernels/x86/gemv_avx512.h"

#ifdef PARE_VNNI
#include "kernels/half.h"
#include "kernels/layout.h"

enum { INDICES = 64 /* bytes of an atom's */, ATOM = 64 /* columns */, AHEAD = 1024 /* bytes */ };

/* Bits of 32 columns for each row, those of columns 32 and up behind those of all rows before. */
PARE_INLINE __m512i column_bits(const uint8_t *indices)
{
    const __m512i bit = _mm512_set1_epi32(0x08040201), index = _mm512_loadu_si512(indices);
    __m512i all = _mm512_setzero_si512();
#pragma GCC unroll 4
    for (unsigned f = 0; f < 4; f++) {
        const __m512i place =
            _mm512_and_si512(_mm512_srli_epi32(index, 2 * f), _mm512_set1_epi8(3));
        /* Two places are 4 columns, bits of one byte then of another; two such are 8 columns. */
        const __m512i four =
            _mm512_maddubs_epi16(_mm512_shuffle_epi8(bit, place), _mm512_set1_epi8(1));
        const __m512i eight = _mm512_madd_epi16(four, _mm512_set1_epi32(0x00100001));
        all = _mm512_or_si512(all, _mm512_slli_epi32(eight, 8 * f));
    }
    return all;
}

/* The columns of `halves` halves of an atom of 8 rows. */
PARE_INLINE void decode_atom(float *dst, size_t ldd, const uint16_t *value, size_t ldv,
                             const uint8_t *indices, size_t halves)
{
    uint32_t bits[2][PARE_ATOM_N];
    _mm512_storeu_si512(bits, column_bits(indices));
    for (size_t r = 0; r < PARE_ATOM_N; r++, dst += ldd, value += ldv) {
        _mm_prefetch((const char *)value + AHEAD, _MM_HINT_T0);
        for (size_t i = 0; i < 2 * halves; i++) {
            const __m512 v = _mm512_castps256_ps512(load_scales(value + 8 * i));
            const __mmask16 mask = (__mmask16)(bits[i / 2][r] >> i % 2 * 16 & 0xffffu);
            _mm512_storeu_ps(dst + 16 * i, _mm512_maskz_expand_ps(mask, v));
        }
    }
}

void pare_dequant_24_avx512(float *dst, size_t ldd, const pare_panel *w, unsigned bits)
{
    if (bits < 16) {
        pare_dequant_24_avx2(dst, ldd, w, bits);
        return;
    }
    const uint8_t *indices = w->indices;
    for (size_t row = 0; row < w->n; row += PARE_ATOM_N)
        for (size_t k = 0; k < w->k; k += ATOM, indices += INDICES) {
            const uint16_t *const value = w->values + row * w->ldv + k / 2;
            float *const to = dst + row * ldd + k;
            if (w->k - k >= ATOM)
                decode_atom(to, ldd, value, w->ldv, indices, 2);
            else
                decode_atom(to, ldd, value, w->ldv, indices, 1);
        }
}

void pare_dequant_mask_avx512(float *dst, size_t ldd, const pare_mask *w)
{
    const uint16_t *const end = w->value + w->start[w->n];
    for (size_t r = 0; r < w->n; r++) {
        const uint8_t *const bits = w->bits + r * ((w->k + 7) / 8);
        const uint16_t *value = w->value + w->start[r];
        float *const to = dst + r * ldd;
        size_t j = 0;
        for (; j + 16 <= w->k && end - value >= 16; j += 16) {
            const unsigned mask = bits[j / 8] | (unsigned)bits[j / 8 + 1] << 8;
            const __m512 v = _mm512_cvtph_ps(load_32(value));
            _mm512_storeu_ps(to + j, _mm512_maskz_expand_ps((__mmask16)mask, v));
            value += __builtin_popcount(mask);
        }
        for (; j < w->k; j++)
            to[j] = bits[j / 8] >> j % 8 & 1 ? pare_f16_to_f32(*value++) : 0.0F;
    }
}

/* Bits of columns 8 s .. 8 s + 7 of rows 2 p (low byte) and 2 p + 1: [half][p][s]. */
PARE_INLINE void pair_bits(uint16_t bits[2][4][4], const uint8_t *indices)
{
    const __m512i order =
        _mm512_broadcast_i32x4(_mm_setr_epi8(0, 4, 1, 5, 2, 6, 3, 7, 8, 12, 9, 13, 10, 14, 11, 15));
    _mm512_storeu_si512(bits, _mm512_shuffle_epi8(column_bits(indices), order));
}

/* acc[p] += the first n columns of an atom of 8 rows. */
PARE_INLINE void add_atom(__m512 acc[4], const float *x, size_t n, const uint16_t *value,
                          size_t ldv, const uint8_t *indices)
{
    uint16_t bits[2][4][4];
    pair_bits(bits, indices);
#pragma GCC unroll 8
    for (size_t s = 0; s < 8; s++) {
        if (8 * s >= n)
            return;
        for (size_t p = 0; p < 4; p++) {
            const uint16_t *const at = value + 2 * p * ldv + 4 * s;
            const __m128i both =
                _mm_unpacklo_epi64(_mm_loadl_epi64((const __m128i *)(const void *)at),
                                   _mm_loadl_epi64((const __m128i *)(const void *)(at + ldv)));
            const __m512 v = _mm512_maskz_expand_ps(bits[s / 4][p][s % 4],
                                                    _mm512_castps256_ps512(_mm256_cvtph_ps(both)));
            acc[p] = add_8(acc[p], x + 8 * s, v, n - 8 * s);
        }
    }
}

PARE_INLINE void store_pairs(float *y, const __m512 acc[4], size_t rows)
{
    for (size_t r = 0; r < rows; r++)
        y[r] = lane_sum(r % 2 ? _mm512_extractf32x8_ps(acc[r / 2], 1)
                              : _mm512_castps512_ps256(acc[r / 2]));
}

void pare_gemv_24_avx512(float *y, const float *x, size_t k, const pare_panel *w)
{
    const uint8_t *indices = w->indices;
    for (size_t row = 0; row < w->n; row += PARE_ATOM_N) {
        const uint16_t *const value = w->values + row * w->ldv;
        const char *next = (const char *)(value + PARE_ATOM_N * w->ldv);
        __m512 acc[4];
        for (size_t p = 0; p < 4; p++)
            acc[p] = _mm512_setzero_ps();
        const uint8_t *at = indices;
        for (size_t j = 0; j < k; j += ATOM, at += INDICES, next += PARE_ATOM_N * ATOM) {
            prefetch_stream(at, AHEAD);
            for (size_t r = 0; r < PARE_ATOM_N; r++) {
                _mm_prefetch(next + 64 * r, _MM_HINT_T1);
                _mm_prefetch((const char *)(value + r * w->ldv + j / 2) + NEAR, _MM_HINT_T0);
            }
            if (k - j >= ATOM)
                add_atom(acc, x + j, ATOM, value + j / 2, w->ldv, at);
            else
                add_atom(acc, x + j, k - j, value + j / 2, w->ldv, at);
        }
        store_pairs(y + row, (const __m512 *)acc, PARE_ATOM_N);
        indices += (w->k + ATOM - 1) / ATOM * INDICES;
    }
}

/* The next 16 columns of a row that has values up to `end`, those of `bits`. */
PARE_INLINE __m512 next_16(const uint16_t **value, const uint16_t *end, unsigned bits)
{
    const uint16_t *from = *value;
    uint16_t last[16];
    if (end - from < 16) {
        memset(last, 0, sizeof last);
        memcpy(last, from, (size_t)(end - from) * sizeof *from);
        from = last;
    }
    *value += __builtin_popcount(bits);
    return _mm512_maskz_expand_ps((__mmask16)bits, _mm512_cvtph_ps(load_32(from)));
}

/* Bits of the first n columns at p. */
PARE_INLINE unsigned first_bits(const uint8_t *p, size_t n)
{
    if (n >= 16)
        return p[0] | (unsigned)p[1] << 8;
    return (p[0] | (n > 8 ? (unsigned)p[1] << 8 : 0u)) & ((1u << n) - 1);
}

/* acc[p] += the first n of 16 columns from j on of `pairs` pairs of rows. */
PARE_INLINE void add_16(__m512 acc[4], const float *x, const uint8_t *bits, size_t row_bytes,
                        const uint16_t *value[8], const uint16_t *end, size_t j, size_t n,
                        size_t pairs)
{
    for (size_t p = 0; p < pairs; p++) {
        __m512 v[2];
        for (size_t i = 0; i < 2; i++)
            v[i] = next_16(&value[2 * p + i], end,
                           first_bits(bits + (2 * p + i) * row_bytes + j / 8, n));
        acc[p] = add_8(acc[p], x + j, _mm512_shuffle_f32x4(v[0], v[1], 0x44), n);
        if (n > 8)
            acc[p] = add_8(acc[p], x + j + 8, _mm512_shuffle_f32x4(v[0], v[1], 0xee), n - 8);
    }
}

/* y[r] for 2 `pairs` rows from `row` on. */
PARE_INLINE void rows_mask(float *y, const float *x, const pare_mask *w, size_t row, size_t pairs)
{
    const size_t row_bytes = (w->k + 7) / 8, whole = w->k / 16 * 16;
    const uint8_t *const bits = w->bits + row * row_bytes;
    const uint16_t *value[8], *const end = w->value + w->start[w->n];
    const size_t bytes = (w->start[row + 2 * pairs] - w->start[row]) * sizeof **value;
    const size_t lines = bytes / 64 / (whole / 16 + 1) + 1;
    const char *next = (const char *)(w->value + w->start[row]) + bytes;
    __m512 acc[4];
    for (size_t r = 0; r < 2 * pairs; r++)
        value[r] = w->value + w->start[row + r];
    for (size_t p = 0; p < pairs; p++)
        acc[p] = _mm512_setzero_ps();
    for (size_t j = 0; j < whole; j += 16) {
        for (size_t line = 0; line < lines; line++, next += 64)
            _mm_prefetch(next, _MM_HINT_T1);
        add_16(acc, x, bits, row_bytes, value, end, j, 16, pairs);
    }
    if (whole < w->k)
        add_16(acc, x, bits, row_bytes, value, end, whole, w->k - whole, pairs);
    store_pairs(y + row, (const __m512 *)acc, 2 * pairs);
}

void pare_gemv_mask_avx512(float *y, const float *x, const pare_mask *w)
{
    size_t r = 0;
    for (; r + 8 <= w->n; r += 8)
        rows_mask(y, x, w, r, 4);
    for (; r + 2 <= w->n; r += 2)
        rows_mask(y, x, w, r, 1);
    if (r < w->n) {
        const pare_mask last = {w->bits + r * ((w->k + 7) / 8), w->start + r, w->value, 1, w->k};
        pare_gemv_mask_ref(y + r, x, &last);
    }
}

#endif
