/* tests/ptx/fault_kinds.h - mistakes of a programmer that are planted in a line of PTX: what stands
 * for them in the text of a kernel. */
#ifndef PARE_TESTS_FAULT_KINDS_H
#define PARE_TESTS_FAULT_KINDS_H

#include <stdbool.h>

enum { FAULT_LINE = 512 /* bytes of a line, the end included */ };

typedef struct fault_kind {
    const char *name;
    /* false: the line has no place for it. Else `out` is the line with the mistake. */
    bool (*plant)(const char *line, char out[FAULT_LINE]);
    /* Whether the line is meant, by the text around it; NULL: it is. */
    bool (*fits)(const char *line);
    bool by_compiler; /* nvcc chooses in which lines it may lie, and whether it matters there */
} fault_kind;

/* The kinds; one whose name is NULL ends them. */
extern const fault_kind fault_kinds[];

#endif
