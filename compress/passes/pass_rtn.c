#include "compress/passes/passes_internal.h"
#include "compress/passes/quantize.h"

enum { ACTIVATIONS = PARE_QUANTIZE_PARAMS };

static const pare_param params[] = {
    PARE_QUANTIZE_TABLE, PARE_QUANTIZE_ACTIVATIONS(ACTIVATIONS), {.name = NULL}};

static pare_activation activation(const double *value)
{
    return pare_quantize_activation(value[ACTIVATIONS]);
}

static pare_pass_cost cost(const double *value, size_t n, size_t k, size_t threads)
{
    (void)threads;
    const double tries = value[PARE_QUANTIZE_CLIP] != 0.0 ? 80.0 : 1.0;
    return (pare_pass_cost){.flops = tries * 4.0 * (double)n * (double)k};
}

const pare_pass pare_pass_rtn = {
    .name = "rtn",
    .summary = "round to nearest: every weight to the closest value of its group's grid",
    .source = "Jacob et al., CVPR 2018, eq. (1)",
    .needs = PARE_FACT_WEIGHTS,
    .gives = PARE_FACT_CODES,
    .drops = PARE_FACT_WEIGHTS,
    .params = params,
    .store = pare_quantize_store,
    .grid = pare_quantize_grid,
    .activation = activation,
    .cost = cost,
};
