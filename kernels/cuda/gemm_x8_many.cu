/* Products of integer activations and packed weights for many tokens: tiles of 128 rows by 128
 * tokens on tensor cores, to the bit of the reference. The launch shapes send here what has enough
 * of these tiles to fill a GPU (pare_cuda_x8_many).
 *
 * Bound: operations over the rate of mma.sync in s8, twice that for 2:4 weights: 28 us at 8192 x
 * 8192 and 256 tokens on an H200. Of a stage, 128 columns, a warp has 64 products of 16 x 8 x 32
 * and, with groups of 128, 192 operations on floats; it reads 8 KB of inputs and 2 KB of weights of
 * 4 bits from shared memory. Measured there: 100 us with 4 bits, half of the speed of cuBLAS in
 * F16. The two warps of a scheduler issue in four of ten cycles: they wait for shared memory and
 * for each other. */
#include "kernels/cuda/gemm_x8_tile.cuh"

PARE_CUDA_KERNEL(gemm_x8_many_q2, PARE_CUDA_X8_WARPS * 32, 1)
{
    run_tile<dense<2>, 4, 8>(a);
}

PARE_CUDA_KERNEL(gemm_x8_many_q3, PARE_CUDA_X8_WARPS * 32, 1)
{
    run_tile<dense<3>, 4, 8>(a);
}

PARE_CUDA_KERNEL(gemm_x8_many_q4, PARE_CUDA_X8_WARPS * 32, 1)
{
    run_tile<dense<4>, 4, 8>(a);
}

PARE_CUDA_KERNEL(gemm_x8_many_q8, PARE_CUDA_X8_WARPS * 32, 1)
{
    run_tile<dense<8>, 4, 8>(a);
}

PARE_CUDA_KERNEL(gemm_x8_many_t2, PARE_CUDA_X8_WARPS * 32, 1)
{
    run_tile<dense<2, true>, 4, 8>(a);
}

PARE_CUDA_KERNEL(gemm_x8_many_s4, PARE_CUDA_X8_WARPS * 32, 1)
{
    run_tile<sparse<4>, 4, 8>(a);
}

PARE_CUDA_KERNEL(gemm_x8_many_s8, PARE_CUDA_X8_WARPS * 32, 1)
{
    run_tile<sparse<8>, 4, 8>(a);
}
