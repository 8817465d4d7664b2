#include <stdio.h>

#include "compress/passes/passes_internal.h"
#include "compress/passes/site_channels.h"
#include "quant/smoothquant.h"

enum { ALPHA, ATTENDED, ACTIVATED };

#define SEARCH (-1.0)

static const pare_word alphas[] = {{"search", SEARCH}, {NULL, 0}};

// clang-format off
static const pare_param params[] = {
    [ALPHA] = {.name = "alpha", .type = PARE_PARAM_NUMBER, .min = 0, .max = 1, .fallback = 0.5,
        .words = alphas, .help = "share of an input's range that goes to the weights; search: the "
        "best of 0, 0.05, .. 1 for each input"},
    [ATTENDED] = {.name = "attended", .type = PARE_PARAM_BOOL, .fallback = 0,
        .help = "scale the input of o, too; v takes the inverse"},
    [ACTIVATED] = {.name = "activated", .type = PARE_PARAM_BOOL, .fallback = 0,
        .help = "scale the input of down, too; up takes the inverse"},
    {.name = NULL},
};
// clang-format on

static bool searches(const double *value)
{
    return value[ALPHA] == SEARCH;
}

static unsigned sites(const double *value)
{
    return 1u << PARE_SITE_ATTENTION | 1u << PARE_SITE_MLP |
           (value[ATTENDED] != 0.0 ? 1u << PARE_SITE_ATTENDED : 0u) |
           (value[ACTIVATED] != 0.0 ? 1u << PARE_SITE_ACTIVATED : 0u);
}

static unsigned folds(const double *value)
{
    (void)value;
    return PARE_FOLDS_SCALE;
}

static unsigned asks(const double *value)
{
    return searches(value) ? PARE_FACT_SAMPLE : 0u;
}

static pare_pass_cost cost(const double *value, size_t n, size_t k, size_t threads)
{
    const size_t m = PARE_STATS_ROWS;
    const double trials = searches(value) ? 22.0 : 0.0;
    const size_t search = (n * k + 2 * m * n + 2 * m * k + threads * k) * sizeof(float);
    return (pare_pass_cost){.linear_bytes = 8 * k * sizeof(float) + (trials > 0 ? search : 0),
                            .flops = (double)n * (double)k * (2.0 + trials * 4.0 * (double)m)};
}

static pare_status transform(pare_ctx *cx, const double *value, pare_pass_site *s,
                             pare_arena *scratch)
{
    pare_smooth_linear linear[PARE_ROLES];
    pare_site_channels share;
    PARE_TRY(pare_site_channels_take(cx, scratch, s->config, s->site, &share));
    float *const scale = PARE_NEW(scratch, float, share.channels);
    if (!scale)
        return PARE_ENOMEM;
    pare_smooth_site site = {.k = s->stats->k,
                             .absmax = s->stats->absmax,
                             .sample = s->stats->sample,
                             .samples = s->stats->samples,
                             .channel = share.channel,
                             .channels = share.channels,
                             .linear = linear};
    for (size_t role = 0; role < PARE_ROLES; role++) {
        size_t n, width;
        pare_linear_shape(s->config, 0, (pare_role)role, &n, &width);
        if (s->config->arch->linear[role].site == s->site)
            linear[site.linears++] = (pare_smooth_linear){.w = s->current->linear[role].floats,
                                                          .n = n,
                                                          .grid = s->grid[role],
                                                          .activation = s->activation[role]};
    }
    pare_smooth_found found = {.alpha = value[ALPHA]};
    PARE_TRY(searches(value) ? pare_smoothquant_search(cx, scratch, &site, scale, &found)
                             : pare_smoothquant_scales(cx, scratch, &site, found.alpha, scale));
    (void)snprintf(s->result->note, sizeof s->result->note, "alpha %.2f", found.alpha);
    return pare_pass_scale(cx, s, scale);
}

static const char *refuses(const double *value, const pare_grid *grid, bool nearest)
{
    (void)nearest;
    return grid || !searches(value)
               ? NULL
               : "alpha: search rounds weights as the pass behind it will, and that one has no "
                 "grid to say how; say alpha: 0.5";
}

static const pare_pass_transform transforms = {
    .sites = sites, .folds = folds, .site = transform, .refuses = refuses};

const pare_pass pare_pass_smoothquant = {
    .name = "smoothquant",
    .summary = "SmoothQuant: moves a part of the range of large inputs into the weights",
    .source = "Xiao et al., ICML 2023, eq. (4)",
    .notes =
        "SmoothQuant is made for weights and inputs of 8 bits (W8A8). The quantizer for that is\n"
        "rtn: {bits: 8, group: row, activations: int8_token}, as in recipes/smoothquant-w8a8.yaml."
        "\n",
    .needs = PARE_FACT_WEIGHTS | PARE_FACT_CHANNELS,
    .params = params,
    .cost = cost,
    .asks = asks,
    .transform = &transforms,
};
