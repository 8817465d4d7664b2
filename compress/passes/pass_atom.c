#include "compress/passes/passes_internal.h"
#include "compress/passes/quantize.h"
#include "quant/outliers.h"

enum { GROUP, OUTLIERS, CLIP, ROUNDING, DAMP };
enum { BY_GPTQ, TO_NEAREST };

static const pare_word roundings[] = {{"gptq", BY_GPTQ}, {"nearest", TO_NEAREST}, {NULL, 0}};

// clang-format off
static const pare_param params[] = {
    [GROUP] = {.name = "group", .type = PARE_PARAM_INTEGER, .min = 32, .max = 1 << 20,
        .fallback = 128, .multiple = 32,
        .help = "weights of a row that share a scale, and inputs (at most 128) of a token"},
    [OUTLIERS] = {.name = "outliers", .type = PARE_PARAM_INTEGER, .min = 0, .max = 4096,
        .fallback = 128,
        .help = "number of columns that get int8 weights and inputs: those with the largest sum of squares"},
    [CLIP] = {.name = "clip", .type = PARE_PARAM_CHOICE, .fallback = PARE_CLIP_MSE,
        .words = pare_quantize_clip, .help = "mse: search the range with the least sum of |error|^2.4"},
    [ROUNDING] = {.name = "rounding", .type = PARE_PARAM_CHOICE, .fallback = BY_GPTQ,
        .words = roundings,
        .help = "gptq: later columns compensate each error, those in int8 at the end; or nearest"},
    [DAMP] = {.name = "damp", .type = PARE_PARAM_NUMBER, .min = 1e-6, .max = 1.0, .fallback = 0.01,
        .help = "gptq: added to the diagonal of H, as a share of its mean"},
    {.name = NULL},
};
// clang-format on

static pare_grid grid(const double *value)
{
    return (pare_grid){.bits = 4,
                       .group = (size_t)value[GROUP],
                       .symmetric = true,
                       .clip = (pare_clip)value[CLIP],
                       .f16_scales = true};
}

static size_t columns(const double *value, size_t k)
{
    const size_t wanted = (size_t)value[OUTLIERS];
    return wanted < k ? wanted : k;
}

static pare_status store(pare_ctx *cx, const double *value, size_t n, size_t k,
                         pare_packed_linear *out)
{
    const pare_grid g = grid(value);
    (void)cx;
    out->outliers = columns(value, k);
    out->outliers_int8 = out->outliers > 0;
    return pare_quantize_keep(&g, n, k, out);
}

static pare_pass_cost cost(const double *value, size_t n, size_t k, size_t threads)
{
    const double dn = (double)n, dk = (double)k;
    const size_t planes = columns(value, k) * (n + 4) + k * 16 + n * 8 + n * (k / 32 + 1) * 5;
    if (value[ROUNDING] == TO_NEAREST)
        return (pare_pass_cost){.linear_bytes = planes,
                                .rounds = PARE_QUANTIZE_TRIES_SYMMETRIC * dn * dk};
    /* as GPTQ */
    return (pare_pass_cost){.site_bytes = pare_quantize_factor_bytes(k),
                            .start_bytes = pare_quantize_factoring_bytes(k),
                            .linear_bytes = planes + threads * 128 * (k + 320) * sizeof(float),
                            .site_flops = dk * dk * dk * 2.0 / 3.0,
                            .flops = 2.0 * dn * dk * dk,
                            .rounds = PARE_QUANTIZE_TRIES_SYMMETRIC * dn * dk};
}

static pare_status site(pare_ctx *cx, const double *value, const pare_site_stats *stats,
                        pare_arena *scratch, void **state)
{
    const pare_factor_opts opts = {.damp = (float)value[DAMP], .apart = columns(value, stats->k)};
    *state = NULL;
    return value[ROUNDING] == TO_NEAREST ? PARE_OK
                                         : pare_quantize_factor(cx, &opts, stats, scratch, state);
}

static pare_activation activation(const double *value)
{
    (void)value;
    return (pare_activation){.mode = PARE_ACTIVATION_GROUP, .bits = 4};
}

static pare_status run(pare_ctx *cx, const double *value, pare_pass_linear *linear,
                       pare_arena *scratch)
{
    const pare_grid g = grid(value);
    const pare_outlier_opts opts = {.columns = columns(value, linear->k), .int8 = true};
    const pare_factor *const factor = linear->site_state;
    float *squares;
    if (factor)
        pare_quantize_ladder(factor, linear->result);
    if (factor && !factor->damping.failed) {
        const pare_gptq_opts sweep = {.block = 128, .keep_zeros = linear->pruned};
        return pare_outliers_gptq(cx, scratch, &sweep, &g, factor, linear->w, linear->n, linear->k,
                                  linear->codes);
    }
    PARE_TRY(pare_quantize_diagonal(scratch, linear->h, linear->k, &squares));
    return pare_outliers_quantize(cx, scratch, &opts, &g, squares, linear->w, linear->n, linear->k,
                                  linear->codes);
}

const pare_pass pare_pass_atom = {
    .name = "atom",
    .summary = "Atom: rounds weights and inputs to 4 bits, outlier columns of both to 8",
    .source = "Zhao et al., MLSys 2024, section 4",
    .caution = "the kernels compute with 4-bit values as int8, so inputs in 4 bits cost quality as "
               "in the paper and save no time over activations: int8; weights take 4 bits",
    .needs = PARE_FACT_WEIGHTS | PARE_FACT_HESSIAN,
    .gives = PARE_FACT_CODES,
    .drops = PARE_FACT_WEIGHTS,
    .params = params,
    .cost = cost,
    .store = store,
    .grid = grid,
    .activation = activation,
    .site = site,
    .run = run,
};
