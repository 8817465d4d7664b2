#include <stdio.h>
#include <string.h>

#include "compress/plan/calibration_need.h"
#include "compress/plan/plan_internal.h"
#include "compress/plan/plan_walks.h"
#include "recipes/pattern.h"

enum { NO_STEP = -1 };

/* The patterns of one list, compiled, with a count of what each has matched. */
typedef struct matcher {
    pare_pattern **pattern;
    size_t *hits;
    const pare_texts *texts;
} matcher;

static pare_status matcher_init(pare_ctx *cx, pare_arena *a, const pare_texts *texts, matcher *m)
{
    *m = (matcher){PARE_NEW(a, pare_pattern *, texts->count), PARE_NEW(a, size_t, texts->count),
                   texts};
    if (!m->pattern || !m->hits)
        return PARE_ENOMEM;
    for (size_t i = 0; i < texts->count; i++) {
        const pare_text *const t = &texts->item[i];
        const pare_status s = pare_pattern_new(cx, a, t->text, &m->pattern[i]);
        if (s == PARE_EUSAGE)
            return pare_recipe_fail_at(cx, s, t->place);
        PARE_TRY(s);
    }
    return PARE_OK;
}

static pare_status matcher_any(pare_ctx *cx, const matcher *m, const char *name, bool *any)
{
    *any = false;
    for (size_t i = 0; i < m->texts->count; i++) {
        bool hit;
        const pare_status s = pare_pattern_matches(cx, m->pattern[i], name, &hit);
        if (s == PARE_EUSAGE)
            return pare_recipe_fail_at(cx, s, m->texts->item[i].place);
        PARE_TRY(s);
        m->hits[i] += hit;
        *any |= hit;
    }
    return PARE_OK;
}

/* Modules outside the blocks' linears that a pattern may name without selecting anything. */
static pare_status count_excluded(pare_ctx *cx, const pare_model *model, const matcher *m)
{
    bool any;
    const pare_arch *const arch = model->config.arch;
    const char *const names[] = {arch->head, arch->embed, arch->norm};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        PARE_TRY(matcher_any(cx, m, names[i], &any));
    for (size_t b = 0; b < model->config.blocks && arch->experts; b++) {
        const pare_block *const block = &model->block[b];
        if (block->router.name)
            PARE_TRY(matcher_any(cx, m, block->router.name, &any));
        if (block->shared_gate.name)
            PARE_TRY(matcher_any(cx, m, block->shared_gate.name, &any));
    }
    return PARE_OK;
}

static const char *nearest_linear(pare_arena *a, const pare_plan *plan, const char *text)
{
    const size_t count = pare_plan_slots(plan);
    const char **const names = PARE_NEW(a, const char *, count);
    if (!names)
        return NULL;
    size_t named = 0;
    for (size_t i = 0; i < count; i++) {
        names[named] = pare_plan_at(plan, i)->name;
        named += names[named] != NULL;
    }
    return pare_nearest_name(text, names, named);
}

/* Refuses a pattern of `targets` that means a matrix outside the blocks. */
static pare_status refuse_outer(pare_ctx *cx, const pare_plan *plan, const pare_pattern *pattern,
                                const pare_text *text)
{
    const pare_arch *const arch = plan->model.config.arch;
    const char *const names[] = {arch->head, arch->embed};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        bool hit;
        PARE_TRY(pare_pattern_matches(cx, pattern, names[i], &hit));
        if (hit)
            return pare_recipe_fail(cx, text->place,
                                    "targets: \"%s\" names %s, which has a key of its own: \"%s: "
                                    "{rtn: {bits: 8}}\"",
                                    text->text, names[i],
                                    pare_table_names[i ? PARE_TABLE_EMBEDDINGS : PARE_TABLE_HEAD]);
    }
    return PARE_OK;
}

static pare_status check_hits(pare_ctx *cx, pare_arena *a, const pare_plan *plan, const matcher *m,
                              const char *list)
{
    for (size_t i = 0; i < m->texts->count; i++) {
        if (m->hits[i])
            continue;
        const pare_text *const t = &m->texts->item[i];
        PARE_TRY(pare__plan_refuse_router(cx, plan, m->pattern[i], t));
        PARE_TRY(refuse_outer(cx, plan, m->pattern[i], t));
        const char *const near = nearest_linear(a, plan, t->text);
        return pare_recipe_fail(cx, t->place,
                                "%s: \"%s\" matches no linear of the model; the nearest is \"%s\", "
                                "and %s",
                                list, t->text, near ? near : "",
                                strncmp(t->text, "re:", 3) == 0
                                    ? "an expression must match from the start of the name"
                                    : "a pattern must match the whole name");
    }
    return PARE_OK;
}

