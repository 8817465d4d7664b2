/* runtime/hadamard.h - multiplication by an orthogonal matrix that spreads every value over all.
 *
 *   k = 2^p m, m odd:   Q = C (x) H,   x[b 2^p + a],  a < 2^p,  b < m
 *
 *   H [2^p, 2^p]  Sylvester's Hadamard matrix times 2^(-p/2): runs of 2^p values, butterflies
 *   C [m, m]      orthonormal cosine transform (DCT-II) across the runs:
 *                 C[b, d] = sqrt((b ? 2 : 1) / m) cos(pi b (2d + 1) / (2m))
 *
 * k need not be a power of two, costs are O(k (p + m)), and for m = 1 every entry of Q is
 * +-1 / sqrt(k). An outlier of a row then is shared by all its values. With signs D = diag(+-1) the
 * matrix is Q D: random signs keep rows that look alike from adding up.
 * Source: Ashkboos et al., QuaRot, NeurIPS 2024, section 3, whose tables of Hadamard matrices of
 * other sizes C replaces.
 *
 * Threads  over rows. Exact: the same bytes on every CPU and for any thread count; the cosines are
 *          computed here, not by the library. */
#ifndef PARE_RUNTIME_HADAMARD_H
#define PARE_RUNTIME_HADAMARD_H

#include <stdbool.h>

#include "runtime/context.h"

enum { PARE_HADAMARD_ODD_MAX = PARE_MIX_MAX };

/* About 16 KB; made where it is used. */
typedef struct pare_hadamard {
    size_t k, power, odd; /* k = power * odd */
    float norm;           /* power^-1/2 */
    const float *sign;    /* [k] of +1 and -1, borrowed, or NULL; set by the caller after make */
    float mix[PARE_HADAMARD_ODD_MAX * PARE_HADAMARD_ODD_MAX]; /* C [odd, odd] */
} pare_hadamard;

/* Fills *h for rows of k >= 1 values, without signs. PARE_ENOTSUP when the odd factor of k is above
 * PARE_HADAMARD_ODD_MAX. */
PARE_CHECKED pare_status pare_hadamard_make(pare_ctx *cx, size_t k, pare_hadamard *h);

/* True when pare_hadamard_make would succeed. */
bool pare_hadamard_fits(size_t k);

/* sign[i] = +1 or -1, i < k, from one bit of (seed, stream, i). */
void pare_hadamard_signs(uint64_t seed, uint64_t stream, size_t k, float *sign);

/* Every row of x [rows, k], `ldx` apart, in place:  x <- Q D x. */
void pare_hadamard_apply(const pare_ctx *cx, const pare_hadamard *h, float *x, size_t ldx,
                         size_t rows);

/* The way back:  x <- D Q^T x. */
void pare_hadamard_invert(const pare_ctx *cx, const pare_hadamard *h, float *x, size_t ldx,
                          size_t rows);

#endif
