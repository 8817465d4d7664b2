#include <math.h>
#include <string.h>

#include "kernels/kernels_internal.h"
#include "kernels/layout.h"

/* Each comparison is false for a NaN, so that a NaN counts for nothing in the maximum and becomes
 * the code 127: no conversion to an integer ever leaves its range. */
static void quant_group(int8_t *codes, float *scale, int32_t *sum, const float *x, size_t n)
{
    float a = 0.0f;
    for (size_t i = 0; i < n; i++)
        a = fabsf(x[i]) > a ? fabsf(x[i]) : a;
    const float inv = 127.0f / a; /* infinite for a = 0, too */
    *scale = isinf(inv) ? 0.0f : a / 127.0f;
    *sum = 0;
    for (size_t i = 0; i < n; i++) {
        float q = rintf(x[i] * inv);
        q = q < 127.0f ? q : 127.0f;
        q = q > -127.0f ? q : -127.0f;
        codes[i] = isinf(inv) ? 0 : (int8_t)q;
        *sum += codes[i];
    }
}

void pare_quant_x8_ref(int8_t *codes, float *scales, int32_t *sums, const float *x, size_t k,
                       size_t group)
{
    for (size_t i = 0, b = 0; i < k; i += group, b++)
        quant_group(codes + i, scales + b, sums + b, x + i, k - i < group ? k - i : group);
    memset(codes + k, 0, pare_round_up(k, PARE_ATOM_K) - k);
}
