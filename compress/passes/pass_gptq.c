#include <string.h>

#include "compress/passes/correct_step.h"
#include "compress/passes/gptq_tune.h"
#include "compress/passes/passes_internal.h"
#include "compress/passes/quantize.h"
#include "quant/gptq.h"
#include "quant/refine.h"
#include "quant/rtn.h"
#include "quant/squeezellm.h"
#include "solve/super.h"

enum {
    ACT_ORDER = PARE_QUANTIZE_PARAMS,
    TRUE_SEQUENTIAL,
    DAMP,
    BLOCK,
    GRID,
    ACTIVATIONS,
    REFINE,
    CORRECT,
    ALPHA,
    TUNE,
    PARAMS
};

static const pare_word grids[] = {{"uniform", PARE_ENCODING_UNIFORM},
                                  {"nf4", PARE_ENCODING_NF4},
                                  {"fp8", PARE_ENCODING_FP8},
                                  {"mxfp4", PARE_ENCODING_MXFP4},
                                  {"nvfp4", PARE_ENCODING_NVFP4},
                                  {"codebook", PARE_ENCODING_CODEBOOK},
                                  {"q4_k", PARE_ENCODING_Q4_K},
                                  {"q6_k", PARE_ENCODING_Q6_K},
                                  {NULL, 0}};

static const pare_word corrections[] = {{"auto", PARE_CORRECT_AUTO},
                                        {"none", PARE_CORRECT_NONE},
                                        {"gptaq", PARE_CORRECT_GPTAQ},
                                        {"qronos", PARE_CORRECT_QRONOS},
                                        {NULL, 0}};

// clang-format off
static const pare_param params[] = {
    PARE_QUANTIZE_TABLE,
    [PARE_QUANTIZE_CLIP] = {PARE_QUANTIZE_SWEEP_CLIP, .fallback = PARE_CLIP_WEIGHTED,
        .by = "grid", .when = "uniform, mxfp4, nvfp4"},
    [ACT_ORDER] = {.name = "act_order", .type = PARE_PARAM_BOOL, .fallback = 1,
        .help = "round columns with large inputs first, on grids that are fixed before the sweep"},
    [TRUE_SEQUENTIAL] = {.name = "true_sequential", .type = PARE_PARAM_BOOL, .fallback = 0,
        .help = "inside a block: q, k, v, then o, then gate, up, then down, each on the inputs of the "
                "compressed linears before it"},
    [DAMP] = {.name = "damp", .type = PARE_PARAM_NUMBER, .min = 1e-6, .max = 1.0, .fallback = 0.01,
        .help = "added to the diagonal of H, as a share of its mean"},
    [BLOCK] = {.name = "block", .type = PARE_PARAM_INTEGER, .min = 32, .max = 4096, .fallback = 128,
        .multiple = 32, .help = "columns between lazy updates"},
    [GRID] = {.name = "grid", .type = PARE_PARAM_CHOICE, .fallback = PARE_ENCODING_UNIFORM,
        .words = grids, .help = "levels of the codes; mxfp4 has groups of 32, nvfp4 of 16: leave group out; "
                                "q4_k, q6_k: blocks of GGUF; all but uniform keep inputs in floats"},
    [ACTIVATIONS] = {PARE_QUANTIZE_ACTIVATIONS, .by = "grid", .when = "uniform"},
    [REFINE] = {.name = "refine", .type = PARE_PARAM_INTEGER, .min = 0, .max = 100, .fallback = 2,
        .by = "grid", .when = "uniform",
        .help = "rounds of coordinate descent after the sweep: each improves the scales and codes for the "
                "outputs, one at a time; 0: none"},
    [CORRECT] = {.name = "correct", .type = PARE_PARAM_CHOICE, .fallback = PARE_CORRECT_AUTO,
        .words = corrections, .by = "grid", .when = "uniform",
        .help = "make up for what earlier linears have lost: gptaq and qronos run the float model "
                "beside the compressed one and imply true_sequential (qronos takes damp, unlike its "
                "paper); auto: none where a pass scales, rotates, prunes or trains, where the model has "
                "experts and with tune, else gptaq"},
    [ALPHA] = {.name = "alpha", .type = PARE_PARAM_NUMBER, .min = 0, .max = 1, .fallback = 0,
        .by = "correct", .when = "gptaq, qronos",
        .help = "share of the loss to make up for; 0: as in the papers (gptaq 0.25, qronos 1)"},
    [TUNE] = {.name = "tune", .type = PARE_PARAM_BOOL, .fallback = 0,
        .by = "grid", .when = "uniform",
        .help = "try the other act_order, the other clip and 10 times more and less damp for each linear, "
                "and keep what has the least error on held-out windows; a linear takes 6 times as long"},
    {.name = NULL},
};
// clang-format on

