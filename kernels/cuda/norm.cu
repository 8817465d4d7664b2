/* Norms, a block of threads per row, and rounding to int8, a warp per row. Sums have eight lanes in
 * double, as the reference: the threads of the block make the terms, eight of them add, one term
 * behind the other, while no load is waited for.
 * Bound: n / 8 additions in double, 8 cycles each; for many rows the row twice from the memory. */
#include "kernels/cuda/device.cuh"

static constexpr uint32_t PIECE = 2048; /* terms in shared memory */
static constexpr uint32_t AHEAD = 4;    /* weights of a thread that are fetched before */

/* The mean of x, or of (x - mean)^2, in all threads. */
static __device__ double mean_of(const float *x, uint64_t n, bool squares, double mean)
{
    __shared__ double term[PIECE], result;
    double sum = 0;
    for (uint64_t first = 0; first < n; first += PIECE) {
        const uint32_t count = (uint32_t)min(n - first, (uint64_t)PIECE);
        __syncthreads(); /* nobody reads what is overwritten */
        for (uint32_t i = threadIdx.x; i < count; i += blockDim.x) {
            const double value = (double)x[first + i] - mean;
            term[i] = squares ? value * value : value;
        }
        __syncthreads();
        if (threadIdx.x < 32)
#pragma unroll 16
            for (uint32_t i = threadIdx.x % 8; i < count; i += 8)
                sum += term[i];
    }
    if (threadIdx.x < 32) {
        sum = lane_sum(sum);
        result = sum / (double)n;
    }
    __syncthreads();
    return result;
}

PARE_CUDA_KERNEL(norm, PARE_CUDA_WIDE)
{
    const float *const x = a.x + blockIdx.x * a.width;
    float *const y = a.y + blockIdx.x * a.width;
    float w[AHEAD]; /* of the first values of the thread, while the sums go on */
#pragma unroll
    for (uint32_t j = 0; j < AHEAD; j++)
        w[j] = threadIdx.x + j * blockDim.x < a.width ? a.w[threadIdx.x + j * blockDim.x] : 0;
    const double mean = a.layer ? mean_of(x, a.width, false, 0) : 0;
    const float s = (float)(1.0 / sqrt(mean_of(x, a.width, true, mean) + a.eps));
    const float m = (float)mean;
    for (uint64_t i = threadIdx.x; i < a.width; i += AHEAD * blockDim.x)
#pragma unroll
        for (uint32_t j = 0; j < AHEAD; j++) {
            const uint64_t at = i + j * blockDim.x;
            if (at >= a.width)
                break;
            const float by = i == threadIdx.x ? w[j] : a.w[at];
            const float value = by * ((a.layer ? x[at] - m : x[at]) * s);
            y[at] = a.bias ? value + a.bias[at] : value; /* y may be x */
        }
}

PARE_CUDA_KERNEL(round, PARE_CUDA_WARPS * 32)
{
    const uint64_t row = warp_index();
    if (row >= a.rows)
        return;
    float *const x = a.x + row * a.width;
    float most = 1e-5f;
    for (uint64_t i = threadIdx.x % 32; i < a.width; i += 32)
        most = fabsf(x[i]) > most ? fabsf(x[i]) : most;
    const float scale = 127.0f / warp_largest(most);
    for (uint64_t i = threadIdx.x % 32; i < a.width; i += 32)
        x[i] = rintf(x[i] * scale) / scale;
}
