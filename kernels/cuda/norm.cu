/* Norms, and rounding to int8: a warp per row. Sums of squares have eight lanes in double, which
 * each 8 lanes of the warp form again, so that all have the result.
 * Bound: the row twice from the memory, once of it from L1. */
#include "kernels/cuda/device.cuh"

static __device__ double lane_mean(const float *x, uint64_t n)
{
    double sum = 0;
    for (uint64_t i = threadIdx.x % 8; i < n; i += 8)
        sum += (double)x[i];
    return lane_sum(sum) / (double)n;
}

/* 1 / sqrt(mean of (x - mean)^2 + eps) */
static __device__ float inverse_deviation(const float *x, uint64_t n, double mean, double eps)
{
    double sum = 0;
    for (uint64_t i = threadIdx.x % 8; i < n; i += 8)
        sum += ((double)x[i] - mean) * ((double)x[i] - mean);
    return (float)(1.0 / sqrt(lane_sum(sum) / (double)n + eps));
}

PARE_CUDA_KERNEL(norm, PARE_CUDA_WARPS * 32)
{
    const uint64_t row = warp_index();
    if (row >= a.rows)
        return;
    const float *const x = a.x + row * a.width;
    float *const y = a.y + row * a.width;
    const double mean = a.layer ? lane_mean(x, a.width) : 0;
    const float s = inverse_deviation(x, a.width, mean, a.eps);
    const float m = (float)mean;
    __syncwarp(); /* y may be x */
    for (uint64_t i = threadIdx.x % 32; i < a.width; i += 32) {
        const float value = a.w[i] * ((a.layer ? x[i] - m : x[i]) * s);
        y[i] = a.bias ? value + a.bias[i] : value;
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
