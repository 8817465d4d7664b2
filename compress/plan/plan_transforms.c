/* Transforms: which sites they work on, what the facts refuse, and which tensors change. */
#include <stdio.h>
#include <string.h>

#include "compress/plan/plan_internal.h"
#include "compress/plan/plan_reap.h"

/* Sites that transforms work on where a model has experts. */
static const unsigned attention_sites = 1u << PARE_SITE_ATTENTION | 1u << PARE_SITE_ATTENDED;

static unsigned folds_of(const pare_plan *plan, size_t step)
{
    const pare_pass *const pass = pare__plan_pass(plan, step);
    return pass->transform ? pass->transform->folds(pare__plan_step(plan, step)->value) : 0;
}

static const char *linear_name(const pare_plan *plan, size_t block, size_t role)
{
    return plan->model.block[block].linear[role].name;
}

static bool reads(const pare_plan *plan, size_t block, size_t role, pare_site site)
{
    return pare_block_arch(&plan->model.config, block)->linear[role].site == site;
}

/* The role whose rows make the input of a site, or PARE_ROLES. */
static size_t producing_role(const pare_plan *plan, pare_site site)
{
    const pare_producer *const p = &plan->model.config.arch->producer[site];
    return p->kind == PARE_PRODUCER_LINEAR ? (size_t)p->role : PARE_ROLES;
}

static pare_status refuse_quantized(pare_ctx *cx, const pare_plan *plan, size_t step,
                                    const char *name, size_t by)
{
    return pare_recipe_fail(cx, pare__plan_step(plan, step)->place,
                            "%s: %s is already quantized by pass %zu (%s), and what changes "
                            "weights must stand in front of it",
                            pare__plan_pass(plan, step)->name, name, by,
                            pare__plan_pass(plan, by)->name);
}

/* True when a step gives `role`, which makes the input of the site, another order of rows. */
static bool reorders(const pare_plan *plan, size_t step, pare_site site, size_t role)
{
    return (folds_of(plan, step) & PARE_FOLDS_ORDER) &&
           pare_fold_reorders(&plan->model.config, site, (pare_role)role);
}

/* What changes places is still floats, and has no zeros that must stay where they are. */
static pare_status check_order(pare_ctx *cx, const pare_plan *plan, size_t step, size_t block,
                               pare_site site, const int64_t *owner, const int64_t *pruner)
{
    for (size_t role = 0; role < PARE_ROLES; role++) {
        const char *const name = linear_name(plan, block, role);
        const bool moves = reorders(plan, step, site, role);
        if (moves && owner[role] >= 0)
            return refuse_quantized(cx, plan, step, name, (size_t)owner[role]);
        if ((moves || reads(plan, block, role, site)) && pruner[role] >= 0)
            return pare_recipe_fail(cx, pare__plan_step(plan, step)->place,
                                    "%s: %s is already pruned by pass %zu (%s), and what orders "
                                    "channels must stand in front of it",
                                    pare__plan_pass(plan, step)->name, name, (size_t)pruner[role],
                                    pare__plan_pass(plan, (size_t)pruner[role])->name);
    }
    return PARE_OK;
}

/* The linears of the site that are selected are still floats. Where their input changes they are
 * all that read it, and what makes it is still floats, too. */
