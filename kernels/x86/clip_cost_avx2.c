/* What codes of a group cost, 8 weights at a time. */
#include "kernels/grid_code.h"
#include "kernels/x86/avx2_internal.h"

#ifdef __AVX2__

typedef __m256 vecf;
#define V(op) _mm256_##op

PARE_INLINE vecf load_first(const float *x, size_t n)
{
    return _mm256_maskload_ps(x, mask_first(n));
}

PARE_INLINE vecf keep_first(vecf v, size_t n)
{
    return _mm256_and_ps(v, _mm256_castsi256_ps(mask_first(n)));
}

PARE_INLINE __m256 add_lanes(__m256 sum, vecf v)
{
    return _mm256_add_ps(sum, v);
}

PARE_INLINE __m256 fold(vecf v)
{
    return v;
}

/* What pare_fifth_root begins with. u / 5 of 32 bits is the upper part of the product with
 * 2^34 / 5, rounded up. */
PARE_INLINE vecf first_root(vecf a)
{
    const __m256i u = _mm256_castps_si256(a), by = _mm256_set1_epi32((int)0xCCCCCCCDU);
    const __m256i even = _mm256_srli_epi64(_mm256_mul_epu32(u, by), 34);
    const __m256i odd = _mm256_srli_epi64(_mm256_mul_epu32(_mm256_srli_epi64(u, 32), by), 34);
    const __m256i all = _mm256_or_si256(even, _mm256_slli_epi64(odd, 32));
    return _mm256_castsi256_ps(_mm256_sub_epi32(_mm256_set1_epi32(PARE_POWER_ROOT), all));
}

#include "kernels/x86/clip_cost_x86.h"

double pare_clip_cost_avx2(const float *w, const float *weight, size_t n, float scale, uint8_t zero,
                           unsigned bits, float whole, double enough)
{
    return clip_cost(w, weight, n, scale, zero, bits, whole, enough);
}

#endif
