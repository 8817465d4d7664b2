/* tests/unit/counted.h - kernels of rounding that count the values they are given. */
#ifndef PARE_TESTS_COUNTED_H
#define PARE_TESTS_COUNTED_H

#include "kernels/kernels.h"

static pare_kernels real; /* what is behind them: the test sets it */
static size_t ranged, rounded;

static bool count_range(const float *x, size_t n, float *lo, float *hi)
{
    ranged += n;
    return real.range_f32(x, n, lo, hi);
}

static void count_codes(uint8_t *codes, const float *x, size_t n, float scale, uint8_t zero,
                        unsigned bits)
{
    rounded += n;
    real.round_codes(codes, x, n, scale, zero, bits);
}

#endif
