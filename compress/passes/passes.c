#include <string.h>

#include "compress/passes/passes_internal.h"
#include "compress/passes/quantize.h"

// clang-format off
const pare_pass *const pare_passes[] = {
    &pare_pass_rtn,
    &pare_pass_gptq,
    &pare_pass_budget,
    &pare_pass_hqq,
    &pare_pass_nf4,
    &pare_pass_fp8,
    &pare_pass_mxfp4,
    &pare_pass_nvfp4,
    &pare_pass_exl3,
    &pare_pass_squeezellm,
    &pare_pass_ternary,
    &pare_pass_billm,
    &pare_pass_llm_int8,
    &pare_pass_atom,
    &pare_pass_awq,
    &pare_pass_outlier_suppression,
    &pare_pass_omniquant,
    &pare_pass_signround,
    &pare_pass_rotate,
    &pare_pass_smoothquant,
    &pare_pass_permute,
    &pare_pass_magnitude,
    &pare_pass_wanda,
    &pare_pass_ria,
    &pare_pass_sparsegpt,
    &pare_pass_sparsegpt_joint,
    &pare_pass_ebft,
    &pare_pass_distill,
    &pare_pass_flap,
    &pare_pass_channels,
    &pare_pass_ziplm,
    &pare_pass_depth,
    &pare_pass_reap,
    &pare_pass_slicegpt,
    NULL,
};
// clang-format on

size_t pare_pass_count(void)
{
    return sizeof pare_passes / sizeof *pare_passes - 1;
}

const pare_pass *pare_pass_find(const char *name)
{
    for (size_t i = 0; pare_passes[i]; i++)
        if (strcmp(pare_passes[i]->name, name) == 0)
            return pare_passes[i];
    return NULL;
}

/* Whether a pass works on all that its kind finds: its planner refuses targets. */
static bool is_untargeted(const pare_pass *pass)
{
    double value[PARE_PARAMS_MAX];
    for (size_t i = 0; pass->params && pass->params[i].name; i++)
        value[i] = pass->params[i].fallback;
    return pass->training || pass->rotation || (pass->structure && !pass->structure(value).hessian);
}

void pare_passes_decide(pare_step *step, size_t steps, bool plain)
{
    bool rounding_only = plain;
    for (size_t i = 0; i < steps; i++) {
        const pare_pass *const pass = pare_passes[step[i].pass];
        rounding_only &= (pass->gives & PARE_FACT_CODES) && !pass->sparsity;
    }
    for (size_t i = 0; i < steps; i++)
        if (pare_passes[step[i].pass]->decide)
            pare_passes[step[i].pass]->decide(step[i].value, rounding_only);
}

pare_status pare_pass_words_take(pare_arena *a, const pare_pass_words **out)
{
    pare_pass_words *const words = PARE_NEW(a, pare_pass_words, pare_pass_count());
    *out = words;
    for (size_t i = 0; words && pare_passes[i]; i++)
        words[i] = (pare_pass_words){pare_passes[i]->name, pare_passes[i]->params,
                                     is_untargeted(pare_passes[i])};
    return words ? PARE_OK : PARE_ENOMEM;
}

pare_status pare_pass_store(pare_ctx *cx, const pare_pass *pass, const double *value, size_t n,
                            size_t k, pare_packed_linear *out)
{
    if (pass->store)
        return pass->store(cx, value, n, k, out);
    const pare_grid grid = pass->grid(value);
    const pare_codes shape = {.n = n, .k = k, .groups = pare_grid_groups(&grid, k)};
    PARE_TRY(pare_grid_check(cx, &grid, n, k, &shape));
    return pare_quantize_keep(&grid, n, k, out);
}

pare_status pare_pass_run(pare_ctx *cx, const pare_pass *pass, const double *value,
                          pare_pass_linear *linear, pare_arena *scratch)
{
    if (pass->run)
        return pass->run(cx, value, linear, scratch);
    const pare_grid grid = pass->grid(value);
    return pare_quantize_round(cx, &grid, NULL, linear, scratch);
}
