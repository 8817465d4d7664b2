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
    k->cvt_f32_bf16 = pare_cvt_f32_bf16_neon;
    k->gemm_bf16_bf16 = pare_gemm_bf16_bf16_neon;
    k->gemm_f32_f32 = pare_gemm_f32_f32_neon;
    k->gemm_f32_f16 = pare_gemm_f32_f16_neon;
    k->gemm_f32_bf16 = pare_gemm_f32_bf16_neon;
    k->gemm_panels_f32 = pare_gemm_panels_f32_neon;
    k->gemm_panels_f64 = pare_gemm_panels_f64_neon;
    k->quant_x8 = pare_quant_x8_neon;
    k->quant_x8_fixed = pare_quant_x8_fixed_neon;
    k->round_fp8 = pare_round_fp8_neon;
    k->gemm_x8_q2 = pare_gemm_x8_q2_neon;
    k->gemm_x8_q3 = pare_gemm_x8_q3_neon;
    k->gemm_x8_q4 = pare_gemm_x8_q4_neon;
    k->gemm_x8_q8 = pare_gemm_x8_q8_neon;
    k->gemm_x8_t2 = pare_gemm_x8_t2_neon;
    k->gemm_x8_s4 = pare_gemm_x8_s4_neon;
    k->gemm_x8_s8 = pare_gemm_x8_s8_neon;
    k->gemm_sparse_f32 = pare_gemm_sparse_f32_neon;
    k->dequant_f32 = pare_dequant_f32_neon;
    k->dequant_table = pare_dequant_table_neon;
    k->dequant_fp8 = pare_dequant_fp8_neon;
    k->dequant_book = pare_dequant_book_neon;
    k->dequant_binary = pare_dequant_binary_neon;
    k->dequant_exl3 = pare_dequant_exl3_neon;
    k->exl3_step = pare_exl3_step_neon;
    k->dequant_24 = pare_dequant_24_neon;
    k->dequant_mask = pare_dequant_mask_neon;
    k->hadamard_f32 = pare_hadamard_f32_neon;
    k->mix_f32 = pare_mix_f32_neon;
    k->kv_decode = pare_kv_decode_neon;
    k->kv_mix = pare_kv_mix_neon;
    k->gemv_packed = pare_gemv_packed_neon;
    k->softmax_f32 = pare_softmax_f32_neon;
    k->silu_f32 = pare_silu_f32_neon;
    k->silu_back_f32 = pare_silu_back_f32_neon;
    k->transpose_f32 = pare_transpose_f32_neon;
}

static void init_dotprod(pare_kernels *k)
{
    k->gemm_x8_q2 = pare_gemm_x8_q2_dotprod;
    k->gemm_x8_q3 = pare_gemm_x8_q3_dotprod;
    k->gemm_x8_q4 = pare_gemm_x8_q4_dotprod;
    k->gemm_x8_q8 = pare_gemm_x8_q8_dotprod;
    k->gemm_x8_t2 = pare_gemm_x8_t2_dotprod;
    k->gemm_x8_s4 = pare_gemm_x8_s4_dotprod;
    k->gemm_x8_s8 = pare_gemm_x8_s8_dotprod;
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
