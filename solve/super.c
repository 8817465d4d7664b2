/* Trials are cheap and many: an error is one pass over 16 or 32 weights in eight lanes. */
#include "solve/super.h"

#include <float.h>
#include <math.h>
#include <string.h>

#include "kernels/half.h"

enum { LANES = 8, SUB_MOST = 32, SUBS_MOST = 16, ROUNDS = 4 };

#define F16_MAX 65504.0F
/* No scale in F16 reaches that far, and squares of what lies further would leave F32. */
#define BEYOND (128 * 32 * F16_MAX)

/* Some weights on some grid. */
typedef struct piece {
    const float *w, *v;
    size_t n;
    int zero, top;
} piece;

static float sum_of(const float lane[LANES])
{
    return ((lane[0] + lane[4]) + (lane[2] + lane[6])) +
           ((lane[1] + lane[5]) + (lane[3] + lane[7]));
}

/* Codes less zero of the nearest values, in F32; inverse = 1 / step, or 0. */
static inline float round_one(const piece *p, float w, float inverse, float least)
{
    const float magic = 12582912.0F, low = (float)-p->zero, high = (float)(p->top - p->zero);
    float t = (w + least) * inverse;
    t = t < high ? t : high;
    t = t > low ? t : low;
    return (t + magic) - magic;
}

static float inverse_of(float step)
{
    const float x = step != 0 ? 1 / step : 0;
    return fabsf(x) <= FLT_MAX ? x : 0;
}

/* sum v (w - value)^2 */
static float error_of(const piece *p, float step, float least)
{
    const float inverse = inverse_of(step);
    float lane[LANES] = {0};
    for (size_t j = 0; j < p->n; j += LANES)
        for (size_t l = 0; l < LANES; l++) {
            const float w = p->w[j + l], q = round_one(p, w, inverse, least);
            const float e = (step * q - least) - w;
            lane[l] += p->v[j + l] * (e * e);
        }
    return sum_of(lane);
}

/* Sums for least squares over x ~ a q - b. */
typedef struct sums {
    float v, q, qq, x, xq;
} sums;

static sums sums_of(const piece *p, float step, float least)
{
    const float inverse = inverse_of(step);
    float v[LANES] = {0}, q[LANES] = {0}, qq[LANES] = {0}, x[LANES] = {0}, xq[LANES] = {0};
    for (size_t j = 0; j < p->n; j += LANES)
        for (size_t l = 0; l < LANES; l++) {
            const float w = p->w[j + l], c = p->v[j + l], t = round_one(p, w, inverse, least);
            const float cq = c * t;
            v[l] += c;
            x[l] += c * w;
            q[l] += cq;
            qq[l] += cq * t;
            xq[l] += cq * w;
        }
    return (sums){sum_of(v), sum_of(q), sum_of(qq), sum_of(x), sum_of(xq)};
}

/* A step and what is taken away; not rounded to anything. */
typedef struct free_fit {
    float step, least, error;
} free_fit;

/* Least squares for the codes of step and least; least stays 0 where there is none, and is not
 * below it. False when the codes leave it open. */
static bool solve(const piece *p, float step, float least, free_fit *out)
{
    const sums s = sums_of(p, step, least);
    if (!(s.qq > 0))
        return false;
    *out = (free_fit){.step = s.xq / s.qq};
    const float det = s.v * s.qq - s.q * s.q;
    if (p->zero == 0 && det > 0) {
        const float b = (s.q * s.xq - s.qq * s.x) / det;
        if (b > 0)
            *out = (free_fit){.step = (s.v * s.xq - s.q * s.x) / det, .least = b};
    }
    out->error = error_of(p, out->step, out->least);
    return true;
}

/* Tries a step: alone, and what least squares make of it. */
static void try_step(const piece *p, float step, float least, free_fit *best)
{
    free_fit f = {step, least, error_of(p, step, least)};
    if (f.error < best->error)
        *best = f;
    if (solve(p, step, least, &f) && f.error < best->error)
        *best = f;
}

/* Step 1 for codes from 0 on. */
static free_fit fit_offset(const piece *p)
{
    float lo = 0, hi = p->w[0];
    for (size_t j = 0; j < p->n; j++) {
        lo = p->w[j] < lo ? p->w[j] : lo;
        hi = p->w[j] > hi ? p->w[j] : hi;
    }
    free_fit best = {0, -lo, INFINITY};
    if (!(hi > lo))
        return best;
    for (int i = 0; i <= 24; i++) /* range / 14 .. / 19 */
        try_step(p, (hi - lo) / ((float)p->top - 1 + 0.2F * (float)i), -lo, &best);
    for (int i = 0; i < 2; i++)
        try_step(p, best.step, best.least, &best);
    return best;
}

