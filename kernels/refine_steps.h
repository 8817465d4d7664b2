/* kernels/refine_steps.h - kernels of quant/refine.h: columns and scales of 64 rows whose errors
 * count together, weighed by O.
 *
 *   couple_codes  column j of each of one or two strips, `at` being column * 64: x begins as g[at],
 *                 .., and for each row r in order
 *                     slope = sum_l o[r, l] x[l], bend = o[r, r] h[column]
 *                     t = pare_next_code(code[at + r], slope / (bend scale[r]), top)
 *                     d = step[r] = (t - code[at + r]) scale[r]
 *                     gain[r] -= d (2 slope + d bend)     in double
 *                     code[at + r] = t, x[r] += d h[column]
 *                 where free[at + r] is not 0, and step[r] = 0 where it is; then g[i * 64 + r] +=
 *                 step[r] h[i] for all n columns, unless no step is other than 0. Products and sums
 *                 of floats are rounded apart; the sum over l: lane i of eight takes i, i + 8, ..,
 *                 then the lanes in order.
 *   scale_slope   slope = sum_l o[l] / o[r] (sum_j g[j, l] c[j]) over l with o[l] not 0, and
 *                 bend = -sum_j p[j] c[j], in double and in order. g holds floats, so that
 *                 products are exact. */
#ifndef PARE_KERNELS_REFINE_STEPS_H
#define PARE_KERNELS_REFINE_STEPS_H

enum { PARE_COUPLED = 64 };

/* A strip of 64 rows. */
typedef struct pare_couple {
    float *g, *code;       /* [n, 64] */
    const float *free, *o; /* [n, 64], [64, 64] */
    const float *scale;    /* [64] */
    double *gain;          /* [64] */
} pare_couple;

typedef struct pare_slope {
    double slope, bend;
} pare_slope;

/* The code that is best where `step` below old would be; rounds by adding `magic`. */
static inline float pare_next_code(float old, float step, float top)
{
    const float magic = 12582912.0F;
    float t = step < 512 ? step : 512;
    t = t > -512 ? t : -512;
    t = (old - t + magic) - magic;
    t = t < top ? t : top;
    return t > 0 ? t : 0;
}

#endif
