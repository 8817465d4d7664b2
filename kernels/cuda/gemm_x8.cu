/* Products of integer activations and packed weights on tensor cores, to the bit of the reference:
 * sums of columns are integers, a step per group follows in order. gemm_x8_few.cuh has the way of
 * up to 32 tokens, gemm_x8_tile.cuh that of more; gemm_x8_many.cu has larger tiles.
 *
 * Bound: bytes of the weights over the bandwidth of the memory, for up to about 50 tokens. Every 32
 * rows read the inputs again, from L2: 8 tokens are as many bytes as half the weights of 4 bits.
 * Measured on an H200 at 8192 x 8192, in shares of a copy: 37 % with 4 bits and groups of 128 at
 * one token, 41 % at 16; 69 and 66 % with 8 bits. Loads of inputs and the steps of groups hold it
 * back. */
#include "kernels/cuda/gemm_x8_few.cuh"

PARE_CUDA_KERNEL(gemm_x8_q2, PARE_CUDA_X8_WARPS * 32, 2)
{
    run_x8<dense<2>>(a);
}

PARE_CUDA_KERNEL(gemm_x8_q3, PARE_CUDA_X8_WARPS * 32, 2)
{
    run_x8<dense<3>>(a);
}

PARE_CUDA_KERNEL(gemm_x8_q4, PARE_CUDA_X8_WARPS * 32, 2)
{
    run_x8<dense<4>>(a);
}

PARE_CUDA_KERNEL(gemm_x8_q8, PARE_CUDA_X8_WARPS * 32, 2)
{
    run_x8<dense<8>>(a);
}

PARE_CUDA_KERNEL(gemm_x8_t2, PARE_CUDA_X8_WARPS * 32, 2)
{
    run_x8<dense<2, true>>(a);
}
