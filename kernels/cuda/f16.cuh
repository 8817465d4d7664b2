/* kernels/cuda/f16.cuh - products of F16 on tensor cores. */
#ifndef PARE_KERNELS_CUDA_F16
#define PARE_KERNELS_CUDA_F16

#include "kernels/cuda/copies.cuh"

/* c += a b: 16 rows of weights, 16 columns, 8 tokens. */
static __device__ inline void mma_f16(float *c, const uint32_t *a, const uint32_t *b)
{
    asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, "
        "{%8, %9}, {%0, %1, %2, %3};"
        : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}

#endif
