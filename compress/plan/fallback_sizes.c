#include "compress/plan/fallback_sizes.h"

#include "compress/plan/fallback.h"
#include "compress/plan/plan_walks.h"
#include "compress/report/gate.h"

/* Scratch is what the plan lies in. */
static pare_status plan_one(pare_ctx *cx, pare_arena *scratch, const pare_job *job,
                            const pare_texts *fallback, pare_fallback_size *out)
{
    pare_job attempt;
    pare_gate verdict;
    pare_plan plan = {0};
    PARE_TRY(pare_job_fallback(scratch, job, fallback, &attempt));
    attempt.plan_only = true;
    pare_status s = pare_plan_make(cx, scratch, &attempt, &plan);
    if (s == PARE_OK) {
        out->bytes = plan.settled.packed_bytes;
        out->bits_per_weight = plan.settled.bits_per_weight;
        out->memory = plan.settled.memory.anonymous_bytes;
        out->left = pare_plan_left_bytes(&plan);
        out->disk = plan.settled.disk_bytes;
        out->known_once = pare_plan_known_once(&plan);
        s = pare_gate_of_bytes(scratch, &plan.recipe, out->bytes, &verdict);
    }
    if (s == PARE_OK)
        out->larger = verdict.kind == PARE_GATE_INFEASIBLE;
    pare_plan_close(&plan);
    return s;
}

void pare_plan_fallback_most(const pare_fallback_size *size, size_t count, bool in_place,
                             uint64_t *memory, uint64_t *disk)
{
    uint64_t left = 0; /* of those that were tried */
    for (size_t i = 0; i < count; i++) {
        if (pare_fallback_infeasible(&size[i]))
            continue;
        left += size[i].left;
        const uint64_t own = size[i].memory + left;
        *memory = in_place || own > *memory ? own : *memory;
        *disk = in_place || size[i].disk > *disk ? size[i].disk : *disk;
        in_place = false;
    }
}

pare_fallback_size *pare_plan_fallback_first(pare_fallback_size *size, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (!pare_fallback_infeasible(&size[i])) {
            size[i].first = true;
            return &size[i];
        }
    return NULL;
}

pare_status pare_plan_fallback_time(pare_ctx *cx, const pare_job *job, const pare_texts *fallback,
                                    pare_plan_estimate *out)
{
    pare_arena scratch = {.cx = cx};
    pare_job attempt;
    pare_plan plan = {0};
    pare_status s = pare_job_fallback(&scratch, job, fallback, &attempt);
    if (s == PARE_OK) {
        attempt.plan_only = true;
        s = pare_plan_make(cx, &scratch, &attempt, &plan);
    }
    if (s == PARE_OK)
        s = pare_plan_time(cx, &plan, out);
    pare_plan_close(&plan);
    pare_arena_release(&scratch);
    return s;
}

static pare_status fail_fallback(pare_ctx *cx, pare_status s, const pare_recipe *r, size_t i)
{
    (void)pare_fail_context(cx, s, "fallback %zu of %zu", i + 1, r->fallbacks);
    return pare_recipe_fail_at(cx, s, r->fallback[i].item[0].place);
}

pare_status pare_plan_fallback_sizes(pare_ctx *cx, pare_arena *a, const pare_job *job,
                                     const pare_recipe *r, pare_fallback_size **out)
{
    *out = PARE_NEW(a, pare_fallback_size, r->fallbacks + 1);
    if (!*out)
        return PARE_ENOMEM;
    for (size_t i = 0; i < r->fallbacks; i++) {
        pare_arena scratch = {.cx = cx};
        const pare_status s = plan_one(cx, &scratch, job, &r->fallback[i], &(*out)[i]);
        pare_arena_release(&scratch);
        if (s == PARE_OK || s == PARE_EINTERRUPTED || (s == PARE_ENOMEM && !cx->what[0]))
            PARE_TRY(s);
        else
            return fail_fallback(cx, s, r, i);
    }
    return PARE_OK;
}
