/* Register tiles of 6 x 2 vectors. */
#include "kernels/x86/avx2_internal.h"

#ifdef __AVX2__

#define REAL         float
#define reals        __m256
#define LANES        8
#define PANELS(name) name##_f32
#define PRODUCT      pare_gemm_panels_f32_avx2
#define TOGETHER     1
#define reals_load   _mm256_loadu_ps
#define reals_store  _mm256_storeu_ps
#define reals_all    _mm256_set1_ps
#define reals_add    _mm256_add_ps
#define reals_fma    _mm256_fmadd_ps
#include "kernels/gemm_panels.h"

#define REAL         double
#define reals        __m256d
#define LANES        4
#define PANELS(name) name##_f64
#define PRODUCT      pare_gemm_panels_f64_avx2
#define TOGETHER     1
#define reals_load   _mm256_loadu_pd
#define reals_store  _mm256_storeu_pd
#define reals_all    _mm256_set1_pd
#define reals_add    _mm256_add_pd
#define reals_fma    _mm256_fmadd_pd
#include "kernels/gemm_panels.h"

#endif
