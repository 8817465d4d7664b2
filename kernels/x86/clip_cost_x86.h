/* kernels/x86/clip_cost_x86.h - what AVX2 and AVX-512 share of clip_cost. V(op) names an
 * instruction, vecf is its vector of floats; a file that includes this first defines load_first,
 * keep_first, add_lanes, fold and first_root. */
#ifndef PARE_KERNELS_X86_CLIP_COST_X86_H
#define PARE_KERNELS_X86_CLIP_COST_X86_H

#include "kernels/grid_code.h"
#include "kernels/x86/avx2_internal.h"

#ifdef V

enum { WIDTH = sizeof(vecf) / sizeof(float) };

typedef struct clip {
    vecf scale, zero, top, range;
    float whole; /* range */
} clip;

PARE_INLINE float lanes_sum(__m256 v)
{
    __m128 h = _mm_add_ps(_mm256_castps256_ps128(v), _mm256_extractf128_ps(v, 1));
    h = _mm_add_ps(h, _mm_movehl_ps(h, h));
    return _mm_cvtss_f32(_mm_add_ss(h, _mm_movehdup_ps(h)));
}

/* pare_power_2_4 of a vector. */
PARE_INLINE vecf power_2_4(vecf x)
{
    const vecf a = V(add_ps)(V(mul_ps)(x, x), V(set1_ps)(PARE_POWER_TINY));
    vecf r = first_root(a);
    for (int i = 0; i < 3; i++) {
        const vecf r2 = V(mul_ps)(r, r);
        const vecf fifth_power = V(mul_ps)(V(mul_ps)(a, r2), V(mul_ps)(r2, r));
        r = V(mul_ps)(r, V(sub_ps)(V(set1_ps)(1.2F), V(mul_ps)(V(set1_ps)(0.2F), fifth_power)));
    }
    const vecf t = V(mul_ps)(a, V(mul_ps)(r, r));
    return V(mul_ps)(t, t);
}

/* What n weights cost, at most a vector; `by` is what their errors cost, or NULL. Other lanes are
 * 0. */
PARE_INLINE vecf clip_terms(const float *w, const float *by, size_t n, const clip *c)
{
    const vecf magic = V(set1_ps)(12582912.0F);
    const vecf x = n < WIDTH ? load_first(w, n) : V(loadu_ps)(w);
    vecf t = V(div_ps)(x, c->scale);
    t = V(max_ps)(V(min_ps)(t, V(set1_ps)(512)), V(set1_ps)(-512));
    t = V(add_ps)(V(sub_ps)(V(add_ps)(t, magic), magic), c->zero);
    t = V(max_ps)(V(min_ps)(t, c->top), V(setzero_ps)());
    const vecf value = V(mul_ps)(V(sub_ps)(t, c->zero), c->scale);
    const vecf e = V(div_ps)(V(sub_ps)(x, value), c->range);
    if (by)
        return V(mul_ps)(n < WIDTH ? load_first(by, n) : V(loadu_ps)(by), V(mul_ps)(e, e));
    return n < WIDTH ? keep_first(power_2_4(e), n) : power_2_4(e);
}

/* Roughly x^(1/6), x above 0. */
PARE_INLINE float sixth_root(float x)
{
    uint32_t u;
    memcpy(&u, &x, sizeof u);
    u = u / 6 + 0x34EAAAAAU;
    memcpy(&x, &u, sizeof x);
    return x;
}

/* Constants of a sum of squares whose quotients are products, which moves a square by less than a
 * thousandth: a code that comes out as another one lies as far from its weight, but for less. */
typedef struct squares {
    vecf by, up, down, per;
} squares;

PARE_INLINE squares squares_of(const clip *c)
{
    const vecf one = V(set1_ps)(1);
    return (squares){.by = V(div_ps)(one, c->scale),
                     .up = V(sub_ps)(c->top, c->zero),
                     .down = V(sub_ps)(V(setzero_ps)(), c->zero),
                     .per = V(div_ps)(one, c->range)};
}

/* The error of a vector of weights, not yet divided by the range. */
PARE_INLINE vecf rough_error(vecf x, const squares *s, vecf scale)
{
    const vecf magic = V(set1_ps)(12582912.0F);
    vecf t = V(sub_ps)(V(add_ps)(V(mul_ps)(x, s->by), magic), magic);
    t = V(max_ps)(V(min_ps)(t, s->up), s->down);
    return V(sub_ps)(x, V(mul_ps)(t, scale));
}

