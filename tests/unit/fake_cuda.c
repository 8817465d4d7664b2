/* Built as a library that the test of the driver opens. The only kernel, "probe", does nothing. */
#include "tests/unit/fake_cuda.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/device_driver_internal.h"

/* Set in every address: no host has memory there. */
static const CUdeviceptr far = (CUdeviceptr)1 << 62;

extern fake_cuda fake;
fake_cuda fake;

#define DECLARE(name, parameters) CUresult name parameters;
PARE__DRIVER_CALLS(DECLARE)

/* Notes a call; the error that it ends with. */
static CUresult note(const char *name)
{
    const size_t used = strlen(fake.log);
    (void)snprintf(fake.log + used, sizeof fake.log - used, "%s ", name);
    return fake.fail && strcmp(fake.fail, name) == 0 && fake.left-- == 0 ? fake.error : 0;
}
#define NOTE()                                                                                     \
    do {                                                                                           \
        const CUresult r_ = note(__func__);                                                        \
        if (r_)                                                                                    \
            return r_;                                                                             \
    } while (0)

static void *host(CUdeviceptr at)
{
    return (void *)(uintptr_t)(at & ~far);
}

CUresult cuInit(unsigned flags)
{
    NOTE();
    return flags ? 1 : 0;
}

CUresult cuGetErrorName(CUresult r, const char **text)
{
    *text = r == 700 ? "CUDA_ERROR_ILLEGAL_ADDRESS" : "CUDA_ERROR_OTHER";
    return 0;
}

CUresult cuGetErrorString(CUresult r, const char **text)
{
    *text = r == 700 ? "an illegal memory access was encountered" : "another error";
    return 0;
}

CUresult cuDeviceGet(CUdevice *d, int number)
{
    NOTE();
    *d = 7;
    return number ? 101 : 0;
}

CUresult cuDeviceGetName(char *name, int size, CUdevice d)
{
    NOTE();
    (void)snprintf(name, (size_t)size, "Fake GPU %d", d);
    return 0;
}

CUresult cuDeviceGetAttribute(int *value, CUdevice_attribute which, CUdevice d)
{
    NOTE();
    switch ((int)which) {
    case PARE__CUDA_MAJOR: *value = fake.major ? fake.major : 9; break;
    case PARE__CUDA_MINOR: *value = 0; break;
    case PARE__CUDA_PROCESSORS: *value = 132; break;
    case PARE__CUDA_SHARED: *value = 227 * 1024; break;
    default: return 1;
    }
    return d == 7 ? 0 : 101;
}

CUresult cuDevicePrimaryCtxRetain(CUcontext *c, CUdevice d)
{
    NOTE();
    *c = (CUcontext)(void *)&fake;
    fake.contexts++;
    return d == 7 ? 0 : 101;
}

CUresult cuDevicePrimaryCtxRelease_v2(CUdevice d)
{
    NOTE();
    fake.contexts--;
    return d == 7 ? 0 : 101;
}

CUresult cuCtxSetCurrent(CUcontext c)
{
    NOTE();
    return c ? 0 : 201;
}

CUresult cuModuleLoadData(CUmodule *m, const void *image)
{
    NOTE();
    *m = (CUmodule)(uintptr_t)image;
    fake.modules++;
    return 0;
}

CUresult cuModuleUnload(CUmodule m)
{
    NOTE();
    fake.modules--;
    return m ? 0 : 400;
}

/* A kernel is in the module whose image is its name. */
CUresult cuModuleGetFunction(CUfunction *f, CUmodule m, const char *name)
{
    NOTE();
    if (strcmp((const char *)(void *)m, name) != 0)
        return 500;
    *f = (CUfunction)(void *)m;
    return 0;
}

CUresult cuFuncSetAttribute(CUfunction f, CUfunction_attribute which, int value)
{
    NOTE();
    return f && (int)which == PARE__CUDA_SHARED_OF_KERNEL && value > 0 ? 0 : 1;
}

/* Runs a kernel. */
static void launched(unsigned shared, const void *arguments, size_t bytes)
{
    fake.shared = shared;
    fake.bytes = bytes;
    memcpy(fake.argument, arguments, bytes);
    if (bytes >= sizeof *fake.first)
        memcpy(&fake.first[fake.launches % FAKE_CUDA_FIRST], arguments, sizeof *fake.first);
    fake.launches++;
}

CUresult cuLaunchKernel(CUfunction f, unsigned grid_x, unsigned grid_y, unsigned grid_z,
                        unsigned block_x, unsigned block_y, unsigned block_z, unsigned shared,
                        CUstream s, void **parameters, void **extra)
{
    NOTE();
    const fake_cuda how = {.grid = {grid_x, grid_y, grid_z}, .block = {block_x, block_y, block_z}};
    if (!f || !s || parameters || extra[0] != (void *)1 || extra[2] != (void *)2 || extra[4])
        return 1;
    memcpy(fake.grid, how.grid, sizeof fake.grid);
    memcpy(fake.block, how.block, sizeof fake.block);
    if (*(const size_t *)extra[3] > sizeof fake.argument)
        return 1;
    launched(shared, extra[1], *(const size_t *)extra[3]);
    return 0;
}

