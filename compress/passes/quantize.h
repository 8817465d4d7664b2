/* compress/passes/quantize.h - what the quantizing passes share: parameters, storage, results. */
#ifndef PARE_COMPRESS_PASSES_QUANTIZE_H
#define PARE_COMPRESS_PASSES_QUANTIZE_H

#include "compress/passes/pass.h"
#include "solve/factor.h"

/* The first rows of every quantizer's parameter table, and their indices. */
enum {
    PARE_QUANTIZE_BITS,
    PARE_QUANTIZE_GROUP,
    PARE_QUANTIZE_SYMMETRIC,
    PARE_QUANTIZE_CLIP,
    PARE_QUANTIZE_TAIL,
    PARE_QUANTIZE_PARAMS
};
extern const pare_word pare_quantize_bits[], pare_quantize_row[], pare_quantize_clip[],
    pare_quantize_sweep_clip[], pare_quantize_tail[], pare_quantize_activations[];

// clang-format off
#define PARE_QUANTIZE_TABLE                                                                        \
    [PARE_QUANTIZE_BITS] = {.name = "bits", .type = PARE_PARAM_CHOICE, .fallback = 4,              \
        .words = pare_quantize_bits, .help = "bits of a code"},                                    \
    [PARE_QUANTIZE_GROUP] = {.name = "group", .type = PARE_PARAM_INTEGER, .min = 32,               \
        .max = 1 << 20, .fallback = 128, .multiple = 32, .words = pare_quantize_row,               \
        .help = "weights of a row that share a scale; row: all of them"},                          \
    [PARE_QUANTIZE_SYMMETRIC] = {.name = "symmetric", .type = PARE_PARAM_BOOL, .fallback = 1,      \
        .help = "codes -2^(b-1) .. 2^(b-1)-1 around zero; false: a zero point per group"},         \
    [PARE_QUANTIZE_TAIL] = {.name = "tail", .type = PARE_PARAM_CHOICE, .fallback = 0,              \
        .words = pare_quantize_tail,                                                               \
        .help = "where the group does not divide a row: a shorter last group, or an error"}
/* How a sweep clips ranges. */
#define PARE_QUANTIZE_SWEEP_CLIP                                                                   \
    .name = "clip", .type = PARE_PARAM_CHOICE, .words = pare_quantize_sweep_clip,                  \
    .help = "how to choose the range of a group: none: it covers all weights; mse: by the least "  \
            "sum of |error|^2.4; weighted: by the least sum of H_jj error_j^2"
/* How inputs are rounded, for passes that leave the choice. */
#define PARE_QUANTIZE_ACTIVATIONS                                                                  \
    .name = "activations", .type = PARE_PARAM_CHOICE, .fallback = 0,                               \
    .words = pare_quantize_activations,                                                            \
    .help = "how to round inputs: with a scale per token and group (int8, int4), per token "       \
            "(int8_token), or one that calibration fixes (int8_tensor); pare computes int4 as "    \
            "int8: it shows what W4A4 costs, and saves no time"
// clang-format on

/* Of the value of that row. */
pare_activation pare_quantize_activation(double choice);

/* pare_pass.store of a quantizer. */
pare_status pare_quantize_store(pare_ctx *cx, const double *value, size_t n, size_t k,
                                pare_packed_linear *out);

/* The grid of a step: scales are rounded to F16, as the artifact stores them. */
pare_grid pare_quantize_grid(const double *value);

/* The same for transforms, which search on it: without the search of clip weighted, which needs
 * statistics. */
pare_grid pare_quantize_search_grid(const double *value);

/* What rounding one weight on that grid costs with the search of its range, in weights rounded. */
double pare_quantize_tries(const double *value);
/* The same of a symmetric grid with clip: mse. */
enum { PARE_QUANTIZE_TRIES_SYMMETRIC = 200 };

/* For quantizers whose storage follows from a grid: fills shape and encoding of *out. */
pare_status pare_quantize_keep(const pare_grid *grid, size_t n, size_t k, pare_packed_linear *out);

/* Rounds to nearest on the grid; planes from `scratch`.
 *   cost  [k] of an error in each column (pare_scales_fit), or NULL */
PARE_CHECKED pare_status pare_quantize_round(pare_ctx *cx, const pare_grid *grid, const float *cost,
                                             pare_pass_linear *linear, pare_arena *scratch);

/* The grid of super-blocks that a step names, and its storage: PARE_EINVAL for parameters that
 * leave no choice and are not the usual ones. `keep` is for a grid that a pass made itself. Both:
 * PARE_ESHAPE when 256 does not divide k, saying what to do instead. */
pare_grid pare_quantize_super(const double *value, pare_encoding e);
PARE_CHECKED pare_status pare_quantize_super_store(pare_ctx *cx, const double *value,
                                                   pare_encoding e, size_t n, size_t k,
                                                   pare_packed_linear *out);
PARE_CHECKED pare_status pare_quantize_super_keep(pare_ctx *cx, const pare_grid *grid, size_t n,
                                                  size_t k, pare_packed_linear *out);

/* Rounds to nearest on super-blocks by the plain rule of the engine (formats/ggml_blocks.h); planes
 * from `scratch`. PARE_ENUMERIC, PARE_ENOMEM. */
PARE_CHECKED pare_status pare_quantize_engine(pare_ctx *cx, const pare_grid *grid,
                                              pare_pass_linear *linear, pare_arena *scratch);

/* What stands in for codebooks while transforms search: a row's uniform grid of as many levels. */
pare_grid pare_quantize_stand_in(unsigned bits);

/* The diagonal of H [k] from `scratch`. PARE_ENOMEM. */
PARE_CHECKED pare_status pare_quantize_diagonal(pare_arena *scratch, const float *h, size_t k,
                                                float **out);

/* pare_pass.site of passes that need the factor of H: *state becomes a pare_factor. */
PARE_CHECKED pare_status pare_quantize_factor(pare_ctx *cx, const pare_factor_opts *opts,
                                              const pare_site_stats *stats, pare_arena *scratch,
                                              void **state);

/* Its state, and what there is while it is made: in double precision twice as much. */
size_t pare_quantize_factor_bytes(size_t k);
size_t pare_quantize_factoring_bytes(size_t k);

/* Records how a factor came about. */
void pare_quantize_ladder(const pare_factor *factor, pare_linear_result *result);

/* Leaves a note with the result of the step. */
void pare_quantize_note(pare_pass_linear *linear, const char *format, ...) PARE_PRINTF(2, 3);

/* Activations of encodings without an integer product, and with one scale per token. */
pare_activation pare_quantize_float(const double *value);
pare_activation pare_quantize_token(const double *value);

/* What the narrowest weights do to a model that was not trained for them. */
#define PARE_QUANTIZE_CAUTION                                                                      \
    "plain post-training quantization at this width usually loses most of a model: judge by the "  \
    "evaluation, and recover by distillation or training with these weights in place"

#endif
