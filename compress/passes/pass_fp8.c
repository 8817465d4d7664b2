#include "compress/passes/passes_internal.h"
#include "compress/passes/quantize.h"

enum { GROUP, ACTIVATIONS };

static const pare_word inputs[] = {{"float", 0}, {"fp8_token", 1}, {NULL, 0}};

// clang-format off
static const pare_param params[] = {
    [GROUP] = {.name = "group", .type = PARE_PARAM_INTEGER, .min = 32, .max = 1 << 20,
        .fallback = 0, .multiple = 32, .words = pare_quantize_row,
        .help = "weights of a row that share a scale of max |w| / 448; row: all of them"},
    [ACTIVATIONS] = {.name = "activations", .type = PARE_PARAM_CHOICE, .fallback = 0, .words = inputs,
        .help = "how inputs are rounded: float: not; fp8_token: to E4M3, too, with a scale of "
                "max |x| / 448 for each token"},
    {.name = NULL},
};
// clang-format on

static pare_grid grid(const double *value)
{
    return (pare_grid){.bits = 8,
                       .group = (size_t)value[GROUP],
                       .encoding = PARE_ENCODING_FP8,
                       .f16_scales = true};
}

static pare_pass_cost cost(const double *value, size_t n, size_t k, size_t threads)
{
    (void)value;
    (void)threads;
    return (pare_pass_cost){.rounds = 1.5 * (double)n * (double)k};
}

static pare_activation activation(const double *value)
{
    return (pare_activation){.mode = PARE_ACTIVATION_FLOAT,
                             .bits = value[ACTIVATIONS] != 0.0 ? 8 : 0};
}

const pare_pass pare_pass_fp8 = {
    .name = "fp8",
    .summary = "FP8: rounds every weight, and inputs on demand, to 8-bit floats (E4M3)",
    .source = "Micikevicius et al., 2022; OCP 8-bit floating point 1.0",
    .caution =
        "products run in F32 here, so this saves bytes and no time: the engine that gets the "
        "export may have FP8 products; for 8-bit products in pare take rtn: {bits: 8, group: "
        "row, activations: int8_token}",
    .needs = PARE_FACT_WEIGHTS,
    .gives = PARE_FACT_CODES,
    .drops = PARE_FACT_WEIGHTS,
    .params = params,
    .cost = cost,
    .grid = grid,
    .activation = activation,
};
