/* A processor that has all levels of x86: kernels of AVX-VNNI, AVX-512 and AMX are compiled
 * with emulated.h, those of AVX2 are references. kernels.c is compiled without its own detection.
 */
#include "kernels/x86/vnni_internal.h"

unsigned pare_cpu_detect(void)
{
    return PARE_CPU_AVX2 | PARE_CPU_AVXVNNI | PARE_CPU_AVX512 | PARE_CPU_AMX;
}

void pare_kernels_init_x86(pare_kernels *k, unsigned cpu)
{
    if (cpu & PARE_CPU_AVXVNNI)
        pare_kernels_init_avxvnni(k);
    if (cpu & PARE_CPU_AVX512)
        pare_kernels_init_avx512(k);
    if (cpu & PARE_CPU_AMX)
        pare_kernels_init_amx(k);
}

/* What the kernels leave to AVX2. */
void pare_gemm_f32_f32_avx2(float *y, size_t ldy, const float *x, size_t ldx, const float *w,
                            size_t ldw, size_t m, size_t n, size_t k)
{
    pare_gemm_f32_f32_ref(y, ldy, x, ldx, w, ldw, m, n, k);
}

void pare_gemm_f32_f16_avx2(float *y, size_t ldy, const float *x, size_t ldx, const uint16_t *w,
                            size_t ldw, size_t m, size_t n, size_t k)
{
    pare_gemm_f32_f16_ref(y, ldy, x, ldx, w, ldw, m, n, k);
}

void pare_gemm_f32_bf16_avx2(float *y, size_t ldy, const float *x, size_t ldx, const uint16_t *w,
                             size_t ldw, size_t m, size_t n, size_t k)
{
    pare_gemm_f32_bf16_ref(y, ldy, x, ldx, w, ldw, m, n, k);
}

void pare_gemm_x8_s4_avx2(float *y, size_t ldy, const pare_x8 *x, const pare_panel *w)
{
    pare_gemm_x8_s4_ref(y, ldy, x, w);
}

void pare_gemm_x8_s8_avx2(float *y, size_t ldy, const pare_x8 *x, const pare_panel *w)
{
    pare_gemm_x8_s8_ref(y, ldy, x, w);
}

void pare_gemv_packed_avx2(float *y, const float *x, size_t k, const pare_panel *w,
                           pare_decoding how, unsigned bits, const float *level)
{
    pare_gemv_packed_ref(y, x, k, w, how, bits, level);
}

void pare_dequant_24_avx2(float *dst, size_t ldd, const pare_panel *w, unsigned bits)
{
    pare_dequant_24_ref(dst, ldd, w, bits);
}
