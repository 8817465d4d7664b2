/* kernels/x86/gemm_bf16_x86.h - what AVX2 and AVX-512 share of gemm_bf16_bf16. */
#ifndef PARE_KERNELS_X86_GEMM_BF16_X86_H
#define PARE_KERNELS_X86_GEMM_BF16_X86_H

#include "kernels/x86/avx2_internal.h"

#ifdef floats
PARE_INLINE void store_words(float *to, __m256i v)
{
    _mm256_storeu_si256((__m256i *)(void *)to, v);
}

PARE_INLINE void widen_8(float *to, const uint16_t *from)
{
    const __m128i h = _mm_loadu_si128((const __m128i *)(const void *)from);
    store_words(to, _mm256_slli_epi32(_mm256_cvtepu16_epi32(h), 16));
}

/* Pairs of columns are words, which change places before they become two floats each. */
PARE_INLINE void widen_rows(float *to, size_t ld, const uint16_t *const row[8])
{
    for (size_t q = 0; q < 4; q++) {
        __m256i v[4], pair[4];
        for (size_t i = 0; i < 4; i++)
            v[i] = _mm256_loadu2_m128i((const __m128i *)(const void *)(row[i + 4] + 8 * q),
                                       (const __m128i *)(const void *)(row[i] + 8 * q));
        transpose_words(pair, v);
        for (size_t i = 0; i < 4; i++) {
            float *const at = to + (8 * q + 2 * i) * ld;
            store_words(at, _mm256_slli_epi32(pair[i], 16));
            store_words(at + ld, _mm256_and_si256(pair[i], _mm256_set1_epi32(-65536)));
        }
    }
}

#include "kernels/gemm_bf16_fma.h"

static void bf16_region(float *y, size_t ldy, const uint16_t *x, size_t ldx, const uint16_t *w,
                        size_t ldw, size_t m, size_t n, size_t k)
{
    enum { FTZ_DAZ = 0x8040 };
    const unsigned before = _mm_getcsr();
    _mm_setcsr(before | FTZ_DAZ);
    bf16_product(y, ldy, x, ldx, w, ldw, m, n, k);
    _mm_setcsr(before);
}

#endif

#endif
