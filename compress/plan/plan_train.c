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
    const char *const none = pare_config_no_training(&plan->model.config);
    PARE_TRY(check_behind(cx, plan, at));
    if (none)
        return pare__plan_refuse_family(cx, plan, step, "does not train", none);
    if (step->targets.count || step->skip.count)
        return pare_recipe_fail(cx, step->place,
                                "%s trains what the passes before it pruned or quantized, or else "
                                "what those behind it quantize, and takes no targets and no skip; "
                                "choose linears there",
                                name);
    if (plan->recipe.calibration.kind == PARE_CALIBRATION_NONE)
        return pare_recipe_fail(cx, step->place,
                                "%s trains on calibration data; add \"calibration:\" with text or "
                                "tokens",
                                name);
    plan->training = step;
    return PARE_OK;
}

pare_leaf pare_plan_outside(const pare_plan *plan, const pare_model *m, size_t i)
{
    const pare_leaf leaf = pare_model_leaf(m, i);
    const bool there = leaf.name && leaf.linear && leaf.linear->name;
    return plan->training && plan->train.embeddings && there ? leaf : (pare_leaf){0};
}

size_t pare_plan_aware_linears(const pare_plan *plan)
{
    size_t count = 0;
    for (size_t i = 0; i < plan->linears; i++)
        count += pare_plan_aware(plan, &plan->linear[i]);
    return count;
}

/* Whether a transform does more than learn how linears are rounded. */
static bool folds(const pare_plan *plan)
{
    for (size_t i = 0; i < plan->transforms; i++) {
        const size_t step = plan->transform[i].step;
        const pare_pass_transform *const t = pare__plan_pass(plan, step)->transform;
        if (!t->block || t->folds(pare__plan_step(plan, step)->value))
            return true;
    }
    return false;
}

/* What of the recipe does not go with it, or NULL. */
static const char *recipe_fault(const pare_plan *plan)
{
    const size_t aware = pare_plan_aware_linears(plan);
    if (plan->rotation || folds(plan))
        return "pare does not train a model that a transform changed yet; leave the transform out; "
               "only ebft, signround, and omniquant with scales: false, may stand in front";
    if (aware && !plan->train.aware)
        return "it trains what is quantized already only with \"aware: true\"; say so, or put the "
               "quantizer after it";
    if (!aware && plan->train.aware)
        return "aware: true trains the codes of a quantizer before it, and there is none; add one, "
               "or leave aware out";
    if (plan->linears == 0)
        return "no pass before it prunes a linear and none behind it quantizes one; add one, or "
               "take \"pare train\", which writes a trained checkpoint of floats";
    if (pare_plan_front(plan) == 0 && !plan->original_path && plan->train.losses.ce == 0)
        return "the model would learn only from itself, which knows no more; name another teacher "
               "with \"original: PATH\", give weight to ce, or put a pass that prunes before it";
    if (plan->recipe.kv.method == PARE_KV_KVQUANT)
        return "pare does not find the levels of kv_cache kvquant in a model that it trains yet; "
               "take another method";
    return NULL;
}

/* More windows than those of calibration, or none said. */
static pare_status check_windows(pare_ctx *cx, const pare_plan *plan)
{
    const size_t samples = plan->settled.samples, windows = plan->train.windows;
    if (windows == 0 || windows >= samples)
        return PARE_OK;
    return pare_recipe_fail(cx, plan->training->place,
                            "%s: windows: %zu are fewer than the %zu of calibration:, all of which "
                            "it trains on; take %zu or more, or fewer samples",
                            name_of(plan), windows, samples, samples);
}

/* What of the model does not, or NULL. */
static const char *model_fault(const pare_plan *plan)
{
    const pare_model *const m = &plan->model;
    bool packed = m->head.bits > 0;
    for (size_t i = 0; i < pare_plan_slots(plan); i++)
        packed |= pare_plan_at(plan, i)->bits > 0;
    for (size_t i = 0; i < PARE_MODEL_LEAVES; i++) {
        const pare_leaf leaf = pare_plan_outside(plan, m, i);
        packed |= leaf.linear && leaf.linear->bits > 0;
    }
    return packed ? "the model is quantized already, and pare does not take gradients through "
                    "packed weights; take a checkpoint of floats"
                  : NULL;
}

/* Codes that are not trained. */
static pare_status check_codes(pare_ctx *cx, const pare_plan *plan)
{
    for (size_t i = 0; i < plan->linears; i++) {
        const pare_plan_linear *const l = &plan->linear[i];
        const pare_packed_linear *const p = &l->packed;
        if (!pare_plan_aware(plan, l) ||
            (pare_aware_knows(p->encoding) && !p->outliers && !p->sparse &&
             p->activation.mode != PARE_ACTIVATION_TENSOR))
            continue;
        const pare_step *const step = pare__plan_step(plan, l->step);
        return pare_recipe_fail(
            cx, step->place,
            "%s: %s: %s with aware: true trains codes with a scale for each group, row or matrix, "
            "no weights kept apart, and no fixed scale of inputs: those of rtn, gptq, hqq (bits 2, "
            "3, 4, 8, grid: uniform), sparsegpt_joint and ternary, and the scales of exl3; take "
            "one of them, or put this one after %s",
            pare__plan_pass(plan, l->step)->name, p->name, name_of(plan), name_of(plan));
    }
    return PARE_OK;
}

