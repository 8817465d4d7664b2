#include "compress/passes/passes_internal.h"

enum { RATIO };

// clang-format off
static const pare_param params[] = {
    [RATIO] = {.name = "ratio", .type = PARE_PARAM_NUMBER, .min = 0.01, .max = 0.95,
        .fallback = 0.2, .help = "share of the stream's directions that goes; what stays rounds up "
        "to a multiple of 8 and of the number of heads"},
    {.name = NULL},
};
// clang-format on

static pare_pass_structure structure(const double *value)
{
    return (pare_pass_structure){.hidden = value[RATIO]};
}

const pare_pass pare_pass_slicegpt = {
    .name = "slicegpt",
    .summary = "SliceGPT: narrows the residual stream to its principal directions",
    .source = "Ashkboos et al., SliceGPT, ICLR 2024, section 3, with a single Q",
    .caution = "the paper's own basis per block, which loses less, needs a matrix between blocks "
               "that no other program could load; a tied head gets weights of its own",
    .needs = PARE_FACT_WEIGHTS,
    .params = params,
    .structure = structure,
};
