/* kernels/arm/neon_internal.h - names of the NEON kernels and small helpers they share. Those of
 * the levels above it lie in files of their own, compiled for them. */
#ifndef PARE_KERNELS_ARM_NEON_INTERNAL_H
#define PARE_KERNELS_ARM_NEON_INTERNAL_H

#include "kernels/kernels_internal.h"
#include "kernels/layout.h"

#define X(name, ret, params, cls)                                                                  \
    ret pare_##name##_neon params;                                                                 \
    ret pare_##name##_dotprod params;                                                              \
    ret pare_##name##_i8mm params;
PARE_KERNEL_LIST(X)
#undef X

/* gemv_packed of PARE_DECODE_EXL3. */
void pare_gemv_exl3_neon(float *y, const float *x, size_t k, const pare_panel *w, unsigned bits);

uint32_t pare_peak_int8_dotprod(size_t steps);
uint32_t pare_peak_int8_i8mm(size_t steps);

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

/* The first n lanes, zeros behind; n at least 8: all. */
PARE_INLINE f32x8 load_first(const float *p, size_t n)
{
    if (n >= 8)
        return load_8(p);
    float lane[8] = {0};
    memcpy(lane, p, n * sizeof *p);
    return load_8(lane);
}

PARE_INLINE void store_first(float *p, size_t n, f32x8 v)
{
    if (n >= 8) {
        store_8(p, v);
        return;
    }
    float lane[8];
    store_8(lane, v);
    memcpy(p, lane, n * sizeof *p);
}

/* The fixed tree. */
PARE_INLINE float lane_sum(f32x8 v)
{
    const float32x4_t s = vaddq_f32(v.lo, v.hi);
    return vaddv_f32(vadd_f32(vget_low_f32(s), vget_high_f32(s)));
}

/* Lanes from n on keep their value: adding 0 would turn -0 into +0. */
PARE_INLINE f32x8 fma_first(f32x8 x, f32x8 w, f32x8 acc, size_t n)
{
    const uint32_t lane[8] = {0, 1, 2, 3, 4, 5, 6, 7};
    const uint32x4_t all = vdupq_n_u32((uint32_t)n);
    const f32x8 sum = fma_8(x, w, acc);
    return (f32x8){vbslq_f32(vcltq_u32(vld1q_u32(lane), all), sum.lo, acc.lo),
                   vbslq_f32(vcltq_u32(vld1q_u32(lane + 4), all), sum.hi, acc.hi)};
}

/* Codes of 16 columns: v[l][h] has k = 4 l .. 4 l + 3 of rows 4 h .. 4 h + 3; of 8 bits less 128.
 */
PARE_INLINE void unpack_16(int8x16_t v[4][2], const uint8_t *atom, size_t half, unsigned bits)
{
    const uint8x16_t low = vdupq_n_u8(bits == 4 ? 15 : 3), four = vdupq_n_u8(4);
    for (size_t h = 0; h < 2; h++) {
        if (bits >= 4) {
            for (size_t l = 0; l < 4; l++) {
                const uint8x16_t w =
                    vld1q_u8(atom + (bits == 8 ? 128 * half : 0) + 32 * l + 16 * h);
                v[l][h] = vreinterpretq_s8_u8(bits == 8 ? w
                                              : half    ? vshrq_n_u8(w, 4)
                                                        : vandq_u8(w, low));
            }
            continue;
        }
        const uint8x16_t w = vld1q_u8(atom + 32 * half + 16 * h);
        uint8x16_t u[4] = {vandq_u8(w, low), vandq_u8(vshrq_n_u8(w, 2), low),
                           vandq_u8(vshrq_n_u8(w, 4), low), vshrq_n_u8(w, 6)};
        if (bits == 3) {
            const uint8x16_t e = vld1q_u8(atom + 64 + 16 * h), at = half ? vshrq_n_u8(e, 4) : e;
            u[0] = vorrq_u8(u[0], vandq_u8(vshlq_n_u8(at, 2), four));
            u[1] = vorrq_u8(u[1], vandq_u8(vshlq_n_u8(at, 1), four));
            u[2] = vorrq_u8(u[2], vandq_u8(at, four));
            u[3] = vorrq_u8(u[3], vandq_u8(vshrq_n_u8(at, 1), four));
        }
        for (size_t l = 0; l < 4; l++)
            v[l][h] = vreinterpretq_s8_u8(u[l]);
    }
}

/* Four words of four rows become rows of 16 bytes. */
PARE_INLINE void rows_of(uint8x16_t row[8], int8x16_t v[4][2])
{
    for (size_t h = 0; h < 2; h++) {
        const int32x4_t a = vreinterpretq_s32_s8(v[0][h]), b = vreinterpretq_s32_s8(v[1][h]),
                        c = vreinterpretq_s32_s8(v[2][h]), d = vreinterpretq_s32_s8(v[3][h]);
        const int64x2_t ab0 = vreinterpretq_s64_s32(vzip1q_s32(a, b)),
                        ab1 = vreinterpretq_s64_s32(vzip2q_s32(a, b)),
                        cd0 = vreinterpretq_s64_s32(vzip1q_s32(c, d)),
                        cd1 = vreinterpretq_s64_s32(vzip2q_s32(c, d));
        row[4 * h] = vreinterpretq_u8_s64(vzip1q_s64(ab0, cd0));
        row[4 * h + 1] = vreinterpretq_u8_s64(vzip2q_s64(ab0, cd0));
        row[4 * h + 2] = vreinterpretq_u8_s64(vzip1q_s64(ab1, cd1));
        row[4 * h + 3] = vreinterpretq_u8_s64(vzip2q_s64(ab1, cd1));
    }
}
#endif

#endif