static pare_status check_site(pare_ctx *cx, const pare_plan *plan, size_t step, size_t block,
                              pare_site site, const bool *selected, const int64_t *owner)
{
    const char *some = NULL;
    const unsigned folds = folds_of(plan, step);
    for (size_t role = 0; role < PARE_ROLES; role++)
        if (reads(plan, block, role, site) && selected[role])
            some = linear_name(plan, block, role);
    for (size_t role = 0; role < PARE_ROLES; role++) {
        if (!reads(plan, block, role, site))
            continue;
        if (!selected[role] && !folds)
            continue;
        if (!selected[role])
            return pare_recipe_fail(
                cx, pare__plan_step(plan, step)->place,
                "%s: %s reads the same input as %s, and targets and skip leave it out; take "
                "all of them or none",
                pare__plan_pass(plan, step)->name, linear_name(plan, block, role), some);
        if (owner[role] >= 0)
            return refuse_quantized(cx, plan, step, linear_name(plan, block, role),
                                    (size_t)owner[role]);
    }
    const pare_pass_transform *const t = pare__plan_pass(plan, step)->transform;
    const bool unscaled =
        t->works_unscaled && t->works_unscaled(pare__plan_step(plan, step)->value);
    if (folds && !unscaled && pare_fold_channels(&plan->model.config, site) == 0)
        return pare_recipe_fail(
            cx, pare__plan_step(plan, step)->place,
            "%s: nothing in front of %s can take a scale or a shift; leave it out "
            "with skip, or choose others with targets",
            pare__plan_pass(plan, step)->name, some);
    if ((folds & PARE_FOLDS_SHIFT) && site == PARE_SITE_ACTIVATED)
        return pare_recipe_fail(
            cx, pare__plan_step(plan, step)->place,
            "%s: the input of %s comes from an activation, behind which no bias "
            "shifts; leave that site out",
            pare__plan_pass(plan, step)->name, some);
    if ((folds & PARE_FOLDS_SHIFT) && site == PARE_SITE_ATTENDED && plan->model.config.arch->sinks)
        return pare_recipe_fail(
            cx, pare__plan_step(plan, step)->place,
            "%s: the input of %s comes from attention with sinks, whose weights do not sum to 1, "
            "so that no bias shifts it; leave that site out, or take shift: false",
            pare__plan_pass(plan, step)->name, some);
    const size_t role = producing_role(plan, site);
    if (folds && role < PARE_ROLES && owner[role] >= 0)
        return refuse_quantized(cx, plan, step, linear_name(plan, block, role),
                                (size_t)owner[role]);
    return PARE_OK;
}

static pare_status refuse_nothing(pare_ctx *cx, const pare_plan *plan, size_t step, unsigned sites)
{
    char names[512] = "";
    size_t used = 0;
    for (size_t role = 0; role < PARE_ROLES; role++) {
        const pare_linear_desc *const d = &plan->model.config.arch->linear[role];
        const bool works = d->site < PARE_SITES && sites & (1u << d->site);
        if (works && used < sizeof names)
            used += (size_t)snprintf(names + used, sizeof names - used, "%s%s", used ? ", " : "",
                                     d->name);
    }
    return pare_recipe_fail(cx, pare__plan_step(plan, step)->place,
                            "%s: targets and skip leave no input to work on; with these parameters "
                            "it works on those of %s",
                            pare__plan_pass(plan, step)->name, names);
}

/* A family in which nothing takes what the step folds, whatever its targets: said at once, since
 * each linear that a user leaves out would only give the next one. */
static pare_status check_family(pare_ctx *cx, const pare_plan *plan, size_t step, unsigned sites)
{
    const pare_config *const c = &plan->model.config;
    const pare_step *const s = pare__plan_step(plan, step);
    const pare_pass_transform *const t = pare__plan_pass(plan, step)->transform;
    bool others = false;
    if (!folds_of(plan, step) || (t->works_unscaled && t->works_unscaled(s->value)))
        return PARE_OK;
    for (pare_site site = 0; site < PARE_SITES; site++) {
        if (!pare_fold_channels(c, site) || (c->experts && !(attention_sites & (1u << site))))
            continue;
        if (sites & (1u << site))
            return PARE_OK;
        others = true;
    }
    return pare__plan_refuse_family(
        cx, plan, s, "does not work on the inputs of",
        others ? "nothing in front of those that it changes with these parameters can take a scale "
                 "or a shift; leave the pass out, quantizers and pruners work without it"
        : c->experts
            ? "routers read those of MLPs, too, and nothing in front of the others can take a "
              "scale or a shift; leave the pass out, quantizers and pruners work without it"
            : "nothing in front of them can take a scale or a shift; leave the pass out, "
              "quantizers and pruners work without it");
}

/* Where a block has experts a transform works on attention only: what changes the input of the MLPs
 * changes that of the router, and activated inputs differ by expert. What a recipe names is
 * refused, what it takes with everything else is left alone. */
