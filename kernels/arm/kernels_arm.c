#include "kernels/arm/neon_internal.h"

#ifdef __aarch64__

/* One token has no second one to fill half of each product with. */
#define ONE_OR_MORE(name)                                                                          \
    static void name##_i8mm(float *y, size_t ldy, const pare_x8 *x, const pare_panel *w)           \
    {                                                                                              \
        if (x->m == 1)                                                                             \
            pare_##name##_dotprod(y, ldy, x, w);                                                   \
        else                                                                                       \
            pare_##name##_i8mm(y, ldy, x, w);                                                      \
    }

// clang-format off
ONE_OR_MORE(gemm_x8_q2)
ONE_OR_MORE(gemm_x8_q3)
ONE_OR_MORE(gemm_x8_q4)
ONE_OR_MORE(gemm_x8_q8)
ONE_OR_MORE(gemm_x8_t2)
// clang-format on

static void init_neon(pare_kernels *k)
{
    k->cvt_f16_f32 = pare_cvt_f16_f32_neon;
    k->cvt_bf16_f32 = pare_cvt_bf16_f32_neon;
    k->cvt_f32_f16 = pare_cvt_f32_f16_neon;
    k->gemm_x8_q2 = pare_gemm_x8_q2_neon;
    k->gemm_x8_q3 = pare_gemm_x8_q3_neon;
    k->gemm_x8_q4 = pare_gemm_x8_q4_neon;
    k->gemm_x8_q8 = pare_gemm_x8_q8_neon;
    k->gemm_x8_t2 = pare_gemm_x8_t2_neon;
}

static void init_dotprod(pare_kernels *k)
{
    k->gemm_x8_q2 = pare_gemm_x8_q2_dotprod;
    k->gemm_x8_q3 = pare_gemm_x8_q3_dotprod;
    k->gemm_x8_q4 = pare_gemm_x8_q4_dotprod;
    k->gemm_x8_q8 = pare_gemm_x8_q8_dotprod;
    k->gemm_x8_t2 = pare_gemm_x8_t2_dotprod;
}

static void init_i8mm(pare_kernels *k)
{
    k->gemm_x8_q2 = gemm_x8_q2_i8mm;
    k->gemm_x8_q3 = gemm_x8_q3_i8mm;
    k->gemm_x8_q4 = gemm_x8_q4_i8mm;
    k->gemm_x8_q8 = gemm_x8_q8_i8mm;
    k->gemm_x8_t2 = gemm_x8_t2_i8mm;
}

void pare_kernels_init_arm(pare_kernels *k, unsigned cpu)
{
    if (!(cpu & PARE_CPU_NEON))
        return;
    init_neon(k);
    if (!(cpu & PARE_CPU_DOTPROD))
        return;
    init_dotprod(k);
    if (cpu & PARE_CPU_I8MM)
        init_i8mm(k);
}

#endif
