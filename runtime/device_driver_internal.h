/* runtime/device_driver_internal.h - what is called of NVIDIA's driver. Its interface is stable, so
 * that its header need not be there to build; where it is, a test compares both. */
#ifndef PARE_RUNTIME_DEVICE_DRIVER_INTERNAL_H
#define PARE_RUNTIME_DEVICE_DRIVER_INTERNAL_H

#include "runtime/device_driver.h"

#ifndef __cuda_cuda_h__
typedef int CUresult, CUdevice, CUdevice_attribute, CUfunction_attribute;
typedef unsigned long long CUdeviceptr;
typedef struct CUctx_st *CUcontext;
typedef struct CUmod_st *CUmodule;
typedef struct CUfunc_st *CUfunction;
typedef struct CUstream_st *CUstream;
typedef struct CUgraph_st *CUgraph;
typedef struct CUgraphNode_st *CUgraphNode;
typedef struct CUgraphExec_st *CUgraphExec;
typedef struct CUkern_st *CUkernel;
typedef struct CUDA_KERNEL_NODE_PARAMS {
    CUfunction func;
    unsigned gridDimX, gridDimY, gridDimZ, blockDimX, blockDimY, blockDimZ, sharedMemBytes;
    void **kernelParams, **extra;
    CUkernel kern;
    CUcontext ctx;
} CUDA_KERNEL_NODE_PARAMS;
#endif

/* CUresult, CUdevice_attribute, CUfunction_attribute. */
enum {
    PARE__CUDA_SUCCESS = 0,
    PARE__CUDA_OUT_OF_MEMORY = 2,
    PARE__CUDA_NO_DEVICE = 100,
    PARE__CUDA_INVALID_IMAGE = 200,
    PARE__CUDA_NO_BINARY = 209,
    PARE__CUDA_PTX_VERSION = 222,
    PARE__CUDA_PROCESSORS = 16,
    PARE__CUDA_MAJOR = 75,
    PARE__CUDA_MINOR = 76,
    PARE__CUDA_SHARED = 97,         /* of a block that asks for it */
    PARE__CUDA_SHARED_OF_KERNEL = 8 /* that it may ask for */
};

/* X(name, (parameters)); all return CUresult. */
#define PARE__DRIVER_CALLS(X)                                                                      \
    X(cuInit, (unsigned flags))                                                                    \
    X(cuGetErrorName, (CUresult r, const char **text))                                             \
    X(cuGetErrorString, (CUresult r, const char **text))                                           \
    X(cuDeviceGet, (CUdevice * d, int number))                                                     \
    X(cuDeviceGetName, (char *name, int size, CUdevice d))                                         \
    X(cuDeviceGetAttribute, (int *value, CUdevice_attribute which, CUdevice d))                    \
    X(cuDevicePrimaryCtxRetain, (CUcontext * c, CUdevice d))                                       \
    X(cuDevicePrimaryCtxRelease_v2, (CUdevice d))                                                  \
    X(cuCtxSetCurrent, (CUcontext c))                                                              \
    X(cuModuleLoadData, (CUmodule * m, const void *image))                                         \
    X(cuModuleUnload, (CUmodule m))                                                                \
    X(cuModuleGetFunction, (CUfunction * f, CUmodule m, const char *name))                         \
    X(cuFuncSetAttribute, (CUfunction f, CUfunction_attribute which, int value))                   \
    X(cuLaunchKernel, (CUfunction f, unsigned grid_x, unsigned grid_y, unsigned grid_z,            \
                       unsigned block_x, unsigned block_y, unsigned block_z, unsigned shared,      \
                       CUstream s, void **parameters, void **extra))                               \
    X(cuMemGetInfo_v2, (size_t * free, size_t * total))                                            \
    X(cuMemAlloc_v2, (CUdeviceptr * at, size_t bytes))                                             \
    X(cuMemFree_v2, (CUdeviceptr at))                                                              \
    X(cuMemcpyHtoD_v2, (CUdeviceptr to, const void *from, size_t bytes))                           \
    X(cuMemcpyDtoH_v2, (void *to, CUdeviceptr from, size_t bytes))                                 \
    X(cuMemcpyDtoDAsync_v2, (CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream s))          \
    X(cuMemsetD8Async, (CUdeviceptr to, unsigned char byte, size_t bytes, CUstream s))             \
    X(cuGraphCreate, (CUgraph * g, unsigned flags))                                                \
    X(cuGraphAddKernelNode_v2, (CUgraphNode * node, CUgraph g, const CUgraphNode *behind,          \
                                size_t count, const CUDA_KERNEL_NODE_PARAMS *how))                 \
    X(cuGraphInstantiateWithFlags, (CUgraphExec * e, CUgraph g, unsigned long long flags))         \
    X(cuGraphExecKernelNodeSetParams_v2,                                                           \
      (CUgraphExec e, CUgraphNode node, const CUDA_KERNEL_NODE_PARAMS *how))                       \
    X(cuGraphLaunch, (CUgraphExec e, CUstream s))                                                  \
    X(cuGraphExecDestroy, (CUgraphExec e))                                                         \
    X(cuGraphDestroy, (CUgraph g))                                                                 \
    X(cuStreamCreate, (CUstream * s, unsigned flags))                                              \
    X(cuStreamSynchronize, (CUstream s))                                                           \
    X(cuStreamDestroy_v2, (CUstream s))

/* pare_device_driver_open with the library of that name. */
PARE_CHECKED pare_status pare__device_driver_open(pare_ctx *cx, const char *library,
                                                  const void *const *images, pare_device **d);

#endif
