#include "kernels/half.h"
#include "kernels/kernels_internal.h"

void pare_cvt_f16_f32_ref(float *dst, const uint16_t *src, size_t n)
{
    for (size_t i = 0; i < n; i++)
        dst[i] = pare_f16_to_f32(src[i]);
}

/* Through integers: a NaN keeps every bit. */
void pare_cvt_bf16_f32_ref(float *dst, const uint16_t *src, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        const uint32_t bits = (uint32_t)src[i] << 16;
        memcpy(&dst[i], &bits, sizeof bits);
    }
}

void pare_cvt_f32_bf16_ref(uint16_t *dst, const float *src, size_t n)
{
    for (size_t i = 0; i < n; i++)
        dst[i] = pare_f32_to_bf16(src[i]);
}

void pare_cvt_f32_f16_ref(uint16_t *dst, const float *src, size_t n)
{
    for (size_t i = 0; i < n; i++)
        dst[i] = pare_f32_to_f16(src[i]);
}
