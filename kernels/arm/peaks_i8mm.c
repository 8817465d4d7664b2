#include "kernels/arm/neon_internal.h"

#ifdef __ARM_FEATURE_MATMUL_INT8

/* 32 products per instruction, added in 32 bits. */
uint32_t pare_peak_int8_i8mm(size_t steps)
{
    enum { STEP = PARE_PEAK_INT8_OP / 2 / 32, CHAINS = 16 /* more than latency times units */ };
    int32x4_t acc[CHAINS];
    int8x16_t u = vdupq_n_s8(3), x = vdupq_n_s8(1);
    for (size_t j = 0; j < CHAINS; j++)
        acc[j] = vdupq_n_s32(0);
    for (size_t i = 0; i < steps * STEP; i += CHAINS) {
        __asm__ volatile("" : "+w"(u), "+w"(x));
        for (size_t j = 0; j < CHAINS; j++)
            acc[j] = vmmlaq_s32(acc[j], u, x);
    }
    for (size_t j = 1; j < CHAINS; j++)
        acc[0] = vaddq_s32(acc[0], acc[j]);
    return (uint32_t)vgetq_lane_s32(acc[0], 0);
}

#endif
