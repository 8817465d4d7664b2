/* Register tiles of 12 x 2 vectors: two panels of each factor. */
#define PARE_VNNI_BITS 512
#include "kernels/x86/vnni_internal.h"

#ifdef PARE_VNNI

#define REAL         float
#define reals        __m512
#define LANES        16
#define PANELS(name) name##_f32
#define PRODUCT      pare_gemm_panels_f32_avx512
#define TOGETHER     2
#define reals_load   _mm512_loadu_ps
#define reals_store  _mm512_storeu_ps
#define reals_all    _mm512_set1_ps
#define reals_add    _mm512_add_ps
#define reals_fma    _mm512_fmadd_ps
#include "kernels/gemm_panels.h"

#define REAL         double
#define reals        __m512d
#define LANES        8
#define PANELS(name) name##_f64
#define PRODUCT      pare_gemm_panels_f64_avx512
#define TOGETHER     2
#define reals_load   _mm512_loadu_pd
#define reals_store  _mm512_storeu_pd
#define reals_all    _mm512_set1_pd
#define reals_add    _mm512_add_pd
#define reals_fma    _mm512_fmadd_pd
#include "kernels/gemm_panels.h"

#endif
