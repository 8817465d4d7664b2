/* tests/ptx/ptx_round.h - from double to F16 with one rounding. */
#ifndef PARE_TESTS_PTX_ROUND_H
#define PARE_TESTS_PTX_ROUND_H

#include <math.h>

#include "kernels/half.h"

/* Goes to F32 towards 0, with the last bit set if that lost something: what F16 then rounds is on
 * the same side of every half way point. */
static inline uint16_t ptx_f64_to_f16(double v)
{
    if (v != v)
        return 0x7fffu;
    const float near = (float)v;
    uint32_t bits = pare_f32_bits(near);
    bits -= fabs((double)near) > fabs(v);
    bits |= (double)near != v;
    return pare_f32_to_f16(pare_f32_from_bits(bits));
}

#endif
