/* Register tiles of 6 x 4 vectors. */
#include "kernels/arm/neon_internal.h"

#ifdef __aarch64__

#define REAL               float
#define reals              float32x4_t
#define LANES              4
#define PANELS(name)       name##_f32
#define TOGETHER           1
#define reals_load         vld1q_f32
#define reals_store        vst1q_f32
#define reals_all          vdupq_n_f32
#define reals_add          vaddq_f32
#define reals_fma(a, b, c) vfmaq_f32(c, a, b)
#include "kernels/gemm_panels.h"

#define REAL               double
#define reals              float64x2_t
#define LANES              2
#define PANELS(name)       name##_f64
#define TOGETHER           1
#define reals_load         vld1q_f64
#define reals_store        vst1q_f64
#define reals_all          vdupq_n_f64
#define reals_add          vaddq_f64
#define reals_fma(a, b, c) vfmaq_f64(c, a, b)
#include "kernels/gemm_panels.h"

void pare_gemm_panels_f32_neon(float *c, size_t ldc, const float *a, const float *b, size_t m,
                               size_t n, size_t k)
{
    product_f32(c, ldc, a, b, m, n, k);
}

void pare_gemm_panels_f64_neon(double *c, size_t ldc, const double *a, const double *b, size_t m,
                               size_t n, size_t k)
{
    product_f64(c, ldc, a, b, m, n, k);
}

#endif
