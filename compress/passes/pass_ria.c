#include "compress/passes/passes_internal.h"
#include "compress/passes/prune.h"
#include "compress/passes/quantize.h"
#include "prune/ria.h"

enum { POWER = PARE_PRUNE_PARAMS, STABILITY };

// clang-format off
static const pare_param params[] = {
    PARE_PRUNE_TABLE(0, PARE_COMPARE_LAYER, "the matrix"),
    [POWER] = {.name = "power", .type = PARE_PARAM_NUMBER, .min = 0, .max = 2, .fallback = 0.5,
        .help = "exponent of an input's length in the score"},
    PARE_PRUNE_STABILITY(STABILITY),
    {.name = NULL}};
// clang-format on

static pare_pass_cost cost(const double *value, size_t n, size_t k, size_t threads)
{
    (void)value;
    return (pare_pass_cost){.linear_bytes = pare_prune_bytes(n, k, threads) + n * 8 + k * 16,
                            .rounds = 3.75 * (double)n * (double)k};
}

static pare_status sparsity(pare_ctx *cx, const double *value, pare_sparsity *out)
{
    return pare_prune_rule(cx, value, PARE_COMPARE_LAYER, out);
}

static size_t draws(const double *value)
{
    return (size_t)value[STABILITY];
}

static pare_status prune(pare_ctx *cx, const double *value, pare_pass_linear *linear,
                         pare_arena *scratch)
{
    float *squares;
    PARE_TRY(pare_quantize_diagonal(scratch, linear->h, linear->k, &squares));
    return pare_ria_prune(cx, scratch, linear->sparsity, value[POWER], squares, linear->w,
                          linear->n, linear->k);
}

static const pare_pass_pruner pruner = {.prune = prune, .draws = draws};

const pare_pass pare_pass_ria = {
    .name = "ria",
    .summary = "RIA: prunes weights that matter little in their row and their column",
    .source = "Zhang et al., ICLR 2024, equations 2 and 4",
    .needs = PARE_FACT_WEIGHTS | PARE_FACT_HESSIAN,
    .diagonal = true,
    .gives = PARE_FACT_ZEROS,
    .params = params,
    .cost = cost,
    .sparsity = sparsity,
    .pruner = &pruner,
};
