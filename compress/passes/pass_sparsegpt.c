/* SparseGPT alone and joint with rounding: the same sweep, without and with a grid; alone also with
 * the columns in the order of ROSE and the costs of ISC. */
#include <string.h>

#include "compress/passes/passes_internal.h"
#include "compress/passes/prune.h"
#include "compress/passes/quantize.h"
#include "prune/isc.h"
#include "prune/rose.h"
#include "prune/sparsegpt.h"

/* Rows behind the pruner's own, which begin at `base`. */
enum {
    DAMP = PARE_PRUNE_PARAMS,
    BLOCK,
    STABILITY,
    RATIOS,
    ORDER = RATIOS + PARE_PRUNE_RATIO_PARAMS,
    SCORE
};
enum { NATURAL, ROSE };
enum { OBS, ISC };
enum { JOINT = PARE_QUANTIZE_PARAMS, ACTIVATIONS = JOINT + BLOCK + 1 };

static const pare_word orders[] = {{"natural", NATURAL}, {"rose", ROSE}, {NULL, 0}};
static const pare_word scores[] = {{"obs", OBS}, {"isc", ISC}, {NULL, 0}};

// clang-format off
#define SWEEP_TABLE(base)                                                                          \
    PARE_PRUNE_TABLE(base, PARE_COMPARE_LAYER, "the columns of a block"),                          \
    [(base) + DAMP] = {.name = "damp", .type = PARE_PARAM_NUMBER, .min = 1e-6, .max = 1.0,         \
        .fallback = 0.01, .help = "added to the diagonal of H, as a share of its mean"},           \
    [(base) + BLOCK] = {.name = "block", .type = PARE_PARAM_INTEGER, .min = 32, .max = 4096,       \
        .fallback = 128, .multiple = 32,                                                           \
        .help = "columns between lazy updates, which are compared when unstructured"}

static const pare_param params[] = {
    SWEEP_TABLE(0), PARE_PRUNE_STABILITY(STABILITY), PARE_PRUNE_RATIOS(RATIOS),
    [ORDER] = {.name = "order", .type = PARE_PARAM_CHOICE, .fallback = NATURAL, .words = orders,
        .help = "unstructured: columns as they lie, or those that lose most first (ROSE)"},
    [SCORE] = {.name = "score", .type = PARE_PARAM_CHOICE, .fallback = OBS, .words = scores,
        .help = "prune what costs least: by the error that is left when the rest has compensated "
                "(obs), or by that and the error without (isc)"},
    {.name = NULL}};
static const pare_param joint_params[] = {
    PARE_QUANTIZE_TABLE,
    [PARE_QUANTIZE_CLIP] = {PARE_QUANTIZE_SWEEP_CLIP, .fallback = PARE_CLIP_NONE},
    SWEEP_TABLE(JOINT),
    [ACTIVATIONS] = {PARE_QUANTIZE_ACTIVATIONS},
    {.name = NULL}};
// clang-format on

static pare_pass_cost sweep_cost(const double *value, size_t n, size_t k, size_t threads)
{
    const double dn = (double)n, dk = (double)k;
    const size_t block = (size_t)value[BLOCK];
    return (pare_pass_cost){.site_bytes = pare_quantize_factor_bytes(k),
                            .start_bytes = pare_quantize_factoring_bytes(k),
                            .linear_bytes = k * 8 + threads * pare_compensate_bytes(block, k) +
                                            n * block * 5 + pare_prune_bytes(n, k, threads),
                            .site_flops = dk * dk * dk * 2.0 / 3.0,
                            .flops = 2.0 * dn * dk * dk,
                            .rounds = dn * dk};
}

static pare_pass_cost cost(const double *value, size_t n, size_t k, size_t threads)
{
    pare_pass_cost c = sweep_cost(value, n, k, threads);
    if (value[ORDER] == ROSE) { /* a factor of its own for each linear */
        c.linear_bytes += pare_quantize_factoring_bytes(k) + n * (size_t)value[BLOCK] * 5 + k * 64;
        c.flops += (double)k * (double)k * (double)k * 2.0 / 3.0;
    }
    return c;
}

static pare_pass_cost joint_cost(const double *value, size_t n, size_t k, size_t threads)
{
    pare_pass_cost c = sweep_cost(value + JOINT, n, k, threads);
    c.rounds *= pare_quantize_tries(value);
    return c;
}

static pare_status sparsity(pare_ctx *cx, const double *value, pare_sparsity *out)
{
    PARE_TRY(pare_prune_rule(cx, value, PARE_COMPARE_LAYER, out));
    if (out->of && value[ORDER] == ROSE)
        return pare_fail(cx, PARE_EINVAL,
                         "order: rose moves columns, and pattern %u:%u needs them where they lie; "
                         "leave one out",
                         out->keep, out->of);
    return pare_prune_check_ratios(cx, value + RATIOS, out);
}

static pare_status joint_sparsity(pare_ctx *cx, const double *value, pare_sparsity *out)
{
    return pare_prune_rule(cx, value + JOINT, PARE_COMPARE_LAYER, out);
}

static pare_status site(pare_ctx *cx, const double *value, const pare_site_stats *stats,
                        pare_arena *scratch, void **state)
{
    const pare_factor_opts opts = {.damp = (float)value[DAMP]};
    return pare_quantize_factor(cx, &opts, stats, scratch, state);
}

