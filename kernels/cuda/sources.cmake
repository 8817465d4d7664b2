# Kernels for NVIDIA GPUs, relative to the root of the tree.
set(pare_cuda_sources
    kernels/cuda/activate.cu
    kernels/cuda/attend.cu
    kernels/cuda/cache.cu
    kernels/cuda/coded.cu
    kernels/cuda/dequant.cu
    kernels/cuda/f16_rows.cu
    kernels/cuda/gemm_f16.cu
    kernels/cuda/gemm_f16_codes.cu
    kernels/cuda/gemm_f32.cu
    kernels/cuda/gemm_x8.cu
    kernels/cuda/gemm_x8_24.cu
    kernels/cuda/move.cu
    kernels/cuda/norm.cu
    kernels/cuda/quant.cu
    kernels/cuda/score.cu
    kernels/cuda/turn.cu)
