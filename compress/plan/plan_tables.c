/* The embeddings and the head, where the recipe quantizes them. */
#include <stdio.h>
#include <string.h>

#include "compress/plan/plan_internal.h"
#include "runtime/linear.h"
#include "runtime/small.h"
#include "runtime/threads.h"

/* Why a pass cannot quantize a table, or NULL. head: there are inputs. */
static const char *pass_fault(const pare_pass *pass, unsigned facts, bool head)
{
    const unsigned known = PARE_FACT_WEIGHTS | (head ? PARE_FACT_HESSIAN : 0u);
    const bool search = strcmp(pass->name, "budget") == 0;
    if (search || !(pass->gives & PARE_FACT_CODES) || pass->sparsity ||
        !(pass->grid || pass->store))
        return "is no quantizer of one matrix; take rtn, hqq or nf4";
    if (facts & (PARE_FACT_DRIFT | PARE_FACT_HELD))
        return "runs no float model there and holds nothing out; leave correct and tune out";
    if (facts & ~known)
        return head ? "goes by more than the Hessian of the inputs; take gptq, rtn, hqq or nf4"
                    : "goes by inputs, and embeddings have none; take rtn, hqq or nf4";
    return NULL;
}

static pare_status fail(pare_ctx *cx, const pare_plan *plan, pare_table which, const char *name,
                        const char *fault)
{
    return pare_recipe_fail(cx, plan->recipe.table[which]->place, "%s: %s %s",
                            pare_table_names[which], name, fault);
}

/* What does not go together with any of them. */
static pare_status check_rest(pare_ctx *cx, const pare_plan *plan, pare_table which)
{
    const char *const first = pare_passes[plan->recipe.step[0].pass]->name;
    for (size_t i = 1; i <= plan->recipe.lead; i++) {
        const pare_step *const step = plan->recipe.step - i;
        if (pare_passes[step->pass]->structure(step->value).hidden > 0)
            return fail(cx, plan, which, pare_passes[step->pass]->name,
                        "changes their basis; quantize what it leaves by a second recipe");
    }
    if (plan->structured)
        return fail(cx, plan, which, first,
                    "leaves a plain checkpoint; quantize that by a second recipe");
    if (plan->rotation)
        return fail(cx, plan, which, first,
                    "rotates them, and pare does not quantize that yet; leave one of them out");
    return PARE_OK;
}

static bool looked_up(const pare_plan *plan, const pare_plan_table *t)
{
    return t->which == PARE_TABLE_EMBEDDINGS || plan->model.config.tied;
}

/* Storage by the step. */
static pare_status store(pare_ctx *cx, const pare_plan *plan, pare_table which, pare_plan_table *t)
{
    const pare_step *const step = t->step;
    const pare_pass *const pass = pare_passes[step->pass];
    const pare_status s =
        pare_pass_store(cx, pass, step->value, t->packed.n, t->packed.k, &t->packed);
    if (s != PARE_OK) {
        char reason[sizeof cx->what];
        memcpy(reason, cx->what, sizeof reason);
        pare_ctx_clear(cx);
        return pare_recipe_fail(cx, step->place, "%s: %s: %s", pare_table_names[which], pass->name,
                                reason);
    }
    if (t->packed.outliers || t->packed.sparse)
        return fail(cx, plan, which, pass->name,
                    "keeps weights apart, which it cannot there; take rtn, hqq or nf4");
    if (pare_encoding_turns(t->packed.encoding) && looked_up(plan, t))
        return fail(cx, plan, which, pass->name,
                    "mixes rows, and embeddings are looked up row by row; take rtn, hqq or nf4");
    if (pass->activation)
        t->packed.activation = pass->activation(step->value);
    return PARE_OK;
}

