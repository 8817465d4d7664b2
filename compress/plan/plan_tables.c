#include <stdio.h>
#include <string.h>

#include "compress/plan/plan_internal.h"
#include "runtime/linear.h"

/* Why a pass cannot quantize a table, or NULL. */
static const char *pass_fault(const pare_pass *pass, unsigned facts)
{
    if (!(pass->gives & PARE_FACT_CODES) || pass->sparsity || !(pass->grid || pass->store))
        return "is no quantizer of one matrix";
    if (facts & ~(unsigned)PARE_FACT_WEIGHTS)
        return "goes by inputs, and pare gathers none there";
    return NULL;
}

/* Why nothing of the kind goes together with the rest of the recipe, or NULL. */
static const char *plan_fault(const pare_plan *plan)
{
    return plan->structured ? "takes parts out of the model, and what is left is a plain checkpoint"
           : plan->rotation ? "rotates embeddings and head, and pare does not quantize those yet"
                            : NULL;
}

static pare_status fail(pare_ctx *cx, const pare_step *step, pare_table which, const char *name,
                        const char *fault)
{
    return pare_recipe_fail(cx, step->place, "%s: %s %s; take rtn, hqq, nf4, fp8 or mxfp4 there",
                            pare_table_names[which], name, fault);
}

static pare_status add(pare_ctx *cx, pare_plan *plan, pare_table which)
{
    const pare_step *const step = plan->recipe.table[which];
    const pare_pass *const pass = pare_passes[step->pass];
    const pare_arch *const arch = plan->model.config.arch;
    const bool tied = plan->model.config.tied, head = which == PARE_TABLE_HEAD || tied;
    const pare_linear *const from =
        which == PARE_TABLE_HEAD ? &plan->model.head : &plan->model.embed;
    pare_plan_table *const t = &plan->tables.of[plan->tables.count++];
    const char *fault = plan_fault(plan);
    if (fault)
        return pare_recipe_fail(cx, step->place, "%s: %s %s; leave one of them out",
                                pare_table_names[which],
                                pare_passes[plan->recipe.step[0].pass]->name, fault);
    if (pass->decide)
        pass->decide(plan->recipe.table[which]->value, false);
    fault = pass_fault(pass, pare__plan_facts(step));
    if (fault)
        return fail(cx, step, which, pass->name, fault);
    *t = (pare_plan_table){.packed = {.n = from->n, .k = from->k},
                           .which = tied ? PARE_TABLE_EMBEDDINGS : which,
                           .step = step,
                           .head = head};
    const pare_status s = pare_pass_store(cx, pass, step->value, from->n, from->k, &t->packed);
    if (s != PARE_OK) {
        char reason[sizeof cx->what];
        memcpy(reason, cx->what, sizeof reason);
        pare_ctx_clear(cx);
        return pare_recipe_fail(cx, step->place, "%s: %s: %s", pare_table_names[which], pass->name,
                                reason);
    }
    if (t->packed.outliers || t->packed.sparse)
        return fail(cx, step, which, pass->name, "keeps weights apart, and rows are looked up");
    if (pass->activation)
        t->packed.activation = pass->activation(step->value);
    t->packed.name = t->which == PARE_TABLE_HEAD ? arch->head : arch->embed;
    return PARE_OK;
}

pare_status pare__plan_tables(pare_ctx *cx, pare_plan *plan)
{
    pare_step *const *const table = plan->recipe.table;
    const pare_step *const head = table[PARE_TABLE_HEAD];
    if (head && table[PARE_TABLE_EMBEDDINGS] && plan->model.config.tied)
        return pare_recipe_fail(cx, head->place,
                                "head: the model ties its head to the embeddings: they are one "
                                "matrix; leave \"head\" or \"embeddings\" out");
    for (pare_table i = 0; i < PARE_TABLES; i++)
        if (table[i])
            PARE_TRY(add(cx, plan, i));
    return PARE_OK;
}

bool pare__plan_replaces_table(const pare_plan *plan, const char *tensor)
{
    const pare_arch *const arch = plan->model.config.arch;
    for (size_t i = 0; i < plan->tables.count; i++) {
        const char *const name[] = {plan->tables.of[i].packed.name,
                                    plan->model.config.tied ? arch->head : NULL};
        for (size_t j = 0; j < 2; j++) {
            const size_t len = name[j] ? strlen(name[j]) : 0;
            if (len && strncmp(tensor, name[j], len) == 0 && strcmp(tensor + len, ".weight") == 0)
                return true;
        }
    }
    return false;
}
