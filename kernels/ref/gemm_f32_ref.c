#include <math.h>

#include "kernels/half.h"
#include "kernels/kernels_internal.h"

static float at_f32(const void *w, size_t j)
{
    return ((const float *)w)[j];
}

static float at_f16(const void *w, size_t j)
{
    return pare_f16_to_f32(((const uint16_t *)w)[j]);
}

static float at_bf16(const void *w, size_t j)
{
    return pare_bf16_to_f32(((const uint16_t *)w)[j]);
}

static inline float dot(const float *x, const void *w, size_t k,
                        float (*at)(const void *w, size_t j))
{
    float l[8] = {0};
    for (size_t j = 0; j < k; j++)
        l[j % 8] = fmaf(x[j], at(w, j), l[j % 8]);
    return pare_lane_sum(l);
}

void pare_gemm_f32_f32_ref(float *y, size_t ldy, const float *x, size_t ldx, const float *w,
                           size_t ldw, size_t m, size_t n, size_t k)
{
    for (size_t t = 0; t < m; t++)
        for (size_t r = 0; r < n; r++)
            y[t * ldy + r] = dot(x + t * ldx, w + r * ldw, k, at_f32);
}

void pare_gemm_f32_f16_ref(float *y, size_t ldy, const float *x, size_t ldx, const uint16_t *w,
                           size_t ldw, size_t m, size_t n, size_t k)
{
    for (size_t t = 0; t < m; t++)
        for (size_t r = 0; r < n; r++)
            y[t * ldy + r] = dot(x + t * ldx, w + r * ldw, k, at_f16);
}

void pare_gemm_f32_bf16_ref(float *y, size_t ldy, const float *x, size_t ldx, const uint16_t *w,
                            size_t ldw, size_t m, size_t n, size_t k)
{
    for (size_t t = 0; t < m; t++)
        for (size_t r = 0; r < n; r++)
            y[t * ldy + r] = dot(x + t * ldx, w + r * ldw, k, at_bf16);
}
