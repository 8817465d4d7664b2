/* The step of a recipe that asks for a search. To plan it is gptq or exl3 in 4 bits; the search
 * (compress/budget) puts other steps in its place. */
#include "compress/passes/budget_step.h"
#include "compress/passes/passes_internal.h"
#include "compress/passes/quantize.h"
#include "quant/trellis.h"

static const pare_word fusions[] = {{"auto", PARE_BUDGET_FUSED_AUTO},
                                    {"true", PARE_BUDGET_FUSED},
                                    {"false", PARE_BUDGET_SINGLE},
                                    {NULL, 0}};
static const pare_word grids[] = {{"uniform", PARE_BUDGET_UNIFORM},
                                  {"all", PARE_BUDGET_ALL_GRIDS},
                                  {"trellis", PARE_BUDGET_TRELLIS},
                                  {NULL, 0}};

// clang-format off
static const pare_param params[] = {
    [PARE_BUDGET_BITS] = {.name = "bits", .type = PARE_PARAM_NUMBER, .min = 1, .max = 16,
        .fallback = 4, .help = "most bits per weight of the linears, on average, scales counted"},
    [PARE_BUDGET_BYTES] = {.name = "bytes", .type = PARE_PARAM_INTEGER, .min = 0, .max = 0x1p50,
        .fallback = 0, .help = "most bytes of the packed files, instead of bits; 0: bits decides"},
    [PARE_BUDGET_SPEED] = {.name = "tokens_s", .type = PARE_PARAM_NUMBER, .min = 0, .max = 1e6,
        .fallback = 0, .help = "least tokens that this machine decodes in a second, instead of "
                               "bits; 0: bits or bytes decide"},
    [PARE_BUDGET_FUSE] = {.name = "fused", .type = PARE_PARAM_CHOICE,
        .fallback = PARE_BUDGET_FUSED_AUTO, .words = fusions,
        .help = "one setting for linears that engines fuse (q, k, v; gate, up); auto: where the "
                "recipe exports"},
    [PARE_BUDGET_GRIDS] = {.name = "grids", .type = PARE_PARAM_CHOICE,
        .fallback = PARE_BUDGET_UNIFORM, .words = grids,
        .help = "settings to choose from: uniform: 2, 3, 4 and 8 bits in groups of 32 to 128; all: "
                "with codebooks and 2:4 as well; trellis: exl3 in 2 to 6 bits, which takes six times "
                "as long as exl3 alone"},
    [PARE_BUDGET_TOKENS] = {.name = "tokens", .type = PARE_PARAM_INTEGER, .min = 32,
        .max = 65536, .fallback = 128,
        .help = "tokens of windows held out on which the KL of each linear is measured"},
    {.name = NULL},
};
// clang-format on

static const char notes[] = "The step stands alone in passes. compress quantizes every linear with "
                            "each setting once, into\n"
                            "OUTPUT.variants, measures what one setting of each linear does to the "
                            "output (KL), estimates the\n"
                            "others from their errors, and chooses. Then the artifact is made by "
                            "what it chose, an ordinary\n"
                            "recipe: recipe.yaml of the artifact. With another budget the variants "
                            "and measurements are used\n"
                            "again. On windows held out the choice is compared with the best "
                            "single setting that fits; when\n"
                            "that has less KL, it is taken.\n"
                            "With tokens_s the price of a setting is the time of its kernel at one "
                            "row instead of its\n"
                            "bytes: what is chosen depends on this machine and its load. The times "
                            "are kept\n"
                            "(OUTPUT.variants/times.json; without it they are measured anew); the "
                            "recipe that comes\n"
                            "out is an ordinary one and makes the same bytes anywhere.\n";

static const char caution[] =
    "pare plan shows the base of the search, in 4 bits; the search chooses what the artifact gets, "
    "and takes two to three times as long, with grids: trellis a quarter longer";

/* In its own settings but for the bits. */
static void base_values(const pare_pass *pass, double *value)
{
    for (size_t i = 0; pass->params[i].name; i++)
        value[i] = pass->params[i].fallback;
    value[PARE_QUANTIZE_BITS] = PARE_BUDGET_BASE_BITS;
    if (pass == &pare_pass_gptq)
        value[PARE_QUANTIZE_GROUP] = PARE_BUDGET_BASE_GROUP;
}

/* The pass in place of the step: codes of the kind of those that the search chooses from, so that
 * exports and devices are refused before it that would be refused behind it. */
static const pare_pass *base_of(const double *value, double *base)
{
    const bool trellis = value[PARE_BUDGET_GRIDS] == PARE_BUDGET_TRELLIS;
    const pare_pass *const pass = trellis ? &pare_pass_exl3 : &pare_pass_gptq;
    base_values(pass, base);
    return pass;
}

/* gptq carries the activations, whatever the grids. */
static pare_pass_cost cost(const double *value, size_t n, size_t k, size_t threads)
{
    enum { VARIANTS = 8, TRELLISES = 5 };
    double base[PARE_PARAMS_MAX];
    base_values(&pare_pass_gptq, base);
    pare_pass_cost c = pare_pass_gptq.cost(base, n, k, threads);
    c.flops *= VARIANTS;
    c.rounds *= VARIANTS;
    if (value[PARE_BUDGET_GRIDS] == PARE_BUDGET_TRELLIS)
        c.search_flops = TRELLISES * (double)n * (double)k * PARE_EXL3_WORK;
    return c;
}

static pare_status store(pare_ctx *cx, const double *value, size_t n, size_t k,
                         pare_packed_linear *out)
{
    double base[PARE_PARAMS_MAX];
    const pare_pass *const pass = base_of(value, base);
    const pare_status s = pass->store(cx, base, n, k, out);
    if (s != PARE_ESHAPE || pass != &pare_pass_exl3)
        return s;
    pare_ctx_clear(cx);
    return pare_fail(cx, PARE_EUSAGE,
                     "exl3 has tiles of 16 x 16 weights, which do not divide a matrix of %zu x "
                     "%zu: leave it out with skip, or take grids: uniform",
                     n, k);
}

static pare_grid grid(const double *value)
{
    double base[PARE_PARAMS_MAX];
    return base_of(value, base)->grid(base);
}

static pare_activation activation(const double *value)
{
    double base[PARE_PARAMS_MAX];
    return base_of(value, base)->activation(base);
}

static pare_status site(pare_ctx *cx, const double *value, const pare_site_stats *stats,
                        pare_arena *scratch, void **state)
{
    double base[PARE_PARAMS_MAX];
    return base_of(value, base)->site(cx, base, stats, scratch, state);
}

static pare_status run(pare_ctx *cx, const double *value, pare_pass_linear *linear,
                       pare_arena *scratch)
{
    double base[PARE_PARAMS_MAX];
    return base_of(value, base)->run(cx, base, linear, scratch);
}

const pare_pass pare_pass_budget = {
    .name = "budget",
    .summary = "searches grid, bits, group and sparsity of each linear for a budget",
    .source = "hulls and prices per byte: Shoham and Gersho, IEEE Trans. ASSP 36, 1988; errors "
              "weighed by H and the loss: Tseng et al., YAQA, 2025",
    .needs = PARE_FACT_WEIGHTS | PARE_FACT_HESSIAN,
    .gives = PARE_FACT_CODES,
    .drops = PARE_FACT_WEIGHTS,
    .token_weights = true,
    .caution = caution,
    .notes = notes,
    .params = params,
    .store = store,
    .grid = grid,
    .activation = activation,
    .cost = cost,
    .site = site,
    .run = run,
};
