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
 *   EXL3     r = f16(r0 m), c = f16(c0 m), a multiplier m for each row and each column,
 *            q = V (r c), V the weights that the codes stand for without scales; codes stay
 *            dm_i = r0_i sum over j of dq V c_j, and so of columns
 *
 * N weights share S; Q = 2^(b-1) - 1, asymmetric 2^b - 1. Zero points z stay. Rounding to F16
 * passes gradients straight through, too. A step of the optimizer halves or doubles S at most, so
 * that it keeps its sign. A group with scale 0 stays 0. Of EXL3 the optimizer moves
 * m / PARE_AWARE_PACE: what is a good rate for weights is slow for multipliers around 1.
 *
 * The first dS is LSQ's: a step that moves changes codes, as is right for those that are the
 * nearest ones. Codes that make up for each other's errors (GPTQ) it takes apart: they are
 * compensated, and masters go with their step, whose move then changes no code, but for rounding.
 * docs/settings.md says what each wins.
 *
 * Sums run over a group in its order, in double: the same bytes for any number of threads.
 * Source: Esser et al., Learned Step Size Quantization, 2020, eq. (1), (3), section 2.2; Chen et
 * al., EfficientQAT, 2024 (dS of codes that stay); Ma et al., BitNet b1.58, 2024, eq. (1)-(3);
 * Tseng et al., QuIP#, 2024, section 5 (m; its code trains them at ten times the rate, too). */
#ifndef PARE_DISTILL_AWARE_H
#define PARE_DISTILL_AWARE_H

#include "distill/adamw.h"
#include "solve/grid.h"

#define PARE_AWARE_PACE 10

typedef struct pare_aware {
    pare_grid grid;
    pare_codes codes;     /* of the masters, with scales and zero points as they are stored */
    float *seen;          /* [n, k] their values, which the model reads */
    pare_trained *master; /* its gradient comes from the tape as that of `seen`; EXL3: V, fixed */
    pare_trained *step;   /* [n, groups]; EXL3: [n] and [k]; NULL: ternary */
    float *start;         /* EXL3: r0 [n], c0 [k] */
    bool compensated;     /* uniform codes that make up for each other's errors */
} pare_aware;

/* Whether pare_aware goes with a grid: uniform, ternary, EXL3. */
static inline bool pare_aware_knows(pare_encoding e)
{
    return pare_encodings[e].uniform || e == PARE_ENCODING_TERNARY || pare_encoding_turns(e);
}

/* Whether the masters of a grid stay as they are, and its steps alone learn. */
static inline bool pare_aware_fixed(pare_encoding e)
{
    return pare_encoding_turns(e);
}

/* How many steps it has. */
size_t pare_aware_steps(const pare_grid *g, size_t n, size_t k);

/* Takes codes and values. PARE_ENOMEM. */
PARE_CHECKED pare_status pare_aware_take(pare_arena *a, const pare_grid *grid, size_t n, size_t k,
                                         pare_aware *out);

/* Once codes have scales and zero points, and EXL3 its codes: steps as they begin, and EXL3's
 * masters. Then round. */
void pare_aware_begin(pare_aware *t);

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