/* Step 1 for codes around 32, which reach one step further down: both signs are tried. */
static free_fit fit_signed(const piece *p)
{
    float most = 0;
    for (size_t j = 0; j < p->n; j++)
        most = fabsf(p->w[j]) > fabsf(most) ? p->w[j] : most;
    free_fit best = {0, 0, INFINITY};
    for (int i = 0; i <= 16 && most != 0; i++) {
        const float step = most / (30.4F + 0.2F * (float)i);
        try_step(p, -step, 0, &best);
        try_step(p, step, 0, &best);
    }
    return best;
}

/* A super-block while it is fitted. */
typedef struct block {
    pare_encoding encoding;
    size_t subs;
    piece piece[SUBS_MOST];
    free_fit fit[SUBS_MOST];
    float scale, minimum;
    uint8_t sub[PARE_SUPER_BYTES];
    double error;
} block;

static int clamp_int(float x, int low, int high)
{
    const float t = rintf(x);
    return !(t > (float)low) ? low : t > (float)high ? high : (int)t;
}

/* The best of s from s0 - 1 to s0 + 1 with o from o0 - 1 to o0 + 1, and for each s the o that least
 * squares give. */
static float choose_both(const piece *p, float scale, float minimum, int s0, int o0, uint8_t sub[2])
{
    float best = INFINITY;
    for (int s = s0 > 0 ? s0 - 1 : 0; s <= s0 + 1 && s <= 63; s++) {
        const float step = scale * (float)s;
        const sums of = sums_of(p, step, minimum * (float)o0);
        const float b = of.v > 0 ? (step * of.q - of.x) / of.v : 0;
        const int solved = minimum > 0 ? clamp_int(b / minimum, 0, 63) : 0;
        for (int i = -2; i < 2; i++) {
            const int o = i == -2 ? solved : o0 + i;
            if (o < 0 || o > 63)
                continue;
            const float error = error_of(p, step, minimum * (float)o);
            if (error < best) {
                best = error;
                sub[0] = (uint8_t)s;
                sub[1] = (uint8_t)o;
            }
        }
    }
    return best;
}

static float choose_one(const piece *p, float scale, int s0, uint8_t *sub)
{
    float best = INFINITY;
    for (int s = s0 > -128 ? s0 - 1 : -128; s <= s0 + 1 && s <= 127; s++) {
        const float error = error_of(p, scale * (float)s, 0);
        if (error < best) {
            best = error;
            *sub = (uint8_t)s;
        }
    }
    return best;
}

/* Bytes of a sub-block on given scale and minimum near a fit; returns the error. */
static float choose(pare_encoding e, const piece *p, float scale, float minimum, const free_fit *f,
                    uint8_t *sub)
{
    const float s = scale > 0 ? f->step / scale : 0;
    if (e == PARE_ENCODING_Q6_K)
        return choose_one(p, scale, clamp_int(s, -128, 127), sub);
    return choose_both(p, scale, minimum, clamp_int(s, 0, 63),
                       minimum > 0 ? clamp_int(f->least / minimum, 0, 63) : 0, sub);
}

/* Step 3, first half: all sub-blocks. */
static void choose_all(block *b)
{
    b->error = 0;
    for (size_t i = 0; i < b->subs; i++)
        b->error += (double)choose(b->encoding, &b->piece[i], b->scale, b->minimum, &b->fit[i],
                                   b->sub + i * pare_super_bytes(b->encoding));
}

/* Step 3, second half: w ~ D (s q) - M o. */
static void solve_scales(const block *b, double *scale, double *minimum)
{
    double dd = 0, dm = 0, mm = 0, dx = 0, mx = 0;
    for (size_t i = 0; i < b->subs; i++) {
        const uint8_t *const sub = b->sub + i * pare_super_bytes(b->encoding);
        const pare_sub_grid g = pare_super_grid(b->encoding, b->scale, b->minimum, sub);
        const sums of = sums_of(&b->piece[i], g.step, g.least);
        const pare_sub_grid one = pare_super_grid(b->encoding, 1, 1, sub);
        const double s = (double)one.step, o = (double)one.least;
        dd += s * s * (double)of.qq;
        dm += s * o * (double)of.q;
        mm += o * o * (double)of.v;
        dx += s * (double)of.xq;
        mx += o * (double)of.x;
    }
    const double det = dd * mm - dm * dm;
    if (det > 0) {
        *scale = (dx * mm - mx * dm) / det;
        *minimum = (dx * dm - mx * dd) / det;
    } else if (dd > 0) {
        *scale = dx / dd;
    }
}

