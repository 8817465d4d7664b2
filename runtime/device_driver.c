/* The driver of NVIDIA GPUs, whose library is opened at run time. Work goes to one stream of the
 * device's primary context; put and get use the default stream, which waits for it and for which it
 * waits, so that everything runs in the order in which it was asked for. */
#include <dlfcn.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "kernels/cuda/cuda_images.h"
#include "runtime/arena.h"
#include "runtime/device_driver_internal.h"

#define MEMBER(name, parameters) CUresult(*name) parameters;
typedef struct calls {
    PARE__DRIVER_CALLS(MEMBER)
} calls;
#undef MEMBER

/* One that was asked for, in a list. */
typedef struct kernel {
    struct kernel *next;
    CUfunction f;
    unsigned shared; /* bytes that it may ask for without a word */
    char name[];
} kernel;

typedef struct driver {
    pare_device base;
    pare_arena arena; /* what follows, and this struct's lists */
    void *library;
    calls call;
    CUdevice number;
    CUcontext context;
    CUstream stream;
    CUmodule *module;
    size_t modules;
    kernel *kernels;
    const kernel *last; /* that was launched, and how ... */
    pare_launch how;
    size_t launches; /* ... at the end of a graph of so many; 0: alone */
} driver;

static driver *of(pare_device *d)
{
    return (driver *)(void *)d;
}

/* PARE_OK, or what the driver says of `fmt`, which names what was asked of it. What a kernel does
 * is reported by a later call. */
static pare_status check(pare_ctx *cx, const driver *d, CUresult r, const char *fmt, ...)
    PARE_PRINTF(4, 5);
static pare_status check(pare_ctx *cx, const driver *d, CUresult r, const char *fmt, ...)
{
    char what[256], behind[384] = "", graph[48] = "";
    const char *name = "error", *text = "unknown";
    va_list ap;
    if (r == PARE__CUDA_SUCCESS)
        return PARE_OK;
    va_start(ap, fmt);
    (void)vsnprintf(what, sizeof what, fmt, ap);
    va_end(ap);
    (void)d->call.cuGetErrorName(r, &name);
    (void)d->call.cuGetErrorString(r, &text);
    if (d->launches)
        (void)snprintf(graph, sizeof graph, ", of a graph of %zu launches", d->launches);
    if (d->last)
        (void)snprintf(behind, sizeof behind,
                       "; the last kernel was %s, grid %u x %u x %u, block %u x %u x %u%s",
                       d->last->name, d->how.grid[0], d->how.grid[1], d->how.grid[2],
                       d->how.block[0], d->how.block[1], d->how.block[2], graph);
    return pare_fail(cx, r == PARE__CUDA_OUT_OF_MEMORY ? PARE_ENOMEM : PARE_EDEVICE,
                     "%s: %s: %s (%d): %s%s", *d->base.name ? d->base.name : "NVIDIA driver", what,
                     name, (int)r, text, behind);
}

static pare_status driver_memory(pare_ctx *cx, pare_device *d, size_t *free, size_t *total)
{
    return check(cx, of(d), of(d)->call.cuMemGetInfo_v2(free, total), "asking for its memory");
}

static pare_status driver_take(pare_ctx *cx, pare_device *d, size_t bytes, pare_address *at)
{
    CUdeviceptr got = 0;
    size_t free = 0, total = 0;
    const CUresult r = of(d)->call.cuMemAlloc_v2(&got, bytes);
    *at = got;
    if (r != PARE__CUDA_OUT_OF_MEMORY)
        return check(cx, of(d), r, "taking %zu bytes", bytes);
    PARE_TRY(driver_memory(cx, d, &free, &total));
    return pare_fail(cx, PARE_ENOMEM,
                     "%s: out of memory: %zu bytes are asked for, %zu of %zu are free", d->name,
                     bytes, free, total);
}

static void driver_give(pare_ctx *cx, pare_device *d, pare_address at)
{
    (void)cx;
    if (at)
        (void)of(d)->call.cuMemFree_v2(at);
}

static pare_status driver_put(pare_ctx *cx, pare_device *d, pare_address to, const void *from,
                              size_t bytes)
{
    return check(cx, of(d), of(d)->call.cuMemcpyHtoD_v2(to, from, bytes), "putting %zu bytes",
                 bytes);
}

static pare_status driver_get(pare_ctx *cx, pare_device *d, void *to, pare_address from,
                              size_t bytes)
{
    return check(cx, of(d), of(d)->call.cuMemcpyDtoH_v2(to, from, bytes), "getting %zu bytes",
                 bytes);
}

