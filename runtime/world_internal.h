/* runtime/world_internal.h - what a build with MPI adds. */
#ifndef PARE_RUNTIME_WORLD_INTERNAL_H
#define PARE_RUNTIME_WORLD_INTERNAL_H

#include "runtime/world.h"

/* Fills rank, size and link. PARE_EIO. */
PARE_CHECKED pare_status pare__world_mpi(pare_ctx *cx, pare_world *world);

#endif
