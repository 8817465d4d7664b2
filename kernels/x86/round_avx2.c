/* Rounding to nearest: the range of a group, its codes, and what they cost. */
#include "kernels/grid_code.h"
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

typedef struct clip {
    __m256 scale, zero, top, range;
} clip;

/* u / 5 of 32 bits: the upper part of the product with 2^34 / 5, rounded up. */
PARE_INLINE __m256i fifth(__m256i u)
{
    const __m256i by = _mm256_set1_epi32((int)0xCCCCCCCDU);
    const __m256i even = _mm256_srli_epi64(_mm256_mul_epu32(u, by), 34);
    const __m256i odd = _mm256_srli_epi64(_mm256_mul_epu32(_mm256_srli_epi64(u, 32), by), 34);
    return _mm256_or_si256(even, _mm256_slli_epi64(odd, 32));
}

/* pare_power_2_4 of eight. */
PARE_INLINE __m256 power_2_4(__m256 x)
{
    const __m256 a = _mm256_add_ps(_mm256_mul_ps(x, x), _mm256_set1_ps(PARE_POWER_TINY));
    const __m256i root =
        _mm256_sub_epi32(_mm256_set1_epi32(PARE_POWER_ROOT), fifth(_mm256_castps_si256(a)));
    __m256 r = _mm256_castsi256_ps(root);
    for (int i = 0; i < 3; i++) {
        const __m256 r2 = _mm256_mul_ps(r, r);
        const __m256 fifth_power = _mm256_mul_ps(_mm256_mul_ps(a, r2), _mm256_mul_ps(r2, r));
        r = _mm256_mul_ps(r, _mm256_sub_ps(_mm256_set1_ps(1.2F),
                                           _mm256_mul_ps(_mm256_set1_ps(0.2F), fifth_power)));
    }
    const __m256 t = _mm256_mul_ps(a, _mm256_mul_ps(r, r));
    return _mm256_mul_ps(t, t);
}

/* Of eight weights; `by` is what their errors cost, or NULL. */
PARE_INLINE __m256 clip_terms(__m256 w, const float *by, const clip *c)
{
    const __m256 magic = _mm256_set1_ps(12582912.0F);
    __m256 t = _mm256_div_ps(w, c->scale);
    t = _mm256_max_ps(_mm256_min_ps(t, _mm256_set1_ps(512)), _mm256_set1_ps(-512));
    t = _mm256_add_ps(_mm256_sub_ps(_mm256_add_ps(t, magic), magic), c->zero);
    t = _mm256_max_ps(_mm256_min_ps(t, c->top), _mm256_setzero_ps());
    const __m256 value = _mm256_mul_ps(_mm256_sub_ps(t, c->zero), c->scale);
    const __m256 e = _mm256_div_ps(_mm256_sub_ps(w, value), c->range);
    return by ? _mm256_mul_ps(_mm256_loadu_ps(by), _mm256_mul_ps(e, e)) : power_2_4(e);
}

