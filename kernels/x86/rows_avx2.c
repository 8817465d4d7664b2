/* Rows between the products: eight elements per step, the tail masked. */
#include "kernels/x86/avx2_internal.h"

#ifdef __AVX2__
#include <assert.h>
#include <math.h>

/* min and max give their second operand for a NaN, which so stays one. */
PARE_INLINE __m256 exp_8(__m256 x)
{
    const __m256 magic = _mm256_set1_ps(0x1.8p23f);
    x = _mm256_max_ps(_mm256_set1_ps(-87.0f), x);
    x = _mm256_min_ps(_mm256_set1_ps(87.0f), x);
    const __m256 shifted = _mm256_fmadd_ps(x, _mm256_set1_ps(1.44269504f), magic);
    const __m256 k = _mm256_sub_ps(shifted, magic);
    __m256 r = _mm256_fmadd_ps(k, _mm256_set1_ps(-0.693359375f), x);
    r = _mm256_fmadd_ps(k, _mm256_set1_ps(2.12194440e-4f), r);
    __m256 p = _mm256_set1_ps(1.98412698e-4f);
    p = _mm256_fmadd_ps(p, r, _mm256_set1_ps(1.38888889e-3f));
    p = _mm256_fmadd_ps(p, r, _mm256_set1_ps(8.33333333e-3f));
    p = _mm256_fmadd_ps(p, r, _mm256_set1_ps(4.16666667e-2f));
    p = _mm256_fmadd_ps(p, r, _mm256_set1_ps(1.66666667e-1f));
    p = _mm256_fmadd_ps(p, r, _mm256_set1_ps(0.5f));
    p = _mm256_fmadd_ps(p, r, _mm256_set1_ps(1.0f));
    p = _mm256_fmadd_ps(p, r, _mm256_set1_ps(1.0f));
    const __m256i power = _mm256_add_epi32(_mm256_castps_si256(shifted), _mm256_set1_epi32(127));
    return _mm256_mul_ps(p, _mm256_castsi256_ps(_mm256_slli_epi32(power, 23)));
}

PARE_INLINE float largest(float first, const float *x, size_t n)
{
    const size_t whole = n / 8 * 8;
    __m256 m = _mm256_set1_ps(first);
    for (size_t i = 0; i < whole; i += 8)
        m = _mm256_max_ps(_mm256_loadu_ps(x + i), m);
    if (whole < n) {
        const __m256i mask = mask_first(n - whole);
        const __m256 v = _mm256_maskload_ps(x + whole, mask);
        m = _mm256_max_ps(_mm256_blendv_ps(m, v, _mm256_castsi256_ps(mask)), m);
    }
    __m128 h = _mm_max_ps(_mm256_extractf128_ps(m, 1), _mm256_castps256_ps128(m));
    h = _mm_max_ps(_mm_movehl_ps(h, h), h);
    return _mm_cvtss_f32(_mm_max_ss(_mm_movehdup_ps(h), h));
}

/* Lanes behind the tail add 0 to sums that are none, or not below 0. */
float pare_softmax_f32_avx2(float *x, size_t n, float scale, float *max, double *total)
{
    assert(n > 0);
    const size_t whole = n / 8 * 8;
    const float m = largest(*max, x, n);
    const __m256 most = _mm256_set1_ps(m), s = _mm256_set1_ps(scale);
    __m256 lanes = _mm256_setzero_ps();
    for (size_t i = 0; i < whole; i += 8) {
        const __m256 e = exp_8(_mm256_mul_ps(_mm256_sub_ps(_mm256_loadu_ps(x + i), most), s));
        _mm256_storeu_ps(x + i, e);
        lanes = _mm256_add_ps(lanes, e);
    }
    if (whole < n) {
        const __m256i mask = mask_first(n - whole);
        const __m256 v = _mm256_maskload_ps(x + whole, mask);
        const __m256 e = exp_8(_mm256_mul_ps(_mm256_sub_ps(v, most), s));
        _mm256_maskstore_ps(x + whole, mask, e);
        lanes = _mm256_add_ps(lanes, _mm256_and_ps(e, _mm256_castsi256_ps(mask)));
    }
    const float shrink =
        *max == m ? 1.0f : _mm256_cvtss_f32(exp_8(_mm256_set1_ps((*max - m) * scale)));
    *total = fma(*total, (double)shrink, (double)lane_sum(lanes));
    *max = m;
    return shrink;
}

