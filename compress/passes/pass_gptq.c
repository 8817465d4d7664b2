#include <string.h>

#include "compress/passes/passes_internal.h"
#include "compress/passes/quantize.h"
#include "quant/gptq.h"
#include "quant/rtn.h"

enum { ACT_ORDER = PARE_QUANTIZE_PARAMS, TRUE_SEQUENTIAL, DAMP, BLOCK };

// clang-format off
static const pare_param params[] = {
    PARE_QUANTIZE_TABLE,
    [ACT_ORDER] = {.name = "act_order", .type = PARE_PARAM_BOOL, .fallback = 0,
        .help = "columns by falling diagonal of H; group grids are then fixed beforehand (static)"},
    [TRUE_SEQUENTIAL] = {.name = "true_sequential", .type = PARE_PARAM_BOOL, .fallback = 0,
        .help = "inside a block: q,k,v, then o, then gate,up, then down, each on compressed inputs"},
    [DAMP] = {.name = "damp", .type = PARE_PARAM_NUMBER, .min = 1e-6, .max = 1.0, .fallback = 0.01,
        .help = "added to the diagonal of H, as a share of its mean"},
    [BLOCK] = {.name = "block", .type = PARE_PARAM_INTEGER, .min = 32, .max = 4096, .fallback = 128,
        .multiple = 32, .unit = "columns", .help = "columns between lazy updates"},
    {.name = NULL},
};
// clang-format on

static pare_gptq_opts options(const double *value)
{
    return (pare_gptq_opts){.damp = (float)value[DAMP],
                            .act_order = value[ACT_ORDER] != 0.0,
                            .block = (size_t)value[BLOCK]};
}

static pare_pass_cost cost(const double *value, size_t n, size_t k, size_t threads)
{
    const double dn = (double)n, dk = (double)k;
    (void)value;
    /* the state is the factor; factorizing may need it once more in single or twice in double */
    return (pare_pass_cost){.site_bytes = k * k * sizeof(float) + k * 64,
                            .linear_bytes =
                                3 * k * k * sizeof(float) + threads * 128 * k * sizeof(float),
                            .flops = dk * dk * dk * 2.0 / 3.0 + 2.0 * dn * dk * dk};
}

static bool sequential(const double *value)
{
    return value[TRUE_SEQUENTIAL] != 0.0;
}

static pare_status site(pare_ctx *cx, const double *value, const pare_site_stats *stats,
                        pare_arena *scratch, void **state)
{
    const size_t k = stats->k;
    pare_gptq_factor *const factor = PARE_NEW(scratch, pare_gptq_factor, 1);
    float *const u = PARE_NEW(scratch, float, k *k);
    if (!factor || !u)
        return PARE_ENOMEM;
    memcpy(u, stats->h, k * k * sizeof *u);
    *state = factor;
    const pare_gptq_opts opts = options(value);
    return pare_gptq_factorize(cx, scratch, &opts, u, k, factor);
}

static pare_status run(pare_ctx *cx, const double *value, pare_pass_linear *linear,
                       pare_arena *scratch)
{
    const pare_gptq_factor *const factor = linear->site_state;
    const pare_grid grid = pare_quantize_grid(value);
    const pare_gptq_opts opts = options(value);
    PARE_TRY(pare_codes_take(scratch, &grid, linear->n, linear->k, linear->codes));
    pare_linear_result *const r = linear->result;
    r->damp = (double)factor->damping.damp;
    r->raises = factor->damping.raises;
    r->f64 = factor->damping.f64;
    r->dead = factor->damping.dead;
    r->fallback = factor->damping.failed;
    if (r->fallback)
        return pare_rtn_quantize(cx, &grid, linear->w, linear->n, linear->k, linear->codes);
    return pare_gptq_quantize(cx, scratch, &opts, &grid, factor, linear->w, linear->codes, NULL);
}

const pare_pass pare_pass_gptq = {
    .name = "gptq",
    .summary = "GPTQ: rounds column by column and lets the rest of the row compensate each error",
    .source = "Frantar et al., ICLR 2023, Algorithm 1",
    .needs = PARE_FACT_WEIGHTS | PARE_FACT_HESSIAN,
    .gives = PARE_FACT_CODES,
    .drops = PARE_FACT_WEIGHTS,
    .params = params,
    .store = pare_quantize_store,
    .grid = pare_quantize_grid,
    .cost = cost,
    .sequential = sequential,
    .site = site,
    .run = run,
};
