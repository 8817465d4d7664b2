/* A step that trains: where it may stand, what it cannot do, and the memory that it takes. */
#include <string.h>

#include "compress/evaluate/evaluate.h"
#include "compress/plan/plan_internal.h"
#include "compress/plan/plan_walks.h"

static const char *name_of(const pare_plan *plan)
{
    return pare_passes[plan->training->pass]->name;
}

/* Only what turns weights into codes, and leaves those at 0 that are 0. */
static pare_status check_behind(pare_ctx *cx, const pare_plan *plan, size_t training)
{
    const char *const name = pare__plan_pass(plan, training)->name;
    for (size_t i = training + 1; i < plan->recipe.steps; i++) {
        const pare_pass *const pass = pare__plan_pass(plan, i);
        if ((pass->gives & PARE_FACT_CODES) && !pass->sparsity)
            continue;
        if (pass->training)
            return pare_recipe_fail(cx, pare__plan_step(plan, i)->place,
                                    "a recipe can have one %s; give it all the tokens, or leave "
                                    "this one out",
                                    name);
        return pare_recipe_fail(cx, pare__plan_step(plan, i)->place,
                                "%s comes after %s, and only quantizers can; put it before %s, or "
                                "leave it out",
                                pass->name, name, name);
    }
    return PARE_OK;
}

pare_status pare__plan_training(pare_ctx *cx, pare_plan *plan)
{
    size_t at = 0;
    while (at < plan->recipe.steps && !pare__plan_pass(plan, at)->training)
        at++;
    if (at == plan->recipe.steps)
        return PARE_OK;
    const pare_step *const step = pare__plan_step(plan, at);
    const char *const name = pare__plan_pass(plan, at)->name;
    PARE_TRY(check_behind(cx, plan, at));
    if (step->targets.count || step->skip.count)
        return pare_recipe_fail(cx, step->place,
                                "%s trains what the passes before it pruned, and takes no targets "
                                "and no skip; choose linears there",
                                name);
    if (plan->recipe.calibration.kind == PARE_CALIBRATION_NONE)
        return pare_recipe_fail(cx, step->place,
                                "%s trains on calibration data; add \"calibration:\" with text or "
                                "tokens",
                                name);
    plan->training = step;
    return PARE_OK;
}

/* What of the recipe does not go with it, or NULL. */
static const char *recipe_fault(const pare_plan *plan)
{
    if (plan->rotation || plan->transforms)
        return "pare cannot train a model that a transform changed yet; leave the transform out";
    if (plan->pruned == 0)
        return "no pass before it prunes a linear, and pare trains nothing else yet";
    for (size_t i = 0; i < plan->linears; i++)
        if (plan->linear[i].quantized && plan->linear[i].step < pare_plan_front(plan))
            return "pare cannot train what is quantized already; put the quantizer after it";
    if (plan->recipe.kv.method == PARE_KV_KVQUANT)
        return "pare does not find the levels of kv_cache kvquant in a model that it trains yet; "
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

/* Weights that are trained, and the most of one linear. */
static uint64_t trained_weights(const pare_plan *plan, uint64_t *most)
{
    uint64_t all = 0;
    *most = 0;
    for (size_t i = 0; i < plan->linears; i++) {
        const pare_packed_linear *const l = &plan->linear[i].packed;
        const uint64_t count = plan->linear[i].pruned ? (uint64_t)l->n * l->k : 0;
        all += count;
        *most = count > *most ? count : *most;
    }
    return all;
}

/* Weights pruned and trained; two states, each of values and two moments, while one takes the place
 * of the other. */
uint64_t pare__plan_train_disk(const pare_plan *plan)
{
    enum { FLOATS = 1 + 1 + 2 * 3 };
    uint64_t most;
    return plan->training ? trained_weights(plan, &most) * FLOATS * sizeof(float) : 0;
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
    uint64_t most;
    const uint64_t weights = trained_weights(plan, &most);
    if (!plan->training)
        return 0;
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
