#include "compress/passes/passes_internal.h"
#include "compress/passes/quantize.h"

enum { CLIP };

// clang-format off
static const pare_param params[] = {
    [CLIP] = {.name = "clip", .type = PARE_PARAM_CHOICE, .fallback = PARE_CLIP_MSE,
        .words = pare_quantize_clip, .help = "none: the power of two of the standard, which clips "
                                             "weights above six times it; mse: that one or the next, "
                                             "which has the smaller squared error"},
    {.name = NULL},
};
// clang-format on

static pare_grid grid(const double *value)
{
    return (pare_grid){.bits = 4,
                       .group = 32,
                       .clip = (pare_clip)value[CLIP],
                       .encoding = PARE_ENCODING_MXFP4,
                       .f16_scales = true};
}

static pare_pass_cost cost(const double *value, size_t n, size_t k, size_t threads)
{
    (void)threads;
    const double rounds = (pare_clip)value[CLIP] == PARE_CLIP_NONE ? 2.5 : 5;
    return (pare_pass_cost){.rounds = rounds * (double)n * (double)k};
}

const pare_pass pare_pass_mxfp4 = {
    .name = "mxfp4",
    .summary = "MXFP4: rounds to 4-bit floats (E2M1); 32 of them share a power of two",
    .source = "OCP Microscaling Formats 1.0, section 6.3",
    .needs = PARE_FACT_WEIGHTS,
    .gives = PARE_FACT_CODES,
    .drops = PARE_FACT_WEIGHTS,
    .params = params,
    .cost = cost,
    .grid = grid,
    .activation = pare_quantize_float,
};
