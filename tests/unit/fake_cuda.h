/* tests/unit/fake_cuda.h - a library in the place of NVIDIA's driver: memory of its own at
 * addresses that the host cannot read, a log of what is asked for, and any call that fails on
 * demand. */
#ifndef PARE_TESTS_FAKE_CUDA_H
#define PARE_TESTS_FAKE_CUDA_H

#include <stddef.h>

enum { FAKE_CUDA_LOG = 4096, FAKE_CUDA_FIRST = 4096 };

typedef struct fake_cuda {
    char log[FAKE_CUDA_LOG]; /* calls one behind the other, "cuInit cuDeviceGet ..." */
    const char *fail;        /* the call that fails, ... */
    int left;                /* ... when it has been made so often, ... */
    int error;               /* ... with this CUresult */
    size_t memory, live;     /* bytes in all, and taken */
    int major;               /* compute capability; 0: 9 */
    int contexts, modules, streams, allocations;
    unsigned grid[3], block[3], shared; /* of the last launch */
    unsigned char argument[512];
    size_t bytes; /* of them */
    int graphs;   /* that live, and those that can be launched */
    size_t nodes, sets;
    size_t launches;                 /* single ones and those of graphs ... */
    unsigned first[FAKE_CUDA_FIRST]; /* ... and the first word of the arguments of each */
} fake_cuda;

#endif
