/* kernels/cuda/copies.cuh - copies to shared memory that go on beside other work, and fragments
 * from there. */
#ifndef PARE_KERNELS_CUDA_COPIES
#define PARE_KERNELS_CUDA_COPIES

#include "kernels/cuda/device.cuh"

static __device__ inline uint32_t shared_at(const void *p)
{
    return (uint32_t)__cvta_generic_to_shared(p);
}

/* 16 bytes to shared memory, of which the first `bytes` come from `from`, the others are 0. */
static __device__ inline void copy16(uint32_t to, const void *from, uint32_t bytes)
{
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(to), "l"(from), "r"(bytes)
                 : "memory");
}

/* 4, 8 or 16 bytes. */
template <int BYTES> static __device__ inline void copy_bytes(uint32_t to, const void *from)
{
    if (BYTES == 16)
        asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(to), "l"(from) : "memory");
    else
        asm volatile("cp.async.ca.shared.global [%0], [%1], %2;" ::"r"(to), "l"(from), "n"(BYTES)
                     : "memory");
}

/* Copies since the last commit are a group; the wait is over when LEFT groups are under way. */
static __device__ inline void commit_copies()
{
    asm volatile("cp.async.commit_group;" ::: "memory");
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

#endif
