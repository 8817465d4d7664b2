/* kernels/arm/gemv_neon.h - eight lanes of the sum of a row. */
#ifndef PARE_KERNELS_ARM_GEMV_NEON_H
#define PARE_KERNELS_ARM_GEMV_NEON_H

#include "kernels/arm/neon_internal.h"

#ifdef __aarch64__
/* Eight columns from x on, of which the first n count; a lane without a column keeps its value. */
PARE_INLINE f32x8 add_8(f32x8 acc, const float *x, float32x4_t lo, float32x4_t hi, size_t n)
{
    const f32x8 w = {lo, hi};
    return n >= 8 ? fma_8(load_8(x), w, acc) : fma_first(load_first(x, n), w, acc, n);
}
#endif

#endif
