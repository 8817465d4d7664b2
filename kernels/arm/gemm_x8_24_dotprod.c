#include "kernels/arm/gemm_x8_24_internal.h"

#ifdef __ARM_FEATURE_DOTPROD

PARE_INLINE void add_words(int32x4_t d[MT][2], const int8_t *x, size_t stride, const word *w,
                           size_t words, unsigned bits, size_t mt)
{
    for (size_t i = 0; i < words; i++, x += stride)
        for (size_t t = 0; t < mt; t++) {
            const int8x16_t q = codes_8(x + t * WORD, bits);
            for (size_t h = 0; h < 2; h++)
                d[t][h] = vdotq_s32(d[t][h], w[i].w[h], vqtbl1q_s8(q, w[i].pick[h]));
        }
}

// clang-format off
PARE_X24_KERNEL(4, dotprod)
PARE_X24_KERNEL(8, dotprod)
// clang-format on

#endif
