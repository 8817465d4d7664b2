/* kernels/grid_code.h - the code of one weight on a uniform grid, and the power that weighs its
 * error, in steps that every CPU has. */
#ifndef PARE_KERNELS_GRID_CODE_H
#define PARE_KERNELS_GRID_CODE_H

#include <stdint.h>
#include <string.h>

/* clamp(rint(w / scale) + zero, 0, 2^bits - 1); zero when scale is 0 or a NaN; the last code for a
 * NaN. Adding 1.5 * 2^23 and taking it away rounds what is below 2^22 half to even. */
static inline uint8_t pare_grid_code(unsigned bits, float w, float scale, uint8_t zero)
{
    const float top = (float)((1u << bits) - 1), magic = 12582912.0F;
    float t = scale > 0 || scale < 0 ? w / scale : 0;
    t = t < 512 ? t : 512;
    t = t > -512 ? t : -512;
    t = (t + magic) - magic + (float)zero;
    t = t < top ? t : top;
    return (uint8_t)(int)(t > 0 ? t : 0);
}

/* a^(-1/5) without libm, for normal a > 0: starts from the exponent divided by -5 in the integer
 * domain (3% off at most) and takes three Newton steps r <- r (6 - a r^5) / 5, which leave a
 * relative error below 1e-6. */
#define PARE_POWER_ROOT 0x4C2B9213U
static inline float pare_fifth_root(float a)
{
    uint32_t u;
    memcpy(&u, &a, sizeof u);
    u = PARE_POWER_ROOT - u / 5;
    float r;
    memcpy(&r, &u, sizeof r);
    for (int i = 0; i < 3; i++) {
        const float r2 = r * r;
        r = r * (1.2F - 0.2F * (a * r2 * (r2 * r)));
    }
    return r;
}

/* x^2.4 for |x| up to 2^24: with a = x^2 it is a^1.2 = (a r^2)^2, r = a^(-1/5). */
#define PARE_POWER_TINY 1e-30F
static inline float pare_power_2_4(float x)
{
    const float a = x * x + PARE_POWER_TINY;
    const float r = pare_fifth_root(a), t = a * (r * r);
    return t * t;
}

#endif
