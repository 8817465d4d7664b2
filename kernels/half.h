/* kernels/half.h - one number between F16 or BF16 and F32, in integer steps: the same bits as the
 * conversion instructions of every CPU. */
#ifndef PARE_KERNELS_HALF_H
#define PARE_KERNELS_HALF_H

#include <math.h>
#include <stdint.h>
#include <string.h>

static inline uint32_t pare_f32_bits(float x)
{
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    return bits;
}

static inline float pare_f32_from_bits(uint32_t bits)
{
    float x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

static inline float pare_bf16_to_f32(uint16_t h)
{
    return pare_f32_from_bits((uint32_t)h << 16);
}

/* Exact; a signalling NaN becomes quiet. */
static inline float pare_f16_to_f32(uint16_t h)
{
    const uint32_t sign = (uint32_t)(h & 0x8000u) << 16, exponent = h >> 10 & 31u,
                   frac = h & 0x3ffu;
    if (exponent == 0)
        return pare_f32_from_bits(sign | pare_f32_bits((float)frac * 0x1p-24f));
    if (exponent == 31)
        return pare_f32_from_bits(sign | 0x7f800000u | frac << 13 | (frac ? 0x400000u : 0));
    return pare_f32_from_bits(sign | (exponent + 112) << 23 | frac << 13);
}

/* Rounds half to even; overflow gives infinity, a NaN stays a (quiet) NaN. */
static inline uint16_t pare_f32_to_f16(float x)
{
    const uint32_t bits = pare_f32_bits(x), sign = bits >> 16 & 0x8000u, abs = bits & 0x7fffffffu;
    if (abs > 0x7f800000u)
        return (uint16_t)(sign | 0x7e00u | (abs >> 13 & 0x3ffu));
    if (abs >= 0x477ff000u) /* 65520: half way to the first number that is too large */
        return (uint16_t)(sign | 0x7c00u);
    if (abs < 0x38800000u) /* 2^-14: below, the step is 2^-24 */
        return (uint16_t)(sign | (uint32_t)rintf(pare_f32_from_bits(abs) * 0x1p24f));
    return (uint16_t)(sign | (abs + 0xfffu + (abs >> 13 & 1u) - 0x38000000u) >> 13);
}

/* The F16 that stores a scale x >= 0: the nearest; below PARE_SCALE_COARSE, where that is off by
 * more than 1/32 or is 0, the next above. So the largest weight stays on its grid, and only 0
 * becomes 0. compress/run/run_coarse.c counts what that costs. */
#define PARE_SCALE_COARSE 0x1p-20F
static inline uint16_t pare_f16_of_scale(float x)
{
    return pare_f32_to_f16(x < PARE_SCALE_COARSE ? ceilf(x * 0x1p24F) * 0x1p-24F : x);
}

static inline float pare_f16_scale(float x)
{
    return pare_f16_to_f32(pare_f16_of_scale(x));
}

/* Rounds half to even; overflow gives infinity, a NaN stays a (quiet) NaN. */
static inline uint16_t pare_f32_to_bf16(float x)
{
    const uint32_t bits = pare_f32_bits(x);
    if ((bits & 0x7fffffffu) > 0x7f800000u)
        return (uint16_t)(bits >> 16 | 0x40u);
    return (uint16_t)((bits + 0x7fffu + (bits >> 16 & 1u)) >> 16);
}

#endif
