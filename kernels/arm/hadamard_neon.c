#include "kernels/arm/neon_internal.h"

#ifdef __aarch64__

PARE_INLINE f32x8 add_8(f32x8 a, f32x8 b)
{
    return (f32x8){vaddq_f32(a.lo, b.lo), vaddq_f32(a.hi, b.hi)};
}

PARE_INLINE f32x8 sub_8(f32x8 a, f32x8 b)
{
    return (f32x8){vsubq_f32(a.lo, b.lo), vsubq_f32(a.hi, b.hi)};
}

PARE_INLINE float64x2_t pairs(float32x4_t v)
{
    return vreinterpretq_f64_f32(v);
}

/* Butterflies at distance 1, 2 and 4: partners are brought into the same lane of two registers. */
PARE_INLINE f32x8 inside(f32x8 v)
{
    float32x4_t a = vuzp1q_f32(v.lo, v.hi), b = vuzp2q_f32(v.lo, v.hi);
    float32x4_t sum = vaddq_f32(a, b), less = vsubq_f32(a, b);
    const float32x4_t lo = vzip1q_f32(sum, less), hi = vzip2q_f32(sum, less);
    a = vreinterpretq_f32_f64(vzip1q_f64(pairs(lo), pairs(hi)));
    b = vreinterpretq_f32_f64(vzip2q_f64(pairs(lo), pairs(hi)));
    sum = vaddq_f32(a, b);
    less = vsubq_f32(a, b);
    a = vreinterpretq_f32_f64(vzip1q_f64(pairs(sum), pairs(less)));
    b = vreinterpretq_f32_f64(vzip2q_f64(pairs(sum), pairs(less)));
    return (f32x8){vaddq_f32(a, b), vsubq_f32(a, b)};
}

/* Distance h. */
PARE_INLINE void pair(float *x, size_t n, size_t h)
{
    for (size_t i = 0; i < n; i += 2 * h)
        for (size_t j = i; j < i + h; j += 8) {
            const f32x8 a = load_8(x + j), b = load_8(x + j + h);
            store_8(x + j, add_8(a, b));
            store_8(x + j + h, sub_8(a, b));
        }
}

/* Distances h and 2h in one pass over memory. */
PARE_INLINE void two_pairs(float *x, size_t n, size_t h)
{
    for (size_t i = 0; i < n; i += 4 * h)
        for (float *p = x + i; p < x + i + h; p += 8) {
            const f32x8 a = load_8(p), b = load_8(p + h), c = load_8(p + 2 * h),
                        d = load_8(p + 3 * h);
            const f32x8 ab = add_8(a, b), cd = add_8(c, d), a_b = sub_8(a, b), c_d = sub_8(c, d);
            store_8(p, add_8(ab, cd));
            store_8(p + h, add_8(a_b, c_d));
            store_8(p + 2 * h, sub_8(ab, cd));
            store_8(p + 3 * h, sub_8(a_b, c_d));
        }
}

void pare_hadamard_f32_neon(float *x, size_t n, float scale)
{
    if (n < 8) {
        pare_hadamard_f32_ref(x, n, scale);
        return;
    }
    for (size_t i = 0; i < n; i += 8)
        store_8(x + i, inside(load_8(x + i)));
    size_t h = 8;
    for (; 4 * h <= n; h *= 4)
        two_pairs(x, n, h);
    if (h < n)
        pair(x, n, h);
    for (size_t i = 0; i < n; i += 4)
        vst1q_f32(x + i, vmulq_n_f32(vld1q_f32(x + i), scale));
}

/* `have` columns, at most 8: all rows are read before the first is written; four rows of c at a
 * time keep eight sums in flight. */
PARE_INLINE void mix_columns(float *x, size_t n, const float *c, size_t m, size_t have)
{
    f32x8 old[PARE_MIX_MAX];
    for (size_t d = 0; d < m; d++)
        old[d] = load_first(x + d * n, have);
    for (size_t b = 0; b < m; b += 4) {
        const size_t rows = m - b < 4 ? m - b : 4;
        const float *const c0 = c + b * m, *const c1 = c0 + (rows > 1 ? m : 0),
                           *const c2 = c0 + (rows > 2 ? 2 * m : 0),
                           *const c3 = c0 + (rows > 3 ? 3 * m : 0);
        f32x8 acc[4] = {set1_8(0.0f), set1_8(0.0f), set1_8(0.0f), set1_8(0.0f)};
        for (size_t d = 0; d < m; d++) {
            acc[0] = fma_8(set1_8(c0[d]), old[d], acc[0]);
            acc[1] = fma_8(set1_8(c1[d]), old[d], acc[1]);
            acc[2] = fma_8(set1_8(c2[d]), old[d], acc[2]);
            acc[3] = fma_8(set1_8(c3[d]), old[d], acc[3]);
        }
        for (size_t i = 0; i < rows; i++)
            store_first(x + (b + i) * n, have, acc[i]);
    }
}

void pare_mix_f32_neon(float *x, size_t n, const float *c, size_t m)
{
    size_t j = 0;
    for (; j + 8 <= n; j += 8)
        mix_columns(x + j, n, c, m, 8);
    if (j < n)
        mix_columns(x + j, n, c, m, n - j);
}

#endif
