/* What codes of a group cost, 16 weights at a time. */
#include "kernels/grid_code.h"
#define PARE_VNNI_BITS 512
#include "kernels/x86/vnni_internal.h"

#ifdef PARE_VNNI

PARE_INLINE vecf load_first(const float *x, size_t n)
{
    return _mm512_maskz_loadu_ps((__mmask16)((1u << n) - 1), x);
}

PARE_INLINE vecf keep_first(vecf v, size_t n)
{
    return _mm512_maskz_mov_ps((__mmask16)((1u << n) - 1), v);
}

/* Lane l takes element l and then l + 8. */
PARE_INLINE __m256 add_lanes(__m256 sum, vecf v)
{
    return _mm256_add_ps(_mm256_add_ps(sum, _mm512_castps512_ps256(v)),
                         _mm512_extractf32x8_ps(v, 1));
}

PARE_INLINE __m256 fold(vecf v)
{
    return _mm256_add_ps(_mm512_castps512_ps256(v), _mm512_extractf32x8_ps(v, 1));
}

/* What pare_fifth_root begins with. u / 5 of 32 bits is the upper part of the product with
 * 2^34 / 5, rounded up. */
PARE_INLINE vecf first_root(vecf a)
{
    const __m512i u = _mm512_castps_si512(a), by = _mm512_set1_epi32((int)0xCCCCCCCDU);
    const __m512i even = _mm512_srli_epi64(_mm512_mul_epu32(u, by), 34);
    const __m512i odd = _mm512_srli_epi64(_mm512_mul_epu32(_mm512_srli_epi64(u, 32), by), 34);
    const __m512i all = _mm512_mask_mov_epi32(even, 0xAAAA, _mm512_slli_epi64(odd, 32));
    return _mm512_castsi512_ps(_mm512_sub_epi32(_mm512_set1_epi32(PARE_POWER_ROOT), all));
}

#include "kernels/x86/clip_cost_x86.h"

double pare_clip_cost_avx512(const float *w, const float *weight, size_t n, float scale,
                             uint8_t zero, unsigned bits, float whole, double enough)
{
    return clip_cost(w, weight, n, scale, zero, bits, whole, enough);
}

#endif