/* Of up to eight weights; the other lanes are 0. */
PARE_INLINE __m256 clip_tail(const float *w, const float *weight, size_t n, const clip *c)
{
    float tail[8] = {0}, by[8] = {0};
    memcpy(tail, w, n * sizeof *w);
    if (weight)
        memcpy(by, weight, n * sizeof *by);
    const __m256i there =
        _mm256_cmpgt_epi32(_mm256_set1_epi32((int)n), _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
    return _mm256_and_ps(clip_terms(_mm256_loadu_ps(tail), weight ? by : NULL, c),
                         _mm256_castsi256_ps(there));
}

PARE_INLINE float total(__m256 v)
{
    __m128 h = _mm_add_ps(_mm256_castps256_ps128(v), _mm256_extractf128_ps(v, 1));
    h = _mm_add_ps(h, _mm_movehl_ps(h, h));
    return _mm_cvtss_f32(_mm_add_ss(h, _mm_movehdup_ps(h)));
}

/* Roughly x^(1/6), x above 0. */
static float sixth_root(float x)
{
    uint32_t u;
    memcpy(&u, &x, sizeof u);
    u = u / 6 + 0x34EAAAAAU;
    memcpy(&x, &u, sizeof x);
    return x;
}

/* Whether the sum of |e|^2.4 is clearly too large, by the sum of the squares a, which takes a fifth
 * of the time: a^1.2 lies above each of its tangents, 1.2 q a - 0.2 q^6 at a = q^5. Quotients are
 * products here, which moves a square by less than a thousandth. */
PARE_INLINE bool too_much(const float *w, size_t n, const clip *p, double enough)
{
    const __m256 magic = _mm256_set1_ps(12582912.0F), zero = p->zero, scale = p->scale;
    const __m256 by = _mm256_div_ps(_mm256_set1_ps(1), scale);
    const __m256 up = _mm256_sub_ps(p->top, zero), down = _mm256_sub_ps(_mm256_setzero_ps(), zero);
    const double q = (double)sixth_root((float)(enough / (double)n)),
                 whole = _mm256_cvtss_f32(p->range);
    __m256 sum[2] = {_mm256_setzero_ps(), _mm256_setzero_ps()};
    for (size_t i = 0; i + 16 <= n; i += 16)
        for (size_t h = 0; h < 2; h++) {
            const __m256 x = _mm256_loadu_ps(w + i + 8 * h);
            __m256 t = _mm256_sub_ps(_mm256_add_ps(_mm256_mul_ps(x, by), magic), magic);
            t = _mm256_max_ps(_mm256_min_ps(t, up), down);
            const __m256 d = _mm256_fnmadd_ps(t, scale, x);
            sum[h] = _mm256_fmadd_ps(d, d, sum[h]);
        }
    const double squares = (double)total(_mm256_add_ps(sum[0], sum[1])) / (whole * whole);
    return 1.2 * 0.999 * q * squares - 0.2 * (double)n * (q * q * q) * (q * q * q) > enough;
}

/* No term is negative: a sum of half a piece that is clearly too large ends it, too. */
PARE_INLINE double clip_sum(const float *w, const float *weight, size_t n, const clip *restrict p,
                            double enough)
{
    enum { PIECE = 64, HALF = 32 };
    const clip c = *p;
    double sum = 0;
    for (size_t i = 0; i < n && sum < enough;) {
        const size_t end = n - i < PIECE ? n : i + PIECE;
        __m256 terms = _mm256_setzero_ps();
        for (; i + HALF <= end; i += HALF) {
            for (size_t j = i; j < i + HALF; j += 8)
                terms = _mm256_add_ps(
                    terms, clip_terms(_mm256_loadu_ps(w + j), weight ? weight + j : NULL, &c));
            if (sum + (double)total(terms) * 0.9999 > enough)
                return enough;
        }
        for (; i < end; i += 8)
            terms = _mm256_add_ps(
                terms, clip_tail(w + i, weight ? weight + i : NULL, end - i < 8 ? end - i : 8, &c));
        float lane[8];
        _mm256_storeu_ps(lane, terms);
        for (size_t l = 0; l < 8; l++)
            sum += (double)lane[l];
        i = end;
    }
    return sum < enough ? sum : enough;
}

double pare_clip_cost_avx2(const float *w, const float *weight, size_t n, float scale, uint8_t zero,
                           unsigned bits, float whole, double enough)
{
    const clip c = {_mm256_set1_ps(scale), _mm256_set1_ps((float)zero),
                    _mm256_set1_ps((float)((1u << bits) - 1)), _mm256_set1_ps(whole)};
    if (!(scale > 0 || scale < 0))
        return pare_clip_cost_ref(w, weight, n, scale, zero, bits, whole, enough);
    if (weight)
        return clip_sum(w, weight, n, &c, enough);
    return enough > 0 && enough < FLT_MAX && too_much(w, n, &c, enough)
               ? enough
               : clip_sum(w, NULL, n, &c, enough);
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