/* Rows of tests/results/quality.csv: real, 4 bits, group 64, wiki.calib.txt, seed 0. */
static const char notes[] =
    "The default takes about 4.5 times the processor time of the paper's form. What each part "
    "takes\n"
    "and gives, for a model of 135M in 4 bits, group 64 (KL to the float model: less is better;\n"
    "products in F32):\n"
    "\n"
    "  parts that are on                          seconds      KL  how to turn the last one off\n"
    "  the paper's form                                90   0.319\n"
    "  + act_order, clip: weighted                    103   0.150  act_order: false, clip: none\n"
    "  + refine                                       103   0.147  refine: 0\n"
    "  + correct: gptaq                               259   0.120  correct: none\n"
    "  + tokens weighed by the loss (the default)     410   0.106  calibration: {token_weights: "
    "even}\n"
    "  the default without correct                    252   0.114  correct: none\n";

static pare_encoding encoding(const double *value)
{
    return (pare_encoding)value[GRID];
}

static bool is_uniform(const double *value)
{
    return pare_encodings[encoding(value)].uniform;
}

/* Values come from a book of each row. */
static bool has_books(pare_encoding e)
{
    return pare_encodings[e].decoding == PARE_DECODE_BOOK;
}

static bool refines(const double *value)
{
    return value[REFINE] != 0.0 && is_uniform(value);
}

static pare_correct corrects(const double *value)
{
    return is_uniform(value) ? pare_correct_of(value[CORRECT]) : PARE_CORRECT_NONE;
}

static bool tunes(const double *value)
{
    return is_uniform(value) && value[TUNE] != 0.0;
}

static void decide(double *value, bool rounding_only)
{
    const bool takes = is_uniform(value) && value[TUNE] == 0.0;
    pare_correct_decide(&value[CORRECT], rounding_only && takes);
    if (pare_encoding_is_fp4(encoding(value)) &&
        value[PARE_QUANTIZE_GROUP] == params[PARE_QUANTIZE_GROUP].fallback)
        value[PARE_QUANTIZE_GROUP] = (double)pare_encodings[encoding(value)].group;
}

static unsigned asks(const double *value)
{
    return (corrects(value) == PARE_CORRECT_NONE ? 0u : PARE_FACT_DRIFT) |
           (tunes(value) ? PARE_FACT_HELD : 0u);
}

/* Refinement goes on from what the sweep leaves: it needs the weights once more. So does a
 * correction, and qronos sweeps others. */
static size_t extra_bytes(const double *value, size_t n, size_t k, size_t threads)
{
    const bool refined = refines(value), corrected = corrects(value) != PARE_CORRECT_NONE;
    const size_t copies =
        (refined || corrected ? 1u : 0u) + (corrects(value) == PARE_CORRECT_QRONOS ? 1u : 0u);
    return copies * (n * k * sizeof(float) + PARE_ALIGN) + n * sizeof(float) +
           (refined ? k * sizeof(float) +
                          threads * pare_refine_bytes((size_t)value[PARE_QUANTIZE_GROUP], k)
                    : 0);
}

/* The grid of a step that has no super-blocks. */
static pare_grid levels(const double *value)
{
    pare_grid g = pare_quantize_grid(value);
    g.encoding = encoding(value);
    if (!pare_grid_clips(g.encoding))
        g.clip = PARE_CLIP_NONE;
    return g;
}

static pare_pass_cost cost(const double *value, size_t n, size_t k, size_t threads)
{
    const double dn = (double)n, dk = (double)k;
    const double tries = is_uniform(value)                        ? pare_quantize_tries(value)
                         : levels(value).clip == PARE_CLIP_NONE   ? 1
                         : encoding(value) == PARE_ENCODING_MXFP4 ? 2
                                                                  : 11;
    const size_t books = has_books(encoding(value)) ? n * 128 + threads * (k + 1) * 128 : 0;
    const bool corrected = corrects(value) != PARE_CORRECT_NONE;
    const size_t correction =
        corrected ? pare_correction_bytes(corrects(value), (size_t)value[BLOCK], k) : 0;
    const size_t factored = pare_quantize_factor_bytes(k),
                 factoring = pare_quantize_factoring_bytes(k);
    const size_t correcting = corrected ? factored + correction + pare_correction_scratch(k) : 0;
    const double cube = dk * dk * dk, product = 2.0 * dn * dk * dk;
    const pare_pass_cost once = {
        .site_bytes = factored + correction,
        .above_bytes = tunes(value) ? 0 : k * k * sizeof(float),
        .start_bytes = correcting > factoring ? correcting : factoring,
        .linear_bytes = threads * pare_compensate_bytes((size_t)value[BLOCK], k) + n * 8 + books +
                        extra_bytes(value, n, k, threads),
        .site_flops = cube * (corrected ? 6.0 : 2.0 / 3.0),
        .flops = product * ((refines(value) ? 2 + value[REFINE] : 1) + (corrected ? 1 : 0)),
        .rounds = tries * dn * dk};
    return tunes(value) ? pare_gptq_tune_cost(&once, n, k) : once;
}

