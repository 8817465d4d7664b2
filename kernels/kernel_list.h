/* kernels/kernel_list.h - one row per kernel: drives the table, the reference defaults, the kernel
 * test and the benchmark. X(name, return type, (parameters), comparison class)
 *
 * EXACT: the same bytes on every CPU, by construction: sums have a fixed order and every
 * multiply-add is one fused operation, in the reference (fmaf) as in the vector versions; those of
 * clip_cost, error_sums and the kernels of optimizer.h and refine_steps.h are two. */
#ifndef PARE_KERNELS_KERNEL_LIST_H
#define PARE_KERNELS_KERNEL_LIST_H

// clang-format off
#define PARE_KERNEL_LIST(X)                                                                        \
    X(cvt_f16_f32,  void, (float *dst, const uint16_t *src, size_t n), EXACT)                      \
    X(cvt_bf16_f32, void, (float *dst, const uint16_t *src, size_t n), EXACT)                      \
    X(cvt_f32_f16,  void, (uint16_t *dst, const float *src, size_t n), EXACT)                      \
    X(cvt_f32_bf16, void, (uint16_t *dst, const float *src, size_t n), EXACT)                      \
    X(gemm_f32_f32,  void, (float *y, size_t ldy, const float *x, size_t ldx, const float *w,      \
                            size_t ldw, size_t m, size_t n, size_t k), EXACT)                      \
    X(gemm_f32_f16,  void, (float *y, size_t ldy, const float *x, size_t ldx, const uint16_t *w,   \
                            size_t ldw, size_t m, size_t n, size_t k), EXACT)                      \
    X(gemm_f32_bf16, void, (float *y, size_t ldy, const float *x, size_t ldx, const uint16_t *w,   \
                            size_t ldw, size_t m, size_t n, size_t k), EXACT)                      \
    X(gemm_bf16_bf16, void, (float *y, size_t ldy, const uint16_t *x, size_t ldx,                  \
                             const uint16_t *w, size_t ldw, size_t m, size_t n, size_t k), EXACT)  \
    X(gemm_panels_f32, void, (float *c, size_t ldc, const float *a, const float *b, size_t m,      \
                              size_t n, size_t k), EXACT)                                          \
    X(gemm_panels_f64, void, (double *c, size_t ldc, const double *a, const double *b, size_t m,   \
                              size_t n, size_t k), EXACT)                                          \
    X(quant_x8, void, (int8_t *codes, float *scales, int32_t *sums, const float *x, size_t k,      \
                       size_t group, size_t span, int32_t top), EXACT)                             \
    X(quant_x8_fixed, void, (int8_t *codes, float *scales, int32_t *sums, const float *x,          \
                             size_t k, size_t group, float step, int32_t top), EXACT)              \
    X(round_fp8, void, (float *dst, const float *x, size_t n), EXACT)                              \
    X(gemm_x8_q2, void, (float *y, size_t ldy, const pare_x8 *x, const pare_panel *w), EXACT)      \
    X(gemm_x8_q3, void, (float *y, size_t ldy, const pare_x8 *x, const pare_panel *w), EXACT)      \
    X(gemm_x8_q4, void, (float *y, size_t ldy, const pare_x8 *x, const pare_panel *w), EXACT)      \
    X(gemm_x8_q8, void, (float *y, size_t ldy, const pare_x8 *x, const pare_panel *w), EXACT)      \
    X(gemm_x8_t2, void, (float *y, size_t ldy, const pare_x8 *x, const pare_panel *w), EXACT)      \
    X(gemm_x8_s4, void, (float *y, size_t ldy, const pare_x8 *x, const pare_panel *w), EXACT)      \
    X(gemm_x8_s8, void, (float *y, size_t ldy, const pare_x8 *x, const pare_panel *w), EXACT)      \
    X(gemm_sparse_f32, void, (float *y, size_t ldy, const float *x, size_t ldx,                    \
                              const uint32_t *start, const uint32_t *column,                       \
                              const uint16_t *value, size_t m, size_t n), EXACT)                   \
    X(dequant_f32, void, (float *dst, size_t ldd, const pare_panel *w, unsigned bits), EXACT)      \
    X(dequant_table, void, (float *dst, size_t ldd, const pare_panel *w, unsigned bits,            \
                            const float *level), EXACT)                                            \
    X(dequant_fp8, void, (float *dst, size_t ldd, const pare_panel *w), EXACT)                     \
    X(dequant_book, void, (float *dst, size_t ldd, const pare_panel *w, unsigned bits), EXACT)     \
    X(dequant_binary, void, (float *dst, size_t ldd, const pare_panel *w), EXACT)                  \
    X(dequant_super, void, (float *dst, size_t ldd, const pare_panel *w, unsigned bits), EXACT)    \
    X(dequant_exl3, void, (float *dst, size_t ldd, const pare_panel *w, unsigned bits), EXACT)     \
    X(exl3_step, void, (float *after, uint8_t *from, const float *before, const float *value,      \
                        float x, unsigned bits), EXACT)                                            \
    X(dequant_24, void, (float *dst, size_t ldd, const pare_panel *w, unsigned bits), EXACT)       \
    X(dequant_mask, void, (float *dst, size_t ldd, const pare_mask *w), EXACT)                     \
    X(hadamard_f32, void, (float *x, size_t n, float scale), EXACT)                                \
    X(mix_f32,      void, (float *x, size_t n, const float *c, size_t m), EXACT)                   \
    X(kv_decode, void, (float *dst, size_t ldd, const pare_kv_tile *src, size_t n, size_t d),      \
      EXACT)                                                                                       \
    X(kv_mix, void, (float *y, size_t ldy, const float *p, size_t ldp, const float *v, size_t ldv, \
                     size_t m, size_t n, size_t d), EXACT)                                         \
    X(gemv_packed, void, (float *y, const float *x, size_t k, const pare_panel *w,                 \
                          pare_decoding how, unsigned bits, const float *level), EXACT)   \
    X(gemv_24, void, (float *y, const float *x, size_t k, const pare_panel *w), EXACT)             \
    X(gemv_mask, void, (float *y, const float *x, const pare_mask *w), EXACT)                      \
    X(softmax_f32, float, (float *x, size_t n, float scale, float *max, double *total), EXACT)     \
    X(silu_f32, void, (float *y, const float *up, size_t n), EXACT)                                \
    X(silu_back_f32, void, (float *dgate, float *dup, const float *d, const float *gate,           \
                            const float *up, size_t n), EXACT)                                     \
    X(transpose_f32, void, (float *dst, size_t ldd, const float *src, size_t lds, size_t m,        \
                            size_t n), EXACT)                                                      \
    X(range_f32, bool, (const float *x, size_t n, float *lo, float *hi), EXACT)                    \
    X(round_codes, void, (uint8_t *codes, const float *x, size_t n, float scale, uint8_t zero,     \
                          unsigned bits), EXACT)                                                   \
    X(clip_cost, double, (const float *w, const float *weight, size_t n, float scale,              \
                          uint8_t zero, unsigned bits, float range, double enough), EXACT)         \
    X(error_sums, pare_error_sum, (const float *w, const float *q, const float *whole, size_t n),  \
      EXACT)                                                                                       \
    X(couple_codes, void, (const pare_couple *strip, size_t strips, size_t column, const float *h, \
                          size_t n, float top), EXACT)                                             \
    X(scale_slope, pare_slope, (const double *g, const float *c, const float *p, const float *o,   \
                                size_t r, size_t n), EXACT)                                        \
    X(adamw_step, void, (float *w, float *g, float *m, float *v, size_t n,                         \
                         const pare_adamw_move *by), EXACT)                                        \
    X(aware_back, void, (float *step, float *g, const pare_aware_groups *of, size_t groups,        \
                         size_t width), EXACT)                                                     \
    X(tree_codes, void, (uint8_t *codes, const float *x, size_t n, float scale,                    \
                         const float *tree), EXACT)
// clang-format on

#endif
