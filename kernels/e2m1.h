/* kernels/e2m1.h - rounding to the 4-bit floats of kernels/levels.h. */
#ifndef PARE_KERNELS_E2M1_H
#define PARE_KERNELS_E2M1_H

#include "kernels/half.h"

/* The E2M1 value nearest to t, half to even, beyond +-6 that: steps of 1/2 below 2, of 1 below 4,
 * of 2 above. Each is the last place of a power of two that comes and goes. A zero keeps its sign,
 * NaN stays NaN. Exact. */
static inline float pare_round_e2m1(float t)
{
    const uint32_t u = pare_f32_bits(t);
    const float size = pare_f32_from_bits(u & 0x7FFFFFFFu);
    const float power = size < 2 ? 0x1p22F : size < 4 ? 0x1p23F : 0x1p24F;
    const float near = size + power - power;
    return pare_f32_from_bits(pare_f32_bits(near > 6 ? 6.0F : near) | (u & 0x80000000u));
}

#endif
