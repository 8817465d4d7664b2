/* compress/plan/plan_walks.h - a job with a step that trains walks over the blocks twice: the steps
 * in front of it and those behind. */
#ifndef PARE_COMPRESS_PLAN_PLAN_WALKS_H
#define PARE_COMPRESS_PLAN_PLAN_WALKS_H

#include "compress/plan/plan.h"

/* Steps in front of the training; all of them where there is none. */
static inline size_t pare_plan_front(const pare_plan *plan)
{
    return plan->training ? (size_t)(plan->training - plan->recipe.step) : plan->recipe.steps;
}

/* Whether some step behind the training looks at statistics. */
static inline bool pare_plan_looks_later(const pare_plan *plan)
{
    unsigned all = 0;
    for (size_t s = 0; s < PARE_SITES; s++)
        all |= plan->later[s];
    return all != 0;
}

/* Whether the reference is what the float model beside runs; behind a training that is the trained
 * block, and the reference the one before it. */
static inline bool pare_plan_reference_is_whole(const pare_plan *plan)
{
    return plan->reference && !plan->training;
}

#endif
