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
 * An all-zero group has scale 0 and codes = zero.
 *
 * With f16_scales the scale is rounded to F16 before any code is chosen, so that codes are decided
 * on the grid that ships. rint rounds half to even. Everything here is EXACT. */
#ifndef PARE_RUNTIME_GRID_H
#define PARE_RUNTIME_GRID_H

#include <stdbool.h>

#include "runtime/arena.h"

typedef enum pare_clip { PARE_CLIP_NONE, PARE_CLIP_MSE } pare_clip;

typedef struct pare_grid {
    unsigned bits;    /* 2, 3, 4, 8 */
    size_t group;     /* weights of a row that share a scale; 0: the whole row */
    bool symmetric;
    pare_clip clip;
    bool f16_scales;  /* false only in tests and analysis */
} pare_grid;

/* Codes of a matrix: codes [n, k], scales and zeros [n, groups]; plain row-major. */
typedef struct pare_codes {
    size_t n, k, groups;
    uint8_t *codes;
    float *scales;
    uint8_t *zeros;
} pare_codes;

/* ceil(k / group), 1 for group 0: the last group of a row may be shorter. */
size_t pare_grid_groups(const pare_grid *g, size_t k);

/* Takes the planes of an [n, k] matrix from the arena. PARE_ENOMEM. */
PARE_CHECKED pare_status pare_codes_take(pare_arena *a, const pare_grid *g, size_t n, size_t k,
                                         pare_codes *out);

/* Why a scale cannot be stored. */
typedef enum pare_grid_fault {
    PARE_GRID_OK,
    PARE_GRID_NOT_FINITE, /* a weight is NaN or infinite */
    PARE_GRID_UNDERFLOW,  /* 0 < scale < 2^-14, the smallest normal F16 */
    PARE_GRID_OVERFLOW    /* scale > 65504 */
} pare_grid_fault;

/* Fits scale and zero to w [count], `stride` elements apart. Thread-safe, allocates nothing.
 * A fault leaves scale 0 and zero in place; without f16_scales under- and overflow cannot occur. */
pare_grid_fault pare_grid_fit(const pare_grid *g, const float *w, size_t count, float *scale,
                              uint8_t *zero);

/* Code of one weight, and its value. */
uint8_t pare_grid_code(unsigned bits, float w, float scale, uint8_t zero);
static inline float pare_grid_value(uint8_t code, float scale, uint8_t zero)
{
    return (float)((int)code - (int)zero) * scale;
}

#endif
