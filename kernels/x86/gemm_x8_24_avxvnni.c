#define PARE_VNNI_BITS 256
#include "kernels/x86/gemm_x8_24_vnni.h"

#ifdef PARE_VNNI

/* One token is a matter of memory, not of products. */
void pare_gemm_x8_s4_avxvnni(float *y, size_t ldy, const pare_x8 *x, const pare_panel *w)
{
    static tile_fn *const fn[NT] = TILE_TABLE(4);
    if (x->m == 1)
        pare_gemm_x8_s4_avx2(y, ldy, x, w);
    else
        gemm_24(y, ldy, x, w, 4, fn, few_s4);
}

void pare_gemm_x8_s8_avxvnni(float *y, size_t ldy, const pare_x8 *x, const pare_panel *w)
{
    static tile_fn *const fn[NT] = TILE_TABLE(8);
    if (x->m == 1)
        pare_gemm_x8_s8_avx2(y, ldy, x, w);
    else
        gemm_24(y, ldy, x, w, 8, fn, few_s8);
}

#endif
