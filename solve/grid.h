/* solve/grid.h - grids: how a group of weights becomes codes, for every encoding.
 *
 * UNIFORM   value = (code - zero) * scale,   code in 0 .. 2^bits - 1
 * symmetric: zero = m = 2^(bits-1); scale is the smallest that covers the group, of either sign:
 * with hi = max(0, max w), lo = min(0, min w) it is max(hi / (m - 1), -lo / m), or where hi > -lo
 * -max(hi / m, -lo / (m - 1)): the longer side of the codes lies on the longer side of the weights.
 * The weight that sets the scale falls on a code (2 max|w| / (2^bits - 1) would put it on a tie).
 * Source: signs, auto-round's symmetric grids ("full range"), whose scale is max|w| / m: there the
 * shorter side may be clipped, and here it never is.
 * asymmetric: scale = (hi - lo) / (2^bits - 1), zero = clamp(rint(-lo / scale)).
 * clip mse: of the ranges (p lo, p hi), p = 1 - i / 100, i = 0 .. 79, and on symmetric grids of
 * both signs of the scale, what has the least sum |w - value|^2.4 (first of equals, above 0 first).
 * Source: GPTQ's reference code (quantizer), restated, which has no scales below 0.
 * clip weighted: the same with the least sum of cost_j (w_j - value_j)^2. Where no costs are given,
 * mse. With cost_j = H_jj it is what the errors do to the outputs, each for itself.
 * An all-zero group has scale 0 and codes = zero (asymmetric: zero = 0).
 *
 * TERNARY   (code - 1) * scale, scale = mean |w| of the group, row or matrix,
 *           code = 1 + clamp(rint(w / scale), -1, 1)       [BitNet b1.58, 2024, eq. 1-3]
 *
 * NF4       level[code] * scale, scale = max |w|, nearest of 16 normal quantiles [QLoRA, 2023]
 *
 * FP8       E4M3(code) * scale, scale = max |w| / 448, half to even, at most +-448
 *
 * MXFP4     E2M1(code) * 2^e, e = floor(log2 max |w|) - 2, half to even, at most +-6;
 *           a group of zeros has e = -24                   [OCP Microscaling 1.0, 6.3]
 * clip mse, weighted: e or e + 1, which has the least sum of (w - value)^2, or of
 * cost_j (w_j - value_j)^2 (first of equals). Only e clips, weights above 6 2^e.
 *
 * NVFP4     E2M1(code) * scale, half to even, at most +-6; scale an E4M3 value times a power of two
 *           of the matrix (solve/nvfp4.h), nearest to max |w| / 6 [NVIDIA, NVFP4]
 * clip mse, weighted: that of the E4M3 values around max |w| / 6 up to above max |w| / 4 which
 * costs least, as on MXFP4.
 *
 * CODEBOOK  book[row][code], ascending in a row, nearest; scale 1
 *
 * Q4_K, Q6_K   super-blocks with two levels of scales, 256 weights each, of their own functions
 *           (solve/super.h); `group` is 256
 *
 * BINARY    a method of its own (quant/billm.h), only pare_codes is shared.
 *
 * EXL3      trellis codes of tiles, a method of its own (quant/trellis.h), only pare_codes is
 * shared.
 *
 * F16       no grid: weights as they are, rounded to F16; only pare_codes is shared.
 *
 * Ties between levels of NF4 and CODEBOOK go to the lower one; a zero is never stored as -0.
 *
 * With f16_scales the scale is rounded to F16 (pare_f16_scale: never to 0) before zero and codes
 * are chosen, so that they are decided on the grid that ships. A group that is too small for F16,
 * or for the powers of MXFP4, gets the smallest scale, 2^-24, and codes that may all stand for 0.
 * rint rounds half to even. A grid's value of a code has the bits that the kernels decode.
 * Everything here is EXACT: the power 2.4 is made of additions and multiplications in a fixed
 * order, not taken from libm. */
#ifndef PARE_SOLVE_GRID_H
#define PARE_SOLVE_GRID_H

