#include <stdio.h>

#include "compress/passes/passes_internal.h"
#include "compress/passes/site_channels.h"
#include "quant/awq.h"

enum { SCALE, CLIP, DUO, STEPS };

// clang-format off
static const pare_param params[] = {
    [SCALE] = {.name = "scale", .type = PARE_PARAM_BOOL, .fallback = 1,
        .help = "search a scale per input channel"},
    [CLIP] = {.name = "clip", .type = PARE_PARAM_BOOL, .fallback = 1,
        .help = "search a bound per row and group and clamp the weights to it; not of q and k"},
    [DUO] = {.name = "duo", .type = PARE_PARAM_BOOL, .fallback = 0,
        .help = "take scales from the sizes of inputs and weights, not of inputs alone"},
    [STEPS] = {.name = "steps", .type = PARE_PARAM_INTEGER, .min = 1, .max = 100, .fallback = 20,
        .help = "exponents to try, from 0 to 1 in steps of 1/steps"},
    {.name = NULL},
};
// clang-format on

static pare_pass_cost cost(const double *value, size_t n, size_t k, size_t threads)
{
    const double all = (double)n * (double)k;
    const double tries = value[SCALE] != 0.0 ? value[STEPS] + 1 : 0;
    const double clips = value[CLIP] != 0.0 ? 10 : 0;
    return (pare_pass_cost){
        .linear_bytes = (n + 16 + 40 * threads) * k * sizeof(float) + n * 3 * sizeof(double),
        .flops = all * (tries * (double)k + clips * (k < 128 ? (double)k : 128)),
        .rounds = all * (tries + clips)};
}

static unsigned sites(const double *value)
{
    (void)value;
    return (1u << PARE_SITES) - 1;
}

static unsigned folds(const double *value)
{
    return value[SCALE] != 0.0 ? PARE_FOLDS_SCALE : 0;
}

static pare_status scale(pare_ctx *cx, const double *value, pare_pass_site *s, pare_arena *scratch,
                         pare_awq_found *found)
{
    pare_awq_linear linear[PARE_ROLES];
    pare_site_channels channels;
    PARE_TRY(pare_site_channels_take(cx, scratch, s->config, s->site, &channels));
    pare_awq_site site = {.k = s->stats->k,
                          .h = s->stats->h,
                          .absmean = s->stats->absmean,
                          .channel = channels.channel,
                          .channels = channels.channels,
                          .linear = linear};
    for (size_t role = 0; role < PARE_ROLES; role++) {
        size_t n, k;
        pare_linear_shape(s->config, 0, (pare_role)role, &n, &k);
        if (s->grid[role])
            linear[site.linears++] =
                (pare_awq_linear){s->current->linear[role].floats, n, s->grid[role]};
    }
    float *const values = PARE_NEW(scratch, float, channels.channels);
    if (!values)
        return PARE_ENOMEM;
    const pare_awq_opts opts = {.steps = (size_t)value[STEPS], .duo = value[DUO] != 0.0};
    PARE_TRY(pare_awq_scale(cx, scratch, &opts, &site, values, found));
    return pare_pass_scale(cx, s, values);
}

/* Queries and keys stay: their errors meet in the product of the two, behind the rotation by
 * position, where an error of the outputs is a poor measure. The original leaves them out too. */
static pare_status clip(pare_ctx *cx, pare_pass_site *s, pare_arena *scratch, pare_awq_clipped *all)
{
    for (size_t role = 0; role < PARE_ROLES; role++) {
        size_t n, k;
        pare_awq_clipped c;
        if (!s->grid[role] || role == PARE_ROLE_Q || role == PARE_ROLE_K)
            continue;
        pare_linear_shape(s->config, 0, (pare_role)role, &n, &k);
        PARE_TRY(pare_awq_clip(cx, scratch, s->grid[role], s->stats->h,
                               s->current->linear[role].floats, n, k, &c));
        all->groups += c.groups;
        all->clipped += c.clipped;
    }
    return PARE_OK;
}

static pare_status transform(pare_ctx *cx, const double *value, pare_pass_site *s,
                             pare_arena *scratch)
{
    pare_awq_found found = {0};
    pare_awq_clipped clipped = {0};
    char chosen[24] = "", clamped[40] = "";
    if (value[SCALE] != 0.0) {
        PARE_TRY(scale(cx, value, s, scratch, &found));
        if (found.alpha < 0)
            (void)snprintf(chosen, sizeof chosen, "no scales");
        else
            (void)snprintf(chosen, sizeof chosen, "alpha %.2f", found.alpha);
    }
    if (value[CLIP] != 0.0)
        PARE_TRY(clip(cx, s, scratch, &clipped));
    if (clipped.groups)
        (void)snprintf(clamped, sizeof clamped, "%sclipped %.1f%% of groups", chosen[0] ? ", " : "",
                       100.0 * (double)clipped.clipped / (double)clipped.groups);
    (void)snprintf(s->result->note, sizeof s->result->note, "%s%s", chosen, clamped);
    return PARE_OK;
}

static const char *refuses(const double *value, const pare_grid *grid, bool nearest)
{
    (void)nearest;
    if (value[SCALE] == 0.0 && value[CLIP] == 0.0)
        return "scale and clip are both false, so it would do nothing; drop it or turn one on";
    return grid ? NULL
                : "its searches round weights as the pass behind it will, and that one has no grid "
                  "to say how; put another quantizer there";
}

static const pare_pass_transform transforms = {
    .sites = sites, .folds = folds, .site = transform, .refuses = refuses};

const pare_pass pare_pass_awq = {
    .name = "awq",
    .summary = "AWQ: scales up the channels with large inputs before rounding, then clips",
    .source = "Lin et al., MLSys 2024, section 3.2",
    .needs = PARE_FACT_WEIGHTS | PARE_FACT_HESSIAN | PARE_FACT_CHANNELS,
    .params = params,
    .cost = cost,
    .transform = &transforms,
};
