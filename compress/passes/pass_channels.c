#include "compress/passes/passes_internal.h"
#include "prune/channels.h"

enum { SCORE, RATIO, HEADS, FFN };
enum { WANDA, MAGNITUDE, RANDOM };

// clang-format off
static const pare_word scores[] = {
    {"wanda", WANDA}, {"magnitude", MAGNITUDE}, {"random", RANDOM}, {NULL, 0}};

static const pare_param params[] = {
    [SCORE] = {.name = "score", .type = PARE_PARAM_CHOICE, .words = scores, .fallback = WANDA,
        .help = "what stays: large weights on large inputs, large weights, or any (by the seed)"},
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
        .moments = value[SCORE] == WANDA};
}

static pare_status score(pare_ctx *cx, const double *value, const pare_structure *s,
                         pare_arena *scratch, double *out)
{
    if (value[SCORE] == WANDA)
        return pare_channels_wanda(cx, scratch, s, out);
    if (value[SCORE] == MAGNITUDE)
        return pare_channels_magnitude(cx, scratch, s, out);
    pare_channels_random(s, out);
    return PARE_OK;
}

const pare_pass pare_pass_channels = {
    .name = "channels",
    .summary = "take out heads and MLP channels by a score, with nothing in their place",
    .source = "Ma et al., LLM-Pruner, NeurIPS 2023, section 3 (coupled groups, without retraining)",
    .needs = PARE_FACT_WEIGHTS,
    .params = params,
    .structure = structure,
    .score = score,
};
