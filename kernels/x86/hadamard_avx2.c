#include "kernels/x86/avx2_internal.h"

#ifdef __AVX2__

/* Butterflies at distance 1, 2 and 4, inside one vector: the lane with the bit set takes its
 * partner minus itself. */
PARE_INLINE __m256 inside(__m256 v)
{
    __m256 t = _mm256_permute_ps(v, 0xb1);
    v = _mm256_blend_ps(_mm256_add_ps(v, t), _mm256_sub_ps(t, v), 0xaa);
    t = _mm256_permute_ps(v, 0x4e);
    v = _mm256_blend_ps(_mm256_add_ps(v, t), _mm256_sub_ps(t, v), 0xcc);
    t = _mm256_permute2f128_ps(v, v, 1);
    return _mm256_blend_ps(_mm256_add_ps(v, t), _mm256_sub_ps(t, v), 0xf0);
}

/* Distance h. */
PARE_INLINE void pair(float *x, size_t n, size_t h)
{
    for (size_t i = 0; i < n; i += 2 * h)
        for (size_t j = i; j < i + h; j += 8) {
            const __m256 a = _mm256_loadu_ps(x + j), b = _mm256_loadu_ps(x + j + h);
            _mm256_storeu_ps(x + j, _mm256_add_ps(a, b));
            _mm256_storeu_ps(x + j + h, _mm256_sub_ps(a, b));
        }
}

/* Distances h and 2h in one pass over memory. */
PARE_INLINE void two_pairs(float *x, size_t n, size_t h)
{
    for (size_t i = 0; i < n; i += 4 * h)
        for (float *p = x + i; p < x + i + h; p += 8) {
            const __m256 a = _mm256_loadu_ps(p), b = _mm256_loadu_ps(p + h),
                         c = _mm256_loadu_ps(p + 2 * h), d = _mm256_loadu_ps(p + 3 * h);
            const __m256 ab = _mm256_add_ps(a, b), cd = _mm256_add_ps(c, d),
                         a_b = _mm256_sub_ps(a, b), c_d = _mm256_sub_ps(c, d);
            _mm256_storeu_ps(p, _mm256_add_ps(ab, cd));
            _mm256_storeu_ps(p + h, _mm256_add_ps(a_b, c_d));
            _mm256_storeu_ps(p + 2 * h, _mm256_sub_ps(ab, cd));
            _mm256_storeu_ps(p + 3 * h, _mm256_sub_ps(a_b, c_d));
        }
}

void pare_hadamard_f32_avx2(float *x, size_t n, float scale)
{
    if (n < 8) {
        pare_hadamard_f32_ref(x, n, scale);
        return;
    }
    for (size_t i = 0; i < n; i += 8)
        _mm256_storeu_ps(x + i, inside(_mm256_loadu_ps(x + i)));
    size_t h = 8;
    for (; 4 * h <= n; h *= 4)
        two_pairs(x, n, h);
    if (h < n)
        pair(x, n, h);
    const __m256 s = _mm256_set1_ps(scale);
    for (size_t i = 0; i < n; i += 8)
        _mm256_storeu_ps(x + i, _mm256_mul_ps(_mm256_loadu_ps(x + i), s));
}

/* Eight columns: all rows are read before the first is written; four rows of c at a time keep four
 * sums in flight. */
PARE_INLINE void mix_columns(float *x, size_t n, const float *c, size_t m, __m256i mask)
{
    __m256 old[PARE_MIX_MAX];
    for (size_t d = 0; d < m; d++)
        old[d] = _mm256_maskload_ps(x + d * n, mask);
    for (size_t b = 0; b < m; b += 4) {
        const size_t rows = m - b < 4 ? m - b : 4;
        const float *const c0 = c + b * m, *const c1 = c0 + (rows > 1 ? m : 0),
                           *const c2 = c0 + (rows > 2 ? 2 * m : 0),
                           *const c3 = c0 + (rows > 3 ? 3 * m : 0);
        __m256 acc[4] = {_mm256_setzero_ps(), _mm256_setzero_ps(), _mm256_setzero_ps(),
                         _mm256_setzero_ps()};
        for (size_t d = 0; d < m; d++) {
            acc[0] = _mm256_fmadd_ps(_mm256_broadcast_ss(c0 + d), old[d], acc[0]);
            acc[1] = _mm256_fmadd_ps(_mm256_broadcast_ss(c1 + d), old[d], acc[1]);
            acc[2] = _mm256_fmadd_ps(_mm256_broadcast_ss(c2 + d), old[d], acc[2]);
            acc[3] = _mm256_fmadd_ps(_mm256_broadcast_ss(c3 + d), old[d], acc[3]);
        }
        for (size_t i = 0; i < rows; i++)
            _mm256_maskstore_ps(x + (b + i) * n, mask, acc[i]);
    }
}

void pare_mix_f32_avx2(float *x, size_t n, const float *c, size_t m)
{
    for (size_t j = 0; j < n; j += 8)
        mix_columns(x + j, n, c, m, mask_first(n - j < 8 ? n - j : 8));
}

#endif
