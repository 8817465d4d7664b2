/* kernels/arm/neon_internal.h - names of the NEON kernels and small helpers they share. Those of
 * the levels above it lie in files of their own, compiled for them. */
#ifndef PARE_KERNELS_ARM_NEON_INTERNAL_H
#define PARE_KERNELS_ARM_NEON_INTERNAL_H

#include "kernels/kernels_internal.h"

#define X(name, ret, params, cls)                                                                  \
    ret pare_##name##_neon params;                                                                 \
    ret pare_##name##_dotprod params;                                                              \
    ret pare_##name##_i8mm params;
PARE_KERNEL_LIST(X)
#undef X

#ifdef __aarch64__
#include <arm_neon.h>
#include <string.h>

#define PARE_INLINE static inline __attribute__((always_inline))

/* Eight lanes. */
typedef struct f32x8 {
    float32x4_t lo, hi;
} f32x8;

PARE_INLINE f32x8 set1_8(float v)
{
    return (f32x8){vdupq_n_f32(v), vdupq_n_f32(v)};
}

PARE_INLINE f32x8 load_8(const float *p)
{
    return (f32x8){vld1q_f32(p), vld1q_f32(p + 4)};
}

PARE_INLINE void store_8(float *p, f32x8 v)
{
    vst1q_f32(p, v.lo);
    vst1q_f32(p + 4, v.hi);
}

/* acc + a b, one operation. */
PARE_INLINE f32x8 fma_8(f32x8 a, f32x8 b, f32x8 acc)
{
    return (f32x8){vfmaq_f32(acc.lo, a.lo, b.lo), vfmaq_f32(acc.hi, a.hi, b.hi)};
}

PARE_INLINE f32x8 of_halves(uint16x8_t h)
{
    const float16x8_t v = vreinterpretq_f16_u16(h);
    return (f32x8){vcvt_f32_f16(vget_low_f16(v)), vcvt_high_f32_f16(v)};
}

PARE_INLINE f32x8 load_scales(const uint16_t *p)
{
    return of_halves(vld1q_u16(p));
}
#endif

#endif