static pare_status joint_site(pare_ctx *cx, const double *value, const pare_site_stats *stats,
                              pare_arena *scratch, void **state)
{
    return site(cx, value + JOINT, stats, scratch, state);
}

/* With a grid into the codes, without one in place. */
static pare_status sweep(pare_ctx *cx, const double *value, const pare_grid *grid,
                         const float *cost, const pare_factor *factor, pare_pass_linear *linear,
                         pare_arena *scratch)
{
    const pare_sparsegpt_opts opts = {
        .block = (size_t)value[BLOCK], .sparsity = linear->sparsity, .grid = grid, .cost = cost};
    pare_quantize_ladder(factor, linear->result);
    if (factor->damping.failed) {
        PARE_TRY(pare_prune_without_factor(cx, linear, scratch));
        return grid ? pare_quantize_round(cx, grid, NULL, linear, scratch) : PARE_OK;
    }
    if (grid)
        PARE_TRY(pare_codes_take(scratch, grid, linear->n, linear->k, linear->codes));
    return pare_sparsegpt_prune(cx, scratch, &opts, factor, linear->w, linear->n, linear->k,
                                linear->codes, NULL);
}

static size_t draws(const double *value)
{
    return (size_t)value[STABILITY];
}

static pare_pass_ratios ratios(const double *value)
{
    return pare_prune_ratios(value + RATIOS);
}

/* The factor in the order of ROSE, or that of the site where the order is the natural one. */
static pare_status reorder(pare_ctx *cx, const double *value, pare_pass_linear *linear,
                           pare_arena *scratch, pare_factor *out)
{
    const size_t k = linear->k;
    float *squares;
    pare_rose_found found;
    uint32_t *const order = PARE_NEW(scratch, uint32_t, k);
    if (!order)
        return PARE_ENOMEM;
    PARE_TRY(pare_quantize_diagonal(scratch, linear->h, k, &squares));
    PARE_TRY(pare_rose_order(cx, scratch, linear->sparsity, squares, linear->w, linear->n, k,
                             (size_t)value[BLOCK], order, &found));
    pare_quantize_note(linear, "%.0f%%, %s, range %.2f", 100 * linear->sparsity->ratio,
                       found.columnar ? "rose" : "natural order", found.range);
    *out = *(const pare_factor *)linear->site_state;
    if (!found.columnar)
        return PARE_OK;
    const pare_factor_opts opts = {
        .damp = (float)value[DAMP], .order = order, .diagonal = linear->stats->identity};
    return pare_factorize(cx, scratch, &opts, linear->stats->h, k, out);
}

static pare_status prune(pare_ctx *cx, const double *value, pare_pass_linear *linear,
                         pare_arena *scratch)
{
    pare_factor factor = *(const pare_factor *)linear->site_state;
    float *diagonal, *weighed = NULL;
    if (value[ORDER] == ROSE)
        PARE_TRY(reorder(cx, value, linear, scratch, &factor));
    if (value[SCORE] == ISC && !factor.damping.failed) {
        weighed = PARE_NEW(scratch, float, linear->k);
        if (!weighed)
            return PARE_ENOMEM;
        PARE_TRY(pare_quantize_diagonal(scratch, linear->h, linear->k, &diagonal));
        pare_isc_costs(&factor, diagonal, weighed);
    }
    return sweep(cx, value, NULL, weighed, &factor, linear, scratch);
}

static pare_status joint_run(pare_ctx *cx, const double *value, pare_pass_linear *linear,
                             pare_arena *scratch)
{
    const pare_grid grid = pare_quantize_grid(value);
    return sweep(cx, value + JOINT, &grid, NULL, linear->site_state, linear, scratch);
}

static pare_activation joint_activation(const double *value)
{
    return pare_quantize_activation(value[ACTIVATIONS]);
}

static const pare_pass_pruner pruner = {.prune = prune, .ratios = ratios, .draws = draws};

const pare_pass pare_pass_sparsegpt = {
    .name = "sparsegpt",
    .summary = "SparseGPT: prunes the cheapest weights, and the rest of the row compensates",
    .source = "Frantar and Alistarh, ICML 2023, Algorithm 1",
    .needs = PARE_FACT_WEIGHTS | PARE_FACT_HESSIAN,
    .gives = PARE_FACT_ZEROS,
    .params = params,
    .cost = cost,
    .sparsity = sparsity,
    .site = site,
    .pruner = &pruner,
};

const pare_pass pare_pass_sparsegpt_joint = {
    .name = "sparsegpt_joint",
    .summary = "SparseGPT and GPTQ in one sweep: prunes, and quantizes what stays",
    .source = "Frantar and Alistarh, ICML 2023, section 3.5",
    .needs = PARE_FACT_WEIGHTS | PARE_FACT_HESSIAN,
    .gives = PARE_FACT_ZEROS | PARE_FACT_CODES,
    .drops = PARE_FACT_WEIGHTS,
    .params = joint_params,
    .cost = joint_cost,
    .sparsity = joint_sparsity,
    .store = pare_quantize_store,
    .grid = pare_quantize_search_grid,
    .activation = joint_activation,
    .site = joint_site,
    .run = joint_run,
};
