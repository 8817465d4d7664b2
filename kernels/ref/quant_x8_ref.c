#include <math.h>
#include <string.h>

#include "kernels/half.h"
#include "kernels/kernels_internal.h"
#include "kernels/layout.h"

/* Bits of absolute values are in the order of the values, those of a NaN above all. */
static float group_max(const float *x, size_t n)
{
    uint32_t most = 0;
    for (size_t i = 0; i < n; i++) {
        const uint32_t bits = pare_f32_bits(fabsf(x[i]));
        most = bits > most ? bits : most;
    }
    return pare_f32_from_bits(most);
}

/* Each comparison is false for a NaN (infinity times 0), which so becomes the code 127: no
 * conversion to an integer ever leaves its range. */
static void quant_group(int8_t *codes, float *scale, int32_t *sum, const float *x, size_t n)
{
    const float a = group_max(x, n), inv = 127.0f / a;
    *scale = isinf(inv) ? 0.0f : a / 127.0f;
    *sum = 0;
    for (size_t i = 0; i < n; i++) {
        float q = rintf(x[i] * inv);
        q = q < 127.0f ? q : 127.0f;
        q = q > -127.0f ? q : -127.0f;
        codes[i] = isfinite(inv) ? (int8_t)q : 0;
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
