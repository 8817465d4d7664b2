/* solve/factor.h - the factor of a Hessian that compensating sweeps work with.
 *
 * H^-1 = U^T U, U upper triangular, H = (2/T) X X^T + lambda I. Row j of U says how the weights
 * behind column j make up for a change of w_j (solve/compensate.h). */
#ifndef PARE_SOLVE_FACTOR_H
#define PARE_SOLVE_FACTOR_H

#include <stdbool.h>

#include "runtime/arena.h"

/* What the damping ladder did. Recorded in the manifest. */
typedef struct pare_damping {
    float damp;      /* damping of the last rung: lambda = damp * mean(diag H) */
    double lambda;   /* added to the diagonal of H in that rung */
    unsigned raises; /* times it was raised in that precision */
    bool f64;        /* the last rung was in double precision */
    bool failed;     /* no factor: the caller falls back to RTN and records it */
    size_t dead;     /* columns with H_jj = 0 */
    size_t pivot;    /* 1-based column of H whose pivot failed last, 0 if none did */
} pare_damping;

typedef struct pare_factor_opts {
    float damp;     /* 0.01 */
    bool act_order; /* columns by falling H_jj */
    size_t apart;   /* columns of the largest H_jj, of equal ones the first, that come last; at most
                       k, 0 with act_order */
    const uint32_t *order; /* [k] column of each position, each once; NULL: the two above say */
    bool above; /* U lies above the diagonal of h: nobody else writes there as long as it lives */
    bool diagonal; /* H is diagonal: nothing else of it is read, and U, diagonal too, is not stored
                    */
} pare_factor_opts;

/* A factor is shared by all linears of a site. */
typedef struct pare_factor {
    size_t k;
    float *u;        /* [k, k] in the order of `order`; H^-1 = U^T U. On its diagonal and 0 below,
                        but h with `above`. NULL when U is diagonal, or there is none */
    float *pivot;    /* [k] U_jj, in that order */
    uint32_t *order; /* [k] original column of each position, or NULL for natural order */
    float *diagonal; /* [k] H_jj, natural order, without damping */
    uint8_t *dead;   /* [k] 1 where H_jj = 0 (natural order): such a weight becomes 0 */
    size_t apart;    /* of the last positions; there and before them columns ascend */
    pare_damping damping;
} pare_factor;

/* Factors H.
 *
 * The ladder: lambda = damp * mean(diag H) is added to the diagonal; if a pivot fails (or U leaves
 * the range of F32), damp is multiplied by 10 (0 becomes 0.01) up to 1.0; then the same once more
 * from the start in double precision; then damping.failed is set and u is NULL (the status is
 * still PARE_OK). A dead column has the mean of the others on its diagonal, which keeps it apart
 * from them and makes only the ratios within H matter: the factor 2/T may be left out.
 *
 *   h    [k, k] f32, lower triangle; written above it with `above`
 *   out  u, order and dead are taken from `scratch` and live as long as what it holds
 *
 * Returns PARE_OK, PARE_ENOMEM, PARE_EINVAL when damp is not in [0, 1], `apart` does not fit or
 * `order` is none, or PARE_ENUMERIC when H holds a NaN or an infinity (the message names the
 * entry). Memory   u; while it is made also a triangle, k^2 / 2 floats or doubles and an eighth
 * more: pare_factor_bytes, vectors included.
 * Work     2/3 k^3 per rung, k with `diagonal`.
 * Threads  over tiles.
 * Exact    on every CPU, for any thread count.
 * Source   U by one factorization of the reversed matrix: if R is the reversal and
 *          R H R = L L^T, then U = R L^-1 R is upper triangular and U^T U = H^-1.
 *          The original puts 1 on the diagonal of a dead column; its weights are 0 either way. */
PARE_CHECKED pare_status pare_factorize(pare_ctx *cx, pare_arena *scratch,
                                        const pare_factor_opts *opts, float *h, size_t k,
                                        pare_factor *out);

/* What it takes at most beside u. */
uint64_t pare_factor_bytes(size_t k);

#endif
