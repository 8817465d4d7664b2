/* kernels/e4m3.h - rounding to the 8-bit floats of kernels/levels.h: of one value, and
 *
 *   round_fp8    of a row: dst[i] = E4M3(x[i] / s) s with s = max |x| / 448, over numbers: a NaN is
 *                never the largest. x where s is 0. */
#ifndef PARE_KERNELS_E4M3_H
#define PARE_KERNELS_E4M3_H

#include "kernels/half.h"

/* The E4M3 value nearest to t, |t| <= 448, half to even: three bits of fraction, below 2^-6 a step
 * of 2^-9. A zero keeps its sign, NaN stays NaN. Exact. */
static inline float pare_round_e4m3(float t)
{
    const uint32_t u = pare_f32_bits(t), size = u & 0x7FFFFFFFu;
    const uint32_t rounded = (size + 0x7FFFFu + (size >> 20 & 1)) & 0xFFF00000u;
    const float small = (pare_f32_from_bits(size) * 0x1p9F + 0x1p23F - 0x1p23F) * 0x1p-9F;
    const uint32_t bits = size < 0x3C800000u   ? pare_f32_bits(small)
                          : size > 0x7F800000u ? size /* NaN, whose sum may wrap around */
                                               : rounded;
    return pare_f32_from_bits(bits | (u & 0x80000000u));
}

/* The code of that value; beyond +-448 that of +-448. Below 2^-6 a code is a number of steps of
 * 2^-9; above, its bits have another exponent. A zero has code 0. Finite t. */
static inline uint8_t pare_f32_to_e4m3(float t)
{
    const float size = pare_f32_from_bits(pare_f32_bits(t) & 0x7FFFFFFFu);
    const float a = pare_round_e4m3(size < 448.0F ? size : 448.0F);
    const uint32_t code =
        a < 0x1p-6F ? (uint32_t)(a * 0x1p9F) : (pare_f32_bits(a) >> 20) - (120u << 3);
    return (uint8_t)(code && t < 0 ? code | 128 : code);
}

#endif
