/* compress/plan/fallback_sizes.h - what the fallbacks of a recipe come to. */
#ifndef PARE_COMPRESS_PLAN_FALLBACK_SIZES_H
#define PARE_COMPRESS_PLAN_FALLBACK_SIZES_H

#include "compress/plan/plan.h"

/* What a fallback comes to. */
typedef struct pare_fallback_size {
    uint64_t bytes; /* of its packed files */
    double bits_per_weight;
    bool exact;      /* else they change: the calibration or a search decides on them, or a smaller
                        checkpoint that is not there yet */
    bool feasible;   /* not larger than is required, as far as is known */
    const char *why; /* it has no plan; or NULL */
} pare_fallback_size;

/* Plans each fallback of a recipe and of its job, which is to be looked at only: [r->fallbacks].
 * PARE_ENOMEM, PARE_EINTERRUPTED. */
PARE_CHECKED pare_status pare_plan_fallback_sizes(pare_ctx *cx, pare_arena *a, const pare_job *job,
                                                  const pare_recipe *r, pare_fallback_size **out);

#endif
