/* compress/plan/plan_limits.h - what bounds the memory of a job. */
#ifndef PARE_COMPRESS_PLAN_PLAN_LIMITS_H
#define PARE_COMPRESS_PLAN_PLAN_LIMITS_H

#include <stdint.h>

/* Something that bounds memory, named as in "the limit of NAME". */
typedef struct pare_memory_limit {
    const char *name;
    uint64_t bytes;
} pare_memory_limit;

/* The smallest limit: what was asked for (bytes 0: nothing, then three quarters of the memory of
 * the machine or of its container, else all of it), and what the shell (ulimit -v, -d) leaves to a
 * process that holds `held` bytes of what it needs already and will map files of `mapped` bytes. */
pare_memory_limit pare_memory_limit_find(pare_memory_limit asked, uint64_t held, uint64_t mapped);

#endif
