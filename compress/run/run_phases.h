/* compress/run/run_phases.h - a job as phases, from which the time that it still takes follows. */
#ifndef PARE_COMPRESS_RUN_RUN_PHASES_H
#define PARE_COMPRESS_RUN_RUN_PHASES_H

#include "compress/plan/plan_rates.h"

typedef struct pare_run pare_run; /* compress/run/run_internal.h */

/* The phases of a job, in their order. Of some, the name is that of the only piece of work in it,
 * which begins them; the others are begun by pare_ctx_step. */
enum {
    PARE__PHASE_READ,
    PARE__PHASE_FINITE,
    PARE__PHASE_TOKENS,
    PARE__PHASE_WEIGH,  /* tokens, by the loss */
    PARE__PHASE_KEEP,   /* statistics, in a file */
    PARE__PHASE_FOUND,  /* blocks of an earlier run */
    PARE__PHASE_PRUNE,  /* blocks, in front of a training; or experts of blocks, scored */
    PARE__PHASE_BEFORE, /* windows held out scored in front of a training, and behind it */
    PARE__PHASE_TRAIN,
    PARE__PHASE_AFTER,
    PARE__PHASE_BLOCKS,
    PARE__PHASE_FINISH,
    PARE__PHASE_EVALUATE,
    PARE__PHASE_SAMPLES, /* of both models */
    PARE__PHASE_AGAIN,
    PARE__PHASE_EXPORT,
    PARE__PHASES
};

/* Rates that say how phases compare before any of them is measured; none is 0. */
extern const pare_plan_rates pare__typical_rates;

/* Says what the job comes to (pare_ctx_job), without what an earlier run is known to have done. */
PARE_CHECKED pare_status pare__run_phases(pare_run *run);

#endif