static pare_status leave_experts(pare_ctx *cx, pare_plan *plan, size_t step, const bool *selected,
                                 unsigned *sites)
{
    const pare_arch *const arch = plan->model.config.arch;
    const unsigned left = *sites & ~attention_sites;
    *sites &= attention_sites;
    for (size_t i = 0; i < pare_plan_slots(plan); i++) {
        const pare_role role = (pare_role)(i % PARE_ROLES);
        const pare_site site = pare_arch_linear(arch, i / PARE_ROLES % plan->parts, role)->site;
        if (!selected[i] || site >= PARE_SITES || !(left & (1u << site)))
            continue;
        plan->left[step]++;
        if (pare__plan_step(plan, step)->targets.count)
            return pare_recipe_fail(
                cx, pare__plan_step(plan, step)->place,
                "%s: %s: the input of MLPs is that of the router and of all experts at once, and "
                "behind an activation each expert has its own; this pass works on the inputs of "
                "attention only where a model has experts",
                pare__plan_pass(plan, step)->name, pare_plan_at(plan, i)->name);
    }
    return PARE_OK;
}

pare_status pare__plan_transform(pare_ctx *cx, pare_plan *plan, size_t step, const bool *selected,
                                 const int64_t *owner, const int64_t *pruner)
{
    const pare_pass *const pass = pare__plan_pass(plan, step);
    unsigned sites = pass->transform->sites(pare__plan_step(plan, step)->value);
    const size_t before = plan->transforms;
    if (pass->transform->block && plan->model.config.experts)
        return pare__plan_refuse_family(cx, plan, pare__plan_step(plan, step),
                                        "does not learn on the blocks of",
                                        "its MLP is a mixture of experts");
    PARE_TRY(check_family(cx, plan, step, sites));
    if (plan->model.config.experts)
        PARE_TRY(leave_experts(cx, plan, step, selected, &sites));
    const bool restores = pass->transform->restores;
    for (size_t block = 0; block < plan->model.config.blocks; block++)
        for (unsigned site = 0; site < PARE_SITES; site++) {
            const size_t at = pare_plan_slot(plan, block, 0, 0);
            unsigned roles = 0;
            for (size_t role = 0; role < PARE_ROLES; role++)
                if (reads(plan, block, role, (pare_site)site) && selected[at + role] &&
                    (!restores || pruner[at + role] >= 0))
                    roles |= 1u << role;
            if (!roles || !(sites & (1u << site)))
                continue;
            PARE_TRY(check_site(cx, plan, step, block, (pare_site)site, selected + at, owner + at));
            if (folds_of(plan, step) & PARE_FOLDS_ORDER)
                PARE_TRY(
                    check_order(cx, plan, step, block, (pare_site)site, owner + at, pruner + at));
            plan->transform[plan->transforms++] = (pare_plan_transform){
                .block = block, .site = (pare_site)site, .roles = roles, .step = step};
        }
    if (plan->transforms == before && restores)
        return pare_recipe_fail(cx, pare__plan_step(plan, step)->place,
                                "%s: no pass in front of it prunes a linear that it works on; put "
                                "a pruner there",
                                pass->name);
    if (plan->transforms == before)
        return refuse_nothing(cx, plan, step, sites);
    return PARE_OK;
}

/* The transform can work with the grid of the quantizer behind it. */
static pare_status check_grid(pare_ctx *cx, const pare_plan *plan, size_t step, size_t behind,
                              const char *name)
{
    const pare_pass *const pass = pare__plan_pass(plan, step), *const quantizer =
                                                                   pare__plan_pass(plan, behind);
    if (!pass->transform->refuses)
        return PARE_OK;
    pare_grid grid = {0};
    if (quantizer->grid)
        grid = quantizer->grid(pare__plan_step(plan, behind)->value);
    const char *const reason = pass->transform->refuses(
        pare__plan_step(plan, step)->value, quantizer->grid ? &grid : NULL,
        quantizer->nearest && quantizer->nearest(pare__plan_step(plan, behind)->value));
    if (!reason)
        return PARE_OK;
    return pare_recipe_fail(cx, pare__plan_step(plan, step)->place, "%s: %s (%s of %s)", pass->name,
                            reason, quantizer->name, name);
}

static pare_plan_linear *find_linear(const pare_plan *plan, size_t block, size_t role)
{
    size_t i, end;
    for (pare_plan_range(plan, block, 0, &i, &end); i < end; i++)
        if (plan->linear[i].role == role)
            return &plan->linear[i];
    return NULL;
}

