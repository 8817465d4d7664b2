/* Register tiles of 6 x 4 vectors. */
#include "kernels/arm/neon_internal.h"

#ifdef __aarch64__

#define REAL               float
#define reals              float32x4_t
#define LANES              4
#define PANELS(name)       name##_f32
#define PRODUCT            pare_gemm_panels_f32_neon
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
#define PRODUCT            pare_gemm_panels_f64_neon
#define TOGETHER           1
#define reals_load         vld1q_f64
#define reals_store        vst1q_f64
#define reals_all          vdupq_n_f64
#define reals_add          vaddq_f64
#define reals_fma(a, b, c) vfmaq_f64(c, a, b)
#include "kernels/gemm_panels.h"

#endif