unsigned pare__plan_facts(const pare_step *step)
{
    const pare_pass *const pass = pare_passes[step->pass];
    return pass->needs | (pass->asks ? pass->asks(step->value) : 0u) |
           (pare_need_fixes(step) ? PARE_FACT_CHANNELS : 0u);
}

/* Statistics that facts stand for. */
static unsigned kinds_of(unsigned facts)
{
    return (facts & PARE_FACT_HESSIAN ? PARE_STATS_HESSIAN : 0u) |
           (facts & PARE_FACT_CHANNELS ? PARE_STATS_CHANNELS : 0u) |
           (facts & PARE_FACT_SAMPLE ? PARE_STATS_SAMPLE : 0u) |
           (facts & PARE_FACT_DRIFT ? PARE_STATS_DRIFT : 0u) |
           (facts & PARE_FACT_HELD ? PARE_STATS_HELD : 0u);
}

/* owner[slot] = step, for what a quantizer selects. */
static pare_status own_linears(pare_ctx *cx, const pare_plan *plan, size_t step,
                               const bool *selected, int64_t *owner)
{
    const pare_step *const s = &plan->recipe.step[step];
    for (size_t i = 0; i < pare_plan_slots(plan); i++) {
        if (!selected[i])
            continue;
        const char *const name = pare_plan_at(plan, i)->name;
        if (owner[i] != NO_STEP)
            return pare_recipe_fail(cx, s->place,
                                    "%s: %s is already quantized by pass %zu (%s); separate them "
                                    "with targets and skip",
                                    pare_passes[s->pass]->name, name, (size_t)owner[i],
                                    pare_passes[plan->recipe.step[owner[i]].pass]->name);
        owner[i] = (int64_t)step;
    }
    return PARE_OK;
}

/* selected[slot]: what targets and skip of a step leave; *any: something. */
static pare_status select_linears(pare_ctx *cx, const pare_plan *plan, const matcher *targets,
                                  const matcher *skip, bool *selected, bool *any)
{
    *any = false;
    for (size_t i = 0; i < pare_plan_slots(plan); i++) {
        const char *const name = pare_plan_at(plan, i)->name;
        if (!name)
            continue;
        bool skipped, taken = targets->texts->count == 0;
        PARE_TRY(matcher_any(cx, skip, name, &skipped));
        if (!skipped && !taken)
            PARE_TRY(matcher_any(cx, targets, name, &taken));
        selected[i] = !skipped && taken;
        *any |= selected[i];
    }
    return PARE_OK;
}

/* What becomes of the linears that a step selects. */
static pare_status take_linears(pare_ctx *cx, pare_plan *plan, size_t step, const bool *selected,
                                int64_t *owner, int64_t *pruner)
{
    const pare_pass *const pass = pare_passes[plan->recipe.step[step].pass];
    if (pare_pass_transforms(pass))
        return pare__plan_transform(cx, plan, step, selected, owner, pruner);
    if (pass->sparsity)
        PARE_TRY(pare__plan_prune(cx, plan, step, selected, owner, pruner));
    return pare_pass_prunes(pass) ? PARE_OK : own_linears(cx, plan, step, selected, owner);
}

pare_status pare__plan_select(pare_ctx *cx, pare_arena *a, const pare_plan *plan, size_t step,
                              bool *selected)
{
    const pare_step *const s = &plan->recipe.step[step];
    matcher targets, skip;
    PARE_TRY(matcher_init(cx, a, &s->targets, &targets));
    PARE_TRY(matcher_init(cx, a, &s->skip, &skip));
    bool any;
    PARE_TRY(select_linears(cx, plan, &targets, &skip, selected, &any));
    PARE_TRY(count_excluded(cx, &plan->model, &skip));
    PARE_TRY(check_hits(cx, a, plan, &targets, "targets"));
    PARE_TRY(check_hits(cx, a, plan, &skip, "skip"));
    return any ? PARE_OK
               : pare_recipe_fail(cx, s->place, "%s: targets and skip leave no linear to work on",
                                  pare_passes[s->pass]->name);
}

