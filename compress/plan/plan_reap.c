/* Experts that go: how many can, and what of the checkpoint is left then. Which ones is known while
 * the job runs, so names and shapes of what is written are those of the first ones. */
#include "compress/plan/plan_reap.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "calib/wave.h"
#include "compress/plan/plan_internal.h"
#include "runtime/small.h"

/* Why experts cannot be taken out of a checkpoint; NULL: they can. */
static const char *cannot(const pare_plan *plan)
{
    const pare_arch *const a = plan->model.config.arch;
    const pare_recurrence_names *const r = a->recurrent ? a->recurrent->recurrence : NULL;
    if (!a->experts)
        return "it has no experts";
    if (a->fused[0].name || (r && r->fused[0]))
        return "its checkpoints hold several linears in one tensor";
    if (a->experts->stacking != PARE_STACKING_NONE && plan->checkpoint.arranged)
        return "its checkpoints hold all experts of a block in one tensor, and a GGUF file does "
               "not say how; take the model in safetensors";
    return NULL;
}

static const pare_tensor *twin_of(const pare_plan *plan, const char *rest, size_t block,
                                  size_t expert)
{
    char name[1024];
    return pare_arch_name_in(plan->model.config.arch, block, expert + 1, rest, name, sizeof name)
               ? pare_checkpoint_find(&plan->checkpoint, name)
               : NULL;
}

/* An expert comes to stand in the place of another one, so all must have the same tensors, of the
 * same types. */
static pare_status check_alike(pare_ctx *cx, const pare_plan *plan, size_t step)
{
    const pare_config *const c = &plan->model.config;
    const pare_checkpoint *const ck = &plan->checkpoint;
    size_t firsts = 0, all = 0;
    for (size_t i = 0; i < ck->tensors; i++) {
        const pare_tensor *const t = &ck->tensor[i];
        size_t block, expert;
        const char *rest;
        if (!plan->model.used[i] || !pare_arch_expert(c->arch, t->name, &block, &expert, &rest))
            continue;
        const pare_tensor *const first = twin_of(plan, rest, block, 0);
        all++;
        firsts += expert == 0;
        if (!first || first->dtype != t->dtype)
            return pare_recipe_fail(cx, pare__plan_step(plan, step)->place,
                                    "%s: %s is stored as %s and that of expert 0 as %s; experts "
                                    "take each other's place, so all of a block must have the same "
                                    "types",
                                    pare__plan_pass(plan, step)->name, t->name,
                                    pare_dtype_name(t->dtype),
                                    first ? pare_dtype_name(first->dtype) : "nothing");
    }
    if (all != firsts * c->experts || (ck->stacks && all != ck->stacked))
        return pare_recipe_fail(cx, pare__plan_step(plan, step)->place,
                                "%s: experts of a block do not have the same tensors (%zu in all, "
                                "%zu of those numbered 0), and take each other's place",
                                pare__plan_pass(plan, step)->name, all, firsts);
    return PARE_OK;
}

/* Experts that stay of each of `groups`, `each` large, of which `needed` must for a token, and two
 * that speak for a group where sigmoids pick (runtime/route.c). */
static pare_status choose_count(pare_ctx *cx, const pare_plan *plan, size_t step, double share,
                                size_t groups, size_t needed, size_t *kept)
{
    const pare_config *const c = &plan->model.config;
    const size_t each = c->experts / groups;
    const pare_place place = pare__plan_step(plan, step)->place;
    const char *const name = pare__plan_pass(plan, step)->name;
    const size_t least = c->arch->experts->correction ? pare_larger(needed, 2) : needed;
    char of[64] = "a block", why[64] = "two experts speak for a group";
    if (groups > 1)
        (void)snprintf(of, sizeof of, "each of the %zu groups of a block", groups);
    if (least == needed)
        (void)snprintf(why, sizeof why, "a token uses %zu of %zu", c->experts_used, c->experts);
    *kept = pare_part_kept(each, share, 1);
    if (least >= each)
        return pare_recipe_fail(cx, place,
                                "%s: no expert can go: %s, for which all %zu of %s are needed",
                                name, why, each, of);
    if (*kept == each)
        return pare_recipe_fail(cx, place,
                                "%s: nothing would go: of the %zu experts of %s, all that stay are "
                                "rounded up; raise the ratio to %g",
                                name, each, of, ceil(1e4 / (double)each) / 1e4);
    if (*kept < least)
        return pare_recipe_fail(cx, place,
                                "%s: a ratio of %g leaves %zu of the %zu experts of %s, and %s, "
                                "so that %zu must stay there; lower it to %.4g",
                                name, share, *kept, each, of, why, least,
                                (double)(each - least) / (double)each);
    return PARE_OK;
}

