#include "compress/passes/passes_internal.h"
#include "compress/passes/quantize.h"
#include "kernels/exl3.h"
#include "quant/trellis.h"

enum { BITS, DAMP, SEED };

static const pare_word bits[] = {{"2", 2}, {"3", 3}, {"4", 4}, {"5", 5},
                                 {"6", 6}, {"8", 8}, {NULL, 0}};

// clang-format off
static const pare_param params[] = {
    [BITS] = {.name = "bits", .type = PARE_PARAM_CHOICE, .fallback = 3, .words = bits,
        .help = "bits of a code"},
    [DAMP] = {.name = "damp", .type = PARE_PARAM_NUMBER, .min = 1e-6, .max = 1.0, .fallback = 0.025,
        .help = "added to the diagonal of H, as a share of its mean"},
    [SEED] = {.name = "seed", .type = PARE_PARAM_INTEGER, .max = 1 << 30,
        .help = "number of the random signs"},
    {.name = NULL},
};
// clang-format on

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
    const size_t square = k * k * sizeof(float) + k * 64;
    return (pare_pass_cost){.site_bytes = square,
                            .start_bytes = square + (size_t)pare_factor_bytes(k),
                            .linear_bytes = threads * pare_exl3_bytes((unsigned)value[BITS]) +
                                            PARE_EXL3_STATES * sizeof(float) + k * 8 + n * 4 +
                                            (size_t)4 * PARE_ALIGN,
                            .site_flops = dk * dk * dk * 2 / 3,
                            .flops = dn * dk * (dk + PARE_EXL3_WORK)};
}

static pare_status site(pare_ctx *cx, const double *value, const pare_site_stats *stats,
                        pare_arena *scratch, void **state)
{
    pare_exl3_site *const s = PARE_NEW(scratch, pare_exl3_site, 1);
    *state = s;
    return s ? pare_exl3_site_make(cx, scratch, (uint64_t)value[SEED], (float)value[DAMP],
                                   stats->identity, stats->h, stats->k, s)
             : PARE_ENOMEM;
}

static pare_status run(pare_ctx *cx, const double *value, pare_pass_linear *linear,
                       pare_arena *scratch)
{
    const pare_exl3_site *const s = linear->site_state;
    const pare_grid g = codes_of(value);
    PARE_TRY(pare_codes_take(scratch, &g, linear->n, linear->k, linear->codes));
    pare_quantize_ladder(&s->factor, linear->result);
    return pare_exl3_quantize(cx, scratch, g.bits, (uint64_t)value[SEED], s, linear->w,
                              linear->codes);
}

const pare_pass pare_pass_exl3 = {
    .name = "exl3",
    .summary = "EXL3: trellis codes of tiles between Hadamard matrices, as QTIP has them",
    .source = "turboderp, ExLlamaV3; Tseng et al., QTIP, NeurIPS 2024",
    .needs = PARE_FACT_WEIGHTS | PARE_FACT_HESSIAN,
    .gives = PARE_FACT_CODES,
    .drops = PARE_FACT_WEIGHTS,
    .token_weights = true,
    .params = params,
    .store = store,
    .grid = grid,
    .activation = pare_quantize_float,
    .cost = cost,
    .site = site,
    .run = run,
};
