/* kernels/cuda/f16.cuh - F16 operands of tensor cores: copies to shared memory, fragments,
 * products. */
#ifndef PARE_KERNELS_CUDA_F16
#define PARE_KERNELS_CUDA_F16

#include "kernels/cuda/device.cuh"

/* 16 bytes to shared memory, of which the first `bytes` come from `from`, the others are 0. */
static __device__ inline void copy16(uint32_t to, const void *from, uint32_t bytes)
{
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(to), "l"(from), "r"(bytes));
}

/* Copies since the last commit are a group; the wait is over when LEFT groups are under way. */
static __device__ inline void commit_copies()
{
    asm volatile("cp.async.commit_group;");
}

template <int LEFT> static __device__ inline void wait_copies()
{
    asm volatile("cp.async.wait_group %0;" ::"n"(LEFT) : "memory");
}

/* Four 8 x 8 matrices, of which lanes 8 i .. 8 i + 7 name the rows of matrix i. */
static __device__ inline void load_matrices(uint32_t *to, uint32_t row)
{
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
                 : "r"(row)
                 : "memory");
}

/* c += a b: 16 rows of weights, 16 columns, 8 tokens. */
static __device__ inline void mma_f16(float *c, const uint32_t *a, const uint32_t *b)
{
    asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, "
        "{%8, %9}, {%0, %1, %2, %3};"
        : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}

#endif
