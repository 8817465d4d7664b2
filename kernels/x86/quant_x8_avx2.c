#include "kernels/x86/avx2_internal.h"

#ifdef __AVX2__
#include <assert.h>
#include <math.h>

#include "kernels/layout.h"

/* Bits of absolute values are in the order of the values, those of a NaN above all. */
PARE_INLINE __m256i max_abs(__m256i acc, __m256 v)
{
    const __m256i bits = _mm256_castps_si256(_mm256_andnot_ps(_mm256_set1_ps(-0.0f), v));
    return _mm256_max_epi32(bits, acc);
}

static float group_max(const float *x, size_t n)
{
    __m256i a = _mm256_setzero_si256(), b = a;
    size_t i = 0;
    for (; i + 16 <= n; i += 16) {
        a = max_abs(a, _mm256_loadu_ps(x + i));
        b = max_abs(b, _mm256_loadu_ps(x + i + 8));
    }
    for (; i < n; i += 8)
        a = max_abs(a, _mm256_maskload_ps(x + i, mask_first(n - i < 8 ? n - i : 8)));
    a = _mm256_max_epi32(a, b);
    __m128i m = _mm_max_epi32(_mm256_castsi256_si128(a), _mm256_extracti128_si256(a, 1));
    m = _mm_max_epi32(m, _mm_unpackhi_epi64(m, m));
    m = _mm_max_epi32(m, _mm_srli_epi64(m, 32));
    return _mm_cvtss_f32(_mm_castsi128_ps(m));
}

/* min and max give their second operand for a NaN: it becomes top, as in the reference. */
PARE_INLINE __m256i codes_of(const float *x, __m256 inv, __m256 top)
{
    const __m256 q = _mm256_round_ps(_mm256_mul_ps(_mm256_loadu_ps(x), inv),
                                     _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
    const __m256 least = _mm256_sub_ps(_mm256_setzero_ps(), top);
    return _mm256_cvttps_epi32(_mm256_max_ps(_mm256_min_ps(q, top), least));
}

/* Codes of 32 values; returns eight partial sums of them. */
PARE_INLINE __m256i quant_32(int8_t *codes, const float *x, __m256 inv, __m256 top)
{
    const __m256i a = codes_of(x, inv, top), b = codes_of(x + 8, inv, top),
                  c = codes_of(x + 16, inv, top), d = codes_of(x + 24, inv, top);
    const __m256i packed = _mm256_packs_epi16(_mm256_packs_epi32(a, b), _mm256_packs_epi32(c, d));
    const __m256i order = _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7);
    _mm256_storeu_si256((__m256i *)(void *)codes, _mm256_permutevar8x32_epi32(packed, order));
    return _mm256_add_epi32(_mm256_add_epi32(a, b), _mm256_add_epi32(c, d));
}

