/* kernels/cuda/cuda_shape.h - how many threads run a kernel on an argument, without a device.
 * pare_cuda_NAME_shape of kernel NAME; a grid of 0 blocks means that there is nothing to do. */
#ifndef PARE_KERNELS_CUDA_SHAPE_H
#define PARE_KERNELS_CUDA_SHAPE_H

#include "kernels/cuda/cuda_list.h"

typedef struct pare_cuda_shape {
    uint32_t grid[2]; /* blocks */
    uint32_t block;   /* threads of a block */
    uint32_t shared;  /* bytes of dynamic shared memory of a block */
} pare_cuda_shape;

#define PARE__CUDA_SHAPE(name, ...)                                                                \
    pare_cuda_shape pare_cuda_##name##_shape(const pare_cuda_##name *a);
PARE_CUDA_KERNELS(PARE__CUDA_SHAPE)

#endif