static pare_status add(pare_ctx *cx, pare_plan *plan, pare_table which)
{
    pare_step *const step = plan->recipe.table[which];
    const pare_pass *const pass = pare_passes[step->pass];
    const pare_model *const m = &plan->model;
    const bool tied = m->config.tied, head = which == PARE_TABLE_HEAD && !tied;
    const pare_linear *const from = head ? &m->head : &m->embed;
    PARE_TRY(check_rest(cx, plan, which));
    if (pass->decide)
        pass->decide(step->value, false);
    const unsigned facts = pare__plan_facts(step);
    const char *const fault = pass_fault(pass, facts, head || tied);
    if (fault)
        return fail(cx, plan, which, pass->name, fault);
    pare_plan_table *const t = &plan->tables.of[plan->tables.count++];
    *t = (pare_plan_table){.packed = {.n = from->n, .k = from->k},
                           .which = head ? PARE_TABLE_HEAD : PARE_TABLE_EMBEDDINGS,
                           .step = step,
                           .inputs = (facts & PARE_FACT_HESSIAN) != 0};
    PARE_TRY(store(cx, plan, which, t));
    t->packed.name = head ? m->config.arch->head : m->config.arch->embed;
    if (t->inputs && plan->recipe.calibration.kind == PARE_CALIBRATION_NONE)
        return fail(cx, plan, which, pass->name,
                    "needs calibration data; add \"calibration:\" with text, tokens or generate");
    if (t->inputs && plan->kept.path)
        return fail(cx, plan, which, pass->name,
                    "goes by what the finished blocks give, which is not kept; take rtn without "
                    "clip: weighted, or hqq, or leave keep and from of the calibration out");
    plan->calibrated |= t->inputs;
    return PARE_OK;
}

pare_status pare__plan_tables(pare_ctx *cx, pare_plan *plan)
{
    const pare_step *const embed = plan->recipe.table[PARE_TABLE_EMBEDDINGS],
                           *const head = plan->recipe.table[PARE_TABLE_HEAD];
    const bool once = embed && head && plan->model.config.tied;
    if (once &&
        (embed->pass != head->pass || memcmp(embed->value, head->value, sizeof head->value) != 0))
        return pare_recipe_fail(cx, head->place,
                                "head: the model ties its head to the embeddings: they are one "
                                "matrix; leave \"head\" or \"embeddings\" out");
    if (embed)
        PARE_TRY(add(cx, plan, PARE_TABLE_EMBEDDINGS));
    return head && !once ? add(cx, plan, PARE_TABLE_HEAD) : PARE_OK;
}

static bool is_weight_of(const char *tensor, const char *name)
{
    const size_t len = name ? strlen(name) : 0;
    return len && strncmp(tensor, name, len) == 0 && strcmp(tensor + len, ".weight") == 0;
}

bool pare__plan_replaces_table(const pare_plan *plan, const char *tensor)
{
    const pare_config *const c = &plan->model.config;
    const bool learns = plan->training && plan->train.embeddings;
    for (size_t i = 0; i < plan->tables.count; i++)
        if (is_weight_of(tensor, plan->tables.of[i].packed.name))
            return true;
    /* a tied head that stands in the file, too, would be the embedding as it was */
    return c->tied && (plan->tables.count || learns) && is_weight_of(tensor, c->arch->head);
}

uint64_t pare__plan_table_bytes(const pare_ctx *cx, const pare_plan *plan)
{
    uint64_t most = 0;
    for (size_t i = 0; i < plan->tables.count; i++) {
        const pare_plan_table *const t = &plan->tables.of[i];
        const pare_plan_linear l = {.packed = t->packed};
        const pare_pass_cost own = pare_passes[t->step->pass]->cost(t->step->value, t->packed.n,
                                                                    t->packed.k, pare_threads(cx));
        most = pare_larger(most, 2 * t->packed.n * t->packed.k * sizeof(float) +
                                     pare__plan_linear_stored(plan, &l) + own.linear_bytes +
                                     pare_larger(own.site_bytes, own.start_bytes));
    }
    return most;
}
