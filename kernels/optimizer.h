/* kernels/optimizer.h - kernels of a step of training: AdamW, and weights that are trained with
 * their codes in place (distill/adamw.h, distill/aware.h). No step is fused; in double:
 *
 *   adamw_step  d = clip g[i], or 0 where keeps_zeros and w[i] = 0; g[i] = 0;
 *               a = beta1 m[i] + (1 - beta1) d; b = beta2 v[i] + ((1 - beta2) d) d;
 *               m[i] = a, v[i] = b, w[i] = w[i] shrink - (rate a) / (sqrt(b) / root + eps).
 *   aware_back  step[i] = (sum of pare_aware_term over the weights of group i in order) / over;
 *               where scale[i] is 0, so are step[i] and the gradients of the group.
 *   tree_codes  codes[i] = how many of 255 rising numbers lie below x[i] / scale in floats, or
 * below 0 where scale is not above 0; none below a NaN. They lie in a tree[256] of searches: the
 * middle one in tree[1], those below and above tree[i] from tree[2 i] and tree[2 i + 1].
 *
 * Every level gives the same bytes, but for the bits of a NaN that two NaNs come to. */
#ifndef PARE_KERNELS_OPTIMIZER_H
#define PARE_KERNELS_OPTIMIZER_H

#include <stdbool.h>
#include <stdint.h>

/* One step of AdamW (adamw_step). */
typedef struct pare_adamw_move {
    double beta1, beta2, eps;
    double clip;      /* factor of the gradient */
    double shrink;    /* of the weights */
    double rate;      /* over 1 - beta1^t */
    double root;      /* sqrt(1 - beta2^t) */
    bool keeps_zeros; /* a weight that is 0 has gradient 0 */
} pare_adamw_move;

/* Groups of weights on a uniform grid, one behind the other (aware_back). */
typedef struct pare_aware_groups {
    const float *w;       /* [groups, width] */
    const uint8_t *codes; /* [groups, width] */
    const float *scale;   /* [groups] */
    const uint8_t *zero;  /* [groups] */
    unsigned bits;
    bool compensated;
    double over; /* what sums are divided by */
} pare_aware_groups;

/* What one weight adds to the sum of its group, s not 0: *g (level - (inside ? w / s : 0)), with
 * level = code - zero; outside low .. high *g becomes 0. */
static inline double pare_aware_term(float *g, float w, float s, int level, float low, float high,
                                     bool compensated)
{
    const float x = w / s;
    const bool inside = low <= x && x <= high;
    const double moves = inside && !compensated ? (double)x : 0;
    const double term = (double)*g * ((double)level - moves);
    *g = inside ? *g : 0;
    return term;
}

#endif
