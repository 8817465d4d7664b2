#include "kernels/x86/avx2_internal.h"

#ifdef __AVX2__

void pare_cvt_f16_f32_avx2(float *dst, const uint16_t *src, size_t n)
{
    size_t i = 0;
    for (; i + 8 <= n; i += 8)
        _mm256_storeu_ps(dst + i, load_scales(src + i));
    pare_cvt_f16_f32_ref(dst + i, src + i, n - i);
}

void pare_cvt_bf16_f32_avx2(float *dst, const uint16_t *src, size_t n)
{
    size_t i = 0;
    for (; i + 8 <= n; i += 8) {
        const __m128i h = _mm_loadu_si128((const __m128i *)(const void *)(src + i));
        _mm256_storeu_si256((__m256i *)(void *)(dst + i),
                            _mm256_slli_epi32(_mm256_cvtepu16_epi32(h), 16));
    }
    pare_cvt_bf16_f32_ref(dst + i, src + i, n - i);
}

void pare_cvt_f32_f16_avx2(uint16_t *dst, const float *src, size_t n)
{
    size_t i = 0;
    for (; i + 8 <= n; i += 8)
        _mm_storeu_si128((__m128i *)(void *)(dst + i),
                         _mm256_cvtps_ph(_mm256_loadu_ps(src + i), _MM_FROUND_TO_NEAREST_INT));
    pare_cvt_f32_f16_ref(dst + i, src + i, n - i);
}

#endif
