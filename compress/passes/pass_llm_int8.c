#include <math.h>

#include "compress/passes/passes_internal.h"
#include "compress/passes/quantize.h"
#include "quant/outliers.h"

enum { THRESHOLD, COLUMNS };

// clang-format off
static const pare_param params[] = {
    [THRESHOLD] = {.name = "threshold", .type = PARE_PARAM_NUMBER, .min = 0, .max = 1e4,
        .fallback = 6, .help = "a column of inputs that reaches it anywhere in the calibration stays "
        "in F16; where none does, all are int8"},
    [COLUMNS] = {.name = "columns", .type = PARE_PARAM_NUMBER, .min = 0, .max = 0.5,
        .fallback = 0.05, .help = "at most this share of the columns of a linear: those of the "
        "largest inputs"},
    {.name = NULL},
};
// clang-format on

static pare_grid grid(const double *value)
{
    (void)value;
    return (pare_grid){.bits = 8, .symmetric = true, .f16_scales = true};
}

static size_t most(const double *value, size_t k)
{
    return (size_t)ceil(value[COLUMNS] * (double)k);
}

static size_t columns(const double *value, const float *absmax, size_t k)
{
    return pare_outliers_above(absmax, k, value[THRESHOLD], value[COLUMNS]);
}

static pare_status store(pare_ctx *cx, const double *value, size_t n, size_t k,
                         pare_packed_linear *out)
{
    const pare_grid g = grid(value);
    (void)cx;
    out->outliers = most(value, k);
    return pare_quantize_keep(&g, n, k, out);
}

static pare_pass_cost cost(const double *value, size_t n, size_t k, size_t threads)
{
    (void)threads;
    return (pare_pass_cost){.linear_bytes = most(value, k) * (n + 1) * 4 + k * 8 + n * 8,
                            .rounds = 1.5 * (double)n * (double)k};
}

static pare_status run(pare_ctx *cx, const double *value, pare_pass_linear *linear,
                       pare_arena *scratch)
{
    const pare_grid g = grid(value);
    const pare_outlier_opts opts = {.columns = linear->columns};
    /* chosen on the inputs of the float model, not on those that linear->stats has */
    pare_quantize_note(linear, "%zu column%s in F16", opts.columns, pare_plural(opts.columns));
    return pare_outliers_quantize(cx, scratch, &opts, &g, linear->stats->absmax, linear->w,
                                  linear->n, linear->k, linear->codes);
}

const pare_pass pare_pass_llm_int8 = {
    .name = "llm_int8",
    .summary = "LLM.int8(): rounds weights and inputs to int8, large columns excepted",
    .source = "Dettmers et al., NeurIPS 2022, section 3; columns fixed by calibration",
    .needs = PARE_FACT_WEIGHTS | PARE_FACT_CHANNELS,
    .gives = PARE_FACT_CODES,
    .drops = PARE_FACT_WEIGHTS,
    .params = params,
    .cost = cost,
    .store = store,
    .columns = columns,
    .grid = grid,
    .activation = pare_quantize_token,
    .run = run,
};