static pare_status resolve_step(pare_ctx *cx, pare_arena *a, pare_plan *plan, size_t step,
                                int64_t *owner, int64_t *pruner)
{
    const pare_step *const s = &plan->recipe.step[step];
    const pare_pass *const pass = pare_passes[s->pass];
    const bool transforms = pare_pass_transforms(pass); /* folds are checked on real inputs */
    if ((transforms || kinds_of(pare__plan_facts(s))) &&
        plan->recipe.calibration.kind == PARE_CALIBRATION_NONE) {
        const pare_ratio_rule rule = pare_plan_ratios(plan, step).rule;
        const bool asks = rule != PARE_RATIOS_UNIFORM && !kinds_of(pass->needs);
        return pare_recipe_fail(cx, s->place,
                                "%s%s%s needs calibration data; add \"calibration:\" with text, "
                                "tokens or generate",
                                pass->name, asks ? " with ratios: " : "",
                                asks ? pare_ratio_rule_name(rule) : "");
    }
    bool *const selected = PARE_NEW(a, bool, pare_plan_slots(plan));
    if (!selected)
        return PARE_ENOMEM;
    PARE_TRY(pare__plan_select(cx, a, plan, step, selected));
    return take_linears(cx, plan, step, selected, owner, pruner);
}

/* Storage that a quantizer asks for. */
static pare_status store_codes(pare_ctx *cx, const pare_plan *plan, pare_plan_linear *l,
                               const pare_linear *from)
{
    const pare_step *const step = &plan->recipe.step[l->step];
    const pare_pass *const pass = pare_passes[step->pass];
    const pare_status s = pare_pass_store(cx, pass, step->value, from->n, from->k, &l->packed);
    if (s != PARE_OK) {
        char reason[sizeof cx->what];
        memcpy(reason, cx->what, sizeof reason);
        pare_ctx_clear(cx);
        return pare_recipe_fail(cx, step->place, "%s: %s: %s%s", pass->name, from->name, reason,
                                s == PARE_ESHAPE ? ", in a step of its own with targets, and leave "
                                                   "this linear out here with skip"
                                                 : "");
    }
    if (pass->activation)
        l->packed.activation = pass->activation(step->value);
    return PARE_OK;
}

/* The float model shows the inputs as they are in front of all transforms. */
static pare_status check_columns(pare_ctx *cx, const pare_plan *plan, const pare_plan_linear *l)
{
    const pare_step *const step = &plan->recipe.step[l->step];
    for (size_t i = 0; i < plan->transforms && pare_plan_chooses_columns(plan, l); i++) {
        const pare_plan_transform *const t = &plan->transform[i];
        if (t->block == l->block && l->part == 0 && t->roles & 1u << l->role)
            return pare_recipe_fail(
                cx, step->place,
                "%s: %s in front changes the inputs of %s, and columns are chosen by what they are "
                "without it; leave it out, or take rtn: {bits: 8, group: row, activations: "
                "int8_token} behind it",
                pare_passes[step->pass]->name, pare_passes[plan->recipe.step[t->step].pass]->name,
                l->packed.name);
    }
    return PARE_OK;
}

/* What a step asks of the block loop. */
static void ask_step(pare_plan *plan, pare_plan_linear *l, size_t which)
{
    const pare_step *const step = &plan->recipe.step[which];
    const pare_pass *const pass = pare_passes[step->pass];
    const pare_site site = pare_plan_site(plan, l);
    unsigned *const kinds = l->part ? plan->expert_kinds : plan->kinds;
    kinds[site] |= kinds_of(pare__plan_facts(step));
    if (which > pare_plan_front(plan))
        (l->part ? plan->later_experts : plan->later)[site] |= kinds_of(pare__plan_facts(step));
    l->calibrated |= kinds_of(pare__plan_facts(step)) != 0;
    if (pare_plan_ratios(plan, which).rule == PARE_RATIOS_SEARCH) {
        /* What its half of the block adds to the stream weighs the error of a linear. */
        const bool mlp = site == PARE_SITE_MLP || site == PARE_SITE_ACTIVATED;
        plan->kinds[mlp ? PARE_SITE_ACTIVATED : PARE_SITE_ATTENDED] |= PARE_STATS_HESSIAN;
    }
    if (pass->sequential && pass->sequential(step->value))
        plan->sequential = true;
}

