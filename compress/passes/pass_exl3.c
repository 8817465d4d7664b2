#include "compress/passes/correct_step.h"
#include "compress/passes/passes_internal.h"
#include "compress/passes/quantize.h"
#include "kernels/exl3.h"
#include "quant/trellis.h"
#include "runtime/small.h"

enum { BITS, DAMP, SEED, CORRECT, ALPHA };

static const pare_word bits[] = {{"2", 2}, {"3", 3}, {"4", 4}, {"5", 5},
                                 {"6", 6}, {"8", 8}, {NULL, 0}};

static const pare_word corrections[] = {{"auto", PARE_CORRECT_AUTO},
                                        {"none", PARE_CORRECT_NONE},
                                        {"gptaq", PARE_CORRECT_GPTAQ},
                                        {NULL, 0}};

static const char notes[] =
    "Each weight takes 1.5 * 65536 steps of a search, for any number of bits: some microseconds "
    "of\n"
    "processor time (pare bench kernels, row exl3_step). pare plan says what comes of it.\n"
    "16 must divide the rows and columns of a matrix, 128 where export: exl3 is to hold it.\n"
    "Pruned weights, embeddings and tied heads do not take it: no code stands for 0, and rows are\n"
    "mixed. Its kernels for GPUs (--device cuda) have not yet run on one. Behind it\n"
    "\"distill: {aware: true}\" trains its scales.\n";

// clang-format off
static const pare_param params[] = {
    [BITS] = {.name = "bits", .type = PARE_PARAM_CHOICE, .fallback = 3, .words = bits,
        .help = "bits of a code"},
    [DAMP] = {.name = "damp", .type = PARE_PARAM_NUMBER, .min = 1e-6, .max = 1.0, .fallback = 0.025,
        .help = "added to the diagonal of H, as a share of its mean"},
    [SEED] = {.name = "seed", .type = PARE_PARAM_INTEGER, .max = 1 << 30,
        .help = "number of the random signs"},
    [CORRECT] = {.name = "correct", .type = PARE_PARAM_CHOICE, .fallback = PARE_CORRECT_AUTO,
        .words = corrections,
        .help = "make up for what earlier linears have lost: gptaq runs the float model beside the "
                "compressed one, takes the sites of a block one by one and quantizes the weights "
                "that come nearest to the outputs of the float model; auto: none where a pass "
                "scales, rotates, prunes or trains and where the model has experts, else gptaq"},
    [ALPHA] = {.name = "alpha", .type = PARE_PARAM_NUMBER, .min = 0, .max = 1, .fallback = 0,
        .by = "correct", .when = "gptaq",
        .help = "share of the loss to make up for; 0: as in the paper, 0.25"},
    {.name = NULL},
};
// clang-format on

/* The same as gptq's: damp is for the turned weights. */
#define CORRECT_DAMP 0.01F

static bool corrects(const double *value)
{
    return pare_correct_of(value[CORRECT]) != PARE_CORRECT_NONE;
}

static void decide(double *value, bool rounding_only)
{
    pare_correct_decide(&value[CORRECT], rounding_only);
}

static unsigned asks(const double *value)
{
    return corrects(value) ? PARE_FACT_DRIFT : 0u;
}

/* A drift that one site made up for would be made up for again behind it, were the inputs there
 * still those of before. */
static bool sequential(const double *value)
{
    return corrects(value);
}

static pare_grid grid(const double *value)
{
    return pare_quantize_stand_in((unsigned)value[BITS]);
}

static pare_grid codes_of(const double *value)
{
    return (pare_grid){.bits = (unsigned)value[BITS], .encoding = PARE_ENCODING_EXL3};
}

static pare_status store(pare_ctx *cx, const double *value, size_t n, size_t k,
                         pare_packed_linear *out)
{
    const pare_grid g = codes_of(value);
    if (n % PARE_EXL3_TILE || k % PARE_EXL3_TILE)
        return pare_fail(cx, PARE_ESHAPE,
                         "exl3 has tiles of 16 x 16 weights, which do not divide a matrix of "
                         "%zu x %zu: give it another quantizer",
                         n, k);
    return pare_quantize_keep(&g, n, k, out);
}

