#include "compress/passes/passes_internal.h"
#include "compress/passes/quantize.h"

enum { CLIP, ACTIVATIONS };

static const pare_word mxfp4_inputs[] = {{"float", 0}, {"mxfp4", 4}, {NULL, 0}};
static const pare_word nvfp4_inputs[] = {{"float", 0}, {"nvfp4", 4}, {NULL, 0}};

// clang-format off
static const pare_param mxfp4_params[] = {
    [CLIP] = {.name = "clip", .type = PARE_PARAM_CHOICE, .fallback = PARE_CLIP_MSE,
        .words = pare_quantize_clip, .help = "none: the power of two of the standard, which clips "
                                             "weights above six times it; mse: that one or the next, "
                                             "which has the smaller squared error"},
    [ACTIVATIONS] = {.name = "activations", .type = PARE_PARAM_CHOICE, .fallback = 0,
        .words = mxfp4_inputs, .help = "how inputs are rounded: float: not; mxfp4: to E2M1, too; 32 of "
                                       "a token share a power of two"},
    {.name = NULL},
};

static const pare_param nvfp4_params[] = {
    [CLIP] = {.name = "clip", .type = PARE_PARAM_CHOICE, .fallback = PARE_CLIP_MSE,
        .words = pare_quantize_clip, .help = "none: the scale nearest to max |w| / 6; mse: that of the "
                                             "scales around it, up to above max |w| / 4, which has the "
                                             "smallest squared error"},
    [ACTIVATIONS] = {.name = "activations", .type = PARE_PARAM_CHOICE, .fallback = 0,
        .words = nvfp4_inputs, .help = "how inputs are rounded: float: not; nvfp4: to E2M1, too; 16 of "
                                       "a token share a scale in E4M3, and all of them a number that "
                                       "calibration fixes"},
    {.name = NULL},
};
// clang-format on

static pare_grid grid_of(pare_encoding e, const double *value)
{
    return (pare_grid){.bits = 4,
                       .group = pare_encodings[e].group,
                       .clip = (pare_clip)value[CLIP],
                       .encoding = e,
                       .f16_scales = true};
}

static pare_activation activation(const double *value)
{
    return (pare_activation){.mode = PARE_ACTIVATION_FLOAT, .bits = (unsigned)value[ACTIVATIONS]};
}

static pare_grid mxfp4_grid(const double *value)
{
    return grid_of(PARE_ENCODING_MXFP4, value);
}

static pare_grid nvfp4_grid(const double *value)
{
    return grid_of(PARE_ENCODING_NVFP4, value);
}

/* 2 of the powers, some 10 of the scales are tried. */
static pare_pass_cost cost_of(double tries, const double *value, size_t n, size_t k)
{
    const double rounds = (pare_clip)value[CLIP] == PARE_CLIP_NONE ? 2.5 : 2.5 * tries;
    return (pare_pass_cost){.rounds = rounds * (double)n * (double)k};
}

static pare_pass_cost mxfp4_cost(const double *value, size_t n, size_t k, size_t threads)
{
    (void)threads;
    return cost_of(2, value, n, k);
}

static pare_pass_cost nvfp4_cost(const double *value, size_t n, size_t k, size_t threads)
{
    (void)threads;
    return cost_of(10, value, n, k);
}

const pare_pass pare_pass_mxfp4 = {
    .name = "mxfp4",
    .summary = "MXFP4: rounds to 4-bit floats (E2M1); 32 of them share a power of two",
    .source = "OCP Microscaling Formats 1.0, section 6.3",
    .needs = PARE_FACT_WEIGHTS,
    .gives = PARE_FACT_CODES,
    .drops = PARE_FACT_WEIGHTS,
    .params = mxfp4_params,
    .cost = mxfp4_cost,
    .grid = mxfp4_grid,
    .activation = activation,
};

const pare_pass pare_pass_nvfp4 = {
    .name = "nvfp4",
    .summary = "NVFP4: rounds to 4-bit floats (E2M1); 16 of them share a scale in E4M3",
    .source =
        "NVIDIA, NVFP4; clip: mse widens Cook et al., Four Over Six, 2025; here the number that "
        "the scales of a matrix share is a power of two",
    .needs = PARE_FACT_WEIGHTS,
    .gives = PARE_FACT_CODES,
    .drops = PARE_FACT_WEIGHTS,
    .params = nvfp4_params,
    .cost = nvfp4_cost,
    .grid = nvfp4_grid,
    .activation = activation,
};