/* Storage of every selected linear, and what the block loop must know. */
static pare_status store_linears(pare_ctx *cx, pare_plan *plan, const int64_t *owner,
                                 const int64_t *pruner)
{
    for (size_t i = 0; i < pare_plan_slots(plan); i++) {
        plan->first[i / PARE_ROLES + 1] = plan->linears;
        if (owner[i] == NO_STEP && pruner[i] == NO_STEP)
            continue;
        const size_t part = i / PARE_ROLES, role = i % PARE_ROLES;
        const pare_linear *const l = pare_plan_at(plan, i);
        pare_plan_linear *const p = &plan->linear[plan->linears++];
        *p = (pare_plan_linear){.packed = {.n = l->n, .k = l->k},
                                .block = part / plan->parts,
                                .part = part % plan->parts,
                                .role = (pare_role)role,
                                .step = (size_t)(owner[i] == NO_STEP ? pruner[i] : owner[i]),
                                .quantized = owner[i] != NO_STEP,
                                .pruned = pruner[i] != NO_STEP};
        if (p->quantized)
            PARE_TRY(store_codes(cx, plan, p, l));
        p->packed.name = l->name;
        p->packed.rotated =
            plan->rotation && pare_rotation_is_online(plan->rotation, (pare_role)role);
        plan->first[part + 1] = plan->linears;
        plan->experts += p->part > 0;
        plan->ratios |= pare_plan_chooses_columns(plan, p) != NULL;
        PARE_TRY(check_columns(cx, plan, p));
        ask_step(plan, p, p->step);
        if (!p->pruned)
            continue;
        p->prune_step = (size_t)pruner[i];
        plan->pruned++;
        plan->ratios |= pare_plan_ratios(plan, p->prune_step).rule != PARE_RATIOS_UNIFORM;
        PARE_TRY(pare__plan_sparse(cx, plan, p));
        ask_step(plan, p, p->prune_step);
    }
    return PARE_OK;
}

/* What transforms ask for; shifts move statistics by the channels' means and a sample. */
static void ask_transforms(pare_plan *plan)
{
    for (size_t i = 0; i < plan->transforms; i++) {
        const pare_plan_transform *const t = &plan->transform[i];
        const pare_step *const step = &plan->recipe.step[t->step];
        const pare_pass *const pass = pare_passes[step->pass];
        plan->kinds[t->site] |= kinds_of(pare__plan_facts(step));
        if (pass->transform->folds(step->value) & PARE_FOLDS_SHIFT)
            plan->kinds[t->site] |= PARE_STATS_CHANNELS | PARE_STATS_SAMPLE;
    }
}

/* The first step that moves inputs whose statistics of `kind` cannot follow, or NULL. */
static const pare_step *moves_inputs(const pare_plan *plan, unsigned kind)
{
    for (size_t i = 0; i < plan->transforms; i++) {
        const pare_plan_transform *const t = &plan->transform[i];
        const pare_step *const step = &plan->recipe.step[t->step];
        const pare_pass *const pass = pare_passes[step->pass];
        if ((pass->transform->folds(step->value) & PARE_FOLDS_SHIFT) &&
            (plan->kinds[t->site] & kind))
            return step;
    }
    return NULL;
}

/* What a quantizer wants to know beside H, and cannot: `fault` says why and what to do, or is NULL.
 */
static const char *beside_fault(const pare_plan *plan, const pare_plan_linear *l, unsigned facts)
{
    if (facts & PARE_FACT_DRIFT && plan->model.config.experts)
        return "correct: pare does not run the float model beside the compressed one where MLPs "
               "are mixtures of experts; leave correct out";
    if (facts & PARE_FACT_DRIFT && l->pruned)
        return "correct moves weights that were pruned away from 0; leave it out, or the step that "
               "prunes";
    if (facts & PARE_FACT_HELD && l->part)
        return "tune: experts see too few tokens to hold some of them out; leave tune out, or skip "
               "the experts";
    return NULL;
}

static pare_status check_beside(pare_ctx *cx, const pare_plan *plan)
{
    const pare_step *const step = moves_inputs(plan, PARE_STATS_DRIFT | PARE_STATS_HELD);
    if (step)
        return pare_recipe_fail(cx, step->place,
                                "%s shifts inputs, and what correct and tune go by does not "
                                "follow that; leave one of them out",
                                pare_passes[step->pass]->name);
    for (size_t i = 0; i < plan->linears; i++) {
        const pare_plan_linear *const l = &plan->linear[i];
        const pare_step *const s = &plan->recipe.step[l->step];
        const char *const fault = l->quantized ? beside_fault(plan, l, pare__plan_facts(s)) : NULL;
        if (fault)
            return pare_recipe_fail(cx, s->place, "%s: %s", l->packed.name, fault);
    }
    return PARE_OK;
}

