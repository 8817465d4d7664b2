#include <math.h>

#include "kernels/half.h"
#include "kernels/kernels_internal.h"

void pare_gemm_sparse_f32_ref(float *y, size_t ldy, const float *x, size_t ldx,
                              const uint32_t *start, const uint32_t *column, const uint16_t *value,
                              size_t m, size_t n)
{
    for (size_t t = 0; t < m; t++)
        for (size_t r = 0; r < n; r++)
            for (size_t i = start[r]; i < start[r + 1]; i++)
                y[t * ldy + r] =
                    fmaf(x[t * ldx + column[i]], pare_f16_to_f32(value[i]), y[t * ldy + r]);
}
