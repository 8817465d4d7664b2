/* compress/run/run_walk.h - a walk over the blocks, as run->walk says. */
#ifndef PARE_COMPRESS_RUN_RUN_WALK_H
#define PARE_COMPRESS_RUN_RUN_WALK_H

#include <stdbool.h>

#include "runtime/status.h"

typedef struct pare_run pare_run; /* compress/run/run_internal.h */

/* Memory of a walk, weights of tokens, waves with the inputs of the first block. PARE_ENOMEM,
 * PARE_ENOSPC, and what weighing and embedding return. End it in any case. */
PARE_CHECKED pare_status pare__walk_begin(pare_run *run);

/* Whether the float model runs beside the compressed one. */
bool pare__walk_floats(const pare_run *run);

/* The waves are at the inputs of the first block, again. */
PARE_CHECKED pare_status pare__walk_fill(pare_run *run);

/* Gives back what the walk took, and the scratch of its blocks. */
void pare__walk_end(pare_run *run);

#endif
