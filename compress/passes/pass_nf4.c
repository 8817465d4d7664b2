#include "compress/passes/passes_internal.h"
#include "compress/passes/quantize.h"

enum { GROUP };

// clang-format off
static const pare_param params[] = {
    [GROUP] = {.name = "group", .type = PARE_PARAM_INTEGER, .min = 32, .max = 1 << 20,
        .fallback = 64, .multiple = 32, .words = pare_quantize_row,
        .help = "weights of a row that share a scale, which is stored in 8 bits"},
    {.name = NULL},
};
// clang-format on

static pare_grid grid(const double *value)
{
    return (pare_grid){.bits = 4,
                       .group = (size_t)value[GROUP],
                       .encoding = PARE_ENCODING_NF4,
                       .f16_scales = true};
}

static pare_pass_cost cost(const double *value, size_t n, size_t k, size_t threads)
{
    (void)value;
    (void)threads;
    return (pare_pass_cost){.rounds = 5.0 * (double)n * (double)k};
}

const pare_pass pare_pass_nf4 = {
    .name = "nf4",
    .summary = "NF4: rounds to 16 quantiles of a normal distribution, and scales to 8 bits",
    .source = "Dettmers et al., NeurIPS 2023 (QLoRA), section 3",
    .needs = PARE_FACT_WEIGHTS,
    .gives = PARE_FACT_CODES,
    .drops = PARE_FACT_WEIGHTS,
    .params = params,
    .cost = cost,
    .grid = grid,
    .activation = pare_quantize_float,
};