static pare_status driver_fill(pare_ctx *cx, pare_device *d, pare_address to, uint8_t byte,
                               size_t bytes)
{
    return check(cx, of(d), of(d)->call.cuMemsetD8Async(to, byte, bytes, of(d)->stream),
                 "filling %zu bytes", bytes);
}

static pare_status driver_copy(pare_ctx *cx, pare_device *d, pare_address to, pare_address from,
                               size_t bytes)
{
    return check(cx, of(d), of(d)->call.cuMemcpyDtoDAsync_v2(to, from, bytes, of(d)->stream),
                 "copying %zu bytes", bytes);
}

static pare_status find_kernel(pare_ctx *cx, driver *d, const char *name, kernel **out)
{
    CUfunction f = NULL;
    for (size_t i = 0; i < d->modules && !f; i++)
        if (d->call.cuModuleGetFunction(&f, d->module[i], name) != PARE__CUDA_SUCCESS)
            f = NULL;
    if (!f)
        return pare_fail(cx, PARE_EDEVICE, "%s: there is no kernel %s", d->base.name, name);
    kernel *const k = pare_arena_take(&d->arena, 1, sizeof *k + strlen(name) + 1);
    if (!k)
        return PARE_ENOMEM;
    *k = (kernel){.next = d->kernels, .f = f};
    memcpy(k->name, name, strlen(name) + 1);
    *out = d->kernels = k;
    return PARE_OK;
}

static pare_status driver_kernel(pare_ctx *cx, pare_device *d, const char *name, void **out)
{
    kernel *k = of(d)->kernels;
    while (k && strcmp(k->name, name) != 0)
        k = k->next;
    if (!k)
        PARE_TRY(find_kernel(cx, of(d), name, &k));
    *out = k;
    return PARE_OK;
}

/* CU_LAUNCH_PARAM_BUFFER_POINTER, .._BUFFER_SIZE, .._END */
#define EXTRA(arguments, bytes)                                                                    \
    {                                                                                              \
        (void *)1, (void *)(uintptr_t)(arguments), (void *)2, (bytes), NULL                        \
    }

static pare_status allow_shared(pare_ctx *cx, driver *d, kernel *k, uint32_t shared)
{
    if (shared <= k->shared)
        return PARE_OK;
    PARE_TRY(check(cx, d,
                   d->call.cuFuncSetAttribute(k->f, PARE__CUDA_SHARED_OF_KERNEL, (int)shared),
                   "%u bytes of shared memory for %s", shared, k->name));
    k->shared = shared;
    return PARE_OK;
}

static pare_status driver_launch(pare_ctx *cx, pare_device *device, void *which,
                                 const pare_launch *l, const void *arguments, size_t bytes)
{
    driver *const d = of(device);
    kernel *const k = which;
    void *extra[] = EXTRA(arguments, &bytes);
    PARE_TRY(allow_shared(cx, d, k, l->shared));
    const CUresult r =
        d->call.cuLaunchKernel(k->f, l->grid[0], l->grid[1], l->grid[2], l->block[0], l->block[1],
                               l->block[2], l->shared, d->stream, NULL, extra);
    PARE_TRY(check(cx, d, r, "launching %s, grid %u x %u x %u, block %u x %u x %u, shared %u",
                   k->name, l->grid[0], l->grid[1], l->grid[2], l->block[0], l->block[1],
                   l->block[2], l->shared));
    d->last = k;
    d->how = *l;
    d->launches = 0;
    return PARE_OK;
}

typedef struct graph {
    pare_arena arena; /* what follows, and this struct */
    CUgraph plan;
    CUgraphExec ready;
    CUgraphNode *node;
    size_t count;
    const kernel *last; /* and how it is launched */
    pare_launch how;
} graph;

static void driver_graph_drop(pare_ctx *cx, pare_device *device, void *which)
{
    driver *const d = of(device);
    graph *const g = which;
    pare_arena arena = g->arena;
    (void)cx;
    if (g->ready)
        (void)d->call.cuGraphExecDestroy(g->ready);
    if (g->plan)
        (void)d->call.cuGraphDestroy(g->plan);
    pare_arena_release(&arena);
}