/* An order of channels matters to N:M only. */
static pare_status check_pattern(pare_ctx *cx, const pare_plan *plan, const pare_plan_transform *t,
                                 size_t role)
{
    const pare_plan_linear *const l = find_linear(plan, t->block, role);
    if (l && l->pruned && l->sparsity.of)
        return PARE_OK;
    return pare_recipe_fail(cx, pare__plan_step(plan, t->step)->place,
                            "%s: no pass behind it prunes %s by a pattern N:M, and nothing else "
                            "asks for an order of channels; add one, or leave the linear out here "
                            "with skip",
                            pare__plan_pass(plan, t->step)->name,
                            linear_name(plan, t->block, role));
}

/* Whether a step prunes a linear or transforms its input. */
static bool works_on(const pare_plan *plan, size_t step, const pare_plan_transform *t, size_t role)
{
    const pare_plan_linear *const l = find_linear(plan, t->block, role);
    if (l && l->pruned && l->prune_step == step)
        return true;
    for (size_t i = 0; i < plan->transforms; i++)
        if (plan->transform[i].step == step && plan->transform[i].block == t->block &&
            plan->transform[i].roles & 1u << role)
            return true;
    return false;
}

/* What a transform learned of codes goes to the quantizer as it is. */
static pare_status check_last(pare_ctx *cx, const pare_plan *plan, const pare_plan_transform *t,
                              size_t behind, size_t role)
{
    const pare_pass *const pass = pare__plan_pass(plan, t->step);
    for (size_t step = t->step + 1; pass->transform->last && step < behind; step++)
        if (works_on(plan, step, t, role))
            return pare_recipe_fail(cx, pare__plan_step(plan, step)->place,
                                    "%s changes %s behind %s, which has learned how to round it; "
                                    "put it in front of %s",
                                    pare__plan_pass(plan, step)->name,
                                    linear_name(plan, t->block, role), pass->name, pass->name);
    return PARE_OK;
}

/* A transform has a quantizer behind it on every linear that it works on, one that orders channels
 * a pruner, and the order of the work leaves what it folds into alone. */
static pare_status check_behind(pare_ctx *cx, const pare_plan *plan, const pare_plan_transform *t,
                                const int64_t *owner)
{
    const pare_pass *const pass = pare__plan_pass(plan, t->step);
    const pare_place place = pare__plan_step(plan, t->step)->place;
    for (size_t role = 0; role < PARE_ROLES; role++) {
        const int64_t behind = owner[pare_plan_slot(plan, t->block, 0, role)];
        if (!(t->roles & 1u << role))
            continue;
        if (folds_of(plan, t->step) & PARE_FOLDS_ORDER) {
            PARE_TRY(check_pattern(cx, plan, t, role));
            continue;
        }
        if (behind < 0 && pass->transform->restores)
            continue;
        if (behind < 0)
            return pare_recipe_fail(cx, place,
                                    "%s: no pass behind it quantizes %s; add one, or leave the "
                                    "linear out here with skip",
                                    pass->name, linear_name(plan, t->block, role));
        PARE_TRY(check_grid(cx, plan, t->step, (size_t)behind, linear_name(plan, t->block, role)));
        PARE_TRY(check_last(cx, plan, t, (size_t)behind, role));
    }
    if (plan->sequential && folds_of(plan, t->step) && producing_role(plan, t->site) < PARE_ROLES)
        return pare_recipe_fail(cx, place,
                                "%s: true_sequential, which correct implies, quantizes %s before "
                                "the statistics that scale it are there; leave that input out or "
                                "drop true_sequential and correct",
                                pass->name,
                                linear_name(plan, t->block, producing_role(plan, t->site)));
    if (plan->sequential && pass->transform->block)
        return pare_recipe_fail(cx, place,
                                "%s looks at a whole block at once, and true_sequential, which "
                                "correct implies, takes it apart; drop both",
                                pass->name);
    return PARE_OK;
}