/* Whether the sum of |e|^2.4 is clearly too large, by the sum of the squares a, which takes a fifth
 * of the time: a^1.2 lies above each of its tangents, 1.2 q a - 0.2 q^6 at a = q^5. */
PARE_INLINE bool too_much(const float *w, size_t n, const clip *c, double enough)
{
    const squares s = squares_of(c);
    const double q = (double)sixth_root((float)(enough / (double)n)), whole = (double)c->whole;
    vecf sum[2] = {V(setzero_ps)(), V(setzero_ps)()};
    for (size_t i = 0; i + 2 * WIDTH <= n; i += 2 * WIDTH)
        for (size_t h = 0; h < 2; h++) {
            const vecf d = rough_error(V(loadu_ps)(w + i + WIDTH * h), &s, c->scale);
            sum[h] = V(fmadd_ps)(d, d, sum[h]);
        }
    const double part = (double)lanes_sum(fold(V(add_ps)(sum[0], sum[1]))) / (whole * whole);
    return 1.2 * 0.999 * q * part - 0.2 * (double)n * (q * q * q) * (q * q * q) > enough;
}

/* The same of weight e^2. Squares that are rounded as they are no normal numbers count as none:
 * what is taken away is nothing beside others. */
PARE_INLINE bool too_dear(const float *w, const float *weight, size_t n, const clip *c,
                          double enough)
{
    enum { STOP = 256 };
    const squares s = squares_of(c);
    const vecf tiny = V(set1_ps)(0x1p-100F);
    double all = 0;
    for (size_t i = 0; i + 2 * WIDTH <= n && !(all > enough);) {
        const size_t end = n - i < STOP ? n : i + STOP;
        vecf sum[2] = {V(setzero_ps)(), V(setzero_ps)()};
        for (; i + 2 * WIDTH <= end; i += 2 * WIDTH)
            for (size_t h = 0; h < 2; h++) {
                const size_t at = i + WIDTH * h;
                const vecf d = rough_error(V(loadu_ps)(w + at), &s, c->scale);
                const vecf e = V(mul_ps)(d, s.per);
                sum[h] = V(fmadd_ps)(V(loadu_ps)(weight + at), V(fmsub_ps)(e, e, tiny), sum[h]);
            }
        all += 0.999 * (double)lanes_sum(fold(V(add_ps)(sum[0], sum[1])));
    }
    return all > enough;
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
            for (size_t j = i; j < i + HALF; j += WIDTH)
                terms = add_lanes(terms, clip_terms(w + j, weight ? weight + j : NULL, WIDTH, &c));
            if (sum + (double)lanes_sum(terms) * 0.9999 > enough)
                return enough;
        }
        for (; i < end; i += WIDTH)
            terms = add_lanes(terms, clip_terms(w + i, weight ? weight + i : NULL,
                                                end - i < WIDTH ? end - i : WIDTH, &c));
        float lane[8];
        _mm256_storeu_ps(lane, terms);
        for (size_t l = 0; l < 8; l++)
            sum += (double)lane[l];
        i = end;
    }
    return sum < enough ? sum : enough;
}

/* Whether quotients and squares of errors, divided by the range or not, stay so far inside F32 that
 * they are off by no more than rounding. Scales of F16 always do. */
PARE_INLINE bool plain(float scale, float whole, double enough)
{
    const float size = scale < 0 ? -scale : scale;
    return size >= 1e-30F && whole >= 1e-5F && whole <= 1e10F && enough > 1e-30 && enough < 1e30;
}

PARE_INLINE double clip_cost(const float *w, const float *weight, size_t n, float scale,
                             uint8_t zero, unsigned bits, float whole, double enough)
{
    const clip c = {V(set1_ps)(scale), V(set1_ps)((float)zero),
                    V(set1_ps)((float)((1u << bits) - 1)), V(set1_ps)(whole), whole};
    if (!(scale > 0 || scale < 0))
        return pare_clip_cost_ref(w, weight, n, scale, zero, bits, whole, enough);
    if (!plain(scale, whole, enough))
        return weight ? clip_sum(w, weight, n, &c, enough) : clip_sum(w, NULL, n, &c, enough);
    if (weight)
        return too_dear(w, weight, n, &c, enough) ? enough : clip_sum(w, weight, n, &c, enough);
    return too_much(w, n, &c, enough) ? enough : clip_sum(w, NULL, n, &c, enough);
}

#endif

#endif
