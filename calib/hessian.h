/* calib/hessian.h - H = sum over tokens of x x^T for the inputs of linears, one per site.
 *
 * The factor 2/T of the papers is left out: GPTQ, its damping and relative errors do not change
 * when H is scaled. Batches are added in the order in which the wave brings them. */
#ifndef PARE_CALIB_HESSIAN_H
#define PARE_CALIB_HESSIAN_H

#include "runtime/forward.h"

typedef struct pare_hessian {
    pare_ctx *cx;
    float *h[PARE_SITES]; /* [k, k], lower triangle; NULL: not asked for */
    size_t k[PARE_SITES];
    unsigned active; /* bit per site that pare_hessian_tap adds to */
} pare_hessian;

/* Input width of a site. */
size_t pare_site_width(const pare_config *c, pare_site site);

/* Bytes of the Hessians of `sites` (bit per pare_site). */
uint64_t pare_hessian_bytes(const pare_config *c, unsigned sites);

/* Zeroed Hessians in the arena. PARE_ENOMEM. */
PARE_CHECKED pare_status pare_hessian_take(pare_ctx *cx, pare_arena *a, const pare_config *c,
                                           unsigned sites, pare_hessian *out);

/* A tap that adds to the Hessians of h->active; the block stops behind the last active site. */
pare_tap pare_hessian_tap(pare_hessian *h);

#endif