static float to_half(double x)
{
    const float h = pare_f16_to_f32(pare_f32_to_f16((float)x));
    return h > 0 && h <= F16_MAX ? h : 0;
}

/* What an error costs, at most 1. Where nothing costs anything, everything costs the same. */
static void scale_costs(const float *v, float *to)
{
    float most = 0;
    for (size_t j = 0; v && j < PARE_SUPER; j++)
        most = v[j] > most ? v[j] : most;
    for (size_t j = 0; j < PARE_SUPER; j++)
        to[j] = most > 0 ? v[j] / most : 1;
}

/* Steps 1 and 2. False when a scale is beyond F16. */
static bool start(block *b, const float *w, const float *v)
{
    const size_t n = pare_super_sub(b->encoding);
    const bool q4 = b->encoding == PARE_ENCODING_Q4_K;
    float step = 0, least = 0;
    b->subs = PARE_SUPER / n;
    for (size_t i = 0; i < b->subs; i++) {
        b->piece[i] = (piece){w + i * n, v + i * n, n, q4 ? 0 : 32, q4 ? 15 : 63};
        b->fit[i] = q4 ? fit_offset(&b->piece[i]) : fit_signed(&b->piece[i]);
        step = fabsf(b->fit[i].step) > fabsf(step) ? b->fit[i].step : step;
        least = b->fit[i].least > least ? b->fit[i].least : least;
    }
    const float scale = fabsf(step) / (q4 ? 63 : step > 0 ? 127 : 128);
    b->scale = scale > F16_MAX ? scale : pare_f16_scale(scale);
    b->minimum = least / 63 > F16_MAX ? least / 63 : pare_f16_scale(least / 63);
    return b->scale <= F16_MAX && b->minimum <= F16_MAX;
}

pare_grid_fault pare_super_fit(pare_encoding e, const float *w, const float *v, float *scale,
                               float *minimum, uint8_t sub[PARE_SUPER_BYTES])
{
    float cost[PARE_SUPER], most = 0;
    *minimum = 0;
    for (size_t j = 0; j < PARE_SUPER; j++) {
        if (!(fabsf(w[j]) <= FLT_MAX)) {
            *scale = w[j];
            return PARE_GRID_NOT_FINITE;
        }
        most = fabsf(w[j]) > most ? fabsf(w[j]) : most;
    }
    if (most > BEYOND) {
        *scale = most / (128 * 32);
        return PARE_GRID_OVERFLOW;
    }
    scale_costs(v, cost);
    block best = {.encoding = e};
    if (!start(&best, w, cost)) {
        *scale = best.scale > F16_MAX ? best.scale : best.minimum;
        return PARE_GRID_OVERFLOW;
    }
    choose_all(&best);
    for (int i = 0; i < ROUNDS; i++) {
        block next = best;
        double d = (double)best.scale, m = (double)best.minimum;
        solve_scales(&best, &d, &m);
        next.scale = to_half(d);
        next.minimum = to_half(m);
        choose_all(&next);
        if (!(next.error < best.error))
            break;
        best = next;
    }
    *scale = best.scale;
    *minimum = best.minimum;
    memcpy(sub, best.sub, sizeof best.sub);
    return PARE_GRID_OK;
}

void pare_super_refit(pare_encoding e, const float *w, const float *v, float scale, float minimum,
                      uint8_t *sub)
{
    const bool q4 = e == PARE_ENCODING_Q4_K;
    float same[SUB_MOST];
    for (size_t j = 0; j < SUB_MOST; j++)
        same[j] = 1;
    const piece p = {w, v ? v : same, pare_super_sub(e), q4 ? 0 : 32, q4 ? 15 : 63};
    const pare_sub_grid now = pare_super_grid(e, scale, minimum, sub);
    const free_fit f = q4 ? fit_offset(&p) : fit_signed(&p);
    uint8_t other[2];
    if (choose(e, &p, scale, minimum, &f, other) < error_of(&p, now.step, now.least))
        memcpy(sub, other, pare_super_bytes(e));
}
