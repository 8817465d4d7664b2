#include "compress/passes/passes_internal.h"

enum { RATIO, SCORE };
enum { REAP, FREQUENCY };

// clang-format off
static const pare_word scores[] = {{"reap", REAP}, {"frequency", FREQUENCY}, {NULL, 0}};

static const pare_param params[] = {
    [RATIO] = {.name = "ratio", .type = PARE_PARAM_NUMBER, .min = 0.01, .max = 0.95,
        .fallback = 0.25,
        .help = "share of the experts of each block that goes, as many in each; those that stay "
                "are rounded up, also to a multiple of n_group where experts stand in groups. The "
                "paper takes 0.25 and 0.5"},
    [SCORE] = {.name = "score", .type = PARE_PARAM_CHOICE, .words = scores, .fallback = REAP,
        .help = "what stays: experts whose outputs, times their weights, are large in the mean of "
                "the tokens that the router sends them; or experts that get many tokens"},
    {.name = NULL},
};
// clang-format on

static pare_pass_structure structure(const double *value)
{
    return (pare_pass_structure){.share = {[PARE_PART_EXPERTS] = value[RATIO]},
                                 .frequency = value[SCORE] == FREQUENCY};
}

const pare_pass pare_pass_reap = {
    .name = "reap",
    .summary = "REAP: removes the experts of a mixture that add least, weighted by the router",
    .source = "Lasby et al., REAP the Experts, ICLR 2026 (router-weighted expert activation)",
    .notes = "It looks at the model as it was, in one walk over the calibration, and so is the "
             "only pass\nof its kind in a recipe. Experts that stay keep their bytes and are "
             "numbered anew in their\norder; rows of the router go with the others, all else is "
             "copied. As many stay in each block,\nin each group of experts where a router picks "
             "groups (and chosen there), and at least as many\nas a token uses. The weight of an "
             "expert is the one that the model uses; the authors' program\ntakes the softmax over "
             "all experts, unless it is told to make those of a token sum to 1.\n",
    .needs = PARE_FACT_WEIGHTS,
    .params = params,
    .structure = structure,
};
