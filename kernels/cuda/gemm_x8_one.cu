/* Products of integer activations and packed weights for up to 8 tokens, to the bit of the
 * reference: gemm_x8_few.cuh with few registers and little shared memory, so that a processor has
 * room for three blocks of threads, whose loads are under way together.
 *
 * Bound: bytes of the weights over the bandwidth of the memory. */
#include "kernels/cuda/gemm_x8_few.cuh"

PARE_CUDA_KERNEL(gemm_x8_one_q2, PARE_CUDA_X8_WARPS * 32, 3)
{
    run_few<dense<2>, true>(a);
}

PARE_CUDA_KERNEL(gemm_x8_one_q3, PARE_CUDA_X8_WARPS * 32, 3)
{
    run_few<dense<3>, true>(a);
}

PARE_CUDA_KERNEL(gemm_x8_one_q4, PARE_CUDA_X8_WARPS * 32, 3)
{
    run_few<dense<4>, true>(a);
}

PARE_CUDA_KERNEL(gemm_x8_one_q8, PARE_CUDA_X8_WARPS * 32, 3)
{
    run_few<dense<8>, true>(a);
}

PARE_CUDA_KERNEL(gemm_x8_one_t2, PARE_CUDA_X8_WARPS * 32, 3)
{
    run_few<dense<2, true>, true>(a);
}

PARE_CUDA_KERNEL(gemm_x8_one_s4, PARE_CUDA_X8_WARPS * 32, 3)
{
    run_few<sparse<4>, true>(a);
}

PARE_CUDA_KERNEL(gemm_x8_one_s8, PARE_CUDA_X8_WARPS * 32, 3)
{
    run_few<sparse<8>, true>(a);
}
