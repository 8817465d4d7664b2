#include <assert.h>
#include <math.h>

#include "kernels/kernels_internal.h"

void pare_hadamard_f32_ref(float *x, size_t n, float scale)
{
    assert(n > 0 && (n & (n - 1)) == 0);
    for (size_t h = 1; h < n; h *= 2)
        for (size_t i = 0; i < n; i++)
            if (!(i & h)) {
                const float a = x[i], b = x[i + h];
                x[i] = a + b;
                x[i + h] = a - b;
            }
    for (size_t i = 0; i < n; i++)
        x[i] *= scale;
}

void pare_mix_f32_ref(float *x, size_t n, const float *c, size_t m)
{
    float old[PARE_MIX_MAX];
    assert(m <= PARE_MIX_MAX);
    for (size_t j = 0; j < n; j++) {
        for (size_t d = 0; d < m; d++)
            old[d] = x[d * n + j];
        for (size_t b = 0; b < m; b++) {
            float acc = 0.0f;
            for (size_t d = 0; d < m; d++)
                acc = fmaf(c[b * m + d], old[d], acc);
            x[b * n + j] = acc;
        }
    }
}
