#include "compress/passes/passes_internal.h"
#include "prune/flap.h"

enum { RATIO, HEADS, FFN };

// clang-format off
static const pare_param params[] = {
    [RATIO] = {.name = "ratio", .type = PARE_PARAM_NUMBER, .min = 0.01, .max = 0.95,
        .fallback = 0.2, .help = "share of the heads and of the MLP channels of each block that goes"},
    [HEADS] = {.name = "heads", .type = PARE_PARAM_BOOL, .fallback = 1,
        .help = "take out key/value heads with their query heads; as many as stay round up, to a "
                "number of query heads that divides hidden_size"},
    [FFN] = {.name = "ffn", .type = PARE_PARAM_BOOL, .fallback = 1,
        .help = "take out MLP channels; as many as stay round up to a multiple of 32"},
    {.name = NULL},
};
// clang-format on

static pare_pass_structure structure(const double *value)
{
    return (pare_pass_structure){
        .share = {[PARE_PART_HEADS] = value[HEADS] != 0.0 ? value[RATIO] : 0.0,
                  [PARE_PART_CHANNELS] = value[FFN] != 0.0 ? value[RATIO] : 0.0},
        .moments = true,
        .bias = true};
}

static pare_status score(pare_ctx *cx, const double *value, const pare_structure *s,
                         pare_arena *scratch, double *out)
{
    (void)value;
    return pare_flap_score(cx, scratch, s, out);
}

const pare_pass pare_pass_flap = {
    .name = "flap",
    .summary = "take out the heads and MLP channels that vary least, and keep their mean as a bias",
    .source = "An et al., FLAP, AAAI 2024, equations 4 and 5",
    .needs = PARE_FACT_WEIGHTS,
    .params = params,
    .structure = structure,
    .score = score,
};
