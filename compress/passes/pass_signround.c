#include "compress/passes/learned_block.h"
#include "compress/passes/passes_internal.h"
#include "quant/signround.h"
#include "runtime/random.h"

enum { STEPS, BATCH, RATE, CLIP };

// clang-format off
static const pare_param params[] = {
    [STEPS] = {.name = "steps", .type = PARE_PARAM_INTEGER, .min = 1, .max = 100000, .fallback = 200,
        .help = "steps for each block; with fewer than 50 it may do worse than rtn alone"},
    [BATCH] = {.name = "batch", .type = PARE_PARAM_INTEGER, .min = 1, .max = 1024, .fallback = 8,
        .help = "calibration windows of one step, drawn anew each time"},
    [RATE] = {.name = "rate", .type = PARE_PARAM_NUMBER, .min = 0, .max = 1, .fallback = 0,
        .help = "how far the first step moves offsets (in steps of the grid) and ranges (in shares "
                "of them); it falls to 0 in a line; 0: 1 / steps"},
    [CLIP] = {.name = "clip", .type = PARE_PARAM_BOOL, .fallback = 1,
        .help = "learn how much of each group's range is kept, too"},
    {.name = NULL},
};
// clang-format on

static pare_signround_opts options(const double *value, size_t samples)
{
    const size_t batch = (size_t)value[BATCH];
    return (pare_signround_opts){.steps = (size_t)value[STEPS],
                                 .batch = samples == 0 || batch < samples ? batch : samples,
                                 .rate = value[RATE],
                                 .clip = value[CLIP] != 0.0};
}

static pare_pass_cost block_cost(const pare_ctx *cx, const double *value, const pare_config *c,
                                 size_t samples, size_t window)
{
    const pare_signround_opts opts = options(value, samples);
    const double passes =
        samples ? (double)opts.steps * (double)opts.batch / (double)samples : (double)opts.steps;
    return pare_learned_block_cost(cx, c, pare_signround_bytes(cx, c, &opts, window), samples,
                                   window, opts.batch, passes);
}

static unsigned folds(const double *value)
{
    (void)value;
    return 0;
}

static const char *refuses(const double *value, const pare_grid *grid, bool nearest)
{
    (void)value;
    if (!nearest)
        return "it learns which way each weight is rounded, and the pass behind it would choose "
               "that anew; put rtn there, with clip: none";
    return pare_learned_block_refuses(grid);
}

/* Leaves weights that the quantizer behind rounds to the codes that were learned. */
static void apply(pare_ctx *cx, pare_pass_block *block, const pare_block_data *data,
                  const pare_signround_found *found)
{
    for (size_t role = 0; role < PARE_ROLES; role++) {
        const pare_linear *const l = &block->current->linear[role];
        const pare_learned_rounding rounding = {.grid = data->grid[role],
                                                .n = l->n,
                                                .k = l->k,
                                                .low = found->low[role],
                                                .high = found->high[role],
                                                .offset = found->offset[role]};
        if (rounding.offset)
            pare_learned_apply(cx, &rounding, l->floats);
    }
}

static pare_status transform_block(pare_ctx *cx, const double *value, pare_pass_block *block,
                                   pare_arena *scratch)
{
    pare_signround_opts opts = options(value, block->wave->samples);
    opts.seed = block->seed;
    opts.stream = pare_random_stream("signround") + ((uint64_t)block->number << 32);
    pare_learned_block from;
    pare_block_data data;
    pare_signround_found found;
    PARE_TRY(pare_learned_block_begin(cx, scratch, block, &from, &data));
    PARE_TRY(pare_signround_learn(cx, scratch, &opts, &data, &found));
    pare_learned_block_note(block, found.kept, found.before, found.after);
    apply(cx, block, &data, &found);
    return PARE_OK;
}

static const pare_pass_transform transforms = {.sites = pare_learned_block_sites,
                                               .folds = folds,
                                               .block = transform_block,
                                               .block_cost = block_cost,
                                               .refuses = refuses,
                                               .last = true};

const pare_pass pare_pass_signround = {
    .name = "signround",
    .summary = "SignRound: learns which way to round each weight on the outputs of a block",
    .source = "Cheng et al., Findings of EMNLP 2024, eq. (3) to (5), algorithm 1 (auto-round)",
    .notes =
        "It learns an offset of up to half a step of the grid for each weight, and how much of "
        "its\nrange each group keeps, so that the block, behind the compressed ones, gives "
        "what it gives in\nthe float model. Each step moves them by the sign of their gradient. "
        "rtn behind it stores\nthe codes that were learned. pare does less than the authors' "
        "program: symmetric grids\ncover both sides of a group, offsets move no weight that is 0, "
        "or the largest or smallest\nof its group, and it takes the last step, not the one whose "
        "batch had the least loss.\nBlocks may have attention or a recurrent state, but no mixture "
        "of experts.\n",
    .needs = PARE_FACT_WEIGHTS | PARE_FACT_FLOATS,
    .params = params,
    .cost = pare_learned_block_linear_cost,
    .transform = &transforms,
};
