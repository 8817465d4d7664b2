#include <stdio.h>

#include "compress/passes/passes_internal.h"
#include "compress/passes/site_channels.h"
#include "quant/outlier_suppression.h"

enum { SHIFT, STEPS };

// clang-format off
static const pare_param params[] = {
    [SHIFT] = {.name = "shift", .type = PARE_PARAM_BOOL, .fallback = 1,
        .help = "move each channel to the middle of its range, biases take the difference; not down"},
    [STEPS] = {.name = "steps", .type = PARE_PARAM_INTEGER, .min = 1, .max = 200, .fallback = 32,
        .help = "thresholds to try, from the largest range to the smallest"},
    {.name = NULL},
};
// clang-format on

static pare_pass_cost cost(const double *value, size_t n, size_t k, size_t threads)
{
    return (pare_pass_cost){.linear_bytes = (n + 16 + threads) * k * sizeof(float),
                            .flops = (value[STEPS] + 1) * (double)n * (double)k * (double)k};
}

/* The input of down is a product of two linears: no bias of one could take a shift. */
static unsigned sites(const double *value)
{
    const unsigned all = (1u << PARE_SITES) - 1;
    return value[SHIFT] != 0.0 ? all & ~(1u << PARE_SITE_ACTIVATED) : all;
}

static unsigned folds(const double *value)
{
    return PARE_FOLDS_SCALE | (value[SHIFT] != 0.0 ? PARE_FOLDS_SHIFT : 0);
}

static pare_status shift(pare_ctx *cx, pare_pass_site *s, const pare_site_channels *c,
                         pare_arena *scratch)
{
    float *const z = PARE_NEW(scratch, float, c->channels);
    if (!z)
        return PARE_ENOMEM;
    PARE_TRY(pare_suppress_shift(cx, s->stats->min, s->stats->max, s->stats->k, c->channel,
                                 c->channels, z));
    return pare_pass_shift(cx, s, z);
}

static pare_status scale(pare_ctx *cx, const double *value, pare_pass_site *s,
                         const pare_site_channels *c, pare_arena *scratch)
{
    pare_suppress_linear linear[PARE_ROLES];
    pare_suppress_site site = {.k = s->stats->k,
                               .tokens = s->stats->tokens,
                               .h = s->stats->h,
                               .absmax = s->stats->absmax,
                               .channel = c->channel,
                               .channels = c->channels,
                               .linear = linear};
    for (size_t role = 0; role < PARE_ROLES; role++) {
        size_t n, k;
        pare_linear_shape(s->config, 0, (pare_role)role, &n, &k);
        if (s->grid[role])
            linear[site.linears++] = (pare_suppress_linear){s->current->linear[role].floats, n,
                                                            s->grid[role], s->activation[role]};
    }
    float *const values = PARE_NEW(scratch, float, c->channels);
    if (!values)
        return PARE_ENOMEM;
    pare_suppress_found found;
    PARE_TRY(pare_suppress_scale(cx, scratch, (size_t)value[STEPS], &site, values, &found));
    size_t scaled = 0;
    for (size_t i = 0; i < c->channels; i++)
        scaled += values[i] > 1;
    (void)snprintf(s->result->note, sizeof s->result->note, "threshold %.4g, %zu of %zu scaled",
                   found.threshold, scaled, c->channels);
    return pare_pass_scale(cx, s, values);
}

static pare_status transform(pare_ctx *cx, const double *value, pare_pass_site *s,
                             pare_arena *scratch)
{
    pare_site_channels channels;
    PARE_TRY(pare_site_channels_take(cx, scratch, s->config, s->site, &channels));
    if (value[SHIFT] != 0.0)
        PARE_TRY(shift(cx, s, &channels, scratch));
    return scale(cx, value, s, &channels, scratch);
}

static const char *refuses(const double *value, const pare_grid *grid, bool nearest)
{
    (void)nearest;
    (void)value;
    return grid ? NULL
                : "thresholds are searched by rounding weights as the pass behind it will, and "
                  "that one has no grid to say how; put another quantizer there";
}

static const pare_pass_transform transforms = {
    .sites = sites, .folds = folds, .site = transform, .refuses = refuses};

const pare_pass pare_pass_outlier_suppression = {
    .name = "outlier_suppression",
    .summary = "shifts input channels to their middle and shrinks the widest",
    .source = "Wei et al., EMNLP 2023, section 4",
    .needs = PARE_FACT_WEIGHTS | PARE_FACT_HESSIAN | PARE_FACT_CHANNELS,
    .params = params,
    .cost = cost,
    .transform = &transforms,
};
