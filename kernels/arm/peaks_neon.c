#include "kernels/arm/neon_internal.h"

#ifdef __aarch64__

/* More chains than latency times units; few enough for 32 registers to hold them. */
enum { AHEAD = 2048, CHAINS = 24, INT8_CHAINS = 16 };

static uint64_t read_bytes(const void *p, size_t bytes)
{
    const uint8_t *const at = p;
    uint64x2_t sum[16];
    for (size_t j = 0; j < 16; j++)
        sum[j] = vdupq_n_u64(0);
    for (size_t i = 0; i < bytes; i += 256) {
        for (size_t line = 0; line < 256; line += 64)
            __builtin_prefetch(at + i + AHEAD + line);
        for (size_t j = 0; j < 16; j++)
            sum[j] = vaddq_u64(sum[j], vreinterpretq_u64_u8(vld1q_u8(at + i + 16 * j)));
    }
    for (size_t j = 1; j < 16; j++)
        sum[0] = vaddq_u64(sum[0], sum[j]);
    return vaddvq_u64(sum[0]);
}

/* The empty asm statements hide the operands, so that the loop is neither shortened nor changed. */
static float fma_f32(size_t steps)
{
    float32x4_t acc[CHAINS], x = vdupq_n_f32(0.5f), y = vdupq_n_f32(1.0f);
    for (size_t j = 0; j < CHAINS; j++)
        acc[j] = vdupq_n_f32(0.0f);
    for (size_t i = 0; i < steps; i++) {
        __asm__ volatile("" : "+w"(x), "+w"(y));
        for (size_t j = 0; j < CHAINS; j++)
            acc[j] = vfmaq_f32(acc[j], x, y);
    }
    for (size_t j = 1; j < CHAINS; j++)
        acc[0] = vaddq_f32(acc[0], acc[j]);
    return vgetq_lane_f32(acc[0], 0);
}

/* Eight products per instruction, added in 16 bits. */
static uint32_t dot_int8(size_t steps)
{
    int16x8_t acc[INT8_CHAINS];
    int8x16_t u = vdupq_n_s8(3), x = vdupq_n_s8(1);
    for (size_t j = 0; j < INT8_CHAINS; j++)
        acc[j] = vdupq_n_s16(0);
    for (size_t i = 0; i < 2 * steps; i++) {
        __asm__ volatile("" : "+w"(u), "+w"(x));
        for (size_t j = 0; j < INT8_CHAINS; j++)
            acc[j] = j % 2 ? vmlal_high_s8(acc[j], u, x)
                           : vmlal_s8(acc[j], vget_low_s8(u), vget_low_s8(x));
    }
    for (size_t j = 1; j < INT8_CHAINS; j++)
        acc[0] = vaddq_s16(acc[0], acc[j]);
    return (uint32_t)vgetq_lane_s16(acc[0], 0);
}

void pare_peaks_init_arm(pare_peaks *p, unsigned cpu)
{
    if (!(cpu & PARE_CPU_NEON))
        return;
    *p = (pare_peaks){read_bytes, fma_f32, dot_int8, NULL, NULL};
    if (cpu & PARE_CPU_DOTPROD)
        p->dot_int8 = pare_peak_int8_dotprod;
    if (cpu & PARE_CPU_I8MM)
        p->dot_int8 = pare_peak_int8_i8mm;
}

#endif
