/* BF16 times BF16 by fused multiply-adds (kernels/gemm_bf16_fma.h). FZ takes a result as 0 whose
 * exact value is below 2^-126; the definition asks this of the rounded one. The processor notes
 * that it did so: such a block, which is rare, goes to the reference. */
#include "kernels/arm/neon_internal.h"

#ifdef __aarch64__

#define floats              float32x4_t
#define floats_load         vld1q_f32
#define floats_store        vst1q_f32
#define floats_all          vdupq_n_f32
#define floats_add          vaddq_f32
#define floats_fma(a, b, c) vfmaq_f32(c, a, b)
enum { LANES = 4, VECTORS = 2, TT = 6 };

PARE_INLINE void widen_8(float *to, const uint16_t *from)
{
    const uint16x8_t h = vld1q_u16(from);
    vst1q_u32((uint32_t *)(void *)to, vshll_n_u16(vget_low_u16(h), 16));
    vst1q_u32((uint32_t *)(void *)(to + 4), vshll_high_n_u16(h, 16));
}

PARE_INLINE void widen_rows(float *to, size_t ld, const uint16_t *const row[8])
{
    for (size_t j = 0; j < 32; j++)
        for (size_t i = 0; i < 8; i++) {
            const uint32_t bits = (uint32_t)row[i][j] << 16;
            memcpy(to + j * ld + i, &bits, sizeof bits);
        }
}

#include "kernels/gemm_bf16_fma.h"

static void bf16_region(float *y, size_t ldy, const uint16_t *x, size_t ldx, const uint16_t *w,
                        size_t ldw, size_t m, size_t n, size_t k)
{
    const uint64_t fz = 1u << 24, underflow = 1u << 3;
    uint64_t control, status, noted;
    __asm__ volatile("mrs %0, fpcr" : "=r"(control));
    __asm__ volatile("mrs %0, fpsr" : "=r"(status));
    __asm__ volatile("msr fpsr, %0" ::"r"(status & ~underflow));
    __asm__ volatile("msr fpcr, %0" ::"r"(control | fz));
    bf16_product(y, ldy, x, ldx, w, ldw, m, n, k);
    __asm__ volatile("mrs %0, fpsr" : "=r"(noted)::"memory");
    __asm__ volatile("msr fpcr, %0" ::"r"(control));
    __asm__ volatile("msr fpsr, %0" ::"r"(status));
    if (noted & underflow)
        pare_gemm_bf16_bf16_ref(y, ldy, x, ldx, w, ldw, m, n, k);
}

void pare_gemm_bf16_bf16_neon(float *y, size_t ldy, const uint16_t *x, size_t ldx,
                              const uint16_t *w, size_t ldw, size_t m, size_t n, size_t k)
{
    bf16_products(bf16_region, y, ldy, x, ldx, w, ldw, m, n, k);
}

#endif
