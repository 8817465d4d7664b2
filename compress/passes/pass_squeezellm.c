#include "compress/passes/passes_internal.h"
#include "compress/passes/quantize.h"
#include "quant/squeezellm.h"

enum { BITS, OUTLIERS };

static const pare_word bits[] = {{"3", 3}, {"4", 4}, {NULL, 0}};

// clang-format off
static const pare_param params[] = {
    [BITS] = {.name = "bits", .type = PARE_PARAM_CHOICE, .fallback = 4, .words = bits,
        .help = "bits of a code: 8 or 16 centers per row"},
    [OUTLIERS] = {.name = "outliers", .type = PARE_PARAM_NUMBER, .min = 0, .max = 0.1,
        .fallback = 0.0045, .help = "share of the weights that is kept apart in F16"},
    {.name = NULL},
};
// clang-format on

static pare_squeezellm_opts options(const double *value)
{
    return (pare_squeezellm_opts){.bits = (unsigned)value[BITS], .fraction = value[OUTLIERS]};
}

static pare_grid grid(const double *value)
{
    return pare_quantize_stand_in((unsigned)value[BITS]);
}

static pare_status store(pare_ctx *cx, const double *value, size_t n, size_t k,
                         pare_packed_linear *out)
{
    const pare_grid g = {.bits = (unsigned)value[BITS], .encoding = PARE_ENCODING_CODEBOOK};
    (void)cx;
    out->sparse = pare_squeezellm_count(value[OUTLIERS], n, k);
    return pare_quantize_keep(&g, n, k, out);
}

static pare_pass_cost cost(const double *value, size_t n, size_t k, size_t threads)
{
    const double weights = (double)n * (double)k;
    (void)value;
    return (pare_pass_cost){.linear_bytes = n * k * 6 + n * 192 + k * 8 + threads * (k + 1) * 128 +
                                            pare_squeezellm_count(value[OUTLIERS], n, k) * 8,
                            .rounds = 500.0 * weights};
}

static pare_status run(pare_ctx *cx, const double *value, pare_pass_linear *linear,
                       pare_arena *scratch)
{
    const pare_squeezellm_opts opts = options(value);
    float *sensitivity;
    PARE_TRY(pare_quantize_diagonal(scratch, linear->h, linear->k, &sensitivity));
    return pare_squeezellm_quantize(cx, scratch, &opts, sensitivity, linear->w, linear->n,
                                    linear->k, linear->codes);
}

const pare_pass pare_pass_squeezellm = {
    .name = "squeezellm",
    .summary = "SqueezeLLM: gives each row a codebook, and keeps a few weights in F16",
    .source = "Kim et al., ICML 2024; sensitivity is the diagonal of H, not squared gradients",
    .needs = PARE_FACT_WEIGHTS | PARE_FACT_HESSIAN,
    .diagonal = true,
    .gives = PARE_FACT_CODES,
    .drops = PARE_FACT_WEIGHTS,
    .params = params,
    .cost = cost,
    .store = store,
    .grid = grid,
    .activation = pare_quantize_float,
    .run = run,
};
