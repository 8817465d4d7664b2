/* tests/ptx/ptx_round.h - narrow types from double with one rounding. Going to F32 first would
 * round twice; so the last bit of the F32 says whether anything was lost: what is rounded then lies
 * on the same side of every half way point. */
#ifndef PARE_TESTS_PTX_ROUND_H
#define PARE_TESTS_PTX_ROUND_H

#include <math.h>

#include "kernels/half.h"

/* To F32 towards 0, the last bit set if that lost something. */
static inline float ptx_f64_to_sticky_f32(double v)
{
    const float near = (float)v;
    uint32_t bits = pare_f32_bits(near);
    bits -= fabs((double)near) > fabs(v);
    bits |= v == v && (double)near != v;
    return pare_f32_from_bits(bits);
}

static inline uint16_t ptx_f64_to_f16(double v)
{
    return v == v ? pare_f32_to_f16(ptx_f64_to_sticky_f32(v)) : 0x7fffu;
}

/* p + c towards 0, the last bit set if that lost something. */
static inline double ptx_sticky_sum(double p, double c)
{
    const double sum = p + c, part = sum - p, lost = (p - (sum - part)) + (c - part);
    if (!isfinite(sum) || lost == 0)
        return sum;
    uint64_t bits;
    memcpy(&bits, &sum, sizeof bits);
    bits -= (lost < 0) == (sum > 0);
    bits |= 1;
    double sticky;
    memcpy(&sticky, &bits, sizeof sticky);
    return sticky;
}

/* Towards 0: the nearest F16, or the one before it. */
static inline uint16_t ptx_f32_to_f16_rz(float v)
{
    const uint16_t h = pare_f32_to_f16(v);
    return v == v ? (uint16_t)(h - (fabsf(pare_f16_to_f32(h)) > fabsf(v))) : 0x7fffu;
}

#endif
