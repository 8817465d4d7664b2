// clang-format off
/* kernels/cuda/cuda_exl3.h - rows of cuda_list.h for trellis codes (kernels/exl3.h), whose tiles are
 * whole: w.n and w.k are multiples of 16.
 *
 * exl3_rows  y = scale H (before x) after, H the butterflies of hadamard_f32 in spans of 16 to 128
 *            values of a row, a power of two that divides the width; before, after: F16 [width] or
 *            NULL; y may be x
 * exl3_columns
 *            x = scale (H x) (row column) in spans of rows, which divide `rows`
 * dequant_exl3, dequant_exl3_f16
 *            rows of a panel as F32; as F16, ldd even
 * gemm_f32_exl3
 *            as the others of codes
 * gemm_f16_exl3
 *            as gemm_f16_q4, for up to 64 tokens */
// clang-format on
#ifndef PARE_KERNELS_CUDA_EXL3_H
#define PARE_KERNELS_CUDA_EXL3_H

// clang-format off
#define PARE__CUDA_EXL3(X)                                                                         \
    X(exl3_rows, const float *x; const uint16_t *before, *after; float *y;                         \
                 uint64_t ldx, ldy, rows, width; uint32_t span; float scale;)                      \
    X(exl3_columns, float *x; const uint16_t *row, *column;                                        \
                    uint64_t ldx, rows, width; uint32_t span; float scale;)                        \
    X(dequant_exl3, PARE__CUDA_DEQUANT)                                                            \
    X(dequant_exl3_f16, uint16_t *dst; uint64_t ldd; pare_panel w; uint32_t bits;)                 \
    X(gemm_f32_exl3, PARE__CUDA_CODES)                                                             \
    X(gemm_f16_exl3, PARE__CUDA_GEMM_F16 uint32_t bits;)
// clang-format on

#endif
