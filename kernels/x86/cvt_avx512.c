/* The steps of cvt_avx2.c for 16 elements: instructions for BF16 would take denormals for 0. */
#define PARE_VNNI_BITS 512
#include "kernels/x86/vnni_internal.h"

#ifdef PARE_VNNI

void pare_cvt_f32_bf16_avx512(uint16_t *dst, const float *src, size_t n)
{
    const __m512i below = _mm512_set1_epi32(0x7fff), one = _mm512_set1_epi32(1);
    const __m512i calm = _mm512_set1_epi32(0x40);
    size_t i = 0;
    for (; i + 16 <= n; i += 16) {
        const __m512 x = _mm512_loadu_ps(src + i);
        const __m512i bits = _mm512_castps_si512(x), high = _mm512_srli_epi32(bits, 16);
        const __m512i up = _mm512_add_epi32(below, _mm512_and_si512(high, one));
        const __m512i rounded = _mm512_srli_epi32(_mm512_add_epi32(bits, up), 16);
        const __mmask16 nan = _mm512_cmp_ps_mask(x, x, _CMP_UNORD_Q);
        const __m512i v = _mm512_mask_or_epi32(rounded, nan, high, calm);
        const __m256i packed =
            _mm256_packus_epi32(_mm512_castsi512_si256(v), _mm512_extracti64x4_epi64(v, 1));
        _mm256_storeu_si256((__m256i *)(void *)(dst + i), _mm256_permute4x64_epi64(packed, 0xD8));
    }
    pare_cvt_f32_bf16_ref(dst + i, src + i, n - i);
}

#endif
