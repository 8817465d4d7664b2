/* BF16 times BF16 by fused multiply-adds (kernels/gemm_bf16_fma.h). */
#include "kernels/x86/avx2_internal.h"

#ifdef __AVX2__

#define floats       __m256
#define floats_load  _mm256_loadu_ps
#define floats_store _mm256_storeu_ps
#define floats_all   _mm256_set1_ps
#define floats_add   _mm256_add_ps
#define floats_fma   _mm256_fmadd_ps
enum { LANES = 8, VECTORS = 2, TT = 3 };
#include "kernels/x86/gemm_bf16_x86.h"

void pare_gemm_bf16_bf16_avx2(float *y, size_t ldy, const uint16_t *x, size_t ldx,
                              const uint16_t *w, size_t ldw, size_t m, size_t n, size_t k)
{
    bf16_products(bf16_region, y, ldy, x, ldx, w, ldw, m, n, k);
}

#endif
