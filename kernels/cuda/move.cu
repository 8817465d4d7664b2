/* Rows that are fetched, moved and added: a block per row, a thread per value of a sum.
 * Bound: bytes in and out over the bandwidth of the memory. */
#include "kernels/cuda/device.cuh"

static __device__ float value_at(const void *w, uint32_t type, uint64_t i)
{
    if (type == PARE_CUDA_F16)
        return float_of_f16(((const uint16_t *)w)[i]);
    if (type == PARE_CUDA_BF16)
        return float_of_bf16(((const uint16_t *)w)[i]);
    return ((const float *)w)[i];
}

PARE_CUDA_KERNEL(embed, PARE_CUDA_BLOCK)
{
    const uint64_t row = blockIdx.x, from = (uint64_t)a.tokens[row] * a.width;
    const uint64_t position = (a.first + row % a.length) * a.width;
    for (uint64_t j = threadIdx.x; j < a.width; j += blockDim.x) {
        float x = value_at(a.w, a.type, from + j);
        if (a.scale > 0)
            x *= a.scale;
        if (a.positions)
            x += value_at(a.positions, a.positions_type, position + j);
        a.y[row * a.width + j] = x;
    }
}

PARE_CUDA_KERNEL(rows, PARE_CUDA_BLOCK)
{
    const uint64_t to = blockIdx.x * a.width, from = a.row[blockIdx.x * a.step] * a.width;
    for (uint64_t j = threadIdx.x; j < a.width; j += blockDim.x)
        a.y[to + j] = a.x[from + j];
}

PARE_CUDA_KERNEL(scatter, PARE_CUDA_BLOCK)
{
    const pare_cuda_visit visit = a.visit[blockIdx.x];
    const uint64_t from = blockIdx.x * a.width, to = visit.row * a.width;
    for (uint64_t j = threadIdx.x; j < a.width; j += blockDim.x)
        a.y[to + j] = fmaf(visit.weight, a.x[from + j], a.y[to + j]);
}

PARE_CUDA_KERNEL(share, PARE_CUDA_BLOCK)
{
    const uint64_t row = blockIdx.x * a.width;
    const float share = (float)(1.0 / (1.0 + exp_double(-(double)a.gate[blockIdx.x])));
    for (uint64_t j = threadIdx.x; j < a.width; j += blockDim.x)
        a.y[row + j] = a.x[row + j] * share;
}

PARE_CUDA_KERNEL(columns, PARE_CUDA_BLOCK)
{
    const uint64_t row = blockIdx.x;
    for (uint64_t c = threadIdx.x; c < a.count; c += blockDim.x)
        a.y[row * a.count + c] = a.x[row * a.ldx + a.column[c]];
}

PARE_CUDA_KERNEL(bias, PARE_CUDA_BLOCK)
{
    const uint64_t row = blockIdx.x * a.width;
    for (uint64_t j = threadIdx.x; j < a.width; j += blockDim.x)
        a.y[row + j] += a.bias[j];
}

PARE_CUDA_KERNEL(add, PARE_CUDA_BLOCK)
{
    const uint64_t i = thread_index();
    if (i < a.n)
        a.y[i] = a.b[i] + a.a[i];
}
