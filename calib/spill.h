/* calib/spill.h - a scratch file of a running job, for what does not stay in memory.
 *
 * Its space is reserved when it is opened, so that a full disk is told before the work and not in
 * it. It has a name for a moment only: no job leaves one behind, and one that goes on after a break
 * makes it anew. */
#ifndef PARE_CALIB_SPILL_H
#define PARE_CALIB_SPILL_H

#include <stdbool.h>
#include <stdint.h>

#include "runtime/arena.h"

/* Names in the directory of the job. */
#define PARE_SPILL_WAVE    "activations"
#define PARE_SPILL_WEIGHTS "token_weights"
#define PARE_SPILL_STREAM  "block_inputs"
#define PARE_SPILL_DRIFT   "drift"

typedef struct pare_spill {
    int fd;     /* with path */
    char *path; /* for messages; NULL: closed */
} pare_spill;

/* Makes a file of `bytes` in a directory; `what` lies in it, for messages. PARE_ENOMEM,
 * PARE_ENOSPC, PARE_EIO. Close it in any case. */
PARE_CHECKED pare_status pare_spill_open(pare_ctx *cx, pare_arena *a, const char *directory,
                                         const char *name, uint64_t bytes, const char *what,
                                         pare_spill *out);
void pare_spill_close(pare_spill *spill);

/* Floats behind the first `at` of the file. PARE_ENOSPC, PARE_EIO. */
PARE_CHECKED pare_status pare_spill_put(pare_ctx *cx, const pare_spill *spill, const float *x,
                                        size_t count, uint64_t at);
PARE_CHECKED pare_status pare_spill_get(pare_ctx *cx, const pare_spill *spill, float *x,
                                        size_t count, uint64_t at);

/* Process 0 of a job (runtime/world.h) uses the name as it is, others NAME.RANK. */

/* True for the name of such a file: what a job that was killed may leave. */
bool pare_spill_is_name(const char *name);

#endif
