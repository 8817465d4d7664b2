/* Rows between the products: eight elements per step. */
#include "kernels/arm/neon_internal.h"

#ifdef __aarch64__
#include <assert.h>
#include <math.h>

/* Comparisons are false for a NaN, which so stays one. */
PARE_INLINE float32x4_t exp_4(float32x4_t x)
{
    const float32x4_t magic = vdupq_n_f32(0x1.8p23f), most = vdupq_n_f32(87.0f);
    x = vbslq_f32(vcltq_f32(x, vnegq_f32(most)), vnegq_f32(most), x);
    x = vbslq_f32(vcgtq_f32(x, most), most, x);
    const float32x4_t shifted = vfmaq_f32(magic, x, vdupq_n_f32(1.44269504f));
    const float32x4_t k = vsubq_f32(shifted, magic);
    float32x4_t r = vfmaq_f32(x, k, vdupq_n_f32(-0.693359375f));
    r = vfmaq_f32(r, k, vdupq_n_f32(2.12194440e-4f));
    float32x4_t p = vfmaq_f32(vdupq_n_f32(1.38888889e-3f), vdupq_n_f32(1.98412698e-4f), r);
    p = vfmaq_f32(vdupq_n_f32(8.33333333e-3f), p, r);
    p = vfmaq_f32(vdupq_n_f32(4.16666667e-2f), p, r);
    p = vfmaq_f32(vdupq_n_f32(1.66666667e-1f), p, r);
    p = vfmaq_f32(vdupq_n_f32(0.5f), p, r);
    p = vfmaq_f32(vdupq_n_f32(1.0f), p, r);
    p = vfmaq_f32(vdupq_n_f32(1.0f), p, r);
    const uint32x4_t power = vaddq_u32(vreinterpretq_u32_f32(shifted), vdupq_n_u32(127));
    return vmulq_f32(p, vreinterpretq_f32_u32(vshlq_n_u32(power, 23)));
}

/* b where it is larger, else a. */
PARE_INLINE float32x4_t larger(float32x4_t a, float32x4_t b)
{
    return vbslq_f32(vcgtq_f32(b, a), b, a);
}

PARE_INLINE float largest(float first, const float *x, size_t n)
{
    const size_t whole = n / 8 * 8;
    f32x8 m = set1_8(first);
    for (size_t i = 0; i < whole; i += 8) {
        const f32x8 v = load_8(x + i);
        m = (f32x8){larger(m.lo, v.lo), larger(m.hi, v.hi)};
    }
    float lane[8];
    store_8(lane, m);
    for (size_t i = whole; i < n; i++)
        lane[i - whole] = x[i] > lane[i - whole] ? x[i] : lane[i - whole];
    m = load_8(lane);
    vst1q_f32(lane, larger(m.lo, m.hi));
    for (size_t h = 2; h > 0; h /= 2)
        for (size_t l = 0; l < h; l++)
            lane[l] = lane[l + h] > lane[l] ? lane[l + h] : lane[l];
    return lane[0];
}

/* e((x - most) scale). */
PARE_INLINE f32x8 weights_8(f32x8 x, float32x4_t most, float scale)
{
    return (f32x8){exp_4(vmulq_n_f32(vsubq_f32(x.lo, most), scale)),
                   exp_4(vmulq_n_f32(vsubq_f32(x.hi, most), scale))};
}

PARE_INLINE f32x8 add_8(f32x8 a, f32x8 b)
{
    return (f32x8){vaddq_f32(a.lo, b.lo), vaddq_f32(a.hi, b.hi)};
}

/* Lanes behind the tail add 0 to sums that are none, or not below 0. */
float pare_softmax_f32_neon(float *x, size_t n, float scale, float *max, double *total)
{
    assert(n > 0);
    const size_t whole = n / 8 * 8;
    const float m = largest(*max, x, n);
    const float32x4_t most = vdupq_n_f32(m);
    f32x8 lanes = set1_8(0.0f);
    for (size_t i = 0; i < whole; i += 8) {
        const f32x8 e = weights_8(load_8(x + i), most, scale);
        store_8(x + i, e);
        lanes = add_8(lanes, e);
    }
    if (whole < n) {
        store_first(x + whole, n - whole, weights_8(load_first(x + whole, n - whole), most, scale));
        lanes = add_8(lanes, load_first(x + whole, n - whole));
    }
    const float before = (*max - m) * scale,
                shrink = *max == m ? 1.0f : vgetq_lane_f32(exp_4(vdupq_n_f32(before)), 0);
    *total = fma(*total, (double)shrink, (double)lane_sum(lanes));
    *max = m;
    return shrink;
}

