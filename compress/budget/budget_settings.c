/* The settings that a search chooses from. */
#include <stdio.h>
#include <string.h>

#include "compress/budget/budget_internal.h"
#include "compress/passes/budget_step.h"
#include "compress/text/text_out.h"

enum { UNIFORM = 7 }; /* of them on uniform grids, in front */

/* The first is that whose KL is measured: between the ends, so that the others are not far. */
static const pare_budget_setting grids[] = {
    {"int3-g128", "gptq", "bits: 3, group: 128"},
    {"int2-g64", "gptq", "bits: 2, group: 64"},
    {"int2-g32", "gptq", "bits: 2, group: 32"},
    {"int3-g32", "gptq", "bits: 3, group: 32"},
    {"int4-g128", "gptq", "bits: 4, group: 128"},
    {"int4-g32", "gptq", "bits: 4, group: 32"},
    {"int8-g128", "gptq", "bits: 8, group: 128"},
    {"book3", "gptq", "grid: codebook, bits: 3, group: row"},
    {"book4", "gptq", "grid: codebook, bits: 4, group: row"},
    {"int4-g64-2of4", "sparsegpt_joint", "bits: 4, group: 64, pattern: \"2:4\""},
};
static const pare_budget_setting trellis[] = {
    {"exl3-3", "exl3", "bits: 3"}, {"exl3-2", "exl3", "bits: 2"}, {"exl3-4", "exl3", "bits: 4"},
    {"exl3-5", "exl3", "bits: 5"}, {"exl3-6", "exl3", "bits: 6"},
};

/* Read as a recipe has them: one parser, one table of parameters. */
static pare_status read_steps(pare_budget *b)
{
    pare_recipe *const r = PARE_NEW(b->a, pare_recipe, 1);
    pare_text_out t = {.cx = b->cx};
    if (!r)
        return PARE_ENOMEM;
    pare__text_put(&t, "pare: 1\npasses:\n");
    for (size_t i = 0; i < b->settings; i++)
        pare__text_put(&t, "  - %s: {%s}\n", b->setting[i].pass, b->setting[i].setting);
    const pare_recipe_source source = {.file = "settings", .text = t.text, .len = t.len};
    pare_status s = t.status;
    if (s == PARE_OK)
        s = pare_recipe_parse(b->cx, b->a, &source, b->words, pare_pass_count(), r);
    pare__text_free(&t);
    b->step = r->step;
    return s;
}

pare_status pare__budget_settings(pare_budget *b)
{
    const double asked = b->value[PARE_BUDGET_GRIDS];
    b->setting = asked == PARE_BUDGET_TRELLIS ? trellis : grids;
    b->settings = asked == PARE_BUDGET_UNIFORM     ? UNIFORM
                  : asked == PARE_BUDGET_ALL_GRIDS ? sizeof grids / sizeof *grids
                                                   : sizeof trellis / sizeof *trellis;
    b->probe = 0;
    return read_steps(b);
}

pare_status pare__budget_sparsity(const pare_budget *b, size_t setting, size_t linear,
                                  pare_sparsity *out)
{
    const pare_step *const step = &b->step[setting];
    const pare_plan_linear *const l = &b->linear[linear];
    *out = (pare_sparsity){0};
    if (!pare_passes[step->pass]->sparsity)
        return PARE_OK;
    PARE_TRY(pare_passes[step->pass]->sparsity(b->cx, step->value, out));
    out->seed = b->recipe.seed;
    out->tensor = pare_plan_slot(&b->plan, l->block, l->part, l->role);
    return pare_sparsity_check(b->cx, out);
}

static pare_status pack(pare_budget *b, size_t setting, size_t linear)
{
    const pare_step *const step = &b->step[setting];
    const pare_pass *const pass = pare_passes[step->pass];
    const pare_packed_linear *const is = &b->linear[linear].packed;
    pare_packed_linear *const p = &b->packed[setting * b->linears + linear];
    const pare_status s = pare_pass_store(b->cx, pass, step->value, is->n, is->k, p);
    if (s != PARE_OK)
        return pare_fail_context(b->cx, s, "budget: %s of %s", b->setting[setting].label, is->name);
    if (pass->activation)
        p->activation = pass->activation(step->value);
    if (pass->sparsity)
        p->sparsity = PARE_SPARSITY_2_4;
    p->name = is->name;
    p->bias = is->bias;
    return pare_packed_linear_check(b->cx, p);
}

pare_status pare__budget_pack(pare_budget *b)
{
    b->packed = PARE_NEW(b->a, pare_packed_linear, b->settings * b->linears);
    if (!b->packed)
        return PARE_ENOMEM;
    for (size_t s = 0; s < b->settings; s++)
        for (size_t i = 0; i < b->linears; i++)
            PARE_TRY(pack(b, s, i));
    return PARE_OK;
}
