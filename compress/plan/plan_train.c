/* A step that trains: where it may stand, what it cannot do, and the memory that it takes. */
#include <string.h>

#include "compress/evaluate/evaluate.h"
#include "compress/plan/plan_internal.h"

static const char *name_of(const pare_plan *plan)
{
    return pare_passes[plan->training->pass]->name;
}

pare_status pare__plan_training(pare_ctx *cx, pare_plan *plan)
{
    for (size_t i = 0; i < plan->recipe.steps; i++) {
        const pare_step *const step = pare__plan_step(plan, i);
        const char *const name = pare__plan_pass(plan, i)->name;
        if (!pare__plan_pass(plan, i)->training)
            continue;
        if (i + 1 < plan->recipe.steps)
            return pare_recipe_fail(cx, step->place,
                                    "%s trains the whole model once all blocks are pruned, so it "
                                    "must be the last pass, and behind it stands %s",
                                    name, pare__plan_pass(plan, i + 1)->name);
        if (step->targets.count || step->skip.count)
            return pare_recipe_fail(cx, step->place,
                                    "%s trains what the passes in front of it pruned, and takes no "
                                    "targets and no skip; choose linears there",
                                    name);
        if (plan->recipe.calibration.kind == PARE_CALIBRATION_NONE)
            return pare_recipe_fail(cx, step->place,
                                    "%s trains on calibration data; add \"calibration:\" with text "
                                    "or tokens",
                                    name);
        plan->training = step;
    }
    return PARE_OK;
}

/* What of the recipe does not go with it, or NULL. */
static const char *recipe_fault(const pare_plan *plan)
{
    if (plan->rotation || plan->transforms)
        return "pare cannot train behind a transform yet; leave it out";
    if (plan->pruned == 0)
        return "no pass in front of it prunes a linear, so there is nothing to win back";
    for (size_t i = 0; i < plan->linears; i++)
        if (plan->linear[i].quantized)
            return "pare cannot train in front of a quantizer or behind one yet; leave the "
                   "quantizer out";
    if (plan->recipe.kv.method == PARE_KV_KVQUANT)
        return "the levels of kv_cache kvquant would be those of the model before it is trained; "
               "take another method";
    return NULL;
}

/* What of the model does not, or NULL. */
static const char *model_fault(const pare_plan *plan)
{
    const pare_model *const m = &plan->model;
    bool packed = m->head.bits > 0;
    for (size_t b = 0; b < m->config.blocks; b++)
        for (size_t role = 0; role < PARE_ROLES; role++)
            packed |= m->block[b].linear[role].bits > 0;
    if (m->config.experts)
        return "pare does not train mixtures of experts yet";
    return packed ? "the model is quantized already, and pare does not take gradients through "
                    "packed weights; take a checkpoint of floats"
                  : NULL;
}

pare_status pare__plan_train(pare_ctx *cx, pare_plan *plan)
{
    const pare_step *const step = plan->training;
    if (!step)
        return PARE_OK;
    const char *fault = recipe_fault(plan);
    fault = fault ? fault : model_fault(plan);
    if (fault)
        return pare_recipe_fail(cx, step->place, "%s: %s", name_of(plan), fault);
    pare_passes[step->pass]->training(step->value, plan->window, &plan->train);
    plan->train.seed = plan->recipe.seed;
    /* Samples may be all that the text has, which is not known yet. */
    const pare_train_data data = {NULL, 1, plan->window};
    const pare_status s = pare_train_check(cx, &data, &plan->train);
    if (s != PARE_EINVAL)
        return s;
    char reason[sizeof cx->what];
    memcpy(reason, cx->what, sizeof reason);
    pare_ctx_clear(cx);
    return pare_recipe_fail(cx, step->place, "%s: %s", name_of(plan), reason);
}

/* Value, gradient and two moments of each weight; a student that views them; beside them the
 * training, an evaluation, or the largest linear as it is stored. */
uint64_t pare__plan_train_bytes(const pare_ctx *cx, const pare_plan *plan,
                                const pare_settled *settled)
{
    enum { OF_LEAF = sizeof(pare_trained) + 20 * PARE_ALIGN, COPIES = 4, ROUNDING = 1 << 20 };
    const pare_config *const c = &plan->model.config;
    const pare_kv_format floats = {.method = PARE_KV_FLOAT};
    const pare_eval_side side = {c, &floats, PARE_INPUTS_NONE};
    const pare_train_data data = {NULL, settled->samples, plan->window};
    uint64_t weights = 0, most = 0;
    if (!plan->training)
        return 0;
    for (size_t i = 0; i < plan->linears; i++) {
        const uint64_t count = (uint64_t)plan->linear[i].packed.n * plan->linear[i].packed.k;
        weights += count;
        most = count > most ? count : most;
    }
    const uint64_t beside[] = {
        pare_train_bytes(cx, c, &data, &plan->train, plan->linears),
        pare_evaluate_bytes(cx, &side, &side, plan->window, plan->held_out * plan->window),
        COPIES * most * sizeof(float) + pare_plan_stored_bytes(plan)};
    uint64_t largest = 0;
    for (size_t i = 0; i < sizeof beside / sizeof *beside; i++)
        largest = beside[i] > largest ? beside[i] : largest;
    return weights * 4 * sizeof(float) + plan->linears * OF_LEAF + c->blocks * sizeof(pare_block) +
           2 * (uint64_t)plan->window * pare_rope_pairs(c) * 2 * sizeof(float) + ROUNDING + largest;
}
