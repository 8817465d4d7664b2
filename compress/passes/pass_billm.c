#include "compress/passes/passes_internal.h"
#include "compress/passes/quantize.h"
#include "quant/billm.h"

enum { DAMP };

// clang-format off
static const pare_param params[] = {
    [DAMP] = {.name = "damp", .type = PARE_PARAM_NUMBER, .min = 1e-6, .max = 1.0, .fallback = 0.01,
        .help = "added to the diagonal of H, as a share of its mean"},
    {.name = NULL},
};
// clang-format on

static pare_status store(pare_ctx *cx, const double *value, size_t n, size_t k,
                         pare_packed_linear *out)
{
    const pare_grid g = pare_billm_grid();
    (void)cx;
    (void)value;
    return pare_quantize_keep(&g, n, k, out);
}

static pare_pass_cost cost(const double *value, size_t n, size_t k, size_t threads)
{
    const double dn = (double)n, dk = (double)k;
    (void)value;
    (void)threads;
    return (pare_pass_cost){.site_bytes = pare_quantize_factor_bytes(k),
                            .start_bytes = pare_quantize_factoring_bytes(k),
                            .linear_bytes = n * 16 + n * (k / 128 + 1) * 16,
                            .site_flops = dk * dk * dk * 2.0 / 3.0,
                            .flops = dn * dk * dk,
                            .rounds = 1000.0 * dn * dk};
}

static pare_status site(pare_ctx *cx, const double *value, const pare_site_stats *stats,
                        pare_arena *scratch, void **state)
{
    const pare_factor_opts opts = {.damp = (float)value[DAMP]};
    return pare_quantize_factor(cx, &opts, stats, scratch, state);
}

static pare_status run(pare_ctx *cx, const double *value, pare_pass_linear *linear,
                       pare_arena *scratch)
{
    const pare_factor *const factor = linear->site_state;
    const pare_grid grid = pare_billm_grid();
    (void)value;
    pare_quantize_ladder(factor, linear->result);
    linear->result->fallback = false;
    if (factor->damping.failed)
        return pare_fail(cx, PARE_ENUMERIC,
                         "the Hessian has no factor at any damping, and binary weights need one: "
                         "more calibration samples, or another pass for this linear");
    PARE_TRY(pare_codes_take(scratch, &grid, linear->n, linear->k, linear->codes));
    return pare_billm_quantize(cx, scratch, factor, linear->w, linear->codes);
}

const pare_pass pare_pass_billm = {
    .name = "billm",
    .summary = "BiLLM: keeps signs and a few magnitudes; binarizes salient columns twice",
    .source = "Huang et al., ICML 2024, algorithms 1 and 2",
    .caution = PARE_QUANTIZE_CAUTION
    "; the file has about 2.5 bits per weight, 2 for the choice among four values and the rest for "
    "the values: the paper's 1.1 leaves out what says which columns are salient, and the values",
    .needs = PARE_FACT_WEIGHTS | PARE_FACT_HESSIAN,
    .gives = PARE_FACT_CODES,
    .drops = PARE_FACT_WEIGHTS,
    .params = params,
    .cost = cost,
    .store = store,
    .activation = pare_quantize_float,
    .site = site,
    .run = run,
};
