/* runtime/grid.h - the uniform grid: how a group of weights becomes codes.
 *
 *   value = (code - zero) * scale,   code in 0 .. 2^bits - 1
 *
 * symmetric: zero = 2^(bits-1), scale = max(hi / (2^(bits-1) - 1), -lo / 2^(bits-1)) with
 * hi = max(0, max w), lo = min(0, min w): the smallest scale that covers the group. The weight of
 * largest magnitude falls on a code, never on a rounding tie between two (a scale of
 * 2 max|w| / (2^bits - 1) puts it exactly there).
 * asymmetric: scale = (hi - lo) / (2^bits - 1), zero = clamp(rint(-lo / scale)).
 * clip mse: of the ranges (p lo, p hi), p = 1 - i / 100, i = 0 .. 79, the one with the least
 * sum |w - value|^2.4 (first of equals). Source: GPTQ's reference code (quantizer), restated.
 * An all-zero group has scale 0 and codes = zero (asymmetric: zero = 0).
 *
 * With f16_scales the scale is rounded to F16 before zero and codes are chosen, so that they are
 * decided on the grid that ships. rint rounds half to even. Everything here is EXACT: the power
 * 2.4 is made of additions and multiplications in a fixed order, not taken from libm. */
#ifndef PARE_RUNTIME_GRID_H
#define PARE_RUNTIME_GRID_H

#include <stdbool.h>

#include "runtime/arena.h"
#include "runtime/encoding.h"

typedef enum pare_clip { PARE_CLIP_NONE, PARE_CLIP_MSE } pare_clip;

typedef struct pare_grid {
    unsigned bits; /* 2, 3, 4, 8 */
    size_t group;  /* weights of a row that share a scale; 0: the whole row */
    bool symmetric;
    pare_clip clip;
    bool f16_scales; /* false only in tests and analysis */
    pare_encoding encoding;
    const float *book; /* CODEBOOK: [n, 2^bits], fixed beforehand */
} pare_grid;

/* Codes of a matrix: codes [n, k], scales and zeros [n, groups]; plain row-major. What an encoding
 * or a method does not have is NULL or 0. All floats are exact in the type that is stored. */
typedef struct pare_codes {
    size_t n, k, groups;
    uint8_t *codes;
    float *scales;
    uint8_t *zeros;
    uint8_t *scale_codes; /* [n, groups] NF4: codes of the scales; MXFP4: exponents + 127 */
    float *scale_steps;   /* NF4: a step per 256 scales */
    float scale_offset;   /* NF4 */
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
    float input_scale; /* of inputs quantized with one fixed scale */
    float *bias;       /* [n], made by a pass */
} pare_codes;

/* ceil(k / group), 1 for group 0: the last group of a row may be shorter. */
size_t pare_grid_groups(const pare_grid *g, size_t k);

/* Takes the planes of an [n, k] matrix from the arena. PARE_ENOMEM. */
PARE_CHECKED pare_status pare_codes_take(pare_arena *a, const pare_grid *g, size_t n, size_t k,
                                         pare_codes *out);

/* PARE_EINVAL when bits is not 2, 3, 4 or 8; PARE_ESHAPE when group is not a multiple of 32 or
 * `out` was not taken for this grid and [n, k]. */
PARE_CHECKED pare_status pare_grid_check(pare_ctx *cx, const pare_grid *g, size_t n, size_t k,
                                         const pare_codes *out);

/* Why a group has no grid. */
typedef enum pare_grid_fault {
    PARE_GRID_OK,
    PARE_GRID_NOT_FINITE, /* a weight is NaN or infinite */
    PARE_GRID_UNDERFLOW,  /* 0 < scale < 2^-14, the smallest normal F16 */
    PARE_GRID_OVERFLOW    /* scale > 65504 */
} pare_grid_fault;

/* Fits scale and zero to w [count]. Thread-safe, allocates nothing.
 * A fault leaves what is at fault in *scale (the first weight that is not finite, or the scale that
 * cannot be stored) and *zero 0. Without f16_scales the bounds are those of F32: underflow is a
 * scale of 0 for weights that are not all zero, overflow an infinite one. Clip mse passes over
 * clipped scales that underflow. */
pare_grid_fault pare_grid_fit(const pare_grid *g, const float *w, size_t count, float *scale,
                              uint8_t *zero);

/* Records the fault of one group, `value` being what pare_grid_fit left; returns PARE_ENUMERIC. */
pare_status pare_grid_fail(pare_ctx *cx, pare_grid_fault fault, size_t row, size_t group,
                           float value);

/* Code of one weight: clamp(rint(w / scale) + zero, 0, 2^bits - 1); zero when scale is 0; the last
 * code for a NaN. Adding 1.5 * 2^23 and taking it away rounds what is below 2^22 half to even. */
static inline uint8_t pare_grid_code(unsigned bits, float w, float scale, uint8_t zero)
{
    const float top = (float)((1u << bits) - 1), magic = 12582912.0F;
    float t = scale > 0 ? w / scale : 0;
    t = t < 512 ? t : 512;
    t = t > -512 ? t : -512;
    t = (t + magic) - magic + (float)zero;
    t = t < top ? t : top;
    return (uint8_t)(int)(t > 0 ? t : 0);
}

/* Value of one code. */
static inline float pare_grid_value(uint8_t code, float scale, uint8_t zero)
{
    return (float)((int)code - (int)zero) * scale;
}

#endif
