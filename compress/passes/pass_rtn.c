#include "compress/passes/passes_internal.h"
#include "compress/passes/quantize.h"
#include "solve/super.h"

enum { GRID = PARE_QUANTIZE_PARAMS, ACTIVATIONS };

static const pare_word grids[] = {{"uniform", PARE_ENCODING_UNIFORM},
                                  {"q4_k", PARE_ENCODING_Q4_K},
                                  {"q6_k", PARE_ENCODING_Q6_K},
                                  {NULL, 0}};

// clang-format off
static const pare_param params[] = {
    PARE_QUANTIZE_TABLE,
    [PARE_QUANTIZE_CLIP] = {PARE_QUANTIZE_SWEEP_CLIP "; q4_k, q6_k: none or weighted",
        .fallback = PARE_CLIP_NONE},
    [GRID] = {.name = "grid", .type = PARE_PARAM_CHOICE, .fallback = PARE_ENCODING_UNIFORM,
        .words = grids, .help = "q4_k, q6_k: super-blocks of 256 weights, rounded as engines of "
                                "GGUF files do; inputs stay floats"},
    [ACTIVATIONS] = {PARE_QUANTIZE_ACTIVATIONS, .by = "grid", .when = "uniform"},
    {.name = NULL},
};
// clang-format on

static pare_encoding encoding(const double *value)
{
    return (pare_encoding)value[GRID];
}

static bool is_super(const double *value)
{
    return pare_encoding_is_super(encoding(value));
}

static pare_grid grid(const double *value)
{
    return is_super(value) ? pare_quantize_super(value, encoding(value))
                           : pare_quantize_search_grid(value);
}

/* Whether errors count by the inputs that they meet. */
static bool is_weighted(const double *value)
{
    return (pare_clip)value[PARE_QUANTIZE_CLIP] == PARE_CLIP_WEIGHTED;
}

static unsigned asks(const double *value)
{
    return is_weighted(value) ? PARE_FACT_HESSIAN : 0;
}

static pare_activation activation(const double *value)
{
    return is_super(value) ? pare_quantize_float(value)
                           : pare_quantize_activation(value[ACTIVATIONS]);
}

static pare_status store(pare_ctx *cx, const double *value, size_t n, size_t k,
                         pare_packed_linear *out)
{
    if (!is_super(value))
        return pare_quantize_store(cx, value, n, k, out);
    if (value[ACTIVATIONS] != 0.0)
        return pare_fail(cx, PARE_EINVAL, "activations: goes with the uniform grid only");
    if ((pare_clip)value[PARE_QUANTIZE_CLIP] == PARE_CLIP_MSE)
        return pare_fail(cx, PARE_EINVAL,
                         "clip: mse goes with the uniform grid only; %s takes weighted, or none: "
                         "the rule of the engine",
                         pare_encodings[encoding(value)].name);
    return pare_quantize_super_store(cx, value, encoding(value), n, k, out);
}

/* Clipping searches ranges of its own. */
static bool nearest(const double *value)
{
    return (pare_clip)value[PARE_QUANTIZE_CLIP] == PARE_CLIP_NONE;
}

static pare_status run(pare_ctx *cx, const double *value, pare_pass_linear *linear,
                       pare_arena *scratch)
{
    const bool super = is_super(value);
    const pare_grid g = super ? grid(value) : pare_quantize_grid(value);
    float *cost = NULL;
    if (is_weighted(value))
        PARE_TRY(pare_quantize_diagonal(scratch, linear->h, linear->k, &cost));
    return super && !cost ? pare_quantize_engine(cx, &g, linear, scratch)
                          : pare_quantize_round(cx, &g, cost, linear, scratch);
}

static pare_pass_cost cost(const double *value, size_t n, size_t k, size_t threads)
{
    (void)threads;
    const double tries = is_super(value) ? 60.0 : pare_quantize_tries(value);
    return (pare_pass_cost){.linear_bytes = is_weighted(value) ? k * sizeof(float) : 0,
                            .rounds = tries * (double)n * (double)k};
}

const pare_pass pare_pass_rtn = {
    .name = "rtn",
    .summary = "rounds every weight to the nearest value of its group's grid",
    .source = "Jacob et al., CVPR 2018, eq. (1)",
    .needs = PARE_FACT_WEIGHTS,
    .asks = asks,
    .diagonal = true,
    .nearest = nearest,
    .gives = PARE_FACT_CODES,
    .drops = PARE_FACT_WEIGHTS,
    .params = params,
    .store = store,
    .grid = grid,
    .activation = activation,
    .cost = cost,
    .run = run,
};
