/* kernels/x86/gemv_avx512.h - eight lanes of the sums of two rows in one register. Included by
 * files compiled for AVX-512, which first define PARE_VNNI_BITS. */
#ifndef PARE_KERNELS_X86_GEMV_AVX512_H
#define PARE_KERNELS_X86_GEMV_AVX512_H

#include "kernels/x86/vnni_internal.h"

#if defined(PARE_VNNI) && PARE_VNNI_BITS == 512
/* acc += 8 columns of two rows, of which the first n count. */
PARE_INLINE __m512 add_8(__m512 acc, const float *x, __m512 w, size_t n)
{
    if (n >= 8)
        return _mm512_fmadd_ps(_mm512_broadcast_f32x8(_mm256_loadu_ps(x)), w, acc);
    const unsigned half = (1u << n) - 1;
    const __m256 v = _mm256_maskload_ps(x, mask_first(n));
    return _mm512_mask3_fmadd_ps(_mm512_broadcast_f32x8(v), w, acc, (__mmask16)(half << 8 | half));
}
#endif

#endif
