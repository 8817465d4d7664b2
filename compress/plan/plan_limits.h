/* compress/plan/plan_limits.h - what bounds the memory of a job. */
#ifndef PARE_COMPRESS_PLAN_PLAN_LIMITS_H
#define PARE_COMPRESS_PLAN_PLAN_LIMITS_H

#include <stdint.h>

#include "runtime/context.h"

/* Something that bounds memory, named as in "the limit of NAME". */
typedef struct pare_memory_limit {
    const char *name;
    uint64_t bytes;
} pare_memory_limit;

/* The smallest limit: what was asked for (bytes 0: nothing, then three quarters of the memory of
 * the machine or of its container, else all of it), and what the shell (ulimit -v, -d) leaves to a
 * process that holds `held` bytes of what it needs already and will map files of `mapped` bytes. */
pare_memory_limit pare_memory_limit_find(pare_memory_limit asked, uint64_t held, uint64_t mapped);

/* Measured once: the program as it comes, data of libraries, small parsed files, spaces between
 * allocations. */
enum { PARE_PROGRAM_BYTES = 1920 << 10 };

/* What a process has beside its allocator: the program, and for each thread its stack and the
 * packed panels of a product, `columns` of its result at most. */
uint64_t pare_process_bytes(const pare_ctx *cx, size_t columns);

#endif
