/* Pruning: which step prunes which linear, what the facts refuse, how zeros are stored, and what is
 * evaluated afterwards. */
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "compress/artifact/sparsity_text.h"
#include "compress/plan/plan_internal.h"
#include "runtime/file.h"

/* Windows that are evaluated at most when the recipe names no data. */
/* Windows; fewer of those that the model must write first. */
enum { HELD_OUT_MOST = 32, HELD_OUT_WRITTEN = 8 };

/* What the parameters of a step ask for. */
static pare_status read_sparsity(pare_ctx *cx, const pare_plan *plan, size_t step,
                                 pare_sparsity *out)
{
    const pare_step *const s = pare__plan_step(plan, step);
    *out = (pare_sparsity){0};
    pare_status status = pare_passes[s->pass]->sparsity(cx, s->value, out);
    out->seed = plan->recipe.seed;
    if (status == PARE_OK)
        status = pare_sparsity_check(cx, out);
    if (status != PARE_EINVAL)
        return status;
    char reason[sizeof cx->what];
    memcpy(reason, cx->what, sizeof reason);
    pare_ctx_clear(cx);
    return pare_recipe_fail(cx, s->place, "%s: %s", pare__plan_pass(plan, step)->name, reason);
}

pare_status pare__plan_prune(pare_ctx *cx, const pare_plan *plan, size_t step, const bool *selected,
                             const int64_t *owner, int64_t *pruner)
{
    pare_sparsity unused;
    const size_t draws = pare_plan_draws(plan, step), samples = plan->recipe.calibration.samples;
    PARE_TRY(read_sparsity(cx, plan, step, &unused));
    if (draws == 1)
        return pare_recipe_fail(cx, pare__plan_step(plan, step)->place,
                                "%s: stability compares parts of the calibration, and one part has "
                                "nothing to agree with; take 2 to 16, or leave it out",
                                pare__plan_pass(plan, step)->name);
    if (samples && draws > samples)
        return pare_recipe_fail(cx, pare__plan_step(plan, step)->place,
                                "%s: stability wants %zu parts of the calibration, which has %zu "
                                "window%s",
                                pare__plan_pass(plan, step)->name, draws, samples,
                                pare_plural(samples));
    for (size_t i = 0; i < pare_plan_slots(plan); i++) {
        if (!selected[i])
            continue;
        const char *const name = pare_plan_at(plan, i)->name;
        if (pruner[i] >= 0)
            return pare_recipe_fail(cx, pare__plan_step(plan, step)->place,
                                    "%s: %s is already pruned by pass %zu (%s); separate them with "
                                    "targets and skip",
                                    pare__plan_pass(plan, step)->name, name, (size_t)pruner[i],
                                    pare__plan_pass(plan, (size_t)pruner[i])->name);
        if (owner[i] >= 0)
            return pare_recipe_fail(cx, pare__plan_step(plan, step)->place,
                                    "%s: %s is already quantized by pass %zu (%s), and what prunes "
                                    "must stand in front of it",
                                    pare__plan_pass(plan, step)->name, name, (size_t)owner[i],
                                    pare__plan_pass(plan, (size_t)owner[i])->name);
        pruner[i] = (int64_t)step;
    }
    return PARE_OK;
}

/* Two places for each four columns hold what stays: four columns touch one group or two that keep
 * one weight each, or lie in one group that keeps two. */
static bool fits_2_4(const pare_sparsity *s)
{
    return s->of && (s->keep == 1 || (s->keep == 2 && s->of % 4 == 0));
}

/* Half of the weights take as many bytes in places of 2:4 as behind a mask, fewer only behind a
 * mask, and nearly all of them fewest as a dense matrix. */
void pare__plan_store(pare_plan_linear *l)
{
    pare_packed_linear *const p = &l->packed;
    if (!pare_encoding_is_float(p->encoding))
        return;
    if (fits_2_4(&l->sparsity) && 2 * l->sparsity.keep == l->sparsity.of) {
        p->sparsity = PARE_SPARSITY_2_4;
        return;
    }
    p->sparsity = PARE_SPARSITY_BITMASK;
    p->kept = pare_sparsity_kept(&l->sparsity, p->n, p->k);
    if (pare_packed_linear_bytes(p).total < pare_sparsity_dense_bytes(p))
        return;
    p->sparsity = PARE_SPARSITY_NONE;
    p->kept = 0;
}

/* Nobody quantizes: weights stay in F16. */
static void store_floats(pare_plan_linear *l)
{
    pare_packed_linear *const p = &l->packed;
    p->bits = 16;
    p->symmetric = true;
    p->encoding = PARE_ENCODING_F16;
    p->activation = (pare_activation){.mode = PARE_ACTIVATION_FLOAT};
    pare__plan_store(l);
}

static bool packs_codes(const pare_packed_linear *p)
{
    return pare_encoding_fits_2_4(p->encoding, p->bits) && p->symmetric &&
           p->activation.mode != PARE_ACTIVATION_FLOAT && !p->outliers && !p->sparse;
}