static pare_status check_count(pare_ctx *cx, const pare_plan *plan)
{
    size_t count = 1 + (plan->pruned > 0); /* the quantizer, a pruner */
    for (size_t step = 0; step < plan->recipe.steps; step++) {
        count += pare_pass_transforms(pare__plan_pass(plan, step));
        if (count > PARE_STEPS_MAX)
            return pare_recipe_fail(cx, pare__plan_step(plan, step)->place,
                                    "more than %d passes in a row", PARE_STEPS_MAX);
    }
    return PARE_OK;
}

static bool has_kind(const pare_plan_changed *c, pare_changed_kind kind, size_t block, size_t index)
{
    return c->block == block && c->kind == kind && c->index == index;
}

/* Room for a name behind the prefix of a block. */
static char *name_in(pare_arena *a, const char *base, const char *suffix)
{
    const size_t size = strlen(base) + strlen(suffix) + 1;
    char *const name = PARE_NEW(a, char, size);
    if (name)
        (void)snprintf(name, size, "%s%s", base, suffix);
    return name;
}

static char *norm_name(pare_arena *a, const pare_plan *plan, size_t block, size_t norm,
                       const char *suffix)
{
    const pare_arch *const arch = plan->model.config.arch;
    char prefix[512], base[1024];
    (void)snprintf(prefix, sizeof prefix, arch->block_prefix, block);
    (void)snprintf(base, sizeof base, "%s%s", prefix,
                   norm == 0 ? arch->attention_norm : arch->mlp_norm);
    return name_in(a, base, suffix);
}

/* Adds a tensor once. */
static pare_status add_changed(pare_plan *plan, const pare_plan_changed *c, char *name)
{
    for (size_t i = 0; i < plan->changes; i++)
        if (has_kind(&plan->changed[i], c->kind, c->block, c->index))
            return PARE_OK;
    if (!name)
        return PARE_ENOMEM;
    plan->changed[plan->changes] = *c;
    plan->changed[plan->changes++].tensor.name = name;
    return PARE_OK;
}

static pare_status change_vector(pare_arena *a, pare_plan *plan, pare_changed_kind kind,
                                 size_t block, size_t index)
{
    const bool norm = kind == PARE_CHANGED_NORM || kind == PARE_CHANGED_NORM_BIAS;
    const pare_linear *const l = norm ? NULL : &plan->model.block[block].linear[index];
    const pare_plan_changed c = {.kind = kind,
                                 .block = block,
                                 .index = index,
                                 .tensor = {.dtype = PARE_F32,
                                            .rank = 1,
                                            .shape = {norm ? plan->model.config.hidden : l->n}}};
    return add_changed(
        plan, &c,
        norm ? norm_name(a, plan, block, index, kind == PARE_CHANGED_NORM ? ".weight" : ".bias")
             : name_in(a, l->name, ".bias"));
}

/* The bias of a linear is stored anew: with its codes, or as a vector of its own. */
static pare_status change_bias(pare_arena *a, pare_plan *plan, size_t block, size_t role)
{
    pare_plan_linear *const l = find_linear(plan, block, role);
    plan->biases.linear |= 1u << role;
    if (!l)
        return change_vector(a, plan, PARE_CHANGED_BIAS, block, role);
    l->packed.bias = true;
    return PARE_OK;
}

/* A linear changes; when nobody quantizes it, it is stored in the type it came in. */
static pare_status change_weight(pare_arena *a, pare_plan *plan, size_t block, size_t role)
{
    const pare_linear *const l = &plan->model.block[block].linear[role];
    if (find_linear(plan, block, role))
        return PARE_OK;
    const pare_plan_changed c = {.kind = PARE_CHANGED_WEIGHT,
                                 .block = block,
                                 .index = role,
                                 .tensor = {.dtype = l->dtype, .rank = 2, .shape = {l->n, l->k}}};
    return add_changed(plan, &c, name_in(a, l->name, ".weight"));
}

static pare_status change_rows(pare_arena *a, pare_plan *plan, size_t block, size_t role)
{
    if (plan->model.block[block].linear[role].bias)
        PARE_TRY(change_bias(a, plan, block, role));
    return change_weight(a, plan, block, role);
}