/* Node i of a graph that is being made (ready NULL), or of one that is. */
static pare_status put_node(pare_ctx *cx, driver *d, graph *g, size_t i, const pare_call *c)
{
    kernel *const k = c->kernel;
    size_t bytes = c->bytes;
    void *extra[] = EXTRA(c->arguments, &bytes);
    const CUDA_KERNEL_NODE_PARAMS how = {.func = k->f,
                                         .gridDimX = c->how.grid[0],
                                         .gridDimY = c->how.grid[1],
                                         .gridDimZ = c->how.grid[2],
                                         .blockDimX = c->how.block[0],
                                         .blockDimY = c->how.block[1],
                                         .blockDimZ = c->how.block[2],
                                         .sharedMemBytes = c->how.shared,
                                         .extra = extra};
    PARE_TRY(allow_shared(cx, d, k, c->how.shared));
    if (i + 1 == g->count) {
        g->last = k;
        g->how = c->how;
    }
    const CUresult r =
        g->ready ? d->call.cuGraphExecKernelNodeSetParams_v2(g->ready, g->node[i], &how)
                 : d->call.cuGraphAddKernelNode_v2(&g->node[i], g->plan, i ? &g->node[i - 1] : NULL,
                                                   i > 0, &how);
    return check(cx, d, r, "%s as node %zu of a graph, grid %u x %u x %u", k->name, i,
                 c->how.grid[0], c->how.grid[1], c->how.grid[2]);
}

static pare_status fill_graph(pare_ctx *cx, driver *d, const pare_call *c, graph *g)
{
    g->node = PARE_NEW(&g->arena, CUgraphNode, g->count);
    if (!g->node)
        return pare_fail(cx, PARE_ENOMEM, "out of memory: a graph of %zu launches", g->count);
    PARE_TRY(check(cx, d, d->call.cuGraphCreate(&g->plan, 0), "making a graph"));
    for (size_t i = 0; i < g->count; i++)
        PARE_TRY(put_node(cx, d, g, i, &c[i]));
    return check(cx, d, d->call.cuGraphInstantiateWithFlags(&g->ready, g->plan, 0),
                 "making a graph of %zu launches", g->count);
}

static pare_status driver_graph_make(pare_ctx *cx, pare_device *d, const pare_call *c, size_t count,
                                     void **out)
{
    pare_arena arena = {.cx = of(d)->arena.cx};
    graph *const g = PARE_NEW(&arena, graph, 1);
    *out = NULL;
    if (!g)
        return pare_fail(cx, PARE_ENOMEM, "out of memory: a graph of %zu launches", count);
    *g = (graph){.arena = arena, .count = count};
    *out = g;
    const pare_status s = fill_graph(cx, of(d), c, g);
    if (s == PARE_OK)
        return s;
    driver_graph_drop(cx, d, g);
    *out = NULL;
    return s;
}

static pare_status driver_graph_set(pare_ctx *cx, pare_device *d, void *g, size_t i,
                                    const pare_call *c)
{
    return put_node(cx, of(d), g, i, c);
}

static pare_status driver_graph_run(pare_ctx *cx, pare_device *d, void *which)
{
    const graph *const g = which;
    PARE_TRY(check(cx, of(d), of(d)->call.cuGraphLaunch(g->ready, of(d)->stream),
                   "launching a graph of %zu launches", g->count));
    of(d)->last = g->last;
    of(d)->how = g->how;
    of(d)->launches = g->count;
    return PARE_OK;
}

static pare_status driver_wait(pare_ctx *cx, pare_device *d)
{
    return check(cx, of(d), of(d)->call.cuStreamSynchronize(of(d)->stream), "waiting");
}

static void driver_close(pare_ctx *cx, pare_device *device)
{
    driver *const d = of(device);
    if (d->stream) {
        (void)d->call.cuStreamSynchronize(d->stream);
        (void)d->call.cuStreamDestroy_v2(d->stream);
    }
    for (size_t i = 0; i < d->modules; i++)
        (void)d->call.cuModuleUnload(d->module[i]);
    if (d->context)
        (void)d->call.cuDevicePrimaryCtxRelease_v2(d->number);
    if (d->library)
        (void)dlclose(d->library);
    pare_arena_release(&d->arena);
    (void)cx->alloc.resize(cx->alloc.self, d, sizeof *d, 0);
}

static const pare_device_table table = {.memory = driver_memory,
                                        .take = driver_take,
                                        .give = driver_give,
                                        .put = driver_put,
                                        .get = driver_get,
                                        .fill = driver_fill,
                                        .copy = driver_copy,
                                        .kernel = driver_kernel,
                                        .launch = driver_launch,
                                        .graph_make = driver_graph_make,
                                        .graph_set = driver_graph_set,
                                        .graph_run = driver_graph_run,
                                        .graph_drop = driver_graph_drop,
                                        .wait = driver_wait,
                                        .close = driver_close};

static pare_status bind_one(pare_ctx *cx, const driver *d, const char *library, const char *name,
                            void *member, size_t size)
{
    void *const symbol = dlsym(d->library, name);
    if (!symbol)
        return pare_fail(cx, PARE_EDEVICE,
                         "%s has no %s: the NVIDIA driver is too old; install one of CUDA %s or "
                         "later",
                         library, name, pare_cuda_version);
    memcpy(member, &symbol, size);
    return PARE_OK;
}

