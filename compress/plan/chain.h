/* compress/plan/chain.h - a recipe whose first passes make a smaller checkpoint, and whose others
 * work on that: two jobs, one behind the other. */
#ifndef PARE_COMPRESS_PLAN_CHAIN_H
#define PARE_COMPRESS_PLAN_CHAIN_H

#include "compress/plan/plan.h"

/* What the folder of the smaller checkpoint is called: OUTPUT and this. */
#define PARE_CHAIN_SMALLER ".smaller"

typedef struct pare_chain {
    pare_job job[2];
    size_t jobs; /* 1: the job as it was given */
    char *model; /* of the recipe, with 2 jobs */
} pare_chain;

/* The jobs of a recipe. The second reads what the first wrote, and compares with the model of the
 * recipe; a job that is only planned reads that model itself where there is no smaller one yet, and
 * so says the most that it can take, which may be above the limit. PARE_EUSAGE (with place) for a
 * recipe that cannot be read and for a fallback that would change the first job; PARE_ENOMEM,
 * PARE_EIO. */
PARE_CHECKED pare_status pare_chain_make(pare_ctx *cx, pare_arena *a, const pare_job *job,
                                         pare_chain *out);

/* That the second job can be planned, before the first takes hours: on the model of the recipe
 * where there is no smaller one yet, whose widths quantizers and exports must be able to have. The
 * statuses of pare_plan_make. */
PARE_CHECKED pare_status pare_chain_check(pare_ctx *cx, const pare_chain *chain);

#endif
