/* Weights of which only some are stored, put into their columns by an instruction that expands
 * values by the bits of a mask: those of a bitmask as they are, those of 2:4 weights made of the
 * indices of a whole atom. */
#define PARE_VNNI_BITS 512
#include "kernels/x86/vnni_internal.h"

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

#endif
