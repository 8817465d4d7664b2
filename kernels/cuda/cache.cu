/* Rotations by position, and tokens on their way into a cache: a block per row of a batch.
 * Bound: bytes in and out over the bandwidth of the memory. */
#include "kernels/cuda/device.cuh"

PARE_CUDA_KERNEL(rope, PARE_CUDA_BLOCK)
{
    const uint32_t row = blockIdx.x;
    const uint64_t position = a.start + row % (uint32_t)a.length;
    const float *const cosine = a.cosine + position * a.half;
    const float *const sine = a.sine + position * a.half;
    const uint32_t half = (uint32_t)a.half;
    for (uint32_t i = threadIdx.x; i < (uint32_t)a.heads * half; i += blockDim.x) {
        const uint32_t head = i / half, j = i % half;
        float *const x = a.x + ((uint64_t)row * a.heads + head) * a.head_dim + j;
        const float one = x[0], other = x[half];
        x[0] = one * cosine[j] - other * sine[j];
        x[half] = other * cosine[j] + one * sine[j];
    }
}

/* Keys lie transposed in blocks of positions (pare_kv). */
PARE_CUDA_KERNEL(kv_put, PARE_CUDA_BLOCK)
{
    const uint32_t row = blockIdx.x, d = (uint32_t)a.b.head_dim, length = (uint32_t)a.b.length;
    const uint32_t width = (uint32_t)a.b.kv_heads * d;
    const uint64_t position = a.b.start + row % length;
    const uint64_t first = position / PARE_CUDA_KV * PARE_CUDA_KV;
    const uint64_t room = (a.kv.capacity + PARE_CUDA_KV - 1) / PARE_CUDA_KV * PARE_CUDA_KV;
    for (uint32_t i = threadIdx.x; i < width; i += blockDim.x) {
        const uint64_t plane = row / length * a.b.kv_heads + i / d, j = i % d;
        a.kv.keys[(plane * room + first) * d + j * PARE_CUDA_KV + position - first] =
            a.b.k[(uint64_t)row * width + i];
        a.kv.values[(plane * a.kv.capacity + position) * d + j] = a.b.v[(uint64_t)row * width + i];
    }
}

PARE_CUDA_KERNEL(kv_round, PARE_CUDA_BLOCK)
{
    const uint64_t i = thread_index();
    if (i < a.n)
        a.x[i] = float_of_f16(f16_of_float(a.x[i]));
}

PARE_CUDA_KERNEL(kv_keep, PARE_CUDA_BLOCK)
{
    const uint64_t plane = blockIdx.x / a.count, token = a.first + blockIdx.x % a.count;
    const uint64_t row = plane / a.kv_heads * a.length + token - a.start, d = a.head_dim;
    const float *const x = a.x + (row * a.kv_heads + plane % a.kv_heads) * d;
    uint16_t *const dst = a.dst + (plane * a.slots + token % a.slots) * d;
    for (uint64_t j = threadIdx.x; j < d; j += blockDim.x)
        dst[j] = f16_of_float(x[j]);
}