/* Bits of a linear in what is written: codes of another program stay codes. */
static double bits_of_linear(const pare_plan *plan, const pare_linear *l, bool expert)
{
    const pare_stored *const codes = expert && pare_plan_copies_codes(plan)
                                         ? pare_checkpoint_stored(&plan->checkpoint, l->name)
                                         : NULL;
    return codes ? 8.0 * (double)codes->bytes
                 : (double)l->n * (double)l->k * pare_dtype_bits(l->dtype);
}

/* Bits of a weight in what the blocks keep. */
static double bits_of(const pare_plan *plan)
{
    double bits = 0, weights = 0;
    for (size_t i = 0; i < pare_plan_slots(plan); i++) {
        const pare_linear *const l = pare_plan_at(plan, i);
        const size_t part = i / PARE_ROLES % plan->parts;
        if (part > plan->out.experts)
            continue;
        weights += l->name ? (double)l->n * (double)l->k : 0;
        bits += l->name ? bits_of_linear(plan, l, part > 0) : 0;
    }
    return weights > 0 ? bits / weights : 0;
}

pare_status pare__plan_reap(pare_ctx *cx, pare_plan *plan, size_t step, double share)
{
    const pare_config *const c = &plan->model.config;
    const pare_step *const st = pare__plan_step(plan, step);
    const char *const why = cannot(plan), *const name = pare__plan_pass(plan, step)->name;
    size_t kept;
    if (why)
        return pare__plan_refuse_family(cx, plan, st, "cannot take experts out of", why);
    if (plan->recipe.steps > 1)
        return pare_recipe_fail(cx, st->place,
                                "%s looks at the model as it was and copies what stays, so no "
                                "other pass that makes it smaller can stand beside it; give what "
                                "it wrote to a second recipe",
                                name);
    if (plan->checkpoint.stacks && plan->recipe.nan != PARE_NAN_ERROR)
        return pare_recipe_fail(cx, st->place,
                                "%s: tensors that hold all experts of a block are copied as they "
                                "are; leave out nan",
                                name);
    const size_t groups = c->expert_multiple ? c->expert_multiple : 1;
    const size_t picked = c->expert_groups ? c->expert_groups_used : groups;
    const size_t needed = (c->experts_used + picked - 1) / picked;
    PARE_TRY(choose_count(cx, plan, step, share, groups, needed, &kept));
    PARE_TRY(check_alike(cx, plan, step));
    plan->out.experts = kept * groups;
    plan->calibrated = true;
    plan->settled.bits_per_weight = bits_of(plan);
    return PARE_OK;
}

bool pare_plan_reaps_by_tokens(const pare_plan *plan)
{
    return pare__plan_pass(plan, 0)->structure(pare__plan_step(plan, 0)->value).frequency;
}

bool pare_plan_copies_codes(const pare_plan *plan)
{
    bool codes = false;
    for (size_t i = 0; i < plan->checkpoint.stacks; i++)
        codes |= plan->checkpoint.stack[i].dtype == PARE_U8;
    return codes;
}

bool pare__plan_expert_goes(const pare_plan *plan, const char *tensor)
{
    size_t block, expert;
    const char *rest;
    return pare_arch_expert(plan->model.config.arch, tensor, &block, &expert, &rest) &&
           (plan->checkpoint.stacks || expert >= plan->out.experts);
}

/* Whether a name is `base` and one of the endings of a linear. */
static bool is_of(const char *inside, const char *base)
{
    const size_t len = strlen(base);
    return strncmp(inside, base, len) == 0 &&
           (strcmp(inside + len, ".weight") == 0 || strcmp(inside + len, ".bias") == 0);
}

bool pare_plan_has_pieces(const pare_plan *plan, const char *tensor, size_t *block)
{
    const pare_config *const c = &plan->model.config;
    const pare_experts *const e = c->arch->experts;
    const char *const inside = pare_arch_inside(c->arch, tensor, block);
    size_t expert;
    const char *rest;
    if (!inside || *block >= c->blocks || !pare_block_arch(c, *block)->experts ||
        pare_arch_expert(c->arch, tensor, block, &expert, &rest))
        return false;
    return is_of(inside, e->router) || (e->correction && strcmp(inside, e->correction) == 0) ||
           strncmp(inside, e->prefix, strcspn(e->prefix, "%")) == 0;
}

void pare__plan_cut_experts(const pare_plan *plan, pare_tensor *t)
{
    size_t block;
    if (pare_plan_reaps(plan) && pare_plan_has_pieces(plan, t->name, &block))
        t->shape[0] = plan->out.experts;
}

uint64_t pare__plan_reap_bytes(const pare_ctx *cx, const pare_plan *plan)
{
    const pare_config *const c = &plan->model.config;
    const uint64_t tokens = (uint64_t)plan->batch * plan->window;
    /* sizes of outputs; scores and their order; those of all blocks */
    return pare_wave_scratch(cx, c, plan->batch, plan->window,
                             (pare_wave_kind){plan->bf16, true, true}) +
           tokens * (c->hidden * sizeof(float) + sizeof(double)) +
           c->experts * (c->blocks + 4) * 4 * sizeof(double);
}
