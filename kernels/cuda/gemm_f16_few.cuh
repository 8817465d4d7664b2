/* kernels/cuda/gemm_f16_few.cuh - what products of F16 inputs and packed weights for few tokens
 * share: a block of threads has 32 rows and 8, 16 or 32 tokens, its warps share the columns,
 * and their totals are added in order. */
#ifndef PARE_KERNELS_CUDA_GEMM_F16_FEW
#define PARE_KERNELS_CUDA_GEMM_F16_FEW

#include "kernels/cuda/codes.cuh"
#include "kernels/cuda/f16.cuh"

extern __shared__ float4 shared_sums[];

static constexpr uint32_t WARPS = PARE_CUDA_CODES_WARPS, LD = PARE_CUDA_CODES_LD;

/* The rows and tokens of a block. Blocks that share rows follow each other, so that weights come
 * from the memory once. */
struct few_block {
    uint32_t tiles; /* of 8 tokens */
    uint64_t row, token;

    __device__ few_block(uint64_t m) : tiles(pare_cuda_codes_tiles(m))
    {
        const uint32_t tokens = tiles * 8, across = (uint32_t)((m + tokens - 1) / tokens);
        row = (uint64_t)(blockIdx.x / across) * 32;
        token = (uint64_t)(blockIdx.x % across) * tokens;
    }
};

/* Totals of a warp: those of a lane belong to rows 4 g .. 4 g + 3, two tokens of a tile each. */
template <int TILES> static __device__ void put_totals(const float (*total)[8])
{
    const uint32_t g = threadIdx.x % 32 / 4, t = threadIdx.x % 4;
#pragma unroll
    for (int i = 0; i < TILES; i++)
#pragma unroll
        for (int j = 0; j < 2; j++) {
            const uint32_t token = (threadIdx.x / 32 * TILES + i) * 8 + 2 * t + j;
            shared_sums[token * (LD / 4) + g] = {total[i][j], total[i][j + 2], total[i][j + 4],
                                                 total[i][j + 6]};
        }
}

/* The totals of all warps, in order: a thread per row, and per token of each tile. */
template <int TILES, class ARGUMENT>
static __device__ void write_totals(const ARGUMENT &a, uint64_t row, uint64_t token)
{
    const uint32_t lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    const float *const from = (const float *)shared_sums + lane;
    for (uint32_t i = warp; i < TILES * 8; i += WARPS) {
        float y = 0;
        for (uint32_t w = 0; w < WARPS; w++)
            y += from[(w * TILES * 8 + i) * LD];
        if (row + lane < a.n && token + i < a.m)
            a.y[(token + i) * a.ldy + row + lane] = y * a.x_scale[token + i];
    }
}

#endif
