#include "compress/passes/passes_internal.h"
#include "compress/passes/prune.h"
#include "compress/passes/quantize.h"
#include "prune/wanda.h"

enum { STABILITY = PARE_PRUNE_PARAMS, RATIOS };

static const pare_param params[] = {PARE_PRUNE_TABLE(0, PARE_COMPARE_ROW, "the matrix"),
                                    PARE_PRUNE_STABILITY(STABILITY),
                                    PARE_PRUNE_RATIOS(RATIOS),
                                    {.name = NULL}};

static pare_pass_cost cost(const double *value, size_t n, size_t k, size_t threads)
{
    (void)value;
    return (pare_pass_cost){.linear_bytes = pare_prune_bytes(n, k, threads) + k * 4,
                            .rounds = 2.75 * (double)n * (double)k};
}

static pare_status sparsity(pare_ctx *cx, const double *value, pare_sparsity *out)
{
    PARE_TRY(pare_prune_rule(cx, value, PARE_COMPARE_ROW, out));
    return pare_prune_check_ratios(cx, value + RATIOS, out);
}

static size_t draws(const double *value)
{
    return (size_t)value[STABILITY];
}

static pare_pass_ratios ratios(const double *value)
{
    return pare_prune_ratios(value + RATIOS);
}

static pare_status prune(pare_ctx *cx, const double *value, pare_pass_linear *linear,
                         pare_arena *scratch)
{
    float *squares;
    (void)value;
    PARE_TRY(pare_quantize_diagonal(scratch, linear->h, linear->k, &squares));
    return pare_wanda_prune(cx, scratch, linear->sparsity, squares, linear->w, linear->n,
                            linear->k);
}

static const pare_pass_pruner pruner = {.prune = prune, .ratios = ratios, .draws = draws};

const pare_pass pare_pass_wanda = {
    .name = "wanda",
    .summary = "Wanda: prunes weights that are small and meet small inputs",
    .source = "Sun et al., ICLR 2024, equation 1",
    .needs = PARE_FACT_WEIGHTS | PARE_FACT_HESSIAN,
    .diagonal = true,
    .gives = PARE_FACT_ZEROS,
    .params = params,
    .cost = cost,
    .sparsity = sparsity,
    .pruner = &pruner,
};