#include <stdbool.h>

#include "kernels/grid_code.h" /* UNIFORM: the code of one weight */
#include "runtime/arena.h"
#include "runtime/encoding.h"

typedef enum pare_clip { PARE_CLIP_NONE, PARE_CLIP_MSE, PARE_CLIP_WEIGHTED } pare_clip;

typedef struct pare_grid {
    unsigned bits; /* 2, 3, 4, 6, 8 */
    size_t group;  /* weights of a row that share a scale; 0: the whole row */
    bool symmetric;
    pare_clip clip;
    bool f16_scales; /* false only in tests and analysis */
    pare_encoding encoding;
    const float *book; /* CODEBOOK: [n, 2^bits], F16-exact, fixed beforehand */
    bool tensor;       /* TERNARY: one scale for the matrix; group is then 0 */
    float factor;      /* NVFP4: of the scales (solve/nvfp4.h); 0: not known, they are F16 */
} pare_grid;

/* Codes of a matrix: codes [n, k], scales and zeros [n, groups]; plain row-major. What an encoding
 * or a method does not have is NULL or 0. All floats are exact in the type that is stored.
 *
 * NF4: scale = f16(scale_offset + scale_steps[p / 256] * (scale code - 128)), in F32 and two
 * roundings, where p is the place of the scale in the stored plane [n16 / 8][groups][8] (n16 = n
 * rounded up to 16); padding has code 128.
 *
 * BINARY: code bit 0 is the first sign (1: plus), book[row][group] = small, large, first, second.
 * Columns with salient = 0: +-small, or +-large where bit 1 is set. Salient columns:
 * +-first +- second, bit 1 is the second sign. */
typedef struct pare_codes {
    size_t n, k, groups;
    uint8_t *codes;
    float *scales;
    uint8_t *zeros;
    uint8_t *scale_codes; /* [n, groups] NF4, NVFP4: codes of the scales; MXFP4: exponents + 127 */
    float *scale_steps;   /* NF4: [ceil(n16 groups / 256)] */
    float scale_offset;   /* NF4 */
    float scale_factor;   /* NVFP4 */
    float *minima;        /* Q4_K, Q6_K: [n, groups] beside scales */
    uint8_t *sub;         /* Q4_K, Q6_K: [n, groups, 16] bytes of sub-blocks */
    float *book;          /* CODEBOOK: [n, 2^bits]; BINARY: [n, groups, 4] */
    uint8_t *salient;     /* BINARY: [k] 0 or 1 */
    size_t outliers;      /* columns kept apart */
    uint32_t *outlier_column;
    float *outlier_weight; /* [n, outliers] for F16, or: */
    int8_t *outlier_code;  /* [n, outliers] for int8, with */
    float *outlier_scale;  /* [n] */
    size_t sparse;         /* weights kept apart */
    uint32_t *sparse_start, *sparse_column;
    float *sparse_value;
    float *row_scales, *column_scales; /* EXL3: [n], [k]; codes are the symbols of the weights */
    float *values;                     /* F16: [n, k]; codes, scales and zeros are NULL then */
    float input_scale;                 /* of inputs quantized with one fixed scale */
    float *bias;                       /* [n], made by a pass */
} pare_codes;

/* ceil(k / group), 1 for group 0: the last group of a row may be shorter. Groups of 16 are an even
 * number, as the columns of the kernels are a multiple of 32: the last one may be empty. */
size_t pare_grid_groups(const pare_grid *g, size_t k);

/* Takes the planes of an [n, k] matrix from the arena. PARE_ENOMEM. */
PARE_CHECKED pare_status pare_codes_take(pare_arena *a, const pare_grid *g, size_t n, size_t k,
                                         pare_codes *out);

/* PARE_EINVAL when bits, group (MXFP4: 32; NVFP4: 16, which divides k; Q4_K, Q6_K: 256, which
 * divides k), clip or a missing book do not go with the encoding; PARE_ESHAPE when group is neither
 * that nor a multiple of 32 or `out` was not taken for this grid and [n, k]. */
