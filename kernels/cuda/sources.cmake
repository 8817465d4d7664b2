# Kernels for NVIDIA GPUs, relative to the root of the tree.
set(pare_cuda_sources
    kernels/cuda/activate.cu
    kernels/cuda/cache.cu
    kernels/cuda/move.cu
    kernels/cuda/norm.cu
    kernels/cuda/turn.cu)
