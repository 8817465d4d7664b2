#include "kernels/arm/neon_internal.h"

#ifdef __aarch64__
#include <assert.h>
#include <math.h>

#include "kernels/e4m3.h"

/* Bits of absolute values are in the order of the values, those of a NaN above all. */
static float group_max(const float *x, size_t n)
{
    uint32x4_t a = vdupq_n_u32(0), b = a;
    for (size_t i = 0; i < n; i += 8) {
        const f32x8 v = load_first(x + i, n - i);
        a = vmaxq_u32(a, vreinterpretq_u32_f32(vabsq_f32(v.lo)));
        b = vmaxq_u32(b, vreinterpretq_u32_f32(vabsq_f32(v.hi)));
    }
    return pare_f32_from_bits(vmaxvq_u32(vmaxq_u32(a, b)));
}

/* minnm and maxnm give the number next to a NaN: it becomes top, as in the reference. */
PARE_INLINE int32x4_t codes_of(const float *x, float32x4_t inv, float32x4_t top)
{
    const float32x4_t q = vrndnq_f32(vmulq_f32(vld1q_f32(x), inv));
    return vcvtq_s32_f32(vmaxnmq_f32(vminnmq_f32(q, top), vnegq_f32(top)));
}

/* Codes of 16 values; returns four partial sums of them. */
PARE_INLINE int32x4_t quant_16(int8_t *codes, const float *x, float32x4_t inv, float32x4_t top)
{
    const int32x4_t a = codes_of(x, inv, top), b = codes_of(x + 4, inv, top),
                    c = codes_of(x + 8, inv, top), d = codes_of(x + 12, inv, top);
    const int16x8_t ab = vmovn_high_s32(vmovn_s32(a), b), cd = vmovn_high_s32(vmovn_s32(c), d);
    vst1q_s8(codes, vmovn_high_s16(vmovn_s16(ab), cd));
    return vaddq_s32(vaddq_s32(a, b), vaddq_s32(c, d));
}

/* Codes of one group, the tail of the last atom 0; returns their sum. */
static int32_t quant_group(int8_t *codes, const float *x, size_t n, float inv, float top)
{
    const float32x4_t v = vdupq_n_f32(inv), most = vdupq_n_f32(top);
    int32x4_t sums = vdupq_n_s32(0);
    size_t i = 0;
    for (; i + PARE_ATOM_K <= n; i += PARE_ATOM_K)
        sums = vaddq_s32(vaddq_s32(sums, quant_16(codes + i, x + i, v, most)),
                         quant_16(codes + i + 16, x + i + 16, v, most));
    if (i < n) {
        float tail[PARE_ATOM_K] = {0};
        memcpy(tail, x + i, (n - i) * sizeof *x);
        sums = vaddq_s32(vaddq_s32(sums, quant_16(codes + i, tail, v, most)),
                         quant_16(codes + i + 16, tail + 16, v, most));
    }
    return vaddvq_s32(sums);
}

static void quant_span(int8_t *codes, float *scales, int32_t *sums, const float *x, size_t n,
                       size_t group, float scale, float inv, float top)
{
    for (size_t i = 0, b = 0; i < n; i += group, b++) {
        const size_t have = n - i < group ? n - i : group;
        scales[b] = isinf(inv) ? 0.0f : scale;
        sums[b] = 0;
        if (isfinite(inv))
            sums[b] = quant_group(codes + i, x + i, have, inv, top);
        else
            memset(codes + i, 0, pare_round_up(have, PARE_ATOM_K));
    }
}

void pare_quant_x8_neon(int8_t *codes, float *scales, int32_t *sums, const float *x, size_t k,
                        size_t group, size_t span, int32_t top)
{
    assert(span % group == 0 || span >= k);
    for (size_t i = 0; i < k; i += span) {
        const size_t n = k - i < span ? k - i : span, b = i / group;
        const float a = group_max(x + i, n), most = (float)top;
        quant_span(codes + i, scales + b, sums + b, x + i, n, group, a / most, most / a, most);
    }
}

void pare_quant_x8_fixed_neon(int8_t *codes, float *scales, int32_t *sums, const float *x, size_t k,
                              size_t group, float step, int32_t top)
{
    const int finite = isfinite(group_max(x, k));
    quant_span(codes, scales, sums, x, k, group, finite ? step : (float)NAN,
               finite ? 1.0f / step : (float)NAN, (float)top);
}

/* maxnm gives the number next to a NaN. */
static float largest(const float *x, size_t n)
{
    float32x4_t a = vdupq_n_f32(0), b = a;
    for (size_t i = 0; i < n; i += 8) {
        const f32x8 v = load_first(x + i, n - i);
        a = vmaxnmq_f32(a, vabsq_f32(v.lo));
        b = vmaxnmq_f32(b, vabsq_f32(v.hi));
    }
    return vmaxvq_f32(vmaxnmq_f32(a, b));
}

/* pare_round_e4m3 of four. */
PARE_INLINE float32x4_t round_e4m3_4(float32x4_t t)
{
    const float32x4_t far = vdupq_n_f32(0x1p23f), abs = vabsq_f32(t);
    const uint32x4_t size = vreinterpretq_u32_f32(abs);
    const uint32x4_t odd = vandq_u32(vshrq_n_u32(size, 20), vdupq_n_u32(1));
    const uint32x4_t up = vaddq_u32(vaddq_u32(size, vdupq_n_u32(0x7FFFF)), odd);
    const float32x4_t whole = vreinterpretq_f32_u32(vandq_u32(up, vdupq_n_u32(0xFFF00000)));
    const float32x4_t steps = vaddq_f32(vmulq_n_f32(abs, 0x1p9f), far);
    const float32x4_t small = vmulq_n_f32(vsubq_f32(steps, far), 0x1p-9f);
    float32x4_t r = vbslq_f32(vcltq_f32(abs, vdupq_n_f32(0x1p-6f)), small, whole);
    r = vbslq_f32(vceqq_f32(t, t), r, abs);
    return vbslq_f32(vdupq_n_u32(0x80000000), t, r);
}

void pare_round_fp8_neon(float *dst, const float *x, size_t n)
{
    const float scale = largest(x, n) / 448;
    const float32x4_t s = vdupq_n_f32(scale);
    if (!(scale > 0)) {
        memcpy(dst, x, n * sizeof *x);
        return;
    }
    for (size_t i = 0; i < n; i += 8) {
        const f32x8 v = load_first(x + i, n - i);
        const f32x8 r = {vmulq_f32(round_e4m3_4(vdivq_f32(v.lo, s)), s),
                         vmulq_f32(round_e4m3_4(vdivq_f32(v.hi, s)), s)};
        store_first(dst + i, n - i, r);
    }
}

#endif
