#include "compress/passes/parts.h"
#include "compress/passes/passes_internal.h"
#include "prune/channels.h"

enum { SCORE = PARE_PARTS_PARAMS };
enum { WANDA, MAGNITUDE, RANDOM };

// clang-format off
static const pare_word scores[] = {
    {"wanda", WANDA}, {"magnitude", MAGNITUDE}, {"random", RANDOM}, {NULL, 0}};

static const pare_param params[] = {
    PARE_PARTS_TABLE,
    [SCORE] = {.name = "score", .type = PARE_PARAM_CHOICE, .words = scores, .fallback = WANDA,
        .help = "what stays: large weights on large inputs, large weights, or any (by the seed)"},
    {.name = NULL},
};
// clang-format on

static pare_pass_structure structure(const double *value)
{
    pare_pass_structure s = pare_parts_structure(value);
    s.moments = value[SCORE] == WANDA;
    return s;
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
    .summary = "removes heads and MLP channels by a score, and compensates nothing",
    .source = "Ma et al., LLM-Pruner, NeurIPS 2023, section 3 (coupled groups, without retraining)",
    .needs = PARE_FACT_WEIGHTS,
    .params = params,
    .structure = structure,
    .score = score,
};
