#include "compress/passes/learned_block.h"
#include "compress/passes/passes_internal.h"
#include "quant/omniquant.h"

enum { EPOCHS, BATCH, CLIP, CLIP_RATE, SCALES, SCALE_RATE, WEIGHT_DECAY };

// clang-format off
static const pare_param params[] = {
    [EPOCHS] = {.name = "epochs", .type = PARE_PARAM_INTEGER, .min = 1, .max = 1000, .fallback = 20,
        .help = "times that each block sees all calibration windows"},
    [BATCH] = {.name = "batch", .type = PARE_PARAM_INTEGER, .min = 1, .max = 1024, .fallback = 1,
        .help = "calibration windows of one step of AdamW"},
    [CLIP] = {.name = "clip", .type = PARE_PARAM_BOOL, .fallback = 1,
        .help = "learn how much of each group's range is kept"},
    [CLIP_RATE] = {.name = "clip_rate", .type = PARE_PARAM_NUMBER, .min = 1e-6, .max = 1,
        .fallback = 1e-2, .help = "learning rate of the ranges (their logits, 4 at first)"},
    [SCALES] = {.name = "scales", .type = PARE_PARAM_BOOL, .fallback = 1,
        .help = "learn a scale per input channel"},
    [SCALE_RATE] = {.name = "scale_rate", .type = PARE_PARAM_NUMBER, .min = 1e-6, .max = 1,
        .fallback = 5e-3, .help = "learning rate of the scales (their logarithms, 0 at first)"},
    [WEIGHT_DECAY] = {.name = "weight_decay", .type = PARE_PARAM_NUMBER, .min = 0, .max = 1,
        .fallback = 0, .help = "AdamW's decay of what is learned"},
    {.name = NULL},
};
// clang-format on

static pare_omniquant_opts options(const double *value, size_t samples)
{
    const size_t batch = (size_t)value[BATCH];
    return (pare_omniquant_opts){.epochs = (size_t)value[EPOCHS],
                                 .batch = samples == 0 || batch < samples ? batch : samples,
                                 .clip = value[CLIP] != 0.0,
                                 .clip_rate = value[CLIP_RATE],
                                 .scale_rate = value[SCALE_RATE],
                                 .weight_decay = value[WEIGHT_DECAY]};
}

static pare_pass_cost block_cost(const pare_ctx *cx, const double *value, const pare_config *c,
                                 size_t samples, size_t window)
{
    const pare_omniquant_opts opts = options(value, samples);
    return pare_learned_block_cost(cx, c, pare_omniquant_bytes(cx, c, &opts, window), samples,
                                   window, opts.batch, value[EPOCHS]);
}

static unsigned folds(const double *value)
{
    return value[SCALES] != 0.0 ? PARE_FOLDS_SCALE : 0;
}

/* Ranges are learned whatever is in front. */
static bool works_unscaled(const double *value)
{
    return value[CLIP] != 0.0;
}

static const char *refuses(const double *value, const pare_grid *grid, bool nearest)
{
    (void)nearest;
    if (value[CLIP] == 0.0 && value[SCALES] == 0.0)
        return "clip and scales are both false, so it would do nothing; drop it or turn one on";
    return pare_learned_block_refuses(grid);
}

/* Folds the scales and clamps the weights: the quantizer behind then finds the learned ranges. */
static pare_status apply(pare_ctx *cx, pare_pass_block *block, const pare_block_data *data,
                         const pare_omniquant_found *found)
{
    for (size_t s = 0; s < PARE_SITES; s++)
        if (found->scale[s])
            PARE_TRY(pare_pass_scale(cx, block->site[s], found->scale[s]));
    for (size_t role = 0; role < PARE_ROLES; role++) {
        const pare_linear *const l = &block->current->linear[role];
        const pare_learned_rounding clip = {.grid = data->grid[role],
                                            .n = l->n,
                                            .k = l->k,
                                            .low = found->low[role],
                                            .high = found->high[role]};
        if (clip.low)
            pare_learned_apply(cx, &clip, l->floats);
    }
    return PARE_OK;
}

static pare_status transform_block(pare_ctx *cx, const double *value, pare_pass_block *block,
                                   pare_arena *scratch)
{
    pare_omniquant_opts opts = options(value, block->wave->samples);
    pare_learned_block from;
    pare_block_data data;
    PARE_TRY(pare_learned_block_begin(cx, scratch, block, &from, &data));
    for (unsigned s = 0; s < PARE_SITES; s++)
        if (block->site[s] && value[SCALES] != 0.0 &&
            pare_fold_channels(block->config, (pare_site)s) > 0)
            opts.scales |= 1u << s;
    pare_omniquant_found found;
    PARE_TRY(pare_omniquant_learn(cx, scratch, &opts, &data, &found));
    pare_learned_block_note(block, found.kept, found.before, found.after);
    return apply(cx, block, &data, &found);
}

static const pare_pass_transform transforms = {.sites = pare_learned_block_sites,
                                               .folds = folds,
                                               .block = transform_block,
                                               .block_cost = block_cost,
                                               .works_unscaled = works_unscaled,
                                               .refuses = refuses};

const pare_pass pare_pass_omniquant = {
    .name = "omniquant",
    .summary = "OmniQuant: learns clipping ranges and channel scales on outputs of a block",
    .source = "Shao et al., ICLR 2024, eq. (1) to (3)",
    .caution =
        "scales between queries and keys, and shifts, which the paper learns as well, are "
        "not built: the inputs of products inside attention stay as they are. Linears behind "
        "an MLP's activation without a gate, behind a norm inside a block, or of attention and "
        "states in models with recurrent states, learn ranges only: nothing in front of them takes "
        "a scale",
    .needs = PARE_FACT_WEIGHTS,
    .params = params,
    .cost = pare_learned_block_linear_cost,
    .transform = &transforms,
};
