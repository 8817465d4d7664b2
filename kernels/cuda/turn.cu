/* The rotation of runtime/hadamard.h in two kernels, in place: butterflies within runs of 2^p
 * values, then the cosine transform across the m runs of a row. And the one around trellis codes
 * (runtime/linear_exl3.h), whose runs have 16 to 128 values.
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

/* A warp has 128 values of a row, of which each lane has every 32nd: steps that are shorter cross
 * lanes, the others stay in registers. */
PARE_CUDA_KERNEL(exl3_rows, PARE_CUDA_WARPS * 32)
{
    const uint32_t lane = threadIdx.x % 32, width = (uint32_t)a.width, parts = (width + 127) / 128;
    const uint32_t index = (uint32_t)warp_index(), first = index % parts * 128 + lane;
    const uint64_t row = index / parts;
    float v[4];
    if (row >= a.rows)
        return;
#pragma unroll
    for (uint32_t i = 0; i < 4; i++) {
        const uint32_t j = first + 32 * i;
        v[i] = j < width ? a.x[row * a.ldx + j] : 0;
        if (a.before && j < width)
            v[i] *= float_of_f16(a.before[j]);
    }
#pragma unroll
    for (uint32_t h = 1; h < 32; h *= 2)
#pragma unroll
        for (uint32_t i = 0; i < 4 && h < a.span; i++) {
            const float other = __shfl_xor_sync(PARE_CUDA_ALL, v[i], h);
            v[i] = lane & h ? other - v[i] : v[i] + other;
        }
#pragma unroll
    for (uint32_t h = 1; h < 4; h *= 2)
#pragma unroll
        for (uint32_t i = 0; i < 4; i++)
            if (!(i & h) && 32 * h < a.span) {
                const float one = v[i], other = v[i + h];
                v[i] = one + other;
                v[i + h] = one - other;
            }
#pragma unroll
    for (uint32_t i = 0; i < 4; i++) {
        const uint32_t j = first + 32 * i;
        if (j >= width)
            break;
        v[i] *= a.scale;
        a.y[row * a.ldy + j] = a.after ? v[i] * float_of_f16(a.after[j]) : v[i];
    }
}

/* A block has 32 columns of a span of rows. */
PARE_CUDA_KERNEL(exl3_columns, PARE_CUDA_BLOCK)
{
    __shared__ float v[128][32];
    const uint32_t j = threadIdx.x % 32, first = threadIdx.x / 32, step = PARE_CUDA_BLOCK / 32;
    const uint32_t across = ((uint32_t)a.width + 31) / 32, column = blockIdx.x % across * 32 + j;
    const uint64_t r0 = (uint64_t)(blockIdx.x / across) * a.span;
    const bool within = column < a.width;
    float *const x = a.x + r0 * a.ldx + column;
    for (uint32_t r = first; r < a.span; r += step)
        v[r][j] = within ? x[r * a.ldx] : 0;
    for (uint32_t h = 1; h < a.span; h *= 2) {
        __syncthreads();
#pragma unroll 1
        for (uint32_t i = first; i < a.span / 2; i += step) {
            const uint32_t at = (i & ~(h - 1)) + i; /* i with a bit h that is clear */
            const float one = v[at][j], other = v[at + h][j];
            v[at][j] = one + other;
            v[at + h][j] = one - other;
        }
    }
    if (!within) /* the last step left a thread the rows that it writes: a span has 16 or more */
        return;
    const float of_column = float_of_f16(a.column[column]);
    for (uint32_t r = first; r < a.span; r += step)
        x[r * a.ldx] = v[r][j] * a.scale * (float_of_f16(a.row[r0 + r]) * of_column);
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
