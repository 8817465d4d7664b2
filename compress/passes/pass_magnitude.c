#include "compress/passes/passes_internal.h"
#include "compress/passes/prune.h"
#include "prune/magnitude.h"

static const pare_param params[] = {PARE_PRUNE_TABLE(0, PARE_COMPARE_LAYER, "the matrix"),
                                    {.name = NULL}};

static pare_pass_cost cost(const double *value, size_t n, size_t k, size_t threads)
{
    (void)value;
    return (pare_pass_cost){.linear_bytes = pare_prune_bytes(n, k, threads),
                            .flops = 10.0 * (double)n * (double)k};
}

static pare_status sparsity(pare_ctx *cx, const double *value, pare_sparsity *out)
{
    return pare_prune_rule(cx, value, PARE_COMPARE_LAYER, out);
}

static pare_status prune(pare_ctx *cx, const double *value, pare_pass_linear *linear,
                         pare_arena *scratch)
{
    (void)value;
    return pare_magnitude_prune(cx, scratch, linear->sparsity, linear->w, linear->n, linear->k);
}

const pare_pass pare_pass_magnitude = {
    .name = "magnitude",
    .summary = "the smallest weights go; needs no calibration, the baseline of pruning",
    .source = "Han et al., NeurIPS 2015, section 3",
    .needs = PARE_FACT_WEIGHTS,
    .gives = PARE_FACT_ZEROS,
    .params = params,
    .cost = cost,
    .sparsity = sparsity,
    .prune = prune,
};
