#include <stdio.h>
#include <string.h>

#include "calib/wave.h"
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
                                 .batch = batch < samples ? batch : samples,
                                 .clip = value[CLIP] != 0.0,
                                 .clip_rate = value[CLIP_RATE],
                                 .scale_rate = value[SCALE_RATE],
                                 .weight_decay = value[WEIGHT_DECAY]};
}

/* Wanted outputs up to this many bytes are kept; more are made again for every batch. */
static const uint64_t targets_most = (uint64_t)256 << 20;

static size_t targets_bytes(size_t samples, size_t window, size_t hidden)
{
    const uint64_t bytes = pare_wave_bytes(samples, window, hidden);
    return bytes <= targets_most ? (size_t)bytes : 0;
}

/* All is counted for the block. */
static pare_pass_cost cost(const double *value, size_t n, size_t k, size_t threads)
{
    (void)value;
    (void)n;
    (void)k;
    (void)threads;
    return (pare_pass_cost){0};
}

static pare_pass_cost block_cost(const pare_ctx *cx, const double *value, const pare_config *c,
                                 size_t samples, size_t window)
{
    const pare_omniquant_opts opts = options(value, samples);
    const pare_batch batch = {.sequences = opts.batch, .length = window};
    const size_t own = pare_omniquant_bytes(cx, c, &opts, window);
    const size_t target = pare_block_forward_scratch(cx, c, batch) +
                          opts.batch * window * 2 * c->kv_heads * c->head_dim * sizeof(float) +
                          targets_bytes(samples, window, c->hidden) + (size_t)8 * PARE_ALIGN;
    double weights = 0;
    for (unsigned role = 0; role < PARE_ROLES; role++) {
        size_t n, k;
        pare_linear_shape(c, 0, (pare_role)role, &n, &k);
        weights += (double)n * (double)k;
    }
    /* forward of the float block and of the rounded one, and twice that backward */
    const double tokens = (double)samples * (double)window;
    return (pare_pass_cost){.linear_bytes = own > SIZE_MAX - target ? SIZE_MAX : own + target,
                            .flops = (value[EPOCHS] * 8 + 8) * tokens * weights};
}