pare_status pare__plan_sparse(pare_ctx *cx, const pare_plan *plan, pare_plan_linear *l)
{
    pare_packed_linear *const p = &l->packed;
    PARE_TRY(read_sparsity(cx, plan, l->prune_step, &l->sparsity));
    l->sparsity.tensor = pare_plan_slot(plan, l->block, l->part, l->role);
    if (l->quantized && pare_encodings[p->encoding].no_zero)
        return pare_recipe_fail(cx, pare__plan_step(plan, l->step)->place,
                                "%s: %s is pruned by pass %zu (%s), and the levels of this storage "
                                "have no 0 to keep; quantize it otherwise, or leave it out with "
                                "skip",
                                pare__plan_pass(plan, l->step)->name, p->name, l->prune_step,
                                pare__plan_pass(plan, l->prune_step)->name);
    if (!l->quantized)
        store_floats(l);
    else if (fits_2_4(&l->sparsity) && packs_codes(p))
        p->sparsity = PARE_SPARSITY_2_4;
    return PARE_OK;
}

static pare_place first_pruner(const pare_plan *plan, const char **name)
{
    size_t step = plan->structured ? 0 : SIZE_MAX;
    for (size_t i = 0; i < plan->linears; i++)
        if (plan->linear[i].pruned && plan->linear[i].prune_step < step)
            step = plan->linear[i].prune_step;
    *name = pare__plan_pass(plan, step)->name;
    return pare__plan_step(plan, step)->place;
}

pare_status pare__plan_refuse_held_out(pare_ctx *cx, const pare_plan *plan, const char *why)
{
    const char *name;
    if (plan->recipe.held_out)
        return pare_recipe_fail(
            cx, plan->recipe.held_out_place,
            "evaluate: held_out has no windows to measure: %s; give more text, or "
            "fewer samples, or evaluate perplexity or kl of another file",
            why);
    if (plan->training)
        return pare_recipe_fail(cx, plan->training->place,
                                "%s: what it trained is always evaluated on windows held out, and "
                                "%s; give more text, or fewer samples",
                                pare_passes[plan->training->pass]->name, why);
    const pare_place place = first_pruner(plan, &name);
    return pare_recipe_fail(cx, place,
                            "%s: a pruned model is always evaluated, the recipe has no "
                            "\"evaluate:\", and %s; add \"evaluate:\" with perplexity or kl of "
                            "a text or tokens file, or calibrate on fewer windows of a file",
                            name, why);
}

pare_status pare__plan_refuse_no_rest(pare_ctx *cx, const pare_plan *plan, size_t windows)
{
    const size_t fifth = (windows + 4) / 5, rest = fifth < HELD_OUT_MOST ? fifth : HELD_OUT_MOST;
    char why[160];
    (void)snprintf(why, sizeof why,
                   "calibration takes every window: the data have %zu; samples: %zu leaves %zu",
                   windows, windows - rest, rest);
    return pare__plan_refuse_held_out(cx, plan,
                                      windows > 1    ? why
                                      : windows == 1 ? "calibration takes the only window"
                                                     : "the data have no whole window");
}

/* A file of tokens tells its windows by its size; texts are cut when they are read. */
static pare_status check_tokens(pare_ctx *cx, pare_arena *a, const pare_plan *plan)
{
    const pare_calibration *const c = &plan->recipe.calibration;
    char *const directory = pare_path_directory(a, plan->job->recipe);
    char *const path = directory ? pare_path_join(a, directory, c->tokens.text) : NULL;
    struct stat st;
    if (!path)
        return PARE_ENOMEM;
    const bool known = stat(path, &st) == 0;
    const uint64_t windows =
        known ? (uint64_t)st.st_size / sizeof(int32_t) / plan->window : UINT64_MAX;
    return windows > plan->settled.samples ? PARE_OK
                                           : pare__plan_refuse_no_rest(cx, plan, (size_t)windows);
}

pare_status pare__plan_hold_out(pare_ctx *cx, pare_arena *a, pare_plan *plan)
{
    const pare_calibration *const c = &plan->recipe.calibration;
    const bool pruned =
        (plan->pruned || plan->structured || plan->recipe.lead) && !plan->recipe.evaluations;
    if (!pruned && !plan->training && !plan->recipe.held_out)
        return PARE_OK;
    plan->held_out = HELD_OUT_MOST;
    switch (c->kind) {
    case PARE_CALIBRATION_NONE:
        return pare__plan_refuse_held_out(cx, plan, "there is no calibration to hold windows out");
    case PARE_CALIBRATION_GENERATE:
        plan->held_out = HELD_OUT_WRITTEN;
        return plan->recipe.held_out ? PARE_OK
                                     : pare__plan_refuse_held_out(
                                           cx, plan, "calibration is on the model's own samples");
    case PARE_CALIBRATION_FROM:
        plan->held_out = plan->kept.about.held_out;
        return plan->held_out ? PARE_OK
                              : pare__plan_refuse_held_out(
                                    cx, plan, "the statistics were kept without windows held out");
    default: break;
    }
    if (c->samples == 0)
        return pare__plan_refuse_held_out(
            cx, plan,
            "calibration takes every window (samples: all); give samples "
            "a number that leaves windows to measure, up to 32");
    return c->kind == PARE_CALIBRATION_TOKENS ? check_tokens(cx, a, plan) : PARE_OK;
}
