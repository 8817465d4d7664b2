#include "distill/soften_internal.h"

#include <math.h>

#include "runtime/small.h"

enum { BLOCK = 64 };

double pare__soften(const pare_kernels *k, const float *x, size_t n, double temperature, float *p)
{
    const float over = (float)(1 / temperature);
    float max = -INFINITY;
    double total = 0;
    for (size_t i = 0; i < n; i++) {
        p[i] = x[i];
        max = x[i] > max ? x[i] : max;
    }
    for (size_t i = 0; i < n; i += BLOCK)
        (void)k->softmax_f32(p + i, pare_smaller(n - i, BLOCK), over, &max, &total);
    for (size_t i = 0; i < n; i++)
        p[i] = (float)((double)p[i] / total);
    return (double)max * (double)over + log(total);
}