static unsigned sites(const double *value)
{
    (void)value;
    return (1u << PARE_SITES) - 1;
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

static const char *refuses(const double *value, const pare_grid *grid)
{
    if (value[CLIP] == 0.0 && value[SCALES] == 0.0)
        return "clip and scales are both false, so it would do nothing; drop it or turn one on";
    if (!grid || !pare_encodings[grid->encoding].uniform)
        return "ranges are learned for uniform grids, and the pass behind it has another; put rtn "
               "or gptq there";
    if (grid->clip != PARE_CLIP_NONE)
        return "the ranges that are learned would be searched again by the pass behind it; say "
               "clip: none there, or put rtn or gptq with the uniform grid in its place";
    return NULL;
}

/* Where windows come from. */
typedef struct source {
    pare_ctx *cx;
    pare_arena *scratch;
    const pare_pass_block *block;
    float *targets; /* of all windows, or NULL */
    size_t known;   /* windows of them that have been made; they come in order at first */
} source;

/* y [count * window, hidden]: the inputs in, the outputs of the float block out. */
static pare_status make_targets(const source *s, size_t count, float *y)
{
    pare_kv kv;
    const pare_batch batch = {.sequences = count, .length = s->block->wave->window};
    const pare_config *const c = &s->block->forward->model->config;
    PARE_TRY(pare_kv_take(s->scratch, c, count, batch.length, &kv));
    return pare_block_forward(s->cx, s->scratch, s->block->forward, s->block->reference, batch, y,
                              &kv, NULL);
}

/* Inputs as they come through the compressed blocks; wanted is what the float block makes of the
 * same inputs. */
static pare_status read_windows(void *self, size_t first, size_t count, float *x, float *y)
{
    source *const s = self;
    const size_t stride = s->block->wave->window * s->block->wave->hidden;
    for (size_t i = 0; i < count; i++)
        PARE_TRY(pare_wave_window(s->cx, s->block->wave, first + i, x + i * stride));
    if (s->targets && first < s->known) {
        memcpy(y, s->targets + first * stride, count * stride * sizeof *y);
        return PARE_OK;
    }
    memcpy(y, x, count * stride * sizeof *y);
    const pare_mark mark = pare_arena_mark(s->scratch);
    const pare_status status = make_targets(s, count, y);
    pare_arena_rewind(s->scratch, mark);
    if (s->targets) {
        memcpy(s->targets + first * stride, y, count * stride * sizeof *y);
        s->known = first + count;
    }
    return status;
}

/* Inputs in 8 bits with a scale per group lose next to nothing: they count as floats. */
static bool rounds(const pare_activation *a)
{
    return a->mode != PARE_ACTIVATION_FLOAT && (a->bits == 4 || a->mode != PARE_ACTIVATION_GROUP);
}

static void look_ahead(const pare_pass_block *block, pare_omniquant_block *data)
{
    const pare_arch *const arch = block->forward->model->config.arch;
    for (size_t role = 0; role < PARE_ROLES; role++) {
        const pare_site site = arch->linear[role].site; /* PARE_SITES: there is no such linear */
        const pare_pass_site *const s = site < PARE_SITES ? block->site[site] : NULL;
        if (!s)
            continue;
        data->grid[role] = s->grid[role];
        if (s->grid[role] && rounds(&s->activation[role]))
            data->activation[site] = s->activation[role];
    }
}

/* Folds the scales and clamps the weights: the quantizer behind then finds the learned ranges. */
static pare_status apply(pare_ctx *cx, pare_pass_block *block, const pare_omniquant_block *data,
                         const pare_omniquant_found *found)
{
    for (size_t s = 0; s < PARE_SITES; s++)
        if (found->scale[s])
            PARE_TRY(pare_pass_scale(cx, block->site[s], found->scale[s]));
    for (size_t role = 0; role < PARE_ROLES; role++) {
        const pare_linear *const l = &block->current->linear[role];
        const pare_omniquant_clip clip = {.grid = data->grid[role],
                                          .n = l->n,
                                          .k = l->k,
                                          .low = found->low[role],
                                          .high = found->high[role]};
        if (clip.low)
            pare_omniquant_clamp(cx, &clip, l->floats);
    }
    return PARE_OK;
}

static pare_status transform_block(pare_ctx *cx, const double *value, pare_pass_block *block,
                                   pare_arena *scratch)
{
    pare_omniquant_opts opts = options(value, block->wave->samples);
    source from = {.cx = cx, .scratch = scratch, .block = block};
    pare_omniquant_block data = {.config = block->config,
                                 .forward = block->forward,
                                 .current = block->current,
                                 .samples = block->wave->samples,
                                 .window = block->wave->window,
                                 .read = read_windows,
                                 .self = &from};
    const size_t kept = targets_bytes(data.samples, data.window, block->wave->hidden);
    from.targets = kept ? pare_arena_take(scratch, kept, 1) : NULL;
    if (kept && !from.targets)
        return PARE_ENOMEM;
    look_ahead(block, &data);
    for (unsigned s = 0; s < PARE_SITES; s++)
        if (block->site[s] && value[SCALES] != 0.0 &&
            pare_fold_channels(block->config, (pare_site)s) > 0)
            opts.scales |= 1u << s;
    pare_omniquant_found found;
    PARE_TRY(pare_omniquant_learn(cx, scratch, &opts, &data, &found));
    for (size_t s = 0; s < PARE_SITES; s++) {
        if (!block->site[s])
            continue;
        pare_step_result *const r = block->site[s]->result;
        if (found.kept)
            (void)snprintf(r->note, sizeof r->note, "loss %.3g, not lowered", found.before);
        else
            (void)snprintf(r->note, sizeof r->note, "loss %.3g -> %.3g", found.before, found.after);
    }
    return apply(cx, block, &data, &found);
}

static const pare_pass_transform transforms = {.sites = sites,
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
        "an MLP's activation without a gate, or behind a norm inside a block, learn ranges "
        "only: nothing in front of them takes a scale",
    .needs = PARE_FACT_WEIGHTS,
    .params = params,
    .cost = cost,
    .transform = &transforms,
};