/* A drift that one site made up for would be made up for again behind it, were the inputs there
 * still those of before. */
static bool sequential(const double *value)
{
    return value[TRUE_SEQUENTIAL] != 0.0 || corrects(value) != PARE_CORRECT_NONE;
}

typedef struct site_state {
    const pare_factor *factor;
    pare_drift drift;
    pare_correction correction; /* aim NULL: none */
} site_state;

static pare_status site(pare_ctx *cx, const double *value, const pare_site_stats *stats,
                        pare_arena *scratch, void **state)
{
    const pare_factor_opts opts = {.damp = (float)value[DAMP],
                                   .act_order = value[ACT_ORDER] != 0.0,
                                   .above = stats->alone && !tunes(value)};
    const pare_correction_opts correct = {
        corrects(value), pare_correct_share(corrects(value), value[ALPHA]), (size_t)value[BLOCK]};
    site_state *const s = PARE_NEW(scratch, site_state, 1);
    void *factor;
    *state = s;
    if (!s)
        return PARE_ENOMEM;
    PARE_TRY(pare_quantize_factor(cx, &opts, stats, scratch, &factor));
    s->factor = factor;
    if (corrects(value) == PARE_CORRECT_NONE || s->factor->damping.failed || stats->identity)
        return PARE_OK;
    PARE_TRY(pare_correct_drift(scratch, stats, &s->drift));
    return pare_correction_make(cx, scratch, &correct, s->factor, &s->drift, &s->correction);
}

static pare_grid grid(const double *value)
{
    pare_grid g = pare_quantize_search_grid(value);
    g.encoding = encoding(value);
    if (pare_encoding_is_super(g.encoding))
        return pare_quantize_super(value, g.encoding);
    return has_books(g.encoding) ? pare_quantize_stand_in(g.bits) : g;
}

static pare_activation activation(const double *value)
{
    return is_uniform(value) ? pare_quantize_activation(value[ACTIVATIONS])
                             : pare_quantize_float(value);
}

/* Storage; the levels of a grid that is not uniform leave no choice in some parameters. */
static pare_status store(pare_ctx *cx, const double *value, size_t n, size_t k,
                         pare_packed_linear *out)
{
    pare_grid g = levels(value);
    PARE_TRY(pare_quantize_store(cx, value, n, k, out));
    if (tunes(value) && corrects(value) != PARE_CORRECT_NONE)
        return pare_fail(cx, PARE_EINVAL,
                         "tune and correct do not go together: leave one of them out");
    if (is_uniform(value))
        return PARE_OK;
    if (has_books(g.encoding))
        g.book = &(const float){0}; /* made from the weights */
    if (value[ACTIVATIONS] != 0.0)
        return pare_fail(cx, PARE_EINVAL, "activations: goes with the uniform grid only");
    if (pare_encoding_is_super(g.encoding))
        return pare_quantize_super_store(cx, value, g.encoding, n, k, out);
    if (!g.symmetric)
        return pare_fail(cx, PARE_EINVAL, "symmetric: false goes with the uniform grid only");
    if (has_books(g.encoding) && g.group)
        return pare_fail(cx, PARE_EINVAL, "codebooks belong to rows: say group: row");
    const pare_codes shape = {.n = n, .k = k, .groups = pare_grid_groups(&g, k)};
    const pare_status s = pare_grid_check(cx, &g, n, k, &shape);
    return s == PARE_OK ? pare_quantize_keep(&g, n, k, out) : s;
}

/* The grid of a linear: codebooks are those that are best for the weights alone. */
static pare_status make_grid(pare_ctx *cx, const double *value, const pare_pass_linear *linear,
                             pare_arena *scratch, pare_grid *out)
{
    *out = grid(value);
    if (pare_encoding_is_super(out->encoding))
        return PARE_OK;
    *out = levels(value);
    if (!has_books(out->encoding))
        return PARE_OK;
    float *const book = PARE_NEW(scratch, float, linear->n << out->bits), *diagonal;
    if (!book)
        return PARE_ENOMEM;
    out->book = book;
    PARE_TRY(pare_quantize_diagonal(scratch, linear->h, linear->k, &diagonal));
    return pare_squeezellm_books(cx, scratch, out->bits, diagonal, NULL, linear->w, linear->n,
                                 linear->k, book);
}

/* Rounds of refinement: none on inputs that nothing is known of, where gptq is rtn. */
static size_t rounds(const double *value, const pare_pass_linear *linear)
{
    return !refines(value) || linear->stats->identity ? 0 : (size_t)value[REFINE];
}

