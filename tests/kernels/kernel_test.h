/* tests/kernels/kernel_test.h - every kernel against its reference, on every CPU level.
 *
 * A body draws input, builds a case and hands it to kt_check, which runs the case with both tables
 * and compares every byte of the output and of the guards around it. Inputs lie in blocks of their
 * exact size, so that a sanitizer sees a read past them. A failure prints the kernel, the level,
 * the sizes and the seed, and the command that repeats it alone. */
#ifndef PARE_TESTS_KERNEL_TEST_H
#define PARE_TESTS_KERNEL_TEST_H

#include <stdbool.h>

#include "kernels/kernels.h"

enum { KT_GUARD = 64, KT_INPUTS = 8 };

typedef struct kt {
    const pare_kernels *ref, *now;
    const char *kernel, *level;
    uint64_t seed, state;
    bool bench, quiet;
    bool any_nan; /* one NaN is as good as another */
    size_t checks, failed;
    void *input[KT_INPUTS]; /* owned; released by kt_check */
    size_t inputs;
} kt;

/* One call. What is used depends on the kernel. */
typedef struct kt_case {
    const void *x, *w;
    size_t ldx, ldw, ldy, m, n, k, group;
    unsigned bits;
    pare_decoding how; /* of packed codes */
    size_t span;       /* of quantized activations, with top and step */
    int32_t top;
    float step;
    const uint32_t *start, *column; /* of sparse weights, with value */
    const uint16_t *value;
    pare_x8 x8;
    pare_panel panel;
    size_t out_bytes;   /* of the output */
    size_t whole_bytes; /* at its end: no floats */
    size_t work_bytes;  /* read and written, for the bandwidth */
} kt_case;

/* Calls one kernel of a table on a case. */
typedef void kt_run(const pare_kernels *k, const kt_case *c, uint8_t *out);

uint64_t kt_u64(kt *t);                           /* splitmix64 */
size_t kt_below(kt *t, size_t n);                 /* uniform in [0, n) */
void *kt_input(kt *t, size_t count, size_t size); /* random bytes, exact size */
float *kt_floats(kt *t, size_t n);                /* mixed: normal, tiny, huge, zero, repeated */
uint16_t *kt_halves(kt *t, size_t n, bool bf16);  /* the same in 16 bits, finite */
void kt_check(kt *t, const kt_case *c, kt_run *run);

/* Bodies and planted faults. */
#define X(name, ret, params, cls) void kt_##name(kt *t);
PARE_KERNEL_LIST(X)
#undef X

/* gemv_packed of EXL3. */
void kt_gemv_exl3(kt *t);

/* Puts fault number i into *k; returns the kernel's name and says in *what the fault is; NULL
 * behind the last. */
const char *kt_plant(size_t i, pare_kernels *k, const char **what);
const char *kt_plant_round(size_t i, pare_kernels *k, const char **what);  /* those of rounding */
const char *kt_plant_bf16(size_t i, pare_kernels *k, const char **what);   /* those of BF16 */
const char *kt_plant_panels(size_t i, pare_kernels *k, const char **what); /* those of panels */
const char *kt_plant_optimizer(size_t i, pare_kernels *k, const char **what); /* of a step */
const char *kt_plant_refine(size_t i, pare_kernels *k, const char **what);    /* of refinement */
const char *kt_plant_exl3(size_t i, pare_kernels *k, const char **what);      /* those of EXL3 */

/* A row of a list of faults, in a function with these parameters and `at`, the rows before. */
#define KT_PLANT(kernel, fault, text)                                                              \
    if (i == at++) {                                                                               \
        k->kernel = fault;                                                                         \
        *what = (text);                                                                            \
        return #kernel;                                                                            \
    }

#endif
