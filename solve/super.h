/* solve/super.h - grids with two levels of scales: the K types of GGUF files.
 *
 * A super-block is 256 weights of a row. It has a scale D and a minimum M in F16, and cuts into
 * sub-blocks, each with small integers s and o; with code q,
 *
 *   Q4_K   value = (D s) q - (M o)    q 0 .. 15, s and o 0 .. 63, 8 sub-blocks of 32
 *   Q6_K   value = (D s) (q - 32)     q 0 .. 63, s -128 .. 127, 16 sub-blocks of 16
 *
 * in F32, left to right; the products are exact, so fused or not, values have the bits that the
 * engine decodes.
 *
 * Fitting w with weights v minimizes sum v (w - value)^2, codes being the nearest:
 *
 *   1. each sub-block alone: steps around range / most are tried, each followed by the least
 *      squares fit of step and offset for its codes
 *   2. D and M are the largest of them over the largest s and o, in F16
 *   3. given D and M: for each sub-block the best s and o among those next to what 1 found and to
 *      the least squares fit; then D and M by least squares for these s, o and codes; again, as
 *      long as the sum becomes smaller
 *
 * The engine's own rule (formats/ggml_blocks.h) ends with the first half of 2, and its weights come
 * from w itself. Here they are what an error costs: with the factor of a Hessian (solve/factor.h)
 * v_j = 1 / U_jj^2, the loss of a unit error in column j after all later columns have made up for
 * it. Source  Frantar et al., ICLR 2023, eq. (2), for one weight at a time.
 *
 * Everything is EXACT: F32 sums in eight lanes, a 2 x 2 system in double. */
#ifndef PARE_SOLVE_SUPER_H
#define PARE_SOLVE_SUPER_H

#include "solve/grid.h"

enum { PARE_SUPER = 256, PARE_SUPER_BYTES = 16 };

/* Weights of a sub-block, and bytes that describe it: s and o, or s. */
static inline size_t pare_super_sub(pare_encoding e)
{
    return e == PARE_ENCODING_Q4_K ? 32 : 16;
}

static inline size_t pare_super_bytes(pare_encoding e)
{
    return e == PARE_ENCODING_Q4_K ? 2 : 1;
}

/* The grid of a sub-block: value = (code - zero) step - least. */
typedef struct pare_sub_grid {
    float step, least;
    int zero, top; /* the last code */
} pare_sub_grid;

/* `sub`: its bytes. */
static inline pare_sub_grid pare_super_grid(pare_encoding e, float scale, float minimum,
                                            const uint8_t *sub)
{
    if (e == PARE_ENCODING_Q4_K)
        return (pare_sub_grid){scale * (float)sub[0], minimum * (float)sub[1], 0, 15};
    return (pare_sub_grid){scale * (float)(int8_t)sub[0], 0, 32, 63};
}

/* clamp(rint((w + least) / step) + zero, 0, top); a step of 0: zero. Finite w. */
static inline uint8_t pare_super_code(const pare_sub_grid *g, float w)
{
    const float magic = 12582912.0F;
    float t = g->step != 0 ? (w + g->least) / g->step : 0;
    t = t < 512 ? t : 512;
    t = t > -512 ? t : -512;
    t = (t + magic) - magic + (float)g->zero;
    t = t < (float)g->top ? t : (float)g->top;
    return (uint8_t)(int)(t > 0 ? t : 0);
}

static inline float pare_super_value(const pare_sub_grid *g, uint8_t code)
{
    return g->step * (float)((int)code - g->zero) - g->least;
}

/* Fits a super-block.
 *
 *   w   [256]                v  [256] not negative, or NULL: all the same
 *   sub [16]  bytes of the sub-blocks, one after the other; written, as *scale and *minimum (0 for
 *       Q6_K) are
 *
 * A scale beyond F16 is PARE_GRID_OVERFLOW, left in *scale as pare_grid_fit does; one below what
 * F16 has becomes 2^-24. */
pare_grid_fault pare_super_fit(pare_encoding e, const float *w, const float *v, float *scale,
                               float *minimum, uint8_t sub[PARE_SUPER_BYTES]);

/* Chooses the bytes of one sub-block anew for weights that changed, scale and minimum fixed, where
 * that lowers the sum. w, v as above, of the sub-block. */
void pare_super_refit(pare_encoding e, const float *w, const float *v, float scale, float minimum,
                      uint8_t *sub);

/* Bytes of the sub-block of a column: those of pare_codes.sub. */
static inline uint8_t *pare_super_at(const pare_codes *c, pare_encoding e, size_t row,
                                     size_t column)
{
    return c->sub + (row * c->groups + column / PARE_SUPER) * PARE_SUPER_BYTES +
           column % PARE_SUPER / pare_super_sub(e) * pare_super_bytes(e);
}

/* The grid of a column of codes whose scales are there. */
static inline pare_sub_grid pare_super_column(const pare_codes *c, pare_encoding e, size_t row,
                                              size_t column)
{
    const size_t at = row * c->groups + column / PARE_SUPER;
    return pare_super_grid(e, c->scales[at], c->minima[at], pare_super_at(c, e, row, column));
}

#endif
