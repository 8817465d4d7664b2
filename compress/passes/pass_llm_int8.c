#include "compress/passes/passes_internal.h"
#include "compress/passes/quantize.h"
#include "quant/outliers.h"

enum { THRESHOLD, COLUMNS, LEAST };

// clang-format off
static const pare_param params[] = {
    [THRESHOLD] = {.name = "threshold", .type = PARE_PARAM_NUMBER, .min = 0, .max = 1e4,
        .fallback = 6, .help = "inputs above it are outliers; the report says how many fitted"},
    [COLUMNS] = {.name = "columns", .type = PARE_PARAM_NUMBER, .min = 0, .max = 0.5,
        .fallback = 0.01, .help = "share of the columns kept in F16: those of the largest inputs"},
    [LEAST] = {.name = "least", .type = PARE_PARAM_INTEGER, .min = 0, .max = 4096, .fallback = 8,
        .unit = "columns", .help = "but at least so many, unless the share is 0: outliers sit in "
        "few channels (6 or 7 in the paper), however wide the model"},
    {.name = NULL},
};
// clang-format on

static pare_grid grid(const double *value)
{
    (void)value;
    return (pare_grid){.bits = 8, .symmetric = true, .f16_scales = true};
}

static size_t kept(const double *value, size_t k)
{
    return pare_outlier_count(value[COLUMNS], (size_t)value[LEAST], k);
}

static pare_status store(pare_ctx *cx, const double *value, size_t n, size_t k,
                         pare_packed_linear *out)
{
    const pare_grid g = grid(value);
    (void)cx;
    out->outliers = kept(value, k);
    return pare_quantize_keep(&g, n, k, out);
}

static pare_pass_cost cost(const double *value, size_t n, size_t k, size_t threads)
{
    (void)threads;
    return (pare_pass_cost){.linear_bytes = kept(value, k) * (n + 1) * 4 + k * 8 + n * 8,
                            .rounds = 1.5 * (double)n * (double)k};
}

static pare_status run(pare_ctx *cx, const double *value, pare_pass_linear *linear,
                       pare_arena *scratch)
{
    const float *const absmax = linear->stats->absmax;
    const pare_grid g = grid(value);
    const pare_outlier_opts opts = {.columns = kept(value, linear->k)};
    size_t above = 0;
    for (size_t j = 0; j < linear->k; j++)
        above += (double)absmax[j] > value[THRESHOLD];
    pare_quantize_note(linear, "%zu columns above %g, %zu kept", above, value[THRESHOLD],
                       opts.columns);
    return pare_outliers_quantize(cx, scratch, &opts, &g, absmax, linear->w, linear->n, linear->k,
                                  linear->codes);
}

const pare_pass pare_pass_llm_int8 = {
    .name = "llm_int8",
    .summary = "LLM.int8(): columns of large inputs in F16, the rest int8 with int8 inputs",
    .source = "Dettmers et al., NeurIPS 2022, section 3; columns fixed by calibration",
    .needs = PARE_FACT_WEIGHTS | PARE_FACT_CHANNELS,
    .gives = PARE_FACT_CODES,
    .drops = PARE_FACT_WEIGHTS,
    .params = params,
    .cost = cost,
    .store = store,
    .grid = grid,
    .activation = pare_quantize_token,
    .run = run,
};
