/* kernels/x86/avx2_internal.h - names of the AVX2 kernels and small helpers they share. Included
 * only by files compiled with -mavx2 -mfma -mf16c and by the table. */
#ifndef PARE_KERNELS_X86_AVX2_INTERNAL_H
#define PARE_KERNELS_X86_AVX2_INTERNAL_H

#include "kernels/kernels_internal.h"

#define X(name, ret, params, cls) ret pare_##name##_avx2 params;
PARE_KERNEL_LIST(X)
#undef X

/* gemv_packed of PARE_DECODE_EXL3. */
void pare_gemv_exl3_avx2(float *y, const float *x, size_t k, const pare_panel *w, unsigned bits);

#if defined(__AVX2__) || defined(PARE_INTRINSICS)
#ifdef PARE_INTRINSICS
#include PARE_INTRINSICS /* the same functions for any processor: a test compiles sources with it */
#else
#include <immintrin.h>
#endif
#include <string.h>

#define PARE_INLINE static inline __attribute__((always_inline))

enum { NEAR = 512 /* bytes of prefetch distance to the first-level cache */ };

/* Asks for a line of memory that is read once, as a stream: `far` bytes ahead to the second-level
 * cache, which waits for more lines at a time than the first, and from there to the first. */
PARE_INLINE void prefetch_stream(const void *at, size_t far)
{
    _mm_prefetch((const char *)at + far, _MM_HINT_T1);
    _mm_prefetch((const char *)at + NEAR, _MM_HINT_T0);
}

/* The first n (at most 8) of 8 lanes. */
PARE_INLINE __m256i mask_first(size_t n)
{
    const __m256i lane = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
    return _mm256_cmpgt_epi32(_mm256_set1_epi32((int)n), lane);
}

/* Four activation codes in every 32-bit word. */
PARE_INLINE __m256i broadcast4(const int8_t *x)
{
    int32_t word;
    memcpy(&word, x, sizeof word);
    return _mm256_set1_epi32(word);
}

PARE_INLINE __m256i load_32(const void *p)
{
    return _mm256_loadu_si256((const __m256i *)p);
}

PARE_INLINE __m256 load_scales(const uint16_t *p)
{
    return _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)(const void *)p));
}

/* The fixed tree of the eight lanes of a sum. */
PARE_INLINE float lane_sum(__m256 v)
{
    const __m128 s = _mm_add_ps(_mm256_castps256_ps128(v), _mm256_extractf128_ps(v, 1));
    const __m128 p = _mm_add_ps(s, _mm_movehl_ps(s, s));
    return _mm_cvtss_f32(_mm_add_ss(p, _mm_movehdup_ps(p)));
}

/* Codes of one atom as vectors of 4 k by 8 rows, k = 4 l .. 4 l + 3 in v[l];
 * 2, 3 or 4 bits. */
PARE_INLINE void unpack_atom(__m256i v[8], const uint8_t *atom, unsigned bits)
{
    const __m256i low = _mm256_set1_epi8(bits == 4 ? 15 : 3), four = _mm256_set1_epi8(4);
    if (bits == 4) {
        for (int l = 0; l < 4; l++) {
            const __m256i w = load_32(atom + (size_t)32 * (size_t)l);
            v[l] = _mm256_and_si256(w, low);
            v[l + 4] = _mm256_and_si256(_mm256_srli_epi16(w, 4), low);
        }
        return;
    }
    const __m256i w[2] = {load_32(atom), load_32(atom + 32)};
    for (int l = 0; l < 8; l++)
        v[l] = _mm256_and_si256(_mm256_srli_epi16(w[l / 4], l % 4 * 2), low);
    if (bits == 2)
        return;
    const __m256i h = load_32(atom + 64);
    for (int l = 0; l < 8; l++) {
        const __m256i bit = l < 2 ? _mm256_slli_epi16(h, 2 - l) : _mm256_srli_epi16(h, l - 2);
        v[l] = _mm256_or_si256(v[l], _mm256_and_si256(bit, four));
    }
}

/* Four vectors of 8 words (word g: row g) become rows of four words: out[i] holds row i in its low
 * half and row i + 4 in its high half. */
PARE_INLINE void transpose_words(__m256i out[4], const __m256i v[4])
{
    const __m256i ab0 = _mm256_unpacklo_epi32(v[0], v[1]);
    const __m256i ab1 = _mm256_unpackhi_epi32(v[0], v[1]);
    const __m256i cd0 = _mm256_unpacklo_epi32(v[2], v[3]);
    const __m256i cd1 = _mm256_unpackhi_epi32(v[2], v[3]);
    out[0] = _mm256_unpacklo_epi64(ab0, cd0);
    out[1] = _mm256_unpackhi_epi64(ab0, cd0);
    out[2] = _mm256_unpacklo_epi64(ab1, cd1);
    out[3] = _mm256_unpackhi_epi64(ab1, cd1);
}
#endif

#endif
