#include <assert.h>
#include <math.h>

#include "kernels/half.h"
#include "kernels/kernels_internal.h"

enum { LANES = 8 };

/* Adding 1.5 * 2^23 rounds to an integer, which then lies in the low bits. ln 2 is split so that
 * k times its head is exact. */
static float exp_f32(float x)
{
    static const float c[] = {
        1.38888889e-3f, 8.33333333e-3f, 4.16666667e-2f, 1.66666667e-1f, 0.5f, 1.0f, 1.0f};
    const float magic = 0x1.8p23f;
    x = x < -87.0f ? -87.0f : x;
    x = x > 87.0f ? 87.0f : x;
    const float shifted = fmaf(x, 1.44269504f, magic), k = shifted - magic;
    const float r = fmaf(k, 2.12194440e-4f, fmaf(k, -0.693359375f, x));
    float p = 1.98412698e-4f;
    for (size_t i = 0; i < sizeof c / sizeof *c; i++)
        p = fmaf(p, r, c[i]);
    return p * pare_f32_from_bits((pare_f32_bits(shifted) + 127) << 23);
}

/* Lanes l and l + 4, then l and l + 2, then the two that are left. */
static float largest(float first, const float *x, size_t n)
{
    float lane[LANES];
    for (size_t l = 0; l < LANES; l++)
        lane[l] = first;
    for (size_t i = 0; i < n; i++)
        lane[i % LANES] = x[i] > lane[i % LANES] ? x[i] : lane[i % LANES];
    for (size_t h = LANES / 2; h > 0; h /= 2)
        for (size_t l = 0; l < h; l++)
            lane[l] = lane[l + h] > lane[l] ? lane[l + h] : lane[l];
    return lane[0];
}

float pare_softmax_f32_ref(float *x, size_t n, float scale, float *max, double *total)
{
    assert(n > 0);
    float lane[LANES] = {0};
    const float m = largest(*max, x, n), shrink = *max == m ? 1.0f : exp_f32((*max - m) * scale);
    for (size_t i = 0; i < n; i++) {
        x[i] = exp_f32((x[i] - m) * scale);
        lane[i % LANES] += x[i];
    }
    const float sum =
        ((lane[0] + lane[4]) + (lane[2] + lane[6])) + ((lane[1] + lane[5]) + (lane[3] + lane[7]));
    *total = fma(*total, (double)shrink, (double)sum);
    *max = m;
    return shrink;
}

void pare_silu_f32_ref(float *y, const float *up, size_t n)
{
    for (size_t i = 0; i < n; i++)
        y[i] = y[i] / (1.0f + exp_f32(-y[i])) * up[i];
}

void pare_silu_back_f32_ref(float *dgate, float *dup, const float *d, const float *gate,
                            const float *up, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        const float g = gate[i], s = 1.0f / (1.0f + exp_f32(-g));
        dup[i] += d[i] * (g * s);
        dgate[i] += d[i] * up[i] * (s * (1.0f + g * (1.0f - s)));
    }
}

void pare_transpose_f32_ref(float *dst, size_t ldd, const float *src, size_t lds, size_t m,
                            size_t n)
{
    for (size_t i = 0; i < m; i++)
        for (size_t j = 0; j < n; j++)
            dst[j * ldd + i] = src[i * lds + j];
}
