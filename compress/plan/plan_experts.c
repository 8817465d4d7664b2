/* Mixtures of experts: what a recipe cannot do to them. */
#include "compress/plan/plan_internal.h"
#include "compress/plan/plan_reap.h"
#include "compress/plan/plan_walks.h"

pare_status pare__plan_refuse_router(pare_ctx *cx, const pare_plan *plan,
                                     const pare_pattern *pattern, const pare_text *text)
{
    for (size_t b = 0; b < plan->model.config.blocks; b++) {
        const pare_block *const block = &plan->model.block[b];
        const char *const name[] = {block->router.name, block->shared_gate.name};
        for (size_t i = 0; i < sizeof name / sizeof *name; i++) {
            bool hit = false;
            if (name[i])
                PARE_TRY(pare_pattern_matches(cx, pattern, name[i], &hit));
            if (hit)
                return pare_recipe_fail(
                    cx, text->place, "targets: \"%s\" names %s: %s", text->text, name[i],
                    i ? "the gate of a shared expert stays as it is in the checkpoint: it is one "
                        "row of weights"
                      : "what picks experts stays as it is in the checkpoint, since its smallest "
                        "error sends tokens to other experts, and it is a few thousandths of the "
                        "weights");
        }
    }
    return PARE_OK;
}

/* What pruners ask of more than one linear at a time. */
static pare_status check_pruner(pare_ctx *cx, const pare_plan *plan, const pare_plan_linear *l)
{
    const size_t step = l->prune_step;
    const pare_place place = pare__plan_step(plan, step)->place;
    if (pare_plan_ratios(plan, step).rule != PARE_RATIOS_UNIFORM)
        return pare_recipe_fail(
            cx, place,
            "%s: ratios: %s compares all linears of a model on the same tokens, "
            "and experts see tokens of their own; take uniform",
            pare__plan_pass(plan, step)->name,
            pare_ratio_rule_name(pare_plan_ratios(plan, step).rule));
    if (l->part && pare_plan_draws(plan, step) > 1)
        return pare_recipe_fail(cx, place,
                                "%s: %s belongs to an expert, which sees too few tokens of each "
                                "part of the calibration for stability; leave that out, or "
                                "experts with skip",
                                pare__plan_pass(plan, step)->name, l->packed.name);
    return PARE_OK;
}

static pare_status check_linear(pare_ctx *cx, const pare_plan *plan, const pare_plan_linear *l)
{
    if (l->pruned)
        PARE_TRY(check_pruner(cx, plan, l));
    if (l->part && pare_activation_is_fixed(l->packed.encoding, &l->packed.activation) &&
        plan->recipe.calibration.cold == PARE_COLD_RTN)
        return pare_recipe_fail(cx, plan->recipe.calibration.experts_place,
                                "experts: cold is \"rtn\", and the fixed scale of the inputs of "
                                "%s (%s) must be measured; take fill",
                                l->packed.name, pare__plan_pass(plan, l->step)->name);
    return PARE_OK;
}

const char *pare_plan_experts_idle(const pare_plan *plan)
{
    const pare_calibration *const c = &plan->recipe.calibration;
    /* reap heeds min_tokens alone; in front of other passes, the rest may be for them */
    const bool reaps =
        pare_plan_reaps(plan) && (c->min_tokens || plan->job->part != PARE_JOB_WHOLE);
    if (!c->experts_given || pare_plan_sees_experts(plan) || plan->kept.used || reaps)
        return NULL;
    return "\"experts\" of the calibration does nothing: no step of this recipe looks at the "
           "inputs of experts";
}

pare_status pare__plan_experts(pare_ctx *cx, const pare_plan *plan)
{
    const pare_config *const c = &plan->model.config;
    if (plan->recipe.calibration.experts_given && !c->experts)
        return pare_recipe_fail(cx, plan->recipe.calibration.experts_place,
                                "experts: a model of type %s has none", c->arch->model_type);
    for (size_t i = 0; i < plan->linears && c->experts; i++)
        PARE_TRY(check_linear(cx, plan, &plan->linear[i]));
    return PARE_OK;
}
