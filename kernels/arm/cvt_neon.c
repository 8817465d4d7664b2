#include "kernels/arm/neon_internal.h"

#ifdef __aarch64__

void pare_cvt_f16_f32_neon(float *dst, const uint16_t *src, size_t n)
{
    size_t i = 0;
    for (; i + 8 <= n; i += 8)
        store_8(dst + i, of_halves(vld1q_u16(src + i)));
    pare_cvt_f16_f32_ref(dst + i, src + i, n - i);
}

void pare_cvt_bf16_f32_neon(float *dst, const uint16_t *src, size_t n)
{
    size_t i = 0;
    for (; i + 8 <= n; i += 8) {
        const uint16x8_t h = vld1q_u16(src + i);
        vst1q_u32((uint32_t *)(void *)(dst + i), vshll_n_u16(vget_low_u16(h), 16));
        vst1q_u32((uint32_t *)(void *)(dst + i + 4), vshll_high_n_u16(h, 16));
    }
    pare_cvt_bf16_f32_ref(dst + i, src + i, n - i);
}

void pare_cvt_f32_bf16_neon(uint16_t *dst, const float *src, size_t n)
{
    size_t i = 0;
    for (; i + 4 <= n; i += 4) {
        const float32x4_t x = vld1q_f32(src + i);
        const uint32x4_t bits = vreinterpretq_u32_f32(x), high = vshrq_n_u32(bits, 16);
        const uint32x4_t up = vaddq_u32(vdupq_n_u32(0x7fff), vandq_u32(high, vdupq_n_u32(1)));
        const uint32x4_t rounded = vshrq_n_u32(vaddq_u32(bits, up), 16);
        const uint32x4_t quiet = vorrq_u32(high, vdupq_n_u32(0x40));
        vst1_u16(dst + i, vmovn_u32(vbslq_u32(vceqq_f32(x, x), rounded, quiet)));
    }
    pare_cvt_f32_bf16_ref(dst + i, src + i, n - i);
}

void pare_cvt_f32_f16_neon(uint16_t *dst, const float *src, size_t n)
{
    size_t i = 0;
    for (; i + 8 <= n; i += 8) {
        const float16x4_t low = vcvt_f16_f32(vld1q_f32(src + i));
        vst1q_u16(dst + i, vreinterpretq_u16_f16(vcvt_high_f16_f32(low, vld1q_f32(src + i + 4))));
    }
    pare_cvt_f32_f16_ref(dst + i, src + i, n - i);
}

#endif