PARE_INLINE __m256 silu_8(__m256 g, __m256 up)
{
    const __m256 e = exp_8(_mm256_xor_ps(g, _mm256_set1_ps(-0.0f)));
    return _mm256_mul_ps(_mm256_div_ps(g, _mm256_add_ps(_mm256_set1_ps(1.0f), e)), up);
}

void pare_silu_f32_avx2(float *y, const float *up, size_t n)
{
    size_t i = 0;
    for (; i + 8 <= n; i += 8)
        _mm256_storeu_ps(y + i, silu_8(_mm256_loadu_ps(y + i), _mm256_loadu_ps(up + i)));
    if (i < n) {
        const __m256i mask = mask_first(n - i);
        const __m256 g = _mm256_maskload_ps(y + i, mask), u = _mm256_maskload_ps(up + i, mask);
        _mm256_maskstore_ps(y + i, mask, silu_8(g, u));
    }
}

PARE_INLINE void silu_back_8(__m256 *dgate, __m256 *dup, __m256 d, __m256 g, __m256 up)
{
    const __m256 one = _mm256_set1_ps(1.0f);
    const __m256 e = exp_8(_mm256_xor_ps(g, _mm256_set1_ps(-0.0f)));
    const __m256 s = _mm256_div_ps(one, _mm256_add_ps(one, e));
    const __m256 inner = _mm256_add_ps(one, _mm256_mul_ps(g, _mm256_sub_ps(one, s)));
    *dup = _mm256_add_ps(*dup, _mm256_mul_ps(d, _mm256_mul_ps(g, s)));
    *dgate = _mm256_add_ps(*dgate, _mm256_mul_ps(_mm256_mul_ps(d, up), _mm256_mul_ps(s, inner)));
}

void pare_silu_back_f32_avx2(float *dgate, float *dup, const float *d, const float *gate,
                             const float *up, size_t n)
{
    size_t i = 0;
    for (; i + 8 <= n; i += 8) {
        __m256 a = _mm256_loadu_ps(dgate + i), b = _mm256_loadu_ps(dup + i);
        silu_back_8(&a, &b, _mm256_loadu_ps(d + i), _mm256_loadu_ps(gate + i),
                    _mm256_loadu_ps(up + i));
        _mm256_storeu_ps(dgate + i, a);
        _mm256_storeu_ps(dup + i, b);
    }
    if (i < n) {
        const __m256i mask = mask_first(n - i);
        __m256 a = _mm256_maskload_ps(dgate + i, mask), b = _mm256_maskload_ps(dup + i, mask);
        silu_back_8(&a, &b, _mm256_maskload_ps(d + i, mask), _mm256_maskload_ps(gate + i, mask),
                    _mm256_maskload_ps(up + i, mask));
        _mm256_maskstore_ps(dgate + i, mask, a);
        _mm256_maskstore_ps(dup + i, mask, b);
    }
}

/* Each register takes four columns of rows i and i + 4; then pairs of rows, then fours. */
PARE_INLINE void transpose_8x8(float *dst, size_t ldd, const float *src, size_t lds)
{
    for (size_t h = 0; h < 8; h += 4) {
        __m256 a[4], b[4];
        for (size_t i = 0; i < 4; i++)
            a[i] = _mm256_loadu2_m128(src + (i + 4) * lds + h, src + i * lds + h);
        for (size_t i = 0; i < 4; i += 2) {
            b[i] = _mm256_unpacklo_ps(a[i], a[i + 1]);
            b[i + 1] = _mm256_unpackhi_ps(a[i], a[i + 1]);
        }
        for (size_t j = 0; j < 2; j++) {
            float *const to = dst + (h + 2 * j) * ldd;
            _mm256_storeu_ps(to, _mm256_shuffle_ps(b[j], b[j + 2], 0x44));
            _mm256_storeu_ps(to + ldd, _mm256_shuffle_ps(b[j], b[j + 2], 0xee));
        }
    }
}

void pare_transpose_f32_avx2(float *dst, size_t ldd, const float *src, size_t lds, size_t m,
                             size_t n)
{
    const size_t rows = m / 8 * 8, columns = n / 8 * 8;
    for (size_t i = 0; i < rows; i += 8)
        for (size_t j = 0; j < columns; j += 8)
            transpose_8x8(dst + j * ldd + i, ldd, src + i * lds + j, lds);
    for (size_t i = 0; i < m; i++)
        for (size_t j = i < rows ? columns : 0; j < n; j++)
            dst[j * ldd + i] = src[i * lds + j];
}

#endif
