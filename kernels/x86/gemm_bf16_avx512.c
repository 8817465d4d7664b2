/* BF16 times BF16 by fused multiply-adds (kernels/gemm_bf16_fma.h). */
#define PARE_VNNI_BITS 512
#include "kernels/x86/vnni_internal.h"

#ifdef PARE_VNNI

#define floats       __m512
#define floats_load  _mm512_loadu_ps
#define floats_store _mm512_storeu_ps
#define floats_all   _mm512_set1_ps
#define floats_add   _mm512_add_ps
#define floats_fma   _mm512_fmadd_ps
enum { LANES = 16, VECTORS = 2, TT = 6 };
#include "kernels/x86/gemm_bf16_x86.h"

void pare_gemm_bf16_bf16_avx512(float *y, size_t ldy, const uint16_t *x, size_t ldx,
                                const uint16_t *w, size_t ldw, size_t m, size_t n, size_t k)
{
    bf16_products(bf16_region, y, ldy, x, ldx, w, ldw, m, n, k);
}

#endif
