/* kernels/grid_code.h - the code of one weight on a uniform grid, in steps that every CPU has. */
#ifndef PARE_KERNELS_GRID_CODE_H
#define PARE_KERNELS_GRID_CODE_H

#include <stdint.h>

/* clamp(rint(w / scale) + zero, 0, 2^bits - 1); zero when scale is 0; the last code for a NaN.
 * Adding 1.5 * 2^23 and taking it away rounds what is below 2^22 half to even. */
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

#endif
