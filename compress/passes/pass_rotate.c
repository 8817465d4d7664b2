#include "compress/passes/passes_internal.h"

enum { ONLINE, SEED };

static const pare_param params[] = {
    [ONLINE] = {.name = "online",
                .type = PARE_PARAM_BOOL,
                .fallback = 0,
                .help = "also rotate the inputs of o and down, at run time"},
    [SEED] = {.name = "seed",
              .type = PARE_PARAM_INTEGER,
              .max = 1 << 30,
              .help = "number of the random signs, beside the recipe's seed"},
    {.name = NULL}};

static pare_pass_rotation rotation(const double *value)
{
    return (pare_pass_rotation){.online = value[ONLINE] != 0.0, .number = (uint64_t)value[SEED]};
}

const pare_pass pare_pass_rotate = {
    .name = "rotate",
    .summary = "QuaRot: rotates the residual stream and the values, so no channel stands out",
    .source = "Ashkboos et al., QuaRot, NeurIPS 2024, section 4",
    .needs = PARE_FACT_WEIGHTS,
    .params = params,
    .rotation = rotation,
};