/* Codes of one group, the tail of the last atom 0; returns their sum. */
static int32_t quant_group(int8_t *codes, const float *x, size_t n, float inv, float top)
{
    const __m256 v = _mm256_set1_ps(inv), most = _mm256_set1_ps(top);
    __m256i sums = _mm256_setzero_si256();
    size_t i = 0;
    for (; i + 32 <= n; i += 32)
        sums = _mm256_add_epi32(sums, quant_32(codes + i, x + i, v, most));
    if (i < n) {
        float tail[32] = {0};
        memcpy(tail, x + i, (n - i) * sizeof *x);
        sums = _mm256_add_epi32(sums, quant_32(codes + i, tail, v, most));
    }
    int32_t lane[8], sum = 0;
    _mm256_storeu_si256((__m256i *)(void *)lane, sums);
    for (size_t l = 0; l < 8; l++)
        sum += lane[l];
    return sum;
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

void pare_quant_x8_avx2(int8_t *codes, float *scales, int32_t *sums, const float *x, size_t k,
                        size_t group, size_t span, int32_t top)
{
    assert(span % group == 0 || span >= k);
    for (size_t i = 0; i < k; i += span) {
        const size_t n = k - i < span ? k - i : span, b = i / group;
        const float a = group_max(x + i, n), most = (float)top;
        quant_span(codes + i, scales + b, sums + b, x + i, n, group, a / most, most / a, most);
    }
}

void pare_quant_x8_fixed_avx2(int8_t *codes, float *scales, int32_t *sums, const float *x, size_t k,
                              size_t group, float step, int32_t top)
{
    const int finite = isfinite(group_max(x, k));
    quant_span(codes, scales, sums, x, k, group, finite ? step : (float)NAN,
               finite ? 1.0f / step : (float)NAN, (float)top);
}

/* A NaN is the second operand, and so stays out. */
PARE_INLINE float largest(const float *x, size_t n)
{
    const __m256 sign = _mm256_set1_ps(-0.0f);
    __m256 a = _mm256_setzero_ps(), b = a;
    size_t i = 0;
    for (; i + 16 <= n; i += 16) {
        a = _mm256_max_ps(_mm256_andnot_ps(sign, _mm256_loadu_ps(x + i)), a);
        b = _mm256_max_ps(_mm256_andnot_ps(sign, _mm256_loadu_ps(x + i + 8)), b);
    }
    for (; i < n; i += 8) {
        const __m256 v = _mm256_maskload_ps(x + i, mask_first(n - i < 8 ? n - i : 8));
        a = _mm256_max_ps(_mm256_andnot_ps(sign, v), a);
    }
    a = _mm256_max_ps(a, b);
    __m128 m = _mm_max_ps(_mm256_castps256_ps128(a), _mm256_extractf128_ps(a, 1));
    m = _mm_max_ps(m, _mm_movehl_ps(m, m));
    return _mm_cvtss_f32(_mm_max_ss(m, _mm_movehdup_ps(m)));
}

/* pare_round_e4m3 of eight. */
PARE_INLINE __m256 round_e4m3_8(__m256 t)
{
    const __m256 sign = _mm256_set1_ps(-0.0f), far = _mm256_set1_ps(0x1p23f);
    const __m256 abs = _mm256_andnot_ps(sign, t);
    const __m256i size = _mm256_castps_si256(abs);
    const __m256i odd = _mm256_and_si256(_mm256_srli_epi32(size, 20), _mm256_set1_epi32(1));
    const __m256i up = _mm256_add_epi32(_mm256_add_epi32(size, _mm256_set1_epi32(0x7FFFF)), odd);
    const __m256i whole = _mm256_and_si256(up, _mm256_set1_epi32(-0x100000));
    const __m256 steps = _mm256_mul_ps(abs, _mm256_set1_ps(0x1p9f));
    const __m256 small =
        _mm256_mul_ps(_mm256_sub_ps(_mm256_add_ps(steps, far), far), _mm256_set1_ps(0x1p-9f));
    __m256 r = _mm256_blendv_ps(_mm256_castsi256_ps(whole), small,
                                _mm256_cmp_ps(abs, _mm256_set1_ps(0x1p-6f), _CMP_LT_OQ));
    r = _mm256_blendv_ps(r, abs, _mm256_cmp_ps(t, t, _CMP_UNORD_Q));
    return _mm256_or_ps(r, _mm256_and_ps(sign, t));
}

void pare_round_fp8_avx2(float *dst, const float *x, size_t n)
{
    const float scale = largest(x, n) / 448;
    const __m256 s = _mm256_set1_ps(scale);
    size_t i = 0;
    if (!(scale > 0)) {
        memcpy(dst, x, n * sizeof *x);
        return;
    }
    for (; i + 8 <= n; i += 8) {
        const __m256 t = _mm256_div_ps(_mm256_loadu_ps(x + i), s);
        _mm256_storeu_ps(dst + i, _mm256_mul_ps(round_e4m3_8(t), s));
    }
    if (i < n) {
        const __m256i mask = mask_first(n - i);
        const __m256 t = _mm256_div_ps(_mm256_maskload_ps(x + i, mask), s);
        _mm256_maskstore_ps(dst + i, mask, _mm256_mul_ps(round_e4m3_8(t), s));
    }
}

#endif