PARE_CHECKED pare_status pare_grid_check(pare_ctx *cx, const pare_grid *g, size_t n, size_t k,
                                         const pare_codes *out);

/* Why a group has no grid. */
typedef enum pare_grid_fault {
    PARE_GRID_OK,
    PARE_GRID_NOT_FINITE, /* a weight is NaN or infinite */
    PARE_GRID_UNDERFLOW,  /* scales in F32 only: 0 for weights that are not all 0 */
    PARE_GRID_OVERFLOW    /* scale > 65504; MXFP4: 2^15; NVFP4: PARE_NVFP4_MOST */
} pare_grid_fault;

/* Fits scale and zero to w [count]. Thread-safe, allocates nothing. NF4 and
 * NVFP4 without a factor: the scale before it is quantized, which needs the whole matrix
 * (solve/scales.h), as TERNARY with `tensor` does.
 * Q4_K, Q6_K: D alone, for its fault.
 * A fault leaves what is at fault in *scale (the first weight that is not finite, or the scale that
 * cannot be stored) and *zero 0. Without f16_scales the bounds are those of F32: underflow is a
 * scale of 0 for weights that are not all zero, overflow an infinite one. Clipping passes over
 * scales below 2^-14, the smallest normal F16. */
pare_grid_fault pare_grid_fit(const pare_kernels *kernels, const pare_grid *g, const float *w,
                              size_t count, float *scale, uint8_t *zero);

/* The same with the costs [count] of clip weighted, finite and >= 0; NULL: none. Other grids do not
 * look at them. */
pare_grid_fault pare_grid_fit_by(const pare_kernels *kernels, const pare_grid *g, const float *w,
                                 const float *cost, size_t count, float *scale, uint8_t *zero);

/* Records the fault of one group, `value` being what pare_grid_fit left; returns PARE_ENUMERIC. */
pare_status pare_grid_fail(pare_ctx *cx, pare_grid_fault fault, size_t row, size_t group,
                           float value);

/* True when the scales depend on the whole matrix: NF4, NVFP4, TERNARY with `tensor`. */
static inline bool pare_grid_whole(const pare_grid *g)
{
    const pare_scale_store store = pare_encodings[g->encoding].scales;
    return store == PARE_SCALES_STEPS || store == PARE_SCALES_E4M3 || g->tensor;
}

/* Whether grids of an encoding have a clip: UNIFORM, MXFP4, NVFP4. */
static inline bool pare_grid_clips(pare_encoding e)
{
    return pare_encodings[e].uniform || pare_encoding_is_fp4(e);
}

/* Code and value of one weight of `row` (CODEBOOK looks there) on any grid but BINARY, Q4_K and
 * Q6_K. Finite w. */
uint8_t pare_grid_encode(const pare_grid *g, size_t row, float w, float scale, uint8_t zero);
float pare_grid_decode(const pare_grid *g, size_t row, uint8_t code, float scale, uint8_t zero);

/* What a group of `row` becomes: fit, encode and decode of w [count] into q (may be w). NF4 and
 * NVFP4 with plain F16 scales. On a fault q is not written. */
pare_grid_fault pare_grid_round(const pare_kernels *kernels, const pare_grid *g, size_t row,
                                const float *w, size_t count, float *q);

/* The weights that codes stand for, with outlier columns and sparse weights: dst [n, k]. `g` gives
 * encoding, bits, group; UNIFORM has its zeros in c. */
void pare_codes_values(const pare_grid *g, const pare_codes *c, float *dst);

/* UNIFORM and TERNARY: value of one code. */
static inline float pare_grid_value(uint8_t code, float scale, uint8_t zero)
{
    return (float)((int)code - (int)zero) * scale;
}

/* The usual groups, from 32 up to `most`, that divide rows of k weights: "32, 64 or row". */
enum { PARE_GROUPS_TEXT = 32 };
const char *pare_grid_groups_text(size_t k, size_t most, char text[PARE_GROUPS_TEXT]);

#endif
