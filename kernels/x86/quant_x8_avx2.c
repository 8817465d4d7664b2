#include "kernels/x86/avx2_internal.h"

#ifdef __AVX2__
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

/* min and max give their second operand for a NaN: it becomes 127, as in the reference. */
PARE_INLINE __m256i codes_of(const float *x, __m256 inv)
{
    const __m256 q = _mm256_round_ps(_mm256_mul_ps(_mm256_loadu_ps(x), inv),
                                     _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
    return _mm256_cvttps_epi32(
        _mm256_max_ps(_mm256_min_ps(q, _mm256_set1_ps(127.0f)), _mm256_set1_ps(-127.0f)));
}

/* Codes of 32 values; returns eight partial sums of them. */
PARE_INLINE __m256i quant_32(int8_t *codes, const float *x, __m256 inv)
{
    const __m256i a = codes_of(x, inv), b = codes_of(x + 8, inv), c = codes_of(x + 16, inv),
                  d = codes_of(x + 24, inv);
    const __m256i packed = _mm256_packs_epi16(_mm256_packs_epi32(a, b), _mm256_packs_epi32(c, d));
    const __m256i order = _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7);
    _mm256_storeu_si256((__m256i *)(void *)codes, _mm256_permutevar8x32_epi32(packed, order));
    return _mm256_add_epi32(_mm256_add_epi32(a, b), _mm256_add_epi32(c, d));
}

static void quant_group(int8_t *codes, float *scale, int32_t *sum, const float *x, size_t n)
{
    const float a = group_max(x, n), inv = 127.0f / a;
    *sum = 0;
    *scale = isinf(inv) ? 0.0f : a / 127.0f;
    memset(codes, 0, pare_round_up(n, PARE_ATOM_K));
    if (!isfinite(inv))
        return;
    const __m256 v = _mm256_set1_ps(inv);
    __m256i sums = _mm256_setzero_si256();
    size_t i = 0;
    for (; i + 32 <= n; i += 32)
        sums = _mm256_add_epi32(sums, quant_32(codes + i, x + i, v));
    if (i < n) {
        float tail[32] = {0};
        memcpy(tail, x + i, (n - i) * sizeof *x);
        sums = _mm256_add_epi32(sums, quant_32(codes + i, tail, v));
    }
    int32_t lane[8];
    _mm256_storeu_si256((__m256i *)(void *)lane, sums);
    for (size_t l = 0; l < 8; l++)
        *sum += lane[l];
}

void pare_quant_x8_avx2(int8_t *codes, float *scales, int32_t *sums, const float *x, size_t k,
                        size_t group)
{
    for (size_t i = 0, b = 0; i < k; i += group, b++)
        quant_group(codes + i, scales + b, sums + b, x + i, k - i < group ? k - i : group);
}

#endif
