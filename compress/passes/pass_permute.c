/* Channels in the order under which the pruner behind it, N:M, keeps most. */
#include <stdio.h>

#include "compress/passes/passes_internal.h"
#include "compress/passes/quantize.h"
#include "prune/permute.h"
#include "prune/ria.h"
#include "solve/sparsity.h"

enum { POWER, SPAN };

// clang-format off
static const pare_param params[] = {
    [POWER] = {.name = "power", .type = PARE_PARAM_NUMBER, .min = 0, .max = 2, .fallback = 0.5,
        .help = "exponent of an input's length in RIA's score; the order that pare looks for has "
                "the largest sum of that score over what stays"},
    [SPAN] = {.name = "span", .type = PARE_PARAM_INTEGER, .min = 0, .max = 8192, .fallback = 1024,
        .help = "channels that pare assigns to groups together, after it dealt all out; 0: none"},
    {.name = NULL},
};
// clang-format on

/* Scores twice, the N-th largest of groups of two, gains between them, and a copy of H. */
static pare_pass_cost cost(const double *value, size_t n, size_t k, size_t threads)
{
    const size_t span = value[SPAN] < (double)k ? (size_t)value[SPAN] : k;
    return (pare_pass_cost){.linear_bytes = n * k * 10 + span * span * 2 + k * k * 4 + k * 96 +
                                            n * 12 + threads * k * 4 + 4096,
                            .flops = (double)n * (double)k * ((double)span + 40)};
}

static unsigned sites(const double *value)
{
    (void)value;
    return 1u << PARE_SITE_ATTENDED | 1u << PARE_SITE_ACTIVATED;
}

static unsigned folds(const double *value)
{
    (void)value;
    return PARE_FOLDS_ORDER;
}

/* The linear that reads the site; only one does. */
static size_t reader_of(const pare_pass_site *s)
{
    size_t role = 0;
    while (s->config->arch->linear[role].site != s->site)
        role++;
    return role;
}

/* One part of the channels, that of a value head or all: [channels, rows], the rows of all query
 * heads that read it behind each other. */
typedef struct part {
    size_t first, channels; /* columns of the first copy */
    size_t copies, step;    /* columns from one copy to the next */
} part;

static void gather(const part *p, const float *score, size_t n, size_t k, float *to)
{
    for (size_t copy = 0; copy < p->copies; copy++)
        for (size_t i = 0; i < n; i++)
            for (size_t c = 0; c < p->channels; c++)
                to[c * n * p->copies + copy * n + i] = score[i * k + p->first + copy * p->step + c];
}

/* Orders the channels of one part; `from` is theirs, `base` the number of the first. */
static pare_status order_part(pare_ctx *cx, pare_arena *scratch, const pare_permute_opts *opts,
                              const part *p, const float *score, size_t n, size_t k, size_t base,
                              uint32_t *from, double kept[2])
{
    const pare_mark mark = pare_arena_mark(scratch);
    const size_t whole = p->channels / opts->of * opts->of, rows = n * p->copies;
    double sums[2];
    float *const own = PARE_NEW(scratch, float, p->channels *rows);
    if (!own)
        return PARE_ENOMEM;
    gather(p, score, n, k, own);
    PARE_TRY(pare_permute_choose(cx, scratch, opts, own, whole, rows, from, sums));
    for (size_t c = 0; c < p->channels; c++)
        from[c] = (uint32_t)base + (c < whole ? from[c] : (uint32_t)c);
    kept[0] += sums[0];
    kept[1] += sums[1];
    pare_arena_rewind(scratch, mark);
    return PARE_OK;
}

static pare_status order_all(pare_ctx *cx, pare_arena *scratch, const pare_permute_opts *opts,
                             const pare_pass_site *s, const float *score, size_t n, size_t k,
                             uint32_t *from, double kept[2])
{
    const size_t channels = pare_fold_channels(s->config, s->site);
    const bool heads = s->site == PARE_SITE_ATTENDED;
    const size_t width = heads ? s->config->head_dim : channels, copies = k / channels;
    for (size_t first = 0; first < channels; first += width) {
        const part p = {first * copies, width, copies, width};
        PARE_TRY(order_part(cx, scratch, opts, &p, score, n, k, first, from + first, kept));
    }
    return PARE_OK;
}

static pare_status transform(pare_ctx *cx, const double *value, pare_pass_site *s,
                             pare_arena *scratch)
{
    size_t n, k;
    float *squares;
    double kept[2] = {0, 0};
    const size_t role = reader_of(s);
    const pare_sparsity *const rule = s->sparsity[role];
    const pare_permute_opts opts = {rule->keep, rule->of, (size_t)value[SPAN]};
    pare_linear_shape(s->config, 0, (pare_role)role, &n, &k);
    if (s->site == PARE_SITE_ATTENDED && s->config->head_dim % rule->of != 0) {
        (void)snprintf(s->result->note, sizeof s->result->note,
                       "left: no whole groups of %u in a head", rule->of);
        return PARE_OK;
    }
    float *const score = PARE_NEW(scratch, float, n *k);
    uint32_t *const from =
        score ? PARE_NEW(scratch, uint32_t, pare_fold_channels(s->config, s->site)) : NULL;
    if (!from)
        return PARE_ENOMEM;
    PARE_TRY(pare_quantize_diagonal(scratch, s->stats->h, k, &squares));
    PARE_TRY(pare_ria_score(cx, scratch, value[POWER], squares, s->current->linear[role].floats, n,
                            k, score));
    PARE_TRY(order_all(cx, scratch, &opts, s, score, n, k, from, kept));
    (void)snprintf(s->result->note, sizeof s->result->note, "%u:%u keeps %.2f%% more", rule->keep,
                   rule->of, kept[0] > 0 ? 100 * (kept[1] / kept[0] - 1) : 0.0);
    return pare_pass_order(cx, s, from);
}

static const pare_pass_transform transforms = {.sites = sites, .folds = folds, .site = transform};

const pare_pass pare_pass_permute = {
    .name = "permute",
    .summary = "orders channels inside attention and MLP, so that an N:M pruner keeps more",
    .source = "Zhang et al., ICLR 2024 (RIA), section 3.3",
    .needs = PARE_FACT_WEIGHTS | PARE_FACT_HESSIAN,
    .diagonal = true,
    .params = params,
    .cost = cost,
    .transform = &transforms,
};
