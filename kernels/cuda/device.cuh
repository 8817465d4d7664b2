/* kernels/cuda/device.cuh - what the kernels share: numbers, lanes, the exponentials.
 *
 * Floats are added and multiplied in the order of the references, each step rounded: the sources
 * are compiled with --fmad=false, and what is fused there is fused here. */
#ifndef PARE_KERNELS_CUDA_DEVICE
#define PARE_KERNELS_CUDA_DEVICE

#include "kernels/cuda/cuda_blocks.h"

/* Kernel NAME, whose argument is `a`: most threads of a block, and blocks that a processor shall
 * have room for. */
#define PARE_CUDA_KERNEL(name, ...)                                                                \
    extern "C" __global__ void __launch_bounds__(__VA_ARGS__)                                      \
        pare_##name##_cuda(const pare_cuda_##name a)

static constexpr unsigned PARE_CUDA_ALL = 0xffffffffu; /* lanes of a warp */

static __device__ inline float float_of_f16(uint16_t h)
{
    float x;
    asm("cvt.f32.f16 %0, %1;" : "=f"(x) : "h"(h));
    return x;
}

static __device__ inline float float_of_bf16(uint16_t h)
{
    return __uint_as_float((uint32_t)h << 16);
}

static __device__ inline uint16_t f16_of_float(float x)
{
    uint16_t h;
    asm("cvt.rn.f16.f32 %0, %1;" : "=h"(h) : "f"(x));
    return h;
}

static __device__ inline bool is_finite(float x)
{
    return (__float_as_uint(x) & 0x7fffffffu) < 0x7f800000u;
}

/* The first value of the thread in a kernel with a thread per value. */
static __device__ inline uint64_t thread_index()
{
    return (uint64_t)blockIdx.x * blockDim.x + threadIdx.x;
}

/* The row of the warp in a kernel with a warp per row. */
static __device__ inline uint64_t warp_index()
{
    return (uint64_t)blockIdx.x * PARE_CUDA_WARPS + threadIdx.x / 32;
}

/* ((l0+l4)+(l2+l6)) + ((l1+l5)+(l3+l7)) of each 8 lanes, in all of them: a sum of two does not
 * depend on which comes first. */
template <typename T> static __device__ inline T lane_sum(T x)
{
    for (int h = 4; h > 0; h /= 2)
        x += __shfl_xor_sync(PARE_CUDA_ALL, x, h);
    return x;
}

/* The largest of a warp, in all lanes; a NaN is never largest. */
static __device__ inline float warp_largest(float x)
{
    for (int h = 16; h > 0; h /= 2) {
        const float other = __shfl_xor_sync(PARE_CUDA_ALL, x, h);
        x = other > x ? other : x;
    }
    return x;
}

/* e^x of runtime/ops.c. */
static __device__ inline double exp_double(double x)
{
    const double magic = 0x1.8p52;
    x = x < -700.0 ? -700.0 : x;
    x = x > 700.0 ? 700.0 : x;
    const double z = x * 1.4426950408889634, shifted = z + magic, r = z - (shifted - magic);
    double p = 1.0178086009239696e-07;
    p = p * r + 1.3215486790144305e-06;
    p = p * r + 1.5252733804059838e-05;
    p = p * r + 1.5403530393381606e-04;
    p = p * r + 1.3333558146428441e-03;
    p = p * r + 9.618129107628477e-03;
    p = p * r + 5.5504108664821576e-02;
    p = p * r + 2.402265069591007e-01;
    p = p * r + 6.931471805599453e-01;
    p = p * r + 1.0;
    const long long power = (__double_as_longlong(shifted) + 1023) << 52;
    return p * __longlong_as_double(power);
}

/* e(x) of kernels.h. */
static __device__ inline float exp_float(float x)
{
    const float magic = 0x1.8p23f;
    x = x < -87.0f ? -87.0f : x;
    x = x > 87.0f ? 87.0f : x;
    const float shifted = fmaf(x, 1.44269504f, magic), k = shifted - magic;
    const float r = fmaf(k, 2.12194440e-4f, fmaf(k, -0.693359375f, x));
    float p = 1.98412698e-4f;
    p = fmaf(p, r, 1.38888889e-3f);
    p = fmaf(p, r, 8.33333333e-3f);
    p = fmaf(p, r, 4.16666667e-2f);
    p = fmaf(p, r, 1.66666667e-1f);
    p = fmaf(p, r, 0.5f);
    p = fmaf(p, r, 1.0f);
    p = fmaf(p, r, 1.0f);
    return p * __uint_as_float((__float_as_uint(shifted) + 127u) << 23);
}

#endif