static pare_status open_library(pare_ctx *cx, driver *d, const char *library)
{
    d->library = dlopen(library, RTLD_NOW | RTLD_LOCAL);
    if (!d->library) {
        const char *const why = dlerror();
        return pare_fail(cx, PARE_EDEVICE, "no NVIDIA driver: %s", why ? why : library);
    }
#define BIND(name, parameters)                                                                     \
    PARE_TRY(bind_one(cx, d, library, #name, (void *)&d->call.name, sizeof d->call.name));
    PARE__DRIVER_CALLS(BIND)
#undef BIND
    return PARE_OK;
}

static pare_status attribute(pare_ctx *cx, const driver *d, CUdevice_attribute which, int *value)
{
    return check(cx, d, d->call.cuDeviceGetAttribute(value, which, d->number), "attribute %d",
                 (int)which);
}

static pare_status open_gpu(pare_ctx *cx, driver *d)
{
    int major, minor, processors, shared;
    CUresult r = d->call.cuInit(0);
    if (r == PARE__CUDA_SUCCESS)
        r = d->call.cuDeviceGet(&d->number, 0);
    if (r == PARE__CUDA_NO_DEVICE || r == 101) /* of cuDeviceGet: no such number */
        return pare_fail(cx, PARE_EDEVICE,
                         "the NVIDIA driver shows no GPU; see nvidia-smi and CUDA_VISIBLE_DEVICES");
    PARE_TRY(check(cx, d, r, "starting"));
    PARE_TRY(check(cx, d,
                   d->call.cuDeviceGetName(d->base.name, (int)sizeof d->base.name - 1, d->number),
                   "asking for its name"));
    PARE_TRY(attribute(cx, d, PARE__CUDA_MAJOR, &major));
    PARE_TRY(attribute(cx, d, PARE__CUDA_MINOR, &minor));
    PARE_TRY(attribute(cx, d, PARE__CUDA_PROCESSORS, &processors));
    PARE_TRY(attribute(cx, d, PARE__CUDA_SHARED, &shared));
    d->base.major = (unsigned)major;
    d->base.minor = (unsigned)minor;
    d->base.processors = (unsigned)processors;
    d->base.shared = (size_t)shared;
    PARE_TRY(
        check(cx, d, d->call.cuDevicePrimaryCtxRetain(&d->context, d->number), "making a context"));
    PARE_TRY(check(cx, d, d->call.cuCtxSetCurrent(d->context), "making a context"));
    return check(cx, d, d->call.cuStreamCreate(&d->stream, 0), "making a stream");
}

static pare_status load(pare_ctx *cx, driver *d, const void *const *images)
{
    size_t count = 0;
    while (images[count])
        count++;
    d->module = PARE_NEW(&d->arena, CUmodule, count);
    if (!d->module)
        return PARE_ENOMEM;
    for (; d->modules < count; d->modules++) {
        const CUresult r = d->call.cuModuleLoadData(&d->module[d->modules], images[d->modules]);
        if (r == PARE__CUDA_NO_BINARY && d->base.major < 8)
            return pare_fail(cx, PARE_EDEVICE,
                             "%s has compute capability %u.%u; the kernels need 8.0 or higher",
                             d->base.name, d->base.major, d->base.minor);
        if (r == PARE__CUDA_INVALID_IMAGE || r == PARE__CUDA_NO_BINARY ||
            r == PARE__CUDA_PTX_VERSION)
            return pare_fail(cx, PARE_EDEVICE,
                             "%s: the NVIDIA driver cannot load kernels of CUDA %s (%d); install a "
                             "newer driver",
                             d->base.name, pare_cuda_version, (int)r);
        PARE_TRY(check(cx, d, r, "loading kernels"));
    }
    return PARE_OK;
}

pare_status pare__device_driver_open(pare_ctx *cx, const char *library, const void *const *images,
                                     pare_device **out)
{
    driver *const d = cx->alloc.resize(cx->alloc.self, NULL, 0, sizeof *d);
    *out = NULL;
    if (!d)
        return pare_fail(cx, PARE_ENOMEM, "out of memory: %zu bytes for a device", sizeof *d);
    *d = (driver){.base.op = &table, .arena = {.cx = cx}};
    pare_status s = open_library(cx, d, library);
    if (s == PARE_OK)
        s = open_gpu(cx, d);
    if (s == PARE_OK)
        s = load(cx, d, images);
    if (s == PARE_OK)
        *out = &d->base;
    else
        driver_close(cx, &d->base);
    return s;
}

pare_status pare_device_driver_open(pare_ctx *cx, const void *const *images, pare_device **d)
{
    return pare__device_driver_open(cx, "libcuda.so.1", images, d);
}
