/* kernels/x86/gemv_avx2.h - eight lanes of the sum of a row. Included by files compiled with -mavx2
 * -mfma -mf16c. */
#ifndef PARE_KERNELS_X86_GEMV_AVX2_H
#define PARE_KERNELS_X86_GEMV_AVX2_H

#include "kernels/x86/avx2_internal.h"

#ifdef __AVX2__
/* Eight columns from x on, of which the first n count; a lane without a column keeps its value. */
PARE_INLINE __m256 add_8(__m256 acc, const float *x, __m256 w, size_t n)
{
    if (n >= 8)
        return _mm256_fmadd_ps(_mm256_loadu_ps(x), w, acc);
    const __m256i mask = mask_first(n);
    const __m256 sum = _mm256_fmadd_ps(_mm256_maskload_ps(x, mask), w, acc);
    return _mm256_blendv_ps(acc, sum, _mm256_castsi256_ps(mask));
}
#endif

#endif
