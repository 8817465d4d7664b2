#include "compress/passes/passes_internal.h"
#include "compress/passes/quantize.h"
#include "quant/hqq.h"
#include "solve/super.h"

enum { BITS, GROUP, GRID };

static const pare_word grids[] = {
    {"uniform", PARE_ENCODING_UNIFORM}, {"q4_k", PARE_ENCODING_Q4_K}, {NULL, 0}};

// clang-format off
static const pare_param params[] = {
    [BITS] = {.name = "bits", .type = PARE_PARAM_CHOICE, .fallback = 4, .words = pare_quantize_bits,
        .help = "bits of a code", .by = "grid", .when = "uniform"},
    [GROUP] = {.name = "group", .type = PARE_PARAM_INTEGER, .min = 32, .max = 1 << 20,
        .fallback = 64, .multiple = 32, .words = pare_quantize_row,
        .help = "weights of a row that share a scale and a zero point; row: all of them",
        .by = "grid", .when = "uniform"},
    [GRID] = {.name = "grid", .type = PARE_PARAM_CHOICE, .fallback = PARE_ENCODING_UNIFORM,
        .words = grids, .help = "uniform rounds zero points to whole numbers, which HQQ does not; "
                                "q4_k keeps fractions: super-blocks of 256 of GGUF files, 4 bits"},
    {.name = NULL},
};
// clang-format on

/* Rows of tests/results/quality.csv: hedge and real, group 64. */
static const char notes[] =
    "HQQ moves zero points by fractions. Whole zero points hardly ever move, so that on a uniform "
    "grid\n"
    "pare moves the scales instead, and gains less. KL to the float model (less is better), groups "
    "of 64:\n\n"
    "                                       demo model            a model of 135M\n"
    "                                       4 bits    3 bits      4 bits    3 bits\n"
    "  rtn: {symmetric: false}              0.0046    0.0211      0.346     1.322\n"
    "  rtn: {symmetric: false, clip: mse}   0.0042    0.0184      0.358     1.426\n"
    "  hqq                                  0.0045    0.0187      0.348     1.310\n"
    "  hqq: {grid: q4_k}                    0.0036\n"
    "  rtn: {grid: q4_k}                    0.0034\n\n"
    "The last two quantize down_proj on the uniform grid, because 256 does not divide its rows.\n";

static bool is_super(const double *value)
{
    return pare_encoding_is_super((pare_encoding)value[GRID]);
}

static pare_grid grid(const double *value)
{
    if (is_super(value))
        return (pare_grid){.bits = 4,
                           .group = PARE_SUPER,
                           .encoding = (pare_encoding)value[GRID],
                           .f16_scales = true};
    return (pare_grid){
        .bits = (unsigned)value[BITS], .group = (size_t)value[GROUP], .f16_scales = true};
}

static pare_activation activation(const double *value)
{
    return is_super(value) ? pare_quantize_float(value) : pare_quantize_activation(0);
}

static pare_status store(pare_ctx *cx, const double *value, size_t n, size_t k,
                         pare_packed_linear *out)
{
    const pare_grid g = grid(value);
    return is_super(value) ? pare_quantize_super_keep(cx, &g, n, k, out)
                           : pare_quantize_keep(&g, n, k, out);
}

static pare_pass_cost cost(const double *value, size_t n, size_t k, size_t threads)
{
    (void)threads;
    pare_grid g = grid(value);
    if (is_super(value))
        g.group = pare_super_sub(g.encoding);
    const size_t groups = n * pare_grid_groups(&g, k);
    return (pare_pass_cost){.linear_bytes = groups * 9 + n * 8 + 256,
                            .rounds = 280.0 * (double)n * (double)k};
}

static pare_status run(pare_ctx *cx, const double *value, pare_pass_linear *linear,
                       pare_arena *scratch)
{
    const pare_grid g = grid(value);
    PARE_TRY(pare_codes_take(scratch, &g, linear->n, linear->k, linear->codes));
    return pare_hqq_quantize(cx, &g, linear->w, linear->n, linear->k, scratch, linear->codes);
}

const pare_pass pare_pass_hqq = {
    .name = "hqq",
    .summary = "HQQ: zero points that leave few large errors, found without data",
    .notes = notes,
    .source = "Badri and Shaji, 2023 (Half-Quadratic Quantization)",
    .needs = PARE_FACT_WEIGHTS,
    .gives = PARE_FACT_CODES,
    .drops = PARE_FACT_WEIGHTS,
    .params = params,
    .cost = cost,
    .store = store,
    .grid = grid,
    .activation = activation,
    .run = run,
};
