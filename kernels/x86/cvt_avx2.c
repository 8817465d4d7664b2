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

void pare_cvt_f32_bf16_avx2(uint16_t *dst, const float *src, size_t n)
{
    const __m256i below = _mm256_set1_epi32(0x7fff), one = _mm256_set1_epi32(1);
    size_t i = 0;
    for (; i + 8 <= n; i += 8) {
        const __m256 x = _mm256_loadu_ps(src + i);
        const __m256i bits = _mm256_castps_si256(x), high = _mm256_srli_epi32(bits, 16);
        const __m256i up = _mm256_add_epi32(below, _mm256_and_si256(high, one));
        const __m256i rounded = _mm256_srli_epi32(_mm256_add_epi32(bits, up), 16);
        const __m256i quiet = _mm256_or_si256(high, _mm256_set1_epi32(0x40));
        const __m256i nan = _mm256_castps_si256(_mm256_cmp_ps(x, x, _CMP_UNORD_Q));
        const __m256i v = _mm256_blendv_epi8(rounded, quiet, nan);
        _mm_storeu_si128(
            (__m128i *)(void *)(dst + i),
            _mm_packus_epi32(_mm256_castsi256_si128(v), _mm256_extracti128_si256(v, 1)));
    }
    pare_cvt_f32_bf16_ref(dst + i, src + i, n - i);
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