const char *pare_plan_tail_text(const pare_plan *plan, size_t step, char *text, size_t size)
{
    const pare_packed_linear *first = NULL;
    size_t count = 0;
    char groups[PARE_GROUPS_TEXT];
    for (size_t i = 0; i < plan->linears; i++) {
        const pare_packed_linear *const l = &plan->linear[i].packed;
        if (plan->linear[i].step != step || !pare_encodings[l->encoding].uniform || !l->group ||
            l->k % l->group == 0)
            continue;
        first = first ? first : l;
        count++;
    }
    if (!first)
        return NULL;
    (void)snprintf(text, size,
                   "%s: group %zu does not divide rows of %zu: their last group is shorter in %zu "
                   "linear%s, which compressed-tensors, gptq and awq cannot hold; group %s divides",
                   pare_passes[plan->recipe.step[step].pass]->name, first->group, first->k, count,
                   pare_plural(count), pare_grid_groups_text(first->k, 128, groups));
    return text;
}

/* Whether a step reads a Hessian, and whether all that do are better off with weights by the loss.
 */
static bool reads_hessian(const pare_plan *plan, bool *better)
{
    bool any = false;
    *better = true;
    for (size_t i = 0; i < plan->recipe.steps; i++) {
        const pare_step *const step = &plan->recipe.step[i];
        if (!(pare__plan_facts(step) & PARE_FACT_HESSIAN))
            continue;
        any = true;
        *better &= pare_passes[step->pass]->token_weights;
    }
    return any && !plan->structured;
}

static pare_status weigh_tokens(pare_ctx *cx, pare_plan *plan)
{
    const pare_calibration *const c = &plan->recipe.calibration;
    const pare_step *const shift = moves_inputs(plan, PARE_STATS_HESSIAN);
    const bool packed = plan->model.head.bits > 0;
    bool better;
    const bool reads = reads_hessian(plan, &better);
    if (plan->kept.path) {
        plan->token_weights = plan->calibrated && pare__plan_kept_weighs(plan);
        return PARE_OK;
    }
    plan->token_weights =
        c->token_weights == PARE_TOKENS_LOSS ||
        (c->token_weights == PARE_TOKENS_AUTO && reads && better && !packed && !shift);
    if (c->token_weights != PARE_TOKENS_LOSS)
        return PARE_OK;
    if (packed)
        return pare_recipe_fail(cx, c->token_weights_place,
                                "token_weights: loss needs gradients, and pare does not take those "
                                "through a packed head; say even");
    if (shift)
        return pare_recipe_fail(cx, c->token_weights_place,
                                "token_weights: loss does not go together with %s, which shifts "
                                "inputs; say even",
                                pare_passes[shift->pass]->name);
    if (!reads)
        return pare_recipe_fail(cx, c->token_weights_place,
                                "token_weights: loss is for the Hessians of gptq, sparsegpt and "
                                "others, and no step here uses it; say even");
    return PARE_OK;
}

pare_status pare__plan_check_held(pare_ctx *cx, const pare_plan *plan, size_t samples)
{
    for (size_t i = 0; i < plan->recipe.steps && samples; i++) {
        const pare_step *const step = &plan->recipe.step[i];
        if ((pare__plan_facts(step) & PARE_FACT_HELD) && samples < PARE_HELD_PART)
            return pare_recipe_fail(cx, step->place,
                                    "tune holds one of %d calibration windows out, and there %s "
                                    "%zu; give more samples or text",
                                    PARE_HELD_PART, samples == 1 ? "is" : "are", samples);
    }
    return PARE_OK;
}

/* Whether a linear loses more than weights and groups of inputs in 8 bits do, beside which products
 * in BF16 can be seen (tests/results/precision.csv). */
static bool is_coarse(const pare_plan_linear *l)
{
    enum { FINE = 8 };
    const pare_activation *const a = &l->packed.activation;
    const bool rounds = a->mode == PARE_ACTIVATION_TOKEN || a->mode == PARE_ACTIVATION_TENSOR ||
                        (a->bits && a->bits < FINE);
    return l->pruned || (l->quantized && (rounds || l->packed.bits < FINE));
}

static bool any_coarse(const pare_plan *plan)
{
    for (size_t i = 0; i < plan->linears; i++)
        if (is_coarse(&plan->linear[i]))
            return true;
    return false;
}

/* Also what goes along with the waves: Hessians and drift of rounded inputs. Training alone has no
 * waves. Where parts of the model go, what BF16 costs was not measured. */