static pare_status change_site(pare_arena *a, pare_plan *plan, const pare_plan_transform *t)
{
    const unsigned folds = folds_of(plan, t->step);
    const int norm = pare_site_norm(&plan->model.config, t->site);
    const pare_block *const block = &plan->model.block[t->block];
    if (norm >= 0) {
        const bool biased = block->norm_bias[norm] != NULL;
        if (folds & PARE_FOLDS_SCALE)
            PARE_TRY(change_vector(a, plan, PARE_CHANGED_NORM, t->block, (size_t)norm));
        if ((folds & PARE_FOLDS_SHIFT) || (folds && biased)) {
            plan->biases.norm |= 1u << norm;
            PARE_TRY(change_vector(a, plan, PARE_CHANGED_NORM_BIAS, t->block, (size_t)norm));
        }
    } else if (folds && pare_fold_channels(&plan->model.config, t->site) > 0) {
        const size_t role = producing_role(plan, t->site);
        if (folds & PARE_FOLDS_SCALE)
            PARE_TRY(change_rows(a, plan, t->block, role));
        if (folds & PARE_FOLDS_SHIFT)
            PARE_TRY(change_bias(a, plan, t->block, role));
    }
    for (size_t role = 0; role < PARE_ROLES; role++)
        if (reorders(plan, t->step, t->site, role))
            PARE_TRY(change_rows(a, plan, t->block, role));
    for (size_t role = 0; (folds & PARE_FOLDS_SHIFT) && role < PARE_ROLES; role++)
        if (reads(plan, t->block, role, t->site))
            PARE_TRY(change_bias(a, plan, t->block, role));
    return PARE_OK;
}

/* Every linear and norm of the blocks, and biases of what adds to the stream or makes values. */
static pare_status change_basis(pare_arena *a, pare_plan *plan)
{
    const pare_config *const c = &plan->model.config;
    for (size_t b = 0; b < c->blocks; b++) {
        for (size_t norm = 0; norm < 2; norm++)
            PARE_TRY(change_vector(a, plan, PARE_CHANGED_NORM, b, norm));
        for (size_t role = 0; role < PARE_ROLES; role++)
            if (pare_arch_has(c->arch, (pare_role)role))
                PARE_TRY(change_weight(a, plan, b, role));
        for (size_t role = 0; role < PARE_ROLES; role++)
            if (pare_rotation_turns_bias(plan->rotation, (pare_role)role) &&
                plan->model.block[b].linear[role].bias)
                PARE_TRY(change_bias(a, plan, b, role));
    }
    return PARE_OK;
}

pare_status pare__plan_changes(pare_ctx *cx, pare_arena *a, pare_plan *plan, const int64_t *owner)
{
    enum { PER_BLOCK = 2 * PARE_ROLES + 4 };
    plan->changed = PARE_NEW(a, pare_plan_changed, plan->model.config.blocks * PER_BLOCK);
    if (!plan->changed)
        return PARE_ENOMEM;
    for (size_t b = 0; b < plan->model.config.blocks; b++) {
        const pare_biases has = pare_block_biases(&plan->model.block[b]);
        plan->biases.linear |= has.linear;
        plan->biases.norm |= has.norm;
    }
    if (plan->rotation)
        PARE_TRY(change_basis(a, plan));
    for (size_t i = 0; i < plan->transforms; i++) {
        PARE_TRY(check_behind(cx, plan, &plan->transform[i], owner));
        PARE_TRY(change_site(a, plan, &plan->transform[i]));
    }
    return plan->transforms ? check_count(cx, plan) : PARE_OK;
}

bool pare__plan_replaces(const pare_plan *plan, const char *tensor)
{
    if (plan->structured && pare__plan_in_block(plan, tensor))
        return !pare_plan_reaps(plan) || pare__plan_expert_goes(plan, tensor);
    for (size_t i = 0; i < plan->changes; i++)
        if (strcmp(plan->changed[i].tensor.name, tensor) == 0)
            return true;
    for (size_t i = 0; i < plan->linears; i++) {
        const pare_packed_linear *const l = &plan->linear[i].packed;
        const size_t len = strlen(l->name);
        if (strncmp(tensor, l->name, len) == 0 && (strcmp(tensor + len, ".weight") == 0 ||
                                                   (l->bias && strcmp(tensor + len, ".bias") == 0)))
            return true;
    }
    return pare__plan_replaces_table(plan, tensor);
}
