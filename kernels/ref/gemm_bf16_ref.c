#include <math.h>

#include "kernels/half.h"
#include "kernels/kernels_internal.h"

enum { CHUNK = 32 };

static float flushed(float x)
{
    return fabsf(x) < 0x1p-126f ? copysignf(0.0f, x) : x;
}

static float at(const uint16_t *v, size_t j, size_t k)
{
    return j < k ? flushed(pare_bf16_to_f32(v[j])) : 0.0f;
}

/* fma, flushed. What rounds up to 2^-126 only because denormals are coarse is below it, too; 2^64
 * times as large, it has the steps of normal numbers. */
static float fused(float a, float b, float c)
{
    const float sum = fmaf(a, b, c);
    const bool small =
        fabsf(sum) == 0x1p-126f && fabsf(fmaf(a * 0x1p64f, b, c * 0x1p64f)) < 0x1p-62f;
    return small ? copysignf(0.0f, sum) : flushed(sum);
}

static float dot(const uint16_t *x, const uint16_t *w, size_t k)
{
    float sum = 0.0f;
    for (size_t j = 0; j < k; j += CHUNK) {
        float even = 0.0f, odd = 0.0f;
        for (size_t i = j; i < j + CHUNK; i += 2) {
            even = fused(at(x, i, k), at(w, i, k), even);
            odd = fused(at(x, i + 1, k), at(w, i + 1, k), odd);
        }
        sum = flushed(sum + flushed(even + odd));
    }
    return sum;
}

void pare_gemm_bf16_bf16_ref(float *y, size_t ldy, const uint16_t *x, size_t ldx, const uint16_t *w,
                             size_t ldw, size_t m, size_t n, size_t k)
{
    for (size_t t = 0; t < m; t++)
        for (size_t r = 0; r < n; r++)
            y[t * ldy + r] = dot(x + t * ldx, w + r * ldw, k);
}
