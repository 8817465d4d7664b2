#include "kernels/x86/avx2_internal.h"

#ifdef __x86_64__

void pare_kernels_init_x86(pare_kernels *k, unsigned cpu)
{
    if (!(cpu & PARE_CPU_AVX2))
        return;
    k->cvt_f16_f32 = pare_cvt_f16_f32_avx2;
    k->cvt_bf16_f32 = pare_cvt_bf16_f32_avx2;
    k->cvt_f32_f16 = pare_cvt_f32_f16_avx2;
    k->cvt_f32_bf16 = pare_cvt_f32_bf16_avx2;
    k->gemm_bf16_bf16 = pare_gemm_bf16_bf16_avx2;
    k->gemm_f32_f32 = pare_gemm_f32_f32_avx2;
    k->gemm_f32_f16 = pare_gemm_f32_f16_avx2;
    k->gemm_f32_bf16 = pare_gemm_f32_bf16_avx2;
    k->gemm_panels_f32 = pare_gemm_panels_f32_avx2;
    k->gemm_panels_f64 = pare_gemm_panels_f64_avx2;
    k->quant_x8 = pare_quant_x8_avx2;
    k->quant_x8_fixed = pare_quant_x8_fixed_avx2;
    k->round_fp8 = pare_round_fp8_avx2;
    k->gemm_x8_q2 = pare_gemm_x8_q2_avx2;
    k->gemm_x8_q3 = pare_gemm_x8_q3_avx2;
    k->gemm_x8_q4 = pare_gemm_x8_q4_avx2;
    k->gemm_x8_q8 = pare_gemm_x8_q8_avx2;
    k->gemm_x8_t2 = pare_gemm_x8_t2_avx2;
    k->gemm_x8_s4 = pare_gemm_x8_s4_avx2;
    k->gemm_x8_s8 = pare_gemm_x8_s8_avx2;
    k->gemm_sparse_f32 = pare_gemm_sparse_f32_avx2;
    k->dequant_f32 = pare_dequant_f32_avx2;
    k->dequant_table = pare_dequant_table_avx2;
    k->dequant_fp8 = pare_dequant_fp8_avx2;
    k->dequant_book = pare_dequant_book_avx2;
    k->dequant_binary = pare_dequant_binary_avx2;
    k->dequant_super = pare_dequant_super_avx2;
    k->dequant_exl3 = pare_dequant_exl3_avx2;
    k->exl3_step = pare_exl3_step_avx2;
    k->gemv_packed = pare_gemv_packed_avx2;
    k->dequant_24 = pare_dequant_24_avx2;
    k->dequant_mask = pare_dequant_mask_avx2;
    k->hadamard_f32 = pare_hadamard_f32_avx2;
    k->mix_f32 = pare_mix_f32_avx2;
    k->kv_decode = pare_kv_decode_avx2;
    k->kv_mix = pare_kv_mix_avx2;
    k->softmax_f32 = pare_softmax_f32_avx2;
    k->silu_f32 = pare_silu_f32_avx2;
    k->silu_back_f32 = pare_silu_back_f32_avx2;
    k->transpose_f32 = pare_transpose_f32_avx2;
    k->range_f32 = pare_range_f32_avx2;
    k->round_codes = pare_round_codes_avx2;
    k->clip_cost = pare_clip_cost_avx2;
    k->error_sums = pare_error_sums_avx2;
    k->couple_codes = pare_couple_codes_avx2;
    k->scale_slope = pare_scale_slope_avx2;
    k->aware_back = pare_aware_back_avx2;
    k->tree_codes = pare_tree_codes_avx2;
    if (cpu & PARE_CPU_AVXVNNI)
        pare_kernels_init_avxvnni(k);
    if (cpu & PARE_CPU_AVX512)
        pare_kernels_init_avx512(k);
    if (cpu & PARE_CPU_AMX)
        pare_kernels_init_amx(k);
}

#endif