static void decide_precision(pare_plan *plan)
{
    const pare_precision asked = plan->recipe.calibration.precision;
    const bool waves = plan->training ? pare_plan_looks_first(plan) || pare_plan_looks_later(plan)
                                      : plan->calibrated;
    plan->bf16 = waves && (asked == PARE_PRECISION_BF16 ||
                           (asked == PARE_PRECISION_AUTO && plan->kept.path) ||
                           (asked == PARE_PRECISION_AUTO && !plan->structured && any_coarse(plan)));
    for (size_t s = 0; s < PARE_SITES && plan->bf16; s++) {
        unsigned *const kinds[] = {&plan->kinds[s], &plan->later[s], &plan->expert_kinds[s],
                                   &plan->later_experts[s]};
        for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
            *kinds[i] |= *kinds[i] & PARE_STATS_HESSIAN ? PARE_STATS_BF16 : 0u;
    }
}

/* Whether both waves may halt between the halves of a block: what follows there needs no more than
 * the stream. Folds are held against the outputs of whole blocks, levels of a cache are found from
 * their inputs. */
static bool waves_halt(const pare_plan *plan)
{
    return plan->sequential && plan->transforms == 0 && !plan->structured &&
           plan->recipe.kv.method != PARE_KV_KVQUANT &&
           plan->model.config.residual == PARE_RESIDUAL_SERIAL;
}

pare_status pare__plan_resolve(pare_ctx *cx, pare_arena *a, pare_plan *plan)
{
    pare_passes_decide(plan->recipe.step, plan->recipe.steps, /* before anything reads them */
                       !plan->model.config.experts && !plan->kept.path);
    plan->parts = pare_block_parts(&plan->model.config);
    const size_t count = pare_plan_slots(plan);
    PARE_TRY(pare__plan_structure(cx, a, plan));
    if (plan->structured) {
        PARE_TRY(pare__plan_tables(cx, plan));
        decide_precision(plan);
        return pare__plan_kept_check(cx, a, plan);
    }
    int64_t *const owner = PARE_NEW(a, int64_t, count), *const pruner = PARE_NEW(a, int64_t, count);
    plan->linear = PARE_NEW(a, pare_plan_linear, count);
    plan->first = PARE_NEW(a, size_t, count / PARE_ROLES + 1);
    plan->left = PARE_NEW(a, size_t, plan->recipe.steps);
    plan->transform = PARE_NEW(a, pare_plan_transform,
                               plan->recipe.steps * plan->model.config.blocks * PARE_SITES);
    if (!owner || !pruner || !plan->linear || !plan->first || !plan->left || !plan->transform)
        return PARE_ENOMEM;
    for (size_t i = 0; i < count; i++)
        owner[i] = pruner[i] = NO_STEP;
    PARE_TRY(pare__plan_rotate(cx, a, plan));
    PARE_TRY(pare__plan_training(cx, plan));
    for (size_t step = plan->rotation ? 1 : 0; step < plan->recipe.steps; step++)
        if (&plan->recipe.step[step] != plan->training)
            PARE_TRY(resolve_step(cx, a, plan, step, owner, pruner));
    PARE_TRY(store_linears(cx, plan, owner, pruner));
    PARE_TRY(pare__plan_changes(cx, a, plan, owner));
    ask_transforms(plan);
    for (size_t s = 0; s < PARE_SITES; s++)
        plan->drift |= (plan->kinds[s] & PARE_STATS_DRIFT) != 0;
    plan->floats_beside = plan->drift;
    for (size_t i = 0; i < plan->transforms; i++)
        plan->floats_beside |=
            (pare__plan_facts(&plan->recipe.step[plan->transform[i].step]) & PARE_FACT_FLOATS) != 0;
    PARE_TRY(check_beside(cx, plan));
    plan->reference = plan->transforms > 0 || plan->pruned > 0 || plan->training;
    plan->halves = waves_halt(plan);
    plan->calibrated =
        plan->transforms > 0 || plan->recipe.kv.method == PARE_KV_KVQUANT || plan->training;
    for (size_t s = 0; s < PARE_SITES; s++)
        plan->calibrated |= plan->kinds[s] != 0 || plan->expert_kinds[s] != 0;
    PARE_TRY(pare__plan_tables(cx, plan));
    PARE_TRY(weigh_tokens(cx, plan));
    PARE_TRY(pare__plan_kept_check(cx, a, plan));
    decide_precision(plan);
    PARE_TRY(pare__plan_experts(cx, plan));
    return pare__plan_rotate_check(cx, plan);
}
