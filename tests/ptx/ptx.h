/* tests/ptx/ptx.h - runs the PTX of CUDA kernels on the CPU, with checks that hardware does not
 * make.
 *
 * A machine holds modules (PTX text) and device memory. A launch runs every warp of 32 lanes with a
 * program counter per lane; the lanes with the lowest one go first. Arithmetic is IEEE with
 * denormals, as the PTX ISA defines it. What the ISA leaves undefined is a fault: the launch stops
 * and ptx_report() says what happened, in which kernel and source line, for which lanes and
 * addresses. An opcode that is not known is an error of ptx_load(), with its line.
 *
 * Device addresses are not addresses of this process: they fault when the host follows one.
 * Allocations lie 4 GiB apart, so no index gets from one to the next.
 *
 * Memory   malloc; ptx_machine_free() gives everything back.
 * Threads  a machine belongs to one thread; a launch may use several inside. */
#ifndef PARE_TESTS_PTX_H
#define PARE_TESTS_PTX_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct ptx_machine ptx_machine;
typedef struct ptx_module ptx_module;
typedef struct ptx_kernel ptx_kernel;

/* Which warp of a block goes next. Results must not depend on it. */
typedef enum ptx_order {
    PTX_ROUND_ROBIN, /* every warp in turn, up to 256 instructions each */
    PTX_ASCENDING,   /* the first warp that can go, as far as it goes */
    PTX_DESCENDING,  /* the last one */
    PTX_RANDOM       /* any, 1 to 64 instructions, by the seed; blocks in random order too */
} ptx_order;

/* How a tensor instruction adds F16 products, which PTX leaves open. */
typedef enum ptx_model {
    PTX_EXACT, /* exact products, summed in double, rounded once */
    PTX_A100,  /* 8 products and the accumulator at a time, cut to 2^-24 of the largest */
    PTX_H100   /* 16 at a time, cut to 2^-25 of the largest */
} ptx_model;

typedef enum ptx_checks {
    PTX_LIGHT, /* bounds, alignment, undefined registers: for whole models */
    PTX_FULL   /* and undefined bytes of memory, races, copies in flight */
} ptx_checks;

/* All zero is a good start: light checks, round robin, exact sums, one thread. */
typedef struct ptx_options {
    ptx_checks checks;
    ptx_order order;
    uint64_t seed;    /* of PTX_RANDOM */
    ptx_model model;  /* of F16 sums */
    bool early;       /* cp.async lands when it is issued, otherwise at its wait */
    bool count;       /* fill ptx_counts (slower) */
    bool trace;       /* remember what ran: ptx_trace() */
    unsigned threads; /* that run blocks of a kernel without atomics; 0 means 1 */
    uint64_t limit;   /* instructions of one warp after which a launch is a fault; 0: 2^36 */
} ptx_options;

typedef struct ptx_launch {
    const ptx_kernel *kernel;
    uint32_t grid[3], block[3];
    uint32_t shared;       /* bytes of dynamic shared memory */
    const void *arguments; /* laid out like the .param list, each at its alignment */
    size_t bytes;          /* of arguments: exactly ptx_kernel_bytes() */
    ptx_options options;
} ptx_launch;

/* What happened first; text is one line for a person. */
typedef struct ptx_fault {
    const char *kernel;
    const char *file; /* of the kernel's source, NULL if the text has no .loc */
    unsigned line;    /* there */
    unsigned ptx_line;
    uint32_t block[3];
    unsigned warp;
    uint32_t lanes;   /* a bit per lane that is concerned */
    uint64_t address; /* of the first of these lanes; 0 if no memory is concerned */
    char text[512];
} ptx_fault;

/* Exact numbers of one launch, the same for every order of warps. */
typedef struct ptx_counts {
    uint64_t instructions; /* of warps */
    uint64_t lanes;        /* lanes that ran them */
    uint64_t tensor, integer, floating, conversion, shared, global, branch,
        other;                  /* instructions */
    uint64_t divergent;         /* branches that parted a warp */
    uint64_t barriers;          /* arrivals of warps */
    uint64_t asked;             /* bytes of global memory that lanes asked for */
    uint64_t sectors;           /* of 32 bytes, summed over accesses */
    uint64_t distinct;          /* sectors touched at least once in the launch */
    uint64_t wavefronts, least; /* of shared memory: needed, and least possible */
    uint64_t waits, overlapped; /* waits for copies; those that left a group in flight */
} ptx_counts;

ptx_machine *ptx_machine_new(void);
void ptx_machine_free(ptx_machine *m);

/* What the last failed call found. */
const ptx_fault *ptx_report(const ptx_machine *m);

/* Reads PTX text (it need not end with 0); NULL with a report if it is damaged or holds something
 * that is not known. */
ptx_module *ptx_load(ptx_machine *m, const char *text, size_t bytes);

/* NULL if there is none of that name. */
const ptx_kernel *ptx_find(const ptx_module *module, const char *name);
const ptx_kernel *ptx_kernel_at(const ptx_module *module, size_t index); /* NULL past the last */
const char *ptx_kernel_name(const ptx_kernel *kernel);
size_t ptx_kernel_bytes(const ptx_kernel *kernel);    /* of its parameters */
uint32_t ptx_kernel_shared(const ptx_kernel *kernel); /* bytes of static shared memory */
uint32_t ptx_kernel_local(const ptx_kernel *kernel);  /* bytes of local memory per lane */

/* Sets ran[i] to 1 for each line i of the text of which an instruction ran in launches with
 * options.trace, from line 1 on, and forgets them; false if there are none. */
bool ptx_trace(const ptx_kernel *kernel, uint8_t *ran, size_t lines);

/* Memory of the device, undefined at first; 0 with a report if there is none left. */
uint64_t ptx_take(ptx_machine *m, uint64_t bytes);
bool ptx_give(ptx_machine *m, uint64_t address); /* the address that ptx_take returned */
bool ptx_put(ptx_machine *m, uint64_t address, const void *source, uint64_t bytes);
bool ptx_get(ptx_machine *m, void *target, uint64_t address, uint64_t bytes);
bool ptx_fill(ptx_machine *m, uint64_t address, uint8_t value, uint64_t bytes);
bool ptx_copy(ptx_machine *m, uint64_t to, uint64_t from, uint64_t bytes);

/* The host's view of device memory, for libraries that compute on it; NULL with a report if
 * [address, address + bytes) is not all of one allocation. The caller marks what it wrote. */
void *ptx_view(ptx_machine *m, uint64_t address, uint64_t bytes);
void ptx_define(ptx_machine *m, uint64_t address, uint64_t bytes);

/* Runs a kernel to its end. false with a report at the first fault; memory then holds what was
 * written before. */
bool ptx_run(ptx_machine *m, const ptx_launch *launch);

/* Of the last launch with options.count. */
const ptx_counts *ptx_counted(const ptx_machine *m);

#endif
