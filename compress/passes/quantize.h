/* compress/passes/quantize.h - what the quantizing passes share: parameters, storage, results. */
#ifndef PARE_COMPRESS_PASSES_QUANTIZE_H
#define PARE_COMPRESS_PASSES_QUANTIZE_H

#include "compress/pass.h"

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
    pare_quantize_tail[];

// clang-format off
#define PARE_QUANTIZE_TABLE                                                                        \
    [PARE_QUANTIZE_BITS] = {.name = "bits", .type = PARE_PARAM_CHOICE, .fallback = 4,              \
        .words = pare_quantize_bits, .unit = "bits", .help = "bits of a code"},                    \
    [PARE_QUANTIZE_GROUP] = {.name = "group", .type = PARE_PARAM_INTEGER, .min = 32,               \
        .max = 1 << 20, .fallback = 128, .multiple = 32, .words = pare_quantize_row,               \
        .unit = "weights", .help = "weights of a row that share a scale; row: all of them"},       \
    [PARE_QUANTIZE_SYMMETRIC] = {.name = "symmetric", .type = PARE_PARAM_BOOL, .fallback = 1,      \
        .help = "codes -2^(b-1) .. 2^(b-1)-1 around zero; false: a zero point per group"},         \
    [PARE_QUANTIZE_CLIP] = {.name = "clip", .type = PARE_PARAM_CHOICE, .fallback = 0,              \
        .words = pare_quantize_clip, .help = "mse: search the range with the least |error|^2.4"},  \
    [PARE_QUANTIZE_TAIL] = {.name = "tail", .type = PARE_PARAM_CHOICE, .fallback = 0,              \
        .words = pare_quantize_tail,                                                               \
        .help = "last group of a row that the group does not divide: shorter, or an error"}
// clang-format on

/* pare_pass.store of a quantizer. */
pare_status pare_quantize_store(pare_ctx *cx, const double *value, size_t n, size_t k,
                                pare_packed_linear *out);

/* The grid of a step: scales are rounded to F16, as the artifact stores them. */
pare_grid pare_quantize_grid(const double *value);

#endif
