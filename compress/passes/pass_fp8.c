#include "compress/passes/passes_internal.h"
#include "compress/passes/quantize.h"

enum { GROUP };

// clang-format off
static const pare_param params[] = {
    [GROUP] = {.name = "group", .type = PARE_PARAM_INTEGER, .min = 32, .max = 1 << 20,
        .fallback = 0, .multiple = 32, .words = pare_quantize_row,
        .help = "weights of a row that share a scale of max |w| / 448; row: all of them"},
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

const pare_pass pare_pass_fp8 = {
    .name = "fp8",
    .summary = "FP8: rounds every weight, and no input, to the nearest 8-bit float (E4M3)",
    .source = "Micikevicius et al., 2022; OCP 8-bit floating point 1.0",
    .caution = "weights alone: inputs stay floats and products run in F32, so this saves bytes and "
               "no time; for 8-bit products take rtn: {bits: 8, group: row, activations: "
               "int8_token}",
    .needs = PARE_FACT_WEIGHTS,
    .gives = PARE_FACT_CODES,
    .drops = PARE_FACT_WEIGHTS,
    .params = params,
    .cost = cost,
    .grid = grid,
    .activation = pare_quantize_float,
};