/* What the codes stand for, [n, k]: the weights, or what a correction aims at; *start with qronos.
 */
static pare_status find_target(pare_ctx *cx, const site_state *site, const pare_pass_linear *linear,
                               pare_arena *scratch, float **target, float **start)
{
    const pare_correction *const c = &site->correction;
    const size_t n = linear->n;
    *target = PARE_NEW(scratch, float, n * linear->k);
    *start = c->first ? PARE_NEW(scratch, float, n) : NULL;
    if (!*target || (c->first && !*start))
        return PARE_ENOMEM;
    if (c->aim)
        PARE_TRY(pare_correction_aim(cx, scratch, c, linear->w, n, *target));
    else
        memcpy(*target, linear->w, n * linear->k * sizeof **target);
    if (c->first)
        pare_correction_start(c, linear->w, n, site->factor->order ? site->factor->order[0] : 0,
                              *start);
    return PARE_OK;
}

/* The sweep: of the weights, or with qronos of what it aims at. */
static pare_status sweep(pare_ctx *cx, const double *value, const site_state *site,
                         const pare_grid *grid, const float *target, const float *start,
                         pare_pass_linear *linear, pare_arena *scratch)
{
    const pare_upper *const spread = &site->correction.spread;
    const pare_gptq_opts opts = {.block = (size_t)value[BLOCK],
                                 .keep_zeros = linear->pruned,
                                 .spread = spread->a ? spread : NULL,
                                 .start = start,
                                 .fitted_to = start ? linear->w : NULL};
    const size_t count = linear->n * linear->k;
    float *const moved = start ? PARE_NEW(scratch, float, count) : NULL;
    if (start && !moved)
        return PARE_ENOMEM;
    if (moved)
        memcpy(moved, target, count * sizeof *moved);
    return pare_gptq_quantize(cx, scratch, &opts, grid, site->factor, moved ? moved : linear->w,
                              linear->codes, NULL);
}

static pare_status quantize(pare_ctx *cx, const double *value, pare_pass_linear *linear,
                            pare_arena *scratch)
{
    const site_state *const site = linear->site_state;
    const pare_factor *const factor = site->factor;
    const pare_refine_opts refine = {.rounds = rounds(value, linear),
                                     .keep_zeros = linear->pruned,
                                     .h = linear->stats->h,
                                     .lambda = factor->damping.lambda,
                                     .o = linear->outputs,
                                     .dead = factor->dead};
    float *target = NULL, *start = NULL;
    pare_grid g;
    PARE_TRY(make_grid(cx, value, linear, scratch, &g));
    pare_quantize_ladder(factor, linear->result);
    if (factor->damping.failed)
        return pare_quantize_round(cx, &g, NULL, linear, scratch);
    PARE_TRY(pare_codes_take(scratch, &g, linear->n, linear->k, linear->codes));
    const pare_mark mark = pare_arena_mark(scratch); /* codes alone stay */
    if (refine.rounds || site->correction.aim)
        PARE_TRY(find_target(cx, site, linear, scratch, &target, &start));
    PARE_TRY(sweep(cx, value, site, &g, target, start, linear, scratch));
    if (refine.rounds)
        PARE_TRY(pare_refine_codes(cx, scratch, &refine, &g, target, linear->codes, NULL));
    pare_arena_rewind(scratch, mark);
    return PARE_OK;
}

static pare_status run(pare_ctx *cx, const double *value, pare_pass_linear *linear,
                       pare_arena *scratch)
{
    static const pare_gptq_tuned tuned = {site, quantize, grid, PARAMS, ACT_ORDER, DAMP};
    return tunes(value) && !linear->stats->identity
               ? pare_gptq_tune(cx, &tuned, value, linear, scratch)
               : quantize(cx, value, linear, scratch);
}

const pare_pass pare_pass_gptq = {
    .name = "gptq",
    .summary = "GPTQ: rounds column by column, and the rest of the row makes up for errors",
    .source =
        "Frantar et al., ICLR 2023, Algorithm 1; correct: Li et al., GPTAQ, ICML 2025, Zhang "
        "et al., Qronos, 2025; the first paper's own settings are act_order: false, clip: none, "
        "refine: 0 and correct: none, with calibration: {token_weights: even}; its symmetric "
        "scales are above 0",
    .needs = PARE_FACT_WEIGHTS | PARE_FACT_HESSIAN,
    .asks = asks,
    .decide = decide,
    .gives = PARE_FACT_CODES,
    .drops = PARE_FACT_WEIGHTS,
    .token_weights = true,
    .notes = notes,
    .params = params,
    .store = store,
    .grid = grid,
    .activation = activation,
    .cost = cost,
    .sequential = sequential,
    .site = site,
    .run = run,
};
