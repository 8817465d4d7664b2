#include "runtime/encoding.h"

#include "kernels/half.h"
#include "kernels/levels.h"

#define BITS(b) (1U << (b))

static const float ternary[4] = {-1.0F, 0.0F, 1.0F, 2.0F};

/* E4M3 codes have exponents of their own, which reach below those of their scale. */
// clang-format off
const pare_encoding_row pare_encodings[PARE_ENCODINGS] = {
    [PARE_ENCODING_UNIFORM] = {.name = "uniform", .widths = BITS(2) | BITS(3) | BITS(4) | BITS(8),
        .widths_2_4 = BITS(4) | BITS(8), .uniform = true, .zero_in_middle = true,
        .scales = PARE_SCALES_F16, .integer = true, .decoding = PARE_DECODE_F32,
        .storage = "scales in F16"},
    [PARE_ENCODING_TERNARY] = {.name = "ternary", .widths = BITS(2), .codes = 3, .zero = 1,
        .scales = PARE_SCALES_F16, .integer = true, .by_token = true,
        .decoding = PARE_DECODE_TABLE, .level = ternary, .most = 1,
        .vanishes = true, .storage = "ternary codes"},
    [PARE_ENCODING_NF4] = {.name = "nf4", .widths = BITS(4), .zero = 7,
        .scales = PARE_SCALES_STEPS, .decoding = PARE_DECODE_TABLE, .level = pare_levels_nf4,
        .most = 1, .least = PARE_SCALE_COARSE, .vanishes = true,
        .storage = "the 8-bit scales of NF4"},
    [PARE_ENCODING_FP8] = {.name = "fp8_e4m3", .widths = BITS(8), .scales = PARE_SCALES_F16,
        .decoding = PARE_DECODE_FP8, .level = pare_levels_e4m3, .most = 448,
        .dtype = PARE_F8_E4M3, .least = 0x1p-24F, .storage = "scales in F16"},
    [PARE_ENCODING_MXFP4] = {.name = "mxfp4", .widths = BITS(4), .group = 32,
        .scales = PARE_SCALES_POWERS, .decoding = PARE_DECODE_TABLE, .level = pare_levels_e2m1,
        .most = 6, .least = 0x1p-22F, .ggml = "MXFP4",
        .storage = "the powers of two of MXFP4"},
    [PARE_ENCODING_NVFP4] = {.name = "nvfp4", .widths = BITS(4), .group = 16,
        .scales = PARE_SCALES_E4M3, .decoding = PARE_DECODE_TABLE, .level = pare_levels_e2m1,
        .most = 6, .vanishes = true, .ggml = "NVFP4", .storage = "the 8-bit scales of NVFP4"},
    [PARE_ENCODING_CODEBOOK] = {.name = "codebook", .widths = BITS(3) | BITS(4), .no_zero = true,
        .decoding = PARE_DECODE_BOOK, .least = PARE_SCALE_COARSE, .storage = "F16"},
    [PARE_ENCODING_BINARY] = {.name = "binary", .widths = BITS(2), .no_zero = true,
        .decoding = PARE_DECODE_BINARY, .least = PARE_SCALE_COARSE, .storage = "F16"},
    [PARE_ENCODING_Q4_K] = {.name = "q4_k", .widths = BITS(4), .no_zero = true, .group = 256,
        .scales = PARE_SCALES_F16, .minima = true, .decoding = PARE_DECODE_SUPER, .ggml = "Q4_K",
        .storage = "scales in F16"},
    [PARE_ENCODING_Q6_K] = {.name = "q6_k", .widths = BITS(6), .zero_in_middle = true,
        .group = 256, .scales = PARE_SCALES_F16, .decoding = PARE_DECODE_SUPER, .ggml = "Q6_K",
        .storage = "scales in F16"},
    [PARE_ENCODING_F16] = {.name = "f16", .widths = BITS(16), .widths_2_4 = BITS(16),
        .dtype = PARE_F16, .least = PARE_SCALE_COARSE, .storage = "F16"},
    [PARE_ENCODING_EXL3] = {.name = "exl3", .widths = BITS(9) - BITS(1), .no_zero = true,
        .decoding = PARE_DECODE_EXL3, .least = PARE_SCALE_COARSE, .storage = "scales in F16"},
};
// clang-format on
