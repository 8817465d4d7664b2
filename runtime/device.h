/* runtime/device.h - a device that runs kernels on memory of its own, as a table of calls.
 *
 * There are two: the driver of NVIDIA GPUs (device_driver.h), and in tests an interpreter of the
 * kernels' PTX. Host code above this table does not know which one it has.
 *
 * Memory of a device is an address that the host never reads or writes; put and get are the only
 * ways across. Calls run in the order in which they are made. `launch`, `fill` and `copy` may
 * return before the work is done, so what fails in it may be reported by any later call; `get` and
 * `wait` return behind all that was asked for before. One thread at a time.
 *
 * A graph is launches in a row that are run again and again by one call; between two runs the
 * arguments and the shape of each may change, but not the kernel.
 *
 * Errors, with a message in the context that names the device: PARE_ENOMEM (`take`
 * says how many bytes were asked for and are free); PARE_EDEVICE for everything else that the
 * device reports, with what it was doing (the kernel, its grid and block). After a PARE_EDEVICE
 * nothing but `close` makes sense. */
#ifndef PARE_RUNTIME_DEVICE_H
#define PARE_RUNTIME_DEVICE_H

#include <stddef.h>
#include <stdint.h>

#include "runtime/context.h"

/* Device memory; 0: none. */
typedef uint64_t pare_address;

/* How many threads run a kernel: blocks of the grid, threads of a block; and the bytes of dynamic
 * shared memory of a block. */
typedef struct pare_launch {
    uint32_t grid[3], block[3];
    uint32_t shared;
} pare_launch;

/* A launch that is kept. */
typedef struct pare_call {
    void *kernel;
    pare_launch how;
    const void *arguments;
    size_t bytes; /* of them */
} pare_call;

typedef struct pare_device pare_device;

/* memory  bytes that are free, and all that the device has
 * take    `bytes` > 0 bytes, aligned to 256, holding anything
 * give    frees what take gave; 0 is left alone. Waits for work that uses it. Never fails.
 * put     `bytes` bytes from the host to the device; `from` may be written over when it returns
 * get     the way back
 * fill    each of the bytes becomes `byte`
 * copy    within the device; the ranges do not overlap
 * kernel  the kernel of that name, which lives as long as the device. PARE_EDEVICE: there is none
 * launch  runs a kernel. `arguments` are its parameters one behind the other, each aligned to its
 *         size, up to the end of the last one: what a C struct with the parameters as members in
 *         order holds, an address as pare_address. They are copied before the call returns.
 * graph_make  of `count` calls, which are not run and copied before it returns. PARE_ENOMEM
 * graph_set   call i becomes `c`, of the same kernel
 * graph_run   runs it
 * graph_drop  frees it; it may still be running. Before `close`. Never fails.
 * wait    until all that was asked for is done, and reports what failed in it
 * close   gives the device back, and the struct itself; memory was given back before. Never fails.
 */
typedef struct pare_device_table {
    pare_status (*memory)(pare_ctx *cx, pare_device *d, size_t *free, size_t *total);
    pare_status (*take)(pare_ctx *cx, pare_device *d, size_t bytes, pare_address *at);
    void (*give)(pare_ctx *cx, pare_device *d, pare_address at);
    pare_status (*put)(pare_ctx *cx, pare_device *d, pare_address to, const void *from,
                       size_t bytes);
    pare_status (*get)(pare_ctx *cx, pare_device *d, void *to, pare_address from, size_t bytes);
    pare_status (*fill)(pare_ctx *cx, pare_device *d, pare_address to, uint8_t byte, size_t bytes);
    pare_status (*copy)(pare_ctx *cx, pare_device *d, pare_address to, pare_address from,
                        size_t bytes);
    pare_status (*kernel)(pare_ctx *cx, pare_device *d, const char *name, void **kernel);
    pare_status (*launch)(pare_ctx *cx, pare_device *d, void *kernel, const pare_launch *l,
                          const void *arguments, size_t bytes);
    pare_status (*graph_make)(pare_ctx *cx, pare_device *d, const pare_call *c, size_t count,
                              void **graph);
    pare_status (*graph_set)(pare_ctx *cx, pare_device *d, void *graph, size_t i,
                             const pare_call *c);
    pare_status (*graph_run)(pare_ctx *cx, pare_device *d, void *graph);
    void (*graph_drop)(pare_ctx *cx, pare_device *d, void *graph);
    pare_status (*wait)(pare_ctx *cx, pare_device *d);
    void (*close)(pare_ctx *cx, pare_device *d);
} pare_device_table;

/* An open device. Implementations begin their own struct with it. */
struct pare_device {
    const pare_device_table *op;
    char name[256];        /* as its maker calls it, "NVIDIA H100 80GB HBM3" */
    unsigned major, minor; /* compute capability */
    unsigned processors;   /* that run blocks side by side */
    size_t shared;         /* most bytes of shared memory of a block */
    size_t live, peak;     /* bytes that all models on it take (runtime/cuda.h); the most at once */
};

/* The GPU of this machine with the kernels of this program (device_driver.h). PARE_EDEVICE, too,
 * where the program was built without kernels. */
PARE_CHECKED pare_status pare_device_open(pare_ctx *cx, pare_device **d);

/* The same with a queue in front (device_queue.c): launches wait until something else is asked for.
 * A row of them that came before becomes a graph, and of later rows only what differs is sent. The
 * order stays; what a launch reports comes with a later call. Graphs are not for its callers. Where
 * memory for one is missing, that is told, and launches go one by one from then on.
 * pare_device_queue puts one in front of `inner`, which closes with it, also where that fails. */
PARE_CHECKED pare_status pare_device_open_queued(pare_ctx *cx, pare_device **d);
PARE_CHECKED pare_status pare_device_queue(pare_ctx *cx, pare_device *inner, pare_device **d);

/* The same device on paper: it has memory without end and does nothing, and what comes back from it
 * is 0. What models take of it is counted in live and peak. */
pare_device pare_device_on_paper(const pare_device *like);

#endif
