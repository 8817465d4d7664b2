/* Products of floats in the order of gemm_f32. For up to 4 tokens 8 lanes form one row of w times
 * them, lane l taking the columns l, l + 8, ..; more tokens go to tiles.
 * Bound: bytes of the weights over the bandwidth of the memory. */
#include "kernels/cuda/gemm_f32_tile.cuh"

/* Tokens behind the last one are its copies. */
template <class TYPE, int TOKENS, class ARGUMENT>
static __device__ void run(const ARGUMENT &a, uint64_t row)
{
    constexpr int AHEAD = TOKENS < 4 ? 16 : 8; /* loads of weights that are under way together */
    const uint32_t lane = threadIdx.x % 8;
    const auto *const w = a.w + (row < a.n ? row : a.n - 1) * a.ldw;
    const float *x[TOKENS];
    float sum[TOKENS];
#pragma unroll
    for (int t = 0; t < TOKENS; t++) {
        x[t] = a.x + (t < a.m ? t : a.m - 1) * a.ldx;
        sum[t] = 0;
    }
    uint64_t j = lane;
    for (; j + (AHEAD - 1) * 8 < a.k; j += AHEAD * 8) {
        float value[AHEAD];
#pragma unroll
        for (int i = 0; i < AHEAD; i++)
            value[i] = TYPE::at(w[j + 8 * i]);
#pragma unroll
        for (int i = 0; i < AHEAD; i++)
#pragma unroll
            for (int t = 0; t < TOKENS; t++)
                sum[t] = fmaf(x[t][j + 8 * i], value[i], sum[t]);
    }
    for (; j < a.k; j += 8)
#pragma unroll
        for (int t = 0; t < TOKENS; t++)
            sum[t] = fmaf(x[t][j], TYPE::at(w[j]), sum[t]);
#pragma unroll
    for (int t = 0; t < TOKENS; t++) {
        const float all = lane_sum(sum[t]);
        if (t < a.m && row < a.n && lane == t) {
            float *const y = a.y + t * a.ldy + row;
            *y = a.add ? *y + all : all;
        }
    }
}

template <class TYPE, class ARGUMENT> static __device__ void run_all(const ARGUMENT &a)
{
    using tile = float_tile<TYPE, ARGUMENT>;
    using some = float_some<TYPE, ARGUMENT>;
    __shared__ __align__(16) union {
        typename tile::stage of_tile[2];
        typename some::stage of_some[2];
    } shared;
    if (a.m > PARE_CUDA_TOKENS) {
        tile(a).run(shared.of_tile);
        return;
    }
    if (a.m > PARE_CUDA_F32_FEW) {
        some(a).run(shared.of_some);
        return;
    }
    const uint64_t first = (uint64_t)blockIdx.x * (blockDim.x / 32) * 4 + threadIdx.x / 32 * 4;
    const uint64_t row = first + threadIdx.x % 32 / 8;
    if (first >= a.n)
        return;
    if (a.m == 1)
        run<TYPE, 1>(a, row);
    else if (a.m == 2)
        run<TYPE, 2>(a, row);
    else
        run<TYPE, 4>(a, row);
}

PARE_CUDA_KERNEL(gemm_f32_f32, PARE_CUDA_F32_THREADS, 2)
{
    run_all<as_f32>(a);
}

PARE_CUDA_KERNEL(gemm_f32_f16, PARE_CUDA_F32_THREADS, 2)
{
    run_all<as_f16>(a);
}

PARE_CUDA_KERNEL(gemm_f32_bf16, PARE_CUDA_F32_THREADS, 2)
{
    run_all<as_bf16>(a);
}

/* Single weights: a thread per row, in ascending order. */
PARE_CUDA_KERNEL(gemm_sparse_f32, PARE_CUDA_BLOCK)
{
    const uint64_t row = thread_index();
    if (row >= a.n)
        return;
    for (uint64_t t = blockIdx.y; t < a.m; t += gridDim.y) {
        float sum = a.y[t * a.ldy + row];
        for (uint32_t i = a.start[row]; i < a.start[row + 1]; i++)
            sum = fmaf(a.x[t * a.ldx + a.column[i]], float_of_f16(a.value[i]), sum);
        a.y[t * a.ldy + row] = sum;
    }
}
