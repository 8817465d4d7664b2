/* Products of integer activations and 2:4 weights on sparse tensor cores, to the bit of the
 * reference, in the ways of gemm_x8.cu. Weights and indices are read once, as they lie in R8K32;
 * the indices are turned into metadata in registers.
 *
 * Bound, for up to about 50 tokens: bytes of the weights over the bandwidth of the memory. 4096 x
 * 14336 at one token on an H200: 4.8 us of 4 bits with groups of 128, 7.8 of 8. Measured there
 * at 8192 x 8192, in shares of a copy: 30 % with 4 bits at one token, 33 % at 16; 44 and 50 %
 * with 8. */
#include "kernels/cuda/gemm_x8_few.cuh"

PARE_CUDA_KERNEL(gemm_x8_s4, PARE_CUDA_X8_WARPS * 32, 2)
{
    run_x8<sparse<4>>(a);
}

PARE_CUDA_KERNEL(gemm_x8_s8, PARE_CUDA_X8_WARPS * 32, 2)
{
    run_x8<sparse<8>>(a);
}
