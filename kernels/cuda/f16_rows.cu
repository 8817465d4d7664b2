/* Rows of numbers as F16 for tensor cores, a block per row, which it reads twice: x = scale y with
 * |y| < 2^15 and the power of two that makes the largest one at least 2^14. So nothing overflows,
 * and |x - scale y| <= 2^-11 |x| + 2^-39 max |x|; numbers of BF16 keep all their bits unless they
 * are 2^25 times smaller than the largest. A row with infinity or NaN keeps these.
 * Bound: the row once from the memory and once from L1 or L2, half of it or all of it out. */
#include "kernels/cuda/device.cuh"

template <uint32_t TYPE> static __device__ float number(const void *x, uint64_t i)
{
    return TYPE == PARE_CUDA_F32   ? ((const float *)x)[i]
           : TYPE == PARE_CUDA_F16 ? float_of_f16(((const uint16_t *)x)[i])
                                   : float_of_bf16(((const uint16_t *)x)[i]);
}

/* Bits of the largest absolute value of a row, in all threads; those of a NaN are above all. */
template <uint32_t TYPE>
static __device__ uint32_t largest(const void *x, uint64_t first, uint64_t k)
{
    __shared__ uint32_t of_warp[PARE_CUDA_WIDE / 32];
    uint32_t most = 0;
#pragma unroll 8
    for (uint64_t i = threadIdx.x; i < k; i += blockDim.x)
        most = max(most, __float_as_uint(number<TYPE>(x, first + i)) & 0x7fffffffu);
    for (int h = 16; h > 0; h /= 2)
        most = max(most, __shfl_xor_sync(PARE_CUDA_ALL, most, h));
    if (threadIdx.x % 32 == 0)
        of_warp[threadIdx.x / 32] = most;
    __syncthreads();
    for (uint32_t i = 0; i < blockDim.x / 32; i++)
        most = max(most, of_warp[i]);
    return most;
}

/* Two values per thread, which are one word. */
template <uint32_t TYPE> static __device__ void run(const pare_cuda_f16_rows &a)
{
    const uint64_t row = blockIdx.x, first = row * a.ldx;
    const uint32_t exponent = largest<TYPE>(a.x, first, a.k) >> 23;
    const uint32_t up = exponent < 15 ? 253 : 268 - exponent; /* 2^(up - 127) is the factor */
    const float factor = __uint_as_float(up << 23);
    uint32_t *const y = (uint32_t *)(a.y + row * a.ldy);
#pragma unroll 4
    for (uint64_t i = 2 * threadIdx.x; i < a.ldy; i += 2 * blockDim.x) {
        const float low = i < a.k ? number<TYPE>(a.x, first + i) : 0.0f;
        const float high = i + 1 < a.k ? number<TYPE>(a.x, first + i + 1) : 0.0f;
        y[i / 2] = f16_of_float(low * factor) | (uint32_t)f16_of_float(high * factor) << 16;
    }
    if (threadIdx.x == 0)
        a.scale[row] = __uint_as_float((254 - up) << 23);
}

PARE_CUDA_KERNEL(f16_rows, PARE_CUDA_WIDE)
{
    if (a.type == PARE_CUDA_F32)
        run<PARE_CUDA_F32>(a);
    else if (a.type == PARE_CUDA_F16)
        run<PARE_CUDA_F16>(a);
    else
        run<PARE_CUDA_BF16>(a);
}