PARE_INLINE float32x4_t silu_4(float32x4_t g, float32x4_t up)
{
    const float32x4_t e = exp_4(vnegq_f32(g));
    return vmulq_f32(vdivq_f32(g, vaddq_f32(vdupq_n_f32(1.0f), e)), up);
}

void pare_silu_f32_neon(float *y, const float *up, size_t n)
{
    for (size_t i = 0; i < n; i += 8) {
        const f32x8 g = load_first(y + i, n - i), u = load_first(up + i, n - i);
        store_first(y + i, n - i, (f32x8){silu_4(g.lo, u.lo), silu_4(g.hi, u.hi)});
    }
}

PARE_INLINE void silu_back_4(float32x4_t *dgate, float32x4_t *dup, float32x4_t d, float32x4_t g,
                             float32x4_t up)
{
    const float32x4_t one = vdupq_n_f32(1.0f);
    const float32x4_t s = vdivq_f32(one, vaddq_f32(one, exp_4(vnegq_f32(g))));
    const float32x4_t inner = vaddq_f32(one, vmulq_f32(g, vsubq_f32(one, s)));
    *dup = vaddq_f32(*dup, vmulq_f32(d, vmulq_f32(g, s)));
    *dgate = vaddq_f32(*dgate, vmulq_f32(vmulq_f32(d, up), vmulq_f32(s, inner)));
}

void pare_silu_back_f32_neon(float *dgate, float *dup, const float *d, const float *gate,
                             const float *up, size_t n)
{
    for (size_t i = 0; i < n; i += 8) {
        f32x8 a = load_first(dgate + i, n - i), b = load_first(dup + i, n - i);
        const f32x8 dy = load_first(d + i, n - i), g = load_first(gate + i, n - i),
                    u = load_first(up + i, n - i);
        silu_back_4(&a.lo, &b.lo, dy.lo, g.lo, u.lo);
        silu_back_4(&a.hi, &b.hi, dy.hi, g.hi, u.hi);
        store_first(dgate + i, n - i, a);
        store_first(dup + i, n - i, b);
    }
}

PARE_INLINE float64x2_t pairs(float32x4_t v)
{
    return vreinterpretq_f64_f32(v);
}

PARE_INLINE void store_pairs(float *p, float64x2_t v)
{
    vst1q_f32(p, vreinterpretq_f32_f64(v));
}

PARE_INLINE void transpose_4x4(float *dst, size_t ldd, const float *src, size_t lds)
{
    const float32x4_t a = vld1q_f32(src), b = vld1q_f32(src + lds), c = vld1q_f32(src + 2 * lds),
                      d = vld1q_f32(src + 3 * lds);
    const float64x2_t ab0 = pairs(vzip1q_f32(a, b)), ab1 = pairs(vzip2q_f32(a, b)),
                      cd0 = pairs(vzip1q_f32(c, d)), cd1 = pairs(vzip2q_f32(c, d));
    store_pairs(dst, vzip1q_f64(ab0, cd0));
    store_pairs(dst + ldd, vzip2q_f64(ab0, cd0));
    store_pairs(dst + 2 * ldd, vzip1q_f64(ab1, cd1));
    store_pairs(dst + 3 * ldd, vzip2q_f64(ab1, cd1));
}

void pare_transpose_f32_neon(float *dst, size_t ldd, const float *src, size_t lds, size_t m,
                             size_t n)
{
    const size_t rows = m / 4 * 4, columns = n / 4 * 4;
    for (size_t i = 0; i < rows; i += 4)
        for (size_t j = 0; j < columns; j += 4)
            transpose_4x4(dst + j * ldd + i, ldd, src + i * lds + j, lds);
    for (size_t i = 0; i < m; i++)
        for (size_t j = i < rows ? columns : 0; j < n; j++)
            dst[j * ldd + i] = src[i * lds + j];
}

#endif
