#include "kernels/optimizer.h"

#include <math.h>
#include <string.h>

#include "kernels/kernels_internal.h"

void pare_adamw_step_ref(float *restrict w, float *restrict g, float *restrict m, float *restrict v,
                         size_t n, const pare_adamw_move *by)
{
    const double b1 = by->beta1, b2 = by->beta2;
    for (size_t i = 0; i < n; i++) {
        const double d = by->clip * (by->keeps_zeros && w[i] == 0 ? 0 : (double)g[i]);
        const double mi = b1 * (double)m[i] + (1 - b1) * d;
        const double vi = b2 * (double)v[i] + (1 - b2) * d * d;
        const double kept = (double)w[i] * by->shrink;
        m[i] = (float)mi;
        v[i] = (float)vi;
        g[i] = 0;
        w[i] = (float)(kept - by->rate * mi / (sqrt(vi) / by->root + by->eps));
    }
}

void pare_aware_back_ref(float *step, float *g, const pare_aware_groups *of, size_t groups,
                         size_t width)
{
    const float top = (float)((1u << of->bits) - 1);
    for (size_t i = 0; i < groups; i++) {
        const float s = of->scale[i], low = -(float)of->zero[i], high = low + top;
        double sum = 0;
        if (s == 0)
            memset(g + i * width, 0, width * sizeof *g);
        for (size_t j = i * width; s != 0 && j < (i + 1) * width; j++)
            sum += pare_aware_term(&g[j], of->w[j], s, (int)of->codes[j] - (int)of->zero[i], low,
                                   high, of->compensated);
        step[i] = (float)(sum / of->over);
    }
}

void pare_tree_codes_ref(uint8_t *codes, const float *x, size_t n, float scale, const float *tree)
{
    for (size_t i = 0; i < n; i++) {
        const float at = scale > 0 ? x[i] / scale : 0;
        size_t node = 1;
        while (node < 256)
            node = 2 * node + (tree[node] < at);
        codes[i] = (uint8_t)(node - 256);
    }
}
