/* Rounding to nearest: the range of a group, its codes, and their errors. */
#include "kernels/x86/avx2_internal.h"

#ifdef __AVX2__
#include <float.h>

enum { AHEAD = 4096 /* bytes of prefetch distance: callers go through a matrix piece by piece */ };

PARE_INLINE void fetch(const float *x)
{
    _mm_prefetch((const char *)x + AHEAD, _MM_HINT_T0);
}

PARE_INLINE float largest(__m256 v)
{
    __m128 h = _mm_max_ps(_mm256_castps256_ps128(v), _mm256_extractf128_ps(v, 1));
    h = _mm_max_ps(h, _mm_movehl_ps(h, h));
    return _mm_cvtss_f32(_mm_max_ss(h, _mm_movehdup_ps(h)));
}

typedef struct range {
    __m256 least[2], most[2], nan;
} range;

/* min and max give their second operand for a NaN and for two zeros: the lanes stay numbers, and
 * never become -0. */
PARE_INLINE void widen_range(range *r, const float *x)
{
    const __m256 v[2] = {_mm256_loadu_ps(x), _mm256_loadu_ps(x + 8)};
    for (size_t h = 0; h < 2; h++) {
        r->least[h] = _mm256_min_ps(v[h], r->least[h]);
        r->most[h] = _mm256_max_ps(v[h], r->most[h]);
    }
    r->nan = _mm256_or_ps(r->nan, _mm256_cmp_ps(v[0], v[1], _CMP_UNORD_Q));
}

bool pare_range_f32_avx2(const float *x, size_t n, float *lo, float *hi)
{
    const __m256 none = _mm256_setzero_ps();
    range r = {{none, none}, {none, none}, none};
    size_t i = 0;
    for (; i + 16 <= n; i += 16) {
        fetch(x + i);
        widen_range(&r, x + i);
    }
    if (i < n) {
        float tail[16] = {0};
        memcpy(tail, x + i, (n - i) * sizeof *x);
        widen_range(&r, tail);
    }
    const __m256 least = _mm256_min_ps(r.least[0], r.least[1]);
    const float down = largest(_mm256_xor_ps(least, _mm256_set1_ps(-0.0f)));
    const float up = largest(_mm256_max_ps(r.most[0], r.most[1]));
    const bool finite = _mm256_movemask_ps(r.nan) == 0 && down <= FLT_MAX && up <= FLT_MAX;
    *lo = finite && down > 0 ? -down : 0;
    *hi = finite ? up : 0;
    return finite;
}

/* rint(x / scale) in 32 bits. min makes a NaN and what is too large 512; what is too small for an
 * integer becomes the least one, which every step behind keeps below 0. */
PARE_INLINE __m256i steps_of(const float *x, __m256 scale)
{
    const __m256 t = _mm256_div_ps(_mm256_loadu_ps(x), scale);
    return _mm256_cvtps_epi32(_mm256_min_ps(t, _mm256_set1_ps(512)));
}

PARE_INLINE __m256i codes_32(const float *x, __m256 scale, __m256i zero, __m256i top)
{
    const __m256i a = _mm256_packs_epi32(steps_of(x, scale), steps_of(x + 8, scale));
    const __m256i b = _mm256_packs_epi32(steps_of(x + 16, scale), steps_of(x + 24, scale));
    const __m256i packed =
        _mm256_packus_epi16(_mm256_adds_epi16(a, zero), _mm256_adds_epi16(b, zero));
    const __m256i order = _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7);
    return _mm256_min_epu8(_mm256_permutevar8x32_epi32(packed, order), top);
}

void pare_round_codes_avx2(uint8_t *codes, const float *x, size_t n, float scale, uint8_t zero,
                           unsigned bits)
{
    const unsigned last = (1u << bits) - 1;
    const __m256 s = _mm256_set1_ps(scale);
    const __m256i z = _mm256_set1_epi16(zero), top = _mm256_set1_epi8((char)last);
    size_t i = 0;
    if (!(scale > 0 || scale < 0)) {
        memset(codes, zero < last ? zero : (int)last, n);
        return;
    }
    for (; i + 32 <= n; i += 32)
        _mm256_storeu_si256((__m256i *)(void *)(codes + i), codes_32(x + i, s, z, top));
    if (i < n) {
        float tail[32] = {0};
        uint8_t code[32];
        memcpy(tail, x + i, (n - i) * sizeof *x);
        _mm256_storeu_si256((__m256i *)(void *)code, codes_32(tail, s, z, top));
        memcpy(codes + i, code, n - i);
    }
}

/* Lanes of eight sums, four in each register. */
typedef struct lanes {
    __m256d sum[2];
} lanes;

PARE_INLINE lanes widen(__m256 v)
{
    return (lanes){
        {_mm256_cvtps_pd(_mm256_castps256_ps128(v)), _mm256_cvtps_pd(_mm256_extractf128_ps(v, 1))}};
}

PARE_INLINE void add_square(__m256d *sum, __m256d v)
{
    *sum = _mm256_add_pd(*sum, _mm256_mul_pd(v, v));
}

/* Sums of eight elements; `whole` is `w` itself when the two are one. */
typedef struct sums {
    lanes wrong, all;
    uint64_t nonzero;
} sums;

PARE_INLINE void add_8(sums *s, __m256 w, __m256 q, __m256 whole)
{
    const lanes a = widen(w), b = widen(q), c = widen(whole);
    for (size_t h = 0; h < 2; h++) {
        add_square(&s->wrong.sum[h], _mm256_sub_pd(a.sum[h], b.sum[h]));
        add_square(&s->all.sum[h], c.sum[h]);
    }
    const __m256 set = _mm256_cmp_ps(q, _mm256_setzero_ps(), _CMP_NEQ_UQ);
    s->nonzero += (uint64_t)__builtin_popcount((unsigned)_mm256_movemask_ps(set));
}

PARE_INLINE void add_all(sums *s, const float *w, const float *q, const float *whole, size_t n)
{
    size_t i = 0;
    for (; i + 8 <= n; i += 8) {
        fetch(w + i);
        fetch(q + i);
        const __m256 v = _mm256_loadu_ps(w + i);
        add_8(s, v, _mm256_loadu_ps(q + i), whole == w ? v : _mm256_loadu_ps(whole + i));
    }
    if (i < n) { /* lanes behind the tail add 0 to sums that are not below 0 */
        const __m256i mask = mask_first(n - i);
        add_8(s, _mm256_maskload_ps(w + i, mask), _mm256_maskload_ps(q + i, mask),
              _mm256_maskload_ps(whole + i, mask));
    }
}

static double in_order(const lanes *l)
{
    double lane[8], sum = 0;
    _mm256_storeu_pd(lane, l->sum[0]);
    _mm256_storeu_pd(lane + 4, l->sum[1]);
    for (size_t i = 0; i < 8; i++)
        sum += lane[i];
    return sum;
}

pare_error_sum pare_error_sums_avx2(const float *w, const float *q, const float *whole, size_t n)
{
    sums s = {.nonzero = 0};
    for (size_t h = 0; h < 2; h++)
        s.wrong.sum[h] = s.all.sum[h] = _mm256_setzero_pd();
    if (whole == w)
        add_all(&s, w, q, w, n);
    else
        add_all(&s, w, q, whole, n);
    return (pare_error_sum){
        .wrong = in_order(&s.wrong), .all = in_order(&s.all), .nonzero = s.nonzero};
}

#endif
