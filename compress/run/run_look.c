#include "compress/run/run_look.h"

#include <string.h>

#include "compress/plan/fallback.h"
#include "compress/plan/fallback_sizes.h"
#include "compress/plan/plan_walks.h"
#include "compress/run/run_evaluate.h"
#include "compress/run/run_internal.h"
#include "formats/checksums.h"

/* An attempt that is looked at. */
typedef struct attempt {
    pare_recipe recipe;
    pare_look look;
    bool infeasible; /* it writes nothing */
    bool goes_on;    /* it failed, and the next may not */
    bool places_only;
} attempt;

static pare_status check_feasible(const pare_run *run, attempt *out)
{
    pare_gate verdict;
    if (pare_plan_known_once(run->plan))
        return PARE_OK;
    PARE_TRY(pare_gate_of_bytes(run->a, &run->plan->recipe, run->settled.packed_bytes, &verdict));
    out->infeasible = verdict.kind == PARE_GATE_INFEASIBLE;
    return PARE_OK;
}

static pare_status look_there(pare_run *run, attempt *out)
{
    const pare_plan *const plan = run->plan;
    pare_compress_result result = {0};
    bool texts_unknown;
    pare_status s = pare_plan_places(run->cx, run->a, plan, false, &run->settled);
    out->goes_on = s == PARE_EEXISTS;
    PARE_TRY(s);
    out->look.finished = run->settled.finished;
    out->look.exports = plan->exports;
    if (!run->settled.finished)
        return PARE_OK;
    if (!out->places_only) {
        s = pare__run_again_check(run, &out->look.other, &texts_unknown);
        out->goes_on = out->look.other;
        PARE_TRY(s);
        PARE_TRY(pare__run_verdict_again(run, &result.report));
    }
    out->look.verdict = result.report.verdict;
    if (out->look.verdict && out->look.verdict->kind != PARE_GATE_ACCEPT) /* it exports nothing */
        return PARE_OK;
    out->look.missing = pare_plan_missing(plan, &run->settled);
    for (size_t i = 0; i < plan->exports; i++)
        out->look.export_bytes += run->settled.export[i].taken ? 0 : plan->export[i].result.bytes;
    return PARE_OK;
}

static pare_status look_once(pare_ctx *cx, pare_arena *a, const pare_job *job, bool places_only,
                             attempt *out)
{
    pare_plan plan = {0};
    pare_run run = {.cx = cx, .a = a, .plan = &plan};
    *out = (attempt){.places_only = places_only};
    pare_status s = pare_arena_init(cx, &run.scratch, 0);
    if (s == PARE_OK)
        s = pare_plan_make(cx, a, job, &plan);
    out->recipe = plan.recipe;
    out->look.memory = plan.settled.memory.anonymous_bytes;
    run.settled = plan.settled;
    run.checkpoint = plan.checkpoint;
    run.model = plan.model;
    if (s == PARE_OK)
        s = check_feasible(&run, out);
    if (s == PARE_OK && !out->infeasible)
        s = look_there(&run, out);
    pare_hashing_free(cx, run.hash.input);
    pare_plan_close(&plan);
    pare_arena_release(&run.scratch);
    return s;
}

/* Attempts in turn, as compress makes them: what is there may be of any. */
pare_status pare_look_at(pare_ctx *cx, pare_arena *a, const pare_job *job, bool places_only,
                         pare_look *out)
{
    char first[sizeof cx->what] = "";
    pare_job as = *job;
    attempt at;
    pare_fallback_size *size;
    *out = (pare_look){0};
    as.plan_only = false;
    as.look_only = true;
    pare_status s = look_once(cx, a, &as, places_only, &at);
    const pare_recipe r = at.recipe;
    for (size_t i = 0;; i++) {
        if (s != PARE_OK && !at.goes_on)
            return s;
        if (at.goes_on && !first[0])
            memcpy(first, cx->what, sizeof first);
        *out = at.look;
        out->infeasible = at.infeasible;
        out->other |= first[0] != '\0'; /* of an attempt before */
        if (!at.goes_on && !at.infeasible)
            return PARE_OK;
        if (i == r.fallbacks)
            return first[0] ? pare_fail(cx, PARE_EEXISTS, "%s", first) : PARE_OK;
        pare_ctx_clear(cx);
        if (i == 0)
            PARE_TRY(pare_plan_fallback_sizes(cx, a, job, &r, &size));
        PARE_TRY(pare_job_fallback(a, job, &r.fallback[i], &as));
        as.plan_only = false;
        as.look_only = true;
        s = look_once(cx, a, &as, places_only, &at);
    }
}
