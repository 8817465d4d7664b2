/* calib/moments.h - mean and variance of the input channels of one site, over all tokens that the
 * wave brings. Sums are kept in double: the variance is a difference of them. */
#ifndef PARE_CALIB_MOMENTS_H
#define PARE_CALIB_MOMENTS_H

#include "runtime/forward.h"

typedef struct pare_moments {
    pare_ctx *cx;
    pare_site site;
    size_t k;
    uint64_t tokens;      /* seen */
    double *sum, *square; /* [2, k]: of the share at hand (calib/shares.h), and of those before */
} pare_moments;

/* Bytes of the moments of the widest site. */
uint64_t pare_moments_bytes(const pare_config *c);

/* Zeroed moments in the arena. PARE_ENOMEM. */
PARE_CHECKED pare_status pare_moments_take(pare_ctx *cx, pare_arena *a, const pare_config *c,
                                           pare_site site, pare_moments *out);

/* A tap that adds the inputs of the site; the block stops behind it. Same bytes for any number of
 * threads. */
pare_tap pare_moments_tap(pare_moments *m);

/* Of channel j; 0 before any token. The variance is that of the tokens seen, never negative. */
double pare_moments_mean(const pare_moments *m, size_t j);
double pare_moments_variance(const pare_moments *m, size_t j);
double pare_moments_power(const pare_moments *m, size_t j); /* mean square */

#endif
