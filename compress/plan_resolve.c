#include <string.h>

#include "compress/plan_internal.h"
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
        if (s == PARE_EUSAGE) {
            char reason[sizeof cx->what];
            memcpy(reason, cx->what, sizeof reason);
            pare_ctx_clear(cx);
            return pare_recipe_fail(cx, t->place, "%s", reason);
        }
        PARE_TRY(s);
    }
    return PARE_OK;
}

static bool matcher_any(const matcher *m, const char *name)
{
    bool any = false;
    for (size_t i = 0; i < m->texts->count; i++)
        if (pare_pattern_matches(m->pattern[i], name)) {
            m->hits[i]++;
            any = true;
        }
    return any;
}

/* Modules outside the blocks' linears that a pattern may name without selecting anything. */
static void count_excluded(const pare_model *model, const matcher *m)
{
    const pare_arch *const arch = model->config.arch;
    const char *const names[] = {arch->head, arch->embed, arch->norm};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        (void)matcher_any(m, names[i]);
}

static const char *nearest_linear(pare_arena *a, const pare_model *model, const char *text)
{
    const size_t count = model->config.blocks * PARE_ROLES;
    const char **const names = PARE_NEW(a, const char *, count);
    if (!names)
        return NULL;
    for (size_t i = 0; i < count; i++)
        names[i] = model->block[i / PARE_ROLES].linear[i % PARE_ROLES].name;
    const char *const near = pare_nearest_word(text, names, count);
    return near ? near : names[0];
}

static pare_status check_hits(pare_ctx *cx, pare_arena *a, const pare_model *model,
                              const matcher *m, const char *list)
{
    for (size_t i = 0; i < m->texts->count; i++) {
        if (m->hits[i])
            continue;
        const pare_text *const t = &m->texts->item[i];
        const char *const near = nearest_linear(a, model, t->text);
        return pare_recipe_fail(cx, t->place,
                                "%s: \"%s\" matches no linear of the model; a name looks like "
                                "\"%s\"",
                                list, t->text, near ? near : "");
    }
    return PARE_OK;
}

/* Facts that a step needs before it runs. */
static unsigned facts_of(const pare_step *step)
{
    const pare_pass *const pass = pare_passes[step->pass];
    return pass->needs | (pass->asks ? pass->asks(step->value) : 0u);
}

/* Statistics that facts stand for. */
static unsigned kinds_of(unsigned facts)
{
    return (facts & PARE_FACT_HESSIAN ? PARE_STATS_HESSIAN : 0u) |
           (facts & PARE_FACT_CHANNELS ? PARE_STATS_CHANNELS : 0u) |
           (facts & PARE_FACT_SAMPLE ? PARE_STATS_SAMPLE : 0u);
}

/* owner[block * PARE_ROLES + role] = step, for what the step selects. */
static pare_status select_linears(pare_ctx *cx, const pare_plan *plan, size_t step,
                                  const matcher *targets, const matcher *skip, int64_t *owner,
                                  size_t *selected)
{
    const pare_step *const s = &plan->recipe.step[step];
    *selected = 0;
    for (size_t i = 0; i < plan->model.config.blocks * PARE_ROLES; i++) {
        const char *const name = plan->model.block[i / PARE_ROLES].linear[i % PARE_ROLES].name;
        const bool skipped = matcher_any(skip, name);
        if ((s->targets.count && !matcher_any(targets, name)) || skipped)
            continue;
        if (owner[i] != NO_STEP)
            return pare_recipe_fail(cx, s->place,
                                    "%s: %s is already quantized by pass %zu (%s); separate them "
                                    "with targets and skip",
                                    pare_passes[s->pass]->name, name, (size_t)owner[i],
                                    pare_passes[plan->recipe.step[owner[i]].pass]->name);
        owner[i] = (int64_t)step;
        (*selected)++;
    }
    return PARE_OK;
}

static pare_status resolve_step(pare_ctx *cx, pare_arena *a, pare_plan *plan, size_t step,
                                int64_t *owner)
{
    const pare_step *const s = &plan->recipe.step[step];
    const pare_pass *const pass = pare_passes[s->pass];
    if (kinds_of(facts_of(s)) && plan->recipe.calibration.kind == PARE_CALIBRATION_NONE)
        return pare_recipe_fail(cx, s->place,
                                "%s needs calibration data; add \"calibration:\" with text, tokens "
                                "or generate",
                                pass->name);
    size_t selected = 0;
    matcher targets, skip;
    PARE_TRY(matcher_init(cx, a, &s->targets, &targets));
    PARE_TRY(matcher_init(cx, a, &s->skip, &skip));
    PARE_TRY(select_linears(cx, plan, step, &targets, &skip, owner, &selected));
    count_excluded(&plan->model, &skip);
    PARE_TRY(check_hits(cx, a, &plan->model, &targets, "targets"));
    PARE_TRY(check_hits(cx, a, &plan->model, &skip, "skip"));
    if (selected == 0)
        return pare_recipe_fail(cx, s->place, "%s: targets and skip leave no linear to work on",
                                pass->name);
    return PARE_OK;
}

/* Storage of every selected linear, and what the block loop must know. */
static pare_status store_linears(pare_ctx *cx, pare_plan *plan, const int64_t *owner)
{
    double bits = 0.0, weights = 0.0;
    for (size_t i = 0; i < plan->model.config.blocks * PARE_ROLES; i++) {
        if (owner[i] == NO_STEP)
            continue;
        const size_t block = i / PARE_ROLES, role = i % PARE_ROLES;
        const pare_linear *const l = &plan->model.block[block].linear[role];
        const pare_step *const step = &plan->recipe.step[owner[i]];
        const pare_pass *const pass = pare_passes[step->pass];
        pare_plan_linear *const p = &plan->linear[plan->linears++];
        *p = (pare_plan_linear){.block = block, .role = (pare_role)role, .step = (size_t)owner[i]};
        const pare_status s = pass->store(cx, step->value, l->n, l->k, &p->packed);
        if (s != PARE_OK) {
            char reason[sizeof cx->what];
            memcpy(reason, cx->what, sizeof reason);
            pare_ctx_clear(cx);
            return pare_recipe_fail(cx, step->place, "%s: %s: %s", pass->name, l->name, reason);
        }
        p->packed.name = l->name;
        bits += 8.0 * (double)pare_packed_linear_bytes(&p->packed).total;
        weights += (double)l->n * (double)l->k;
        plan->kinds[plan->model.config.arch->linear[role].site] |= kinds_of(facts_of(step));
        if (pass->sequential && pass->sequential(step->value))
            plan->sequential = true;
    }
    for (size_t s = 0; s < PARE_SITES; s++)
        plan->calibrated |= plan->kinds[s] != 0;
    plan->bits_per_weight = bits / weights;
    return PARE_OK;
}

pare_status pare__plan_resolve(pare_ctx *cx, pare_arena *a, pare_plan *plan)
{
    const size_t count = plan->model.config.blocks * PARE_ROLES;
    int64_t *const owner = PARE_NEW(a, int64_t, count);
    plan->linear = PARE_NEW(a, pare_plan_linear, count);
    if (!owner || !plan->linear)
        return PARE_ENOMEM;
    for (size_t i = 0; i < count; i++)
        owner[i] = NO_STEP;
    for (size_t step = 0; step < plan->recipe.steps; step++)
        PARE_TRY(resolve_step(cx, a, plan, step, owner));
    return store_linears(cx, plan, owner);
}
