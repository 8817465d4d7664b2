/* The rotation of runtime/hadamard.h in two kernels, in place: butterflies within runs of 2^p
 * values, then the cosine transform across the m runs of a row.
 * Bound: the row once in and out; steps of a run that leave L1 come on top. */
#include "kernels/cuda/device.cuh"

PARE_CUDA_KERNEL(hadamard, PARE_CUDA_BLOCK)
{
    float *const x = a.x + blockIdx.x * a.n;
    for (uint64_t h = 1; h < a.n; h *= 2) {
        for (uint64_t i = threadIdx.x; i < a.n / 2; i += blockDim.x) {
            const uint64_t at = (i & ~(h - 1)) + i; /* i with a bit h that is clear */
            const float one = x[at], other = x[at + h];
            x[at] = one + other;
            x[at + h] = one - other;
        }
        __syncthreads();
    }
    for (uint64_t i = threadIdx.x; i < a.n; i += blockDim.x)
        x[i] *= a.scale;
}

/* A block has PARE_CUDA_MIX columns of a row. */
PARE_CUDA_KERNEL(mix, PARE_CUDA_BLOCK)
{
    __shared__ float old[PARE_MIX_MAX * PARE_CUDA_MIX];
    const uint64_t chunks = (a.n + PARE_CUDA_MIX - 1) / PARE_CUDA_MIX, m = a.m;
    const uint64_t first = blockIdx.x % chunks * PARE_CUDA_MIX;
    const uint32_t j = threadIdx.x % PARE_CUDA_MIX, step = blockDim.x / PARE_CUDA_MIX;
    float *const x = a.x + blockIdx.x / chunks * a.n * m + first + j;
    const bool within = first + j < a.n;
    for (uint32_t d = threadIdx.x / PARE_CUDA_MIX; within && d < m; d += step)
        old[d * PARE_CUDA_MIX + j] = x[d * a.n];
    __syncthreads();
    for (uint32_t b = threadIdx.x / PARE_CUDA_MIX; within && b < m; b += step) {
        float sum = 0;
        for (uint32_t d = 0; d < m; d++)
            sum = fmaf(a.c[b * m + d], old[d * PARE_CUDA_MIX + j], sum);
        x[b * a.n] = sum;
    }
}