/* Nodes are one behind the other; a graph that is ready has copies of them. */
struct CUgraphNode_st {
    CUDA_KERNEL_NODE_PARAMS how;
    size_t bytes;
    unsigned char argument[sizeof fake.argument];
};
enum { NODES = 128 };
struct CUgraph_st {
    size_t count;
    struct CUgraphNode_st node[NODES];
};
struct CUgraphExec_st {
    CUgraph of;
    size_t count;
    struct CUgraphNode_st node[NODES];
};

static CUresult fill_node(struct CUgraphNode_st *n, const CUDA_KERNEL_NODE_PARAMS *how)
{
    n->how = *how;
    if (!how->func || how->kernelParams || how->extra[0] != (void *)1 ||
        how->extra[2] != (void *)2 || how->extra[4])
        return 1;
    n->bytes = *(const size_t *)how->extra[3];
    if (n->bytes > sizeof n->argument)
        return 1;
    memcpy(n->argument, how->extra[1], n->bytes);
    return 0;
}

CUresult cuGraphCreate(CUgraph *g, unsigned flags)
{
    NOTE();
    *g = calloc(1, sizeof **g);
    fake.graphs++;
    return *g && !flags ? 0 : 1;
}

CUresult cuGraphAddKernelNode_v2(CUgraphNode *node, CUgraph g, const CUgraphNode *behind,
                                 size_t count, const CUDA_KERNEL_NODE_PARAMS *how)
{
    NOTE();
    if (g->count == NODES || count != (g->count > 0) ||
        (count && *behind != &g->node[g->count - 1]))
        return 1;
    *node = &g->node[g->count++];
    fake.nodes++;
    return fill_node(*node, how);
}

CUresult cuGraphInstantiateWithFlags(CUgraphExec *e, CUgraph g, unsigned long long flags)
{
    NOTE();
    *e = calloc(1, sizeof **e);
    if (!*e || flags)
        return 1;
    fake.graphs++;
    (*e)->of = g;
    (*e)->count = g->count;
    memcpy((*e)->node, g->node, sizeof g->node);
    return 0;
}

CUresult cuGraphExecKernelNodeSetParams_v2(CUgraphExec e, CUgraphNode node,
                                           const CUDA_KERNEL_NODE_PARAMS *how)
{
    NOTE();
    struct CUgraphNode_st *const n = &e->node[node - e->of->node];
    fake.sets++;
    return n->how.func == how->func ? fill_node(n, how) : 1;
}

CUresult cuGraphLaunch(CUgraphExec e, CUstream s)
{
    NOTE();
    for (size_t i = 0; i < e->count; i++)
        launched(e->node[i].how.sharedMemBytes, e->node[i].argument, e->node[i].bytes);
    return s ? 0 : 1;
}

CUresult cuGraphExecDestroy(CUgraphExec e)
{
    NOTE();
    free(e);
    fake.graphs--;
    return 0;
}

CUresult cuGraphDestroy(CUgraph g)
{
    NOTE();
    free(g);
    fake.graphs--;
    return 0;
}

CUresult cuMemGetInfo_v2(size_t *free, size_t *total)
{
    NOTE();
    *free = fake.memory - fake.live;
    *total = fake.memory;
    return 0;
}

/* The size stands in front of what is taken. */
CUresult cuMemAlloc_v2(CUdeviceptr *at, size_t bytes)
{
    NOTE();
    if (bytes > fake.memory - fake.live)
        return PARE__CUDA_OUT_OF_MEMORY;
    size_t *const p = malloc(256 + bytes);
    if (!p)
        return PARE__CUDA_OUT_OF_MEMORY;
    *p = bytes;
    fake.live += bytes;
    fake.allocations++;
    *at = (CUdeviceptr)(uintptr_t)p + 256 + far;
    return 0;
}

CUresult cuMemFree_v2(CUdeviceptr at)
{
    NOTE();
    size_t *const p = host(at - 256);
    fake.live -= *p;
    fake.allocations--;
    free(p);
    return 0;
}

CUresult cuMemcpyHtoD_v2(CUdeviceptr to, const void *from, size_t bytes)
{
    NOTE();
    memcpy(host(to), from, bytes);
    return 0;
}

CUresult cuMemcpyDtoH_v2(void *to, CUdeviceptr from, size_t bytes)
{
    NOTE();
    memcpy(to, host(from), bytes);
    return 0;
}

CUresult cuMemcpyDtoDAsync_v2(CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream s)
{
    NOTE();
    memcpy(host(to), host(from), bytes);
    return s ? 0 : 1;
}

CUresult cuMemsetD8Async(CUdeviceptr to, unsigned char byte, size_t bytes, CUstream s)
{
    NOTE();
    memset(host(to), byte, bytes);
    return s ? 0 : 1;
}

CUresult cuStreamCreate(CUstream *s, unsigned flags)
{
    NOTE();
    *s = (CUstream)(void *)&fake;
    fake.streams++;
    return flags ? 1 : 0;
}

CUresult cuStreamSynchronize(CUstream s)
{
    NOTE();
    return s ? 0 : 1;
}

CUresult cuStreamDestroy_v2(CUstream s)
{
    NOTE();
    fake.streams--;
    return s ? 0 : 1;
}
