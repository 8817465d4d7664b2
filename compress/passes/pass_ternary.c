#include "compress/passes/passes_internal.h"
#include "compress/passes/quantize.h"

enum { GROUP, TENSOR = -1 };

static const pare_word units[] = {{"tensor", TENSOR}, {"row", 0}, {NULL, 0}};

// clang-format off
static const pare_param params[] = {
    [GROUP] = {.name = "group", .type = PARE_PARAM_INTEGER, .min = 32, .max = 1 << 20,
        .fallback = TENSOR, .multiple = 32, .words = units,
        .help = "weights that share a scale of mean |w|: a group, row, or the matrix"},
    {.name = NULL},
};
// clang-format on

static pare_grid grid(const double *value)
{
    const double group = value[GROUP];
    return (pare_grid){.bits = 2,
                       .group = group > 0 ? (size_t)group : 0,
                       .encoding = PARE_ENCODING_TERNARY,
                       .f16_scales = true,
                       .tensor = group < 0};
}

static pare_pass_cost cost(const double *value, size_t n, size_t k, size_t threads)
{
    (void)value;
    (void)threads;
    return (pare_pass_cost){.rounds = 1.5 * (double)n * (double)k};
}

const pare_pass pare_pass_ternary = {
    .name = "ternary",
    .summary = "rounds weights to -1, 0 or 1 times the mean magnitude, and inputs to int8",
    .source = "Ma et al., 2024 (BitNet b1.58), eq. (1)-(3)",
    .caution = PARE_QUANTIZE_CAUTION,
    .needs = PARE_FACT_WEIGHTS,
    .gives = PARE_FACT_CODES,
    .drops = PARE_FACT_WEIGHTS,
    .params = params,
    .cost = cost,
    .grid = grid,
    .activation = pare_quantize_token,
};
