#include "kernels/x86/vnni_internal.h"

#ifdef __x86_64__

void pare_kernels_init_avxvnni(pare_kernels *k)
{
    k->gemm_x8_q2 = pare_gemm_x8_q2_avxvnni;
    k->gemm_x8_q3 = pare_gemm_x8_q3_avxvnni;
    k->gemm_x8_q4 = pare_gemm_x8_q4_avxvnni;
    k->gemm_x8_q8 = pare_gemm_x8_q8_avxvnni;
    k->gemm_x8_t2 = pare_gemm_x8_t2_avxvnni;
    k->gemm_x8_s4 = pare_gemm_x8_s4_avxvnni;
    k->gemm_x8_s8 = pare_gemm_x8_s8_avxvnni;
}

void pare_kernels_init_avx512(pare_kernels *k)
{
    k->cvt_f32_bf16 = pare_cvt_f32_bf16_avx512;
    k->gemm_bf16_bf16 = pare_gemm_bf16_bf16_avx512;
    k->gemm_f32_f32 = pare_gemm_f32_f32_avx512;
    k->gemm_f32_f16 = pare_gemm_f32_f16_avx512;
    k->gemm_f32_bf16 = pare_gemm_f32_bf16_avx512;
    k->gemm_panels_f32 = pare_gemm_panels_f32_avx512;
    k->gemm_panels_f64 = pare_gemm_panels_f64_avx512;
    k->gemm_x8_q2 = pare_gemm_x8_q2_avx512;
    k->gemm_x8_q3 = pare_gemm_x8_q3_avx512;
    k->gemm_x8_q4 = pare_gemm_x8_q4_avx512;
    k->gemm_x8_q8 = pare_gemm_x8_q8_avx512;
    k->gemm_x8_t2 = pare_gemm_x8_t2_avx512;
    k->gemm_x8_s4 = pare_gemm_x8_s4_avx512;
    k->gemm_x8_s8 = pare_gemm_x8_s8_avx512;
    k->dequant_exl3 = pare_dequant_exl3_avx512;
    k->exl3_step = pare_exl3_step_avx512;
    k->dequant_24 = pare_dequant_24_avx512;
    k->dequant_mask = pare_dequant_mask_avx512;
    k->gemv_packed = pare_gemv_packed_avx512;
    k->gemv_24 = pare_gemv_24_avx512;
    k->gemv_mask = pare_gemv_mask_avx512;
    k->kv_mix = pare_kv_mix_avx512;
    k->clip_cost = pare_clip_cost_avx512;
    k->scale_slope = pare_scale_slope_avx512;
    k->adamw_step = pare_adamw_step_avx512;
    k->tree_codes = pare_tree_codes_avx512;
}

void pare_kernels_init_amx(pare_kernels *k)
{
    k->gemm_bf16_bf16 = pare_gemm_bf16_bf16_amx;
    k->gemm_x8_q2 = pare_gemm_x8_q2_amx;
    k->gemm_x8_q3 = pare_gemm_x8_q3_amx;
    k->gemm_x8_q4 = pare_gemm_x8_q4_amx;
    k->gemm_x8_q8 = pare_gemm_x8_q8_amx;
    k->gemm_x8_t2 = pare_gemm_x8_t2_amx;
}

#endif