static pare_pass_cost cost(const double *value, size_t n, size_t k, size_t threads)
{
    const double dn = (double)n, dk = (double)k;
    const bool corrected = corrects(value);
    const size_t square = pare_quantize_factor_bytes(k), factoring = (size_t)pare_factor_bytes(k),
                 correcting = corrected ? pare_correction_scratch(k) : 0,
                 aim = corrected ? n * k * sizeof(float) + PARE_ALIGN : 0;
    return (pare_pass_cost){.site_bytes = square,
                            .start_bytes = square + pare_larger(factoring, correcting),
                            .linear_bytes = threads * pare_exl3_bytes((unsigned)value[BITS]) +
                                            PARE_EXL3_STATES * sizeof(float) + k * 8 + n * 4 +
                                            (size_t)4 * PARE_ALIGN + aim,
                            .site_flops = dk * dk * dk * (corrected ? 10.0 / 3.0 : 2.0 / 3.0),
                            .flops = dn * dk * dk * (corrected ? 3 : 1),
                            .search_flops = dn * dk * PARE_EXL3_WORK};
}

typedef struct site_state {
    pare_exl3_site turned;
    pare_drift drift;
    pare_correction correction; /* aim NULL: none */
} site_state;

/* By a factor of H as it is, which goes again: only the aim stays. */
static pare_status make_correction(pare_ctx *cx, const double *value, const pare_site_stats *stats,
                                   pare_arena *scratch, site_state *s)
{
    const pare_factor_opts damped = {.damp = CORRECT_DAMP};
    const pare_correct method = pare_correct_of(value[CORRECT]);
    const pare_correction_opts opts = {method, pare_correct_share(method, value[ALPHA]), 0};
    pare_factor factor;
    PARE_TRY(pare_correct_drift(scratch, stats, &s->drift));
    const pare_mark mark = pare_arena_mark(scratch);
    PARE_TRY(pare_factorize(cx, scratch, &damped, stats->h, stats->k, &factor));
    if (!factor.damping.failed)
        PARE_TRY(pare_correction_make(cx, scratch, &opts, &factor, &s->drift, &s->correction));
    pare_arena_rewind(scratch, mark);
    return PARE_OK;
}

static pare_status site(pare_ctx *cx, const double *value, const pare_site_stats *stats,
                        pare_arena *scratch, void **state)
{
    site_state *const s = PARE_NEW(scratch, site_state, 1);
    *state = s;
    if (!s)
        return PARE_ENOMEM;
    if (corrects(value) && !stats->identity)
        PARE_TRY(make_correction(cx, value, stats, scratch, s));
    return pare_exl3_site_make(cx, scratch, (uint64_t)value[SEED], (float)value[DAMP],
                               stats->identity, stats->h, stats->k, &s->turned);
}

static pare_status run(pare_ctx *cx, const double *value, pare_pass_linear *linear,
                       pare_arena *scratch)
{
    const site_state *const s = linear->site_state;
    const pare_correction *const c = &s->correction;
    const pare_grid g = codes_of(value);
    float *w = linear->w;
    PARE_TRY(pare_codes_take(scratch, &g, linear->n, linear->k, linear->codes));
    pare_quantize_ladder(&s->turned.factor, linear->result);
    const pare_mark mark = pare_arena_mark(scratch); /* codes alone stay */
    if (c->aim) {
        w = PARE_NEW(scratch, float, linear->n * linear->k);
        if (!w)
            return PARE_ENOMEM;
        PARE_TRY(pare_correction_aim(cx, scratch, c, linear->w, linear->n, w));
    }
    PARE_TRY(pare_exl3_quantize(cx, scratch, g.bits, (uint64_t)value[SEED], &s->turned, w,
                                linear->codes));
    pare_arena_rewind(scratch, mark);
    return PARE_OK;
}

const pare_pass pare_pass_exl3 = {
    .name = "exl3",
    .summary = "EXL3: trellis codes of tiles between Hadamard matrices, as QTIP has them",
    .source = "turboderp, ExLlamaV3, whose search for scales is left out; Tseng et al., QTIP, "
              "NeurIPS 2024, without its tuning of blocks; correct: Li et al., GPTAQ, ICML 2025",
    .notes = notes,
    .needs = PARE_FACT_WEIGHTS | PARE_FACT_HESSIAN,
    .gives = PARE_FACT_CODES,
    .drops = PARE_FACT_WEIGHTS,
    .token_weights = true,
    .params = params,
    .store = store,
    .grid = grid,
    .activation = pare_quantize_float,
    .cost = cost,
    .asks = asks,
    .decide = decide,
    .sequential = sequential,
    .site = site,
    .run = run,
};