pare_status pare__plan_train(pare_ctx *cx, pare_plan *plan)
{
    const pare_step *const step = plan->training;
    if (!step)
        return PARE_OK;
    pare_passes[step->pass]->training(step->value, plan->window, &plan->train);
    plan->train.seed = plan->recipe.seed;
    const char *fault = recipe_fault(plan);
    fault = fault ? fault : model_fault(plan);
    if (fault)
        return pare_recipe_fail(cx, step->place, "%s: %s", name_of(plan), fault);
    PARE_TRY(check_codes(cx, plan));
    PARE_TRY(check_windows(cx, plan));
    /* Samples may be all that the text has, which is not known yet. */
    const pare_train_data data = {NULL, 1, plan->window};
    const pare_config *const c = &plan->model.config;
    pare_status s = pare_train_check(cx, &data, &plan->train);
    if (s == PARE_OK)
        s = pare_train_check_pair(cx, c, pare_plan_original(plan), &plan->train);
    if (s != PARE_EINVAL)
        return s;
    char reason[sizeof cx->what];
    memcpy(reason, cx->what, sizeof reason);
    pare_ctx_clear(cx);
    return pare_recipe_fail(cx, step->place, "%s: %s", name_of(plan), reason);
}

/* Weights that are trained in blocks, and outside; those of them with codes in place, and scales
 * and zero points of these; floats kept of all in blocks, the most weights of one linear and of one
 * block, the bytes of all as leaves, and those of them that a saved state has. */
typedef struct trained {
    uint64_t weights, outside, aware, steps, kept, most, block, bytes, saved;
} trained;

static void count_leaf(trained *t, uint64_t count, bool fixed, bool moments8)
{
    const uint64_t all = pare_trained_bytes(count, moments8), gradient = count * sizeof(float);
    t->bytes += fixed ? 2 * gradient : all;
    t->saved += fixed ? 0 : all - gradient;
}

static trained count_trained(const pare_plan *plan)
{
    trained t = {0};
    uint64_t block = 0;
    for (size_t i = 0; i < plan->linears; i++) {
        const pare_plan_linear *const l = &plan->linear[i];
        const pare_grid grid = pare_plan_grid(plan, l);
        const uint64_t count = (uint64_t)l->packed.n * l->packed.k;
        const bool aware = pare_plan_aware(plan, l), moments8 = plan->train.moments8;
        block = i > 0 && l->block == l[-1].block ? block : 0;
        if (!pare_plan_trains(plan, l))
            continue;
        t.weights += count;
        count_leaf(&t, count, aware && pare_aware_fixed(grid.encoding), moments8);
        if (aware)
            count_leaf(&t, pare_aware_steps(&grid, l->packed.n, l->packed.k), false, moments8);
        t.aware += aware ? count : 0;
        t.steps += pare_plan_steps(plan, l);
        t.kept += count + pare_plan_beside(plan, l);
        t.most = count > t.most ? count : t.most;
        block += count;
        t.block = block > t.block ? block : t.block;
    }
    for (size_t i = 0; i < PARE_MODEL_LEAVES; i++) {
        const pare_leaf leaf = pare_plan_outside(plan, &plan->model, i);
        t.outside += (uint64_t)leaf.n * leaf.k;
    }
    count_leaf(&t, t.outside, false, false);
    return t;
}

/* Weights and steps in front and behind, outside the blocks behind alone; two states, each of
 * values and two moments, while one takes the place of the other. */
uint64_t pare__plan_train_disk(const pare_plan *plan)
{
    const trained t = count_trained(plan);
    return (2 * t.kept + t.outside) * sizeof(float) + 2 * t.saved;
}

/* Of codes in place: values and codes of each weight; of each group a step as a leaf, its scale and
 * zero point, and both as they are kept. */
static uint64_t aware_bytes(const pare_plan *plan, const trained *t)
{
    enum { OF_LINEAR = sizeof(pare_aware) + sizeof(pare_trained) + 12 * PARE_ALIGN };
    return t->aware * (sizeof(float) + 1) + t->steps * 4 * sizeof(float) +
           plan->linears * OF_LINEAR;
}

/* Leaves; a student that views them; beside them the
 * training, an evaluation, or the largest linear as it is stored. */
uint64_t pare__plan_train_bytes(const pare_ctx *cx, const pare_plan *plan,
                                const pare_settled *settled)
{
    enum { OF_LEAF = sizeof(pare_trained) + 20 * PARE_ALIGN, COPIES = 4, ROUNDING = 1 << 20 };
    const pare_config *const c = &plan->model.config, *const teacher = pare_plan_original(plan);
    const pare_kv_format floats = {.method = PARE_KV_FLOAT};
    const pare_eval_side side = {c, &floats, PARE_INPUTS_NONE},
                         taught_by = {teacher, &floats, PARE_INPUTS_NONE};
    const pare_train_data data = {NULL, settled->samples, plan->window};
    const trained t = count_trained(plan);
    pare_train_opts o = plan->train;
    if (!plan->training)
        return 0;
    o.keep = settled->memory.keep;
    const uint64_t beside[] = {
        pare_train_bytes(cx, c, teacher, &data, &o, 2 * plan->linears + PARE_MODEL_LEAVES,
                         t.block + t.outside),
        pare_evaluate_bytes(cx, &side, &taught_by, plan->window, plan->held_out * plan->window),
        COPIES * t.most * sizeof(float) + pare_plan_stored_bytes(plan)};
    uint64_t largest = 0;
    for (size_t i = 0; i < sizeof beside / sizeof *beside; i++)
        largest = beside[i] > largest ? beside[i] : largest;
    return t.bytes + aware_bytes(plan, &t) + (plan->linears + PARE_MODEL_LEAVES) * OF_LEAF +
           c->blocks * (sizeof(pare_block) + c->experts * PARE_ROLES * sizeof(pare_linear)) +
           2 * pare__plan_rope_bytes(c, plan->window) + ROUNDING + largest;
}
