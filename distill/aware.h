/* distill/aware.h - matrices that are trained with their codes in place (quantization-aware).
 *
 * The optimizer moves masters w in floats, and on uniform grids a step size S of each group. The
 * forward pass sees what would be stored, with the bits that every kernel decodes:
 *
 *   uniform  s = f16(S), code = clamp(rint(w / s) + z, 0, 2^b - 1), q = (code - z) s
 *            dw = dq inside, 0 outside;  inside: 0 <= w / s + z <= 2^b - 1
 *            dS = 1 / sqrt(N Q) sum dq (code - z - (inside ? w / s : 0))
 *            compensated: dS = 1 / sqrt(N Q) sum dq (code - z), and where s becomes s',
 *            w becomes w s' / s
 *   ternary  s = f16(mean |w|) of the masters, anew each time; code and q as solve/grid.h has them
 *            dw = dq
 *
 * N weights share S; Q = 2^(b-1) - 1, asymmetric 2^b - 1. Zero points z stay. Rounding to F16
 * passes gradients straight through, too. A step of the optimizer halves or doubles S at most, so
 * that it keeps its sign. A group with scale 0 stays 0.
 *
 * The first dS is LSQ's: a step that moves changes codes, as is right for those that are the
 * nearest ones. Codes that make up for each other's errors (GPTQ) it takes apart: they are
 * compensated, and masters go with their step, whose move then changes no code, but for rounding.
 * docs/settings.md says what each wins.
 *
 * Sums run over a group in its order, in double: the same bytes for any number of threads.
 * Source: Esser et al., Learned Step Size Quantization, 2020, eq. (1), (3), section 2.2; Chen et
 * al., EfficientQAT, 2024 (dS of codes that stay); Ma et al., BitNet b1.58, 2024, eq. (1)-(3). */
#ifndef PARE_DISTILL_AWARE_H
#define PARE_DISTILL_AWARE_H

#include "distill/adamw.h"
#include "solve/grid.h"

typedef struct pare_aware {
    pare_grid grid;
    pare_codes codes;     /* of the masters, with scales and zero points as they are stored */
    float *seen;          /* [n, k] their values, which the model reads */
    pare_trained *master; /* its gradient comes from the tape as that of `seen` */
    pare_trained *step;   /* [n, groups]; NULL: ternary */
    bool compensated;     /* uniform codes that make up for each other's errors */
} pare_aware;

/* Whether pare_aware goes with a grid: uniform, ternary. */
static inline bool pare_aware_knows(pare_encoding e)
{
    return pare_encodings[e].uniform || e == PARE_ENCODING_TERNARY;
}

/* Takes codes and values. PARE_ENOMEM. */
PARE_CHECKED pare_status pare_aware_take(pare_arena *a, const pare_grid *grid, size_t n, size_t k,
                                         pare_aware *out);

/* Codes and values of the masters. PARE_ENUMERIC when a ternary scale cannot be stored. */
PARE_CHECKED pare_status pare_aware_round(pare_ctx *cx, pare_aware *t);

/* From the gradient of the values, in master->gradient, to those of masters and steps. */
void pare_aware_gradient(const pare_ctx *cx, pare_aware *t);

/* Steps that the optimizer moved, brought within the factor 2 of what is stored; then as
 * pare_aware_round. */
PARE_CHECKED pare_status pare_aware_follow(pare_ctx *cx, pare_aware *t);

/* Where the master of a weight begins that has a code already: at the weight itself where that is
 * the nearest code, else at the value of the code. */
static inline float pare_aware_master(const pare_grid *g, float w, uint8_t code, float scale,
                                      uint8_t zero)
{
    const bool nearest = pare_grid_encode(g, 0, w, scale, zero) == code;
    return nearest ? w : pare_grid_decode(g, 0, code, scale, zero);
}

#endif
