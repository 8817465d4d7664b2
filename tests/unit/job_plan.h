/* tests/unit/job_plan.h - what the plan of the recipe in place says of its job. */
#ifndef PARE_TESTS_JOB_PLAN_H
#define PARE_TESTS_JOB_PLAN_H

#include "compress/plan/plan.h"
#include "compress/plan/plan_walks.h"
#include "tests/unit/job.h"

typedef struct job_plan {
    pare_plan_memory memory;
    uint64_t packed_bytes;
    bool ratios;
    bool compensated; /* codes of the first linear */
} job_plan;

/* All 0 where the job does not fit into the limit; 0: without one. */
static inline job_plan job_plan_of(const job_place *place, uint64_t limit)
{
    pare_ctx cx;
    pare_arena a;
    pare_plan plan;
    char from[512], to[512];
    pare_ctx_init(&cx);
    ck_assert_int_eq(pare_arena_init(&cx, &a, 0), PARE_OK);
    (void)snprintf(from, sizeof from, "%s", job_path(place, "recipe.yaml"));
    (void)snprintf(to, sizeof to, "%s", job_path(place, "elsewhere"));
    const pare_job job = {.recipe = from, .output = to, .ram_limit = limit};
    const pare_status s = pare_plan_make(&cx, &a, &job, &plan);
    ck_assert_msg(s == PARE_OK || (limit && s == PARE_ENOMEM), "%s", cx.what);
    job_plan out = {.ratios = false};
    if (s == PARE_OK)
        out = (job_plan){plan.settled.memory, plan.settled.packed_bytes, plan.ratios,
                         plan.linears && pare_plan_aware(&plan, &plan.linear[0]) &&
                             pare_plan_compensated(&plan, &plan.linear[0])};
    pare_plan_close(&plan);
    pare_arena_release(&a);
    ck_assert_uint_eq(cx.live_bytes, 0);
    return out;
}

#endif
