#include "compress/passes/parts.h"
#include "compress/passes/passes_internal.h"
#include "prune/flap.h"

// clang-format off
static const pare_param params[] = {
    PARE_PARTS_TABLE,
    {.name = NULL},
};
// clang-format on

static pare_pass_structure structure(const double *value)
{
    pare_pass_structure s = pare_parts_structure(value);
    s.moments = true;
    s.bias = true;
    return s;
}

static pare_status score(pare_ctx *cx, const double *value, const pare_structure *s,
                         pare_arena *scratch, double *out)
{
    (void)value;
    return pare_flap_score(cx, scratch, s, out);
}

const pare_pass pare_pass_flap = {
    .name = "flap",
    .summary = "FLAP: removes heads and MLP channels that vary least, keeps their mean",
    .source = "An et al., FLAP, AAAI 2024, equations 4 and 5",
    .needs = PARE_FACT_WEIGHTS,
    .params = params,
    .structure = structure,
    .score = score,
};
