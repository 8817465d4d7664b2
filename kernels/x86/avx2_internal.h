/* kernels/x86/avx2_internal.h - names of the AVX2 kernels and small helpers they share. Included
 * only by files compiled with -mavx2 -mfma -mf16c and by the table. */
#ifndef PARE_KERNELS_X86_AVX2_INTERNAL_H
#define PARE_KERNELS_X86_AVX2_INTERNAL_H

#include "kernels/kernels_internal.h"

#define X(name, ret, params, cls) ret pare_##name##_avx2 params;
PARE_KERNEL_LIST(X)
#undef X

#ifdef __AVX2__
#include <immintrin.h>
#include <string.h>

#define PARE_INLINE static inline __attribute__((always_inline))

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
#endif

#endif
