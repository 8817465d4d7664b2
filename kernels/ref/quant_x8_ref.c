#include <assert.h>
#include <math.h>
#include <stdbool.h>
#include <string.h>

#include "kernels/e4m3.h"
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

/* Codes of one span. Each comparison is false for a NaN (infinity times 0), which so becomes the
 * code top: no conversion to an integer ever leaves its range. */
static void quant_span(int8_t *codes, float *scales, int32_t *sums, const float *x, size_t n,
                       size_t group, float scale, float inv, float top)
{
    for (size_t i = 0; i < n; i++) {
        const size_t b = i / group;
        float q = rintf(x[i] * inv);
        q = q < top ? q : top;
        q = q > -top ? q : -top;
        codes[i] = isfinite(inv) ? (int8_t)q : 0;
        sums[b] = (i % group ? sums[b] : 0) + codes[i];
        scales[b] = isinf(inv) ? 0.0f : scale;
    }
}

void pare_quant_x8_ref(int8_t *codes, float *scales, int32_t *sums, const float *x, size_t k,
                       size_t group, size_t span, int32_t top)
{
    assert(span % group == 0 || span >= k);
    for (size_t i = 0; i < k; i += span) {
        const size_t n = k - i < span ? k - i : span, b = i / group;
        const float a = group_max(x + i, n), most = (float)top;
        quant_span(codes + i, scales + b, sums + b, x + i, n, group, a / most, most / a, most);
    }
    memset(codes + k, 0, pare_round_up(k, PARE_ATOM_K) - k);
}

void pare_quant_x8_fixed_ref(int8_t *codes, float *scales, int32_t *sums, const float *x, size_t k,
                             size_t group, float step, int32_t top)
{
    const bool finite = isfinite(group_max(x, k));
    quant_span(codes, scales, sums, x, k, group, finite ? step : NAN, finite ? 1.0f / step : NAN,
               (float)top);
    memset(codes + k, 0, pare_round_up(k, PARE_ATOM_K) - k);
}

void pare_round_fp8_ref(float *restrict dst, const float *restrict x, size_t n)
{
    float most = 0;
    for (size_t i = 0; i < n; i++)
        most = fabsf(x[i]) > most ? fabsf(x[i]) : most;
    const float scale = most / 448;
    for (size_t i = 0; i < n; i++)
        dst[i] = scale > 0 ? pare_round_e4m3(x[i] / scale) * scale : x[i];
}
