#include "compress/passes/passes_internal.h"

enum { BLOCKS };

// clang-format off
static const pare_param params[] = {
    [BLOCKS] = {.name = "blocks", .type = PARE_PARAM_INTEGER, .min = 1, .max = 4095, .fallback = 1,
        .help = "how many blocks to remove: those whose outputs are most like their inputs"},
    {.name = NULL},
};
// clang-format on

static pare_pass_structure structure(const double *value)
{
    return (pare_pass_structure){.blocks = (size_t)value[BLOCKS]};
}

const pare_pass pare_pass_depth = {
    .name = "depth",
    .summary = "ShortGPT: removes the blocks that change the residual stream least",
    .source = "Men et al., ShortGPT, 2024 (block influence)",
    .needs = PARE_FACT_WEIGHTS,
    .params = params,
    .structure = structure,
};
