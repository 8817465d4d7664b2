/* kernels/cuda/cuda_images.h - the compiled kernels of a program (cmake/cuda.cmake). */
#ifndef PARE_KERNELS_CUDA_IMAGES_H
#define PARE_KERNELS_CUDA_IMAGES_H

/* Modules for the driver, one for each file of kernels; NULL ends them. There are none where pare
 * was built without CUDA. */
extern const void *const pare_cuda_images[];

/* Of the compiler of these, "13.0"; empty where there are none. */
extern const char pare_cuda_version[];

#endif
