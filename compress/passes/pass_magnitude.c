#include "compress/passes/passes_internal.h"
#include "compress/passes/prune.h"
#include "prune/magnitude.h"

enum { RATIOS = PARE_PRUNE_PARAMS };

static const pare_param params[] = {PARE_PRUNE_TABLE(0, PARE_COMPARE_LAYER, "the matrix"),
                                    PARE_PRUNE_RATIOS(RATIOS),
                                    {.name = NULL}};

static pare_pass_cost cost(const double *value, size_t n, size_t k, size_t threads)
{
    (void)value;
    return (pare_pass_cost){.linear_bytes = pare_prune_bytes(n, k, threads),
                            .rounds = 2.5 * (double)n * (double)k};
}

static pare_status sparsity(pare_ctx *cx, const double *value, pare_sparsity *out)
{
    PARE_TRY(pare_prune_rule(cx, value, PARE_COMPARE_LAYER, out));
    return pare_prune_check_ratios(cx, value + RATIOS, out);
}

/* A rule looks at the inputs. */
static unsigned asks(const double *value)
{
    return pare_prune_ratios(value + RATIOS).rule == PARE_RATIOS_UNIFORM ? 0 : PARE_FACT_HESSIAN;
}

static pare_pass_ratios ratios(const double *value)
{
    return pare_prune_ratios(value + RATIOS);
}

static pare_status prune(pare_ctx *cx, const double *value, pare_pass_linear *linear,
                         pare_arena *scratch)
{
    (void)value;
    return pare_magnitude_prune(cx, scratch, linear->sparsity, linear->w, linear->n, linear->k);
}

static const pare_pass_pruner pruner = {.prune = prune, .ratios = ratios};

const pare_pass pare_pass_magnitude = {
    .name = "magnitude",
    .summary = "prunes the smallest weights: the baseline of pruning, without calibration",
    .source = "Han et al., NeurIPS 2015, section 3",
    .needs = PARE_FACT_WEIGHTS,
    .gives = PARE_FACT_ZEROS,
    .params = params,
    .cost = cost,
    .sparsity = sparsity,
    .asks = asks,
    .pruner = &pruner,
};
