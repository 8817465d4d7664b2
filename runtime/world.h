/* runtime/world.h - the processes of one job: one, or those that mpirun started (option PARE_MPI).
 *
 * Process 0 leads. Messages are bytes between machines of one kind that run the same program. There
 * is no sum among them: who needs one gathers its terms and adds them in a fixed order, so that the
 * bytes do not depend on the number of processes. A receiver sleeps until a message is there. When
 * a process dies, mpirun ends the others. */
#ifndef PARE_RUNTIME_WORLD_H
#define PARE_RUNTIME_WORLD_H

#include <stdbool.h>

#include "runtime/context.h"

/* How bytes travel; a failure ends the process. */
typedef struct pare_world_link {
    void (*send)(void *self, size_t to, const void *bytes, size_t count);
    void (*receive)(void *self, size_t from, void *bytes, size_t count);
    void (*broadcast)(void *self, void *bytes, size_t count); /* from process 0 */
    void (*close)(void *self);
} pare_world_link;

typedef struct pare_world {
    size_t rank, size;
    const pare_world_link *link; /* NULL: one process */
    void *self;
    bool ended; /* all have agreed on a failure */
} pare_world;

static inline size_t pare_world_rank(const pare_ctx *cx)
{
    return cx->world ? cx->world->rank : 0;
}

static inline size_t pare_world_size(const pare_ctx *cx)
{
    return cx->world ? cx->world->size : 1;
}

/* How many processes the environment says there are: 1 unless mpirun, or a scheduler in its place,
 * started this one. */
size_t pare_world_started(void);

/* Joins the others, where there are any: cx->world. PARE_ENOTSUP in a build without MPI that more
 * than one process runs of. `world` lives until it is closed. */
PARE_CHECKED pare_status pare_world_open(pare_ctx *cx, pare_world *world);

/* Every process calls it, or the others wait for ever. */
void pare_world_close(pare_ctx *cx);

/* What one process sends another receives, in the same sizes and order. For more than one process.
 */
void pare_world_send(const pare_ctx *cx, size_t to, const void *bytes, size_t count);
void pare_world_receive(const pare_ctx *cx, size_t from, void *bytes, size_t count);

/* The bytes of process 0 to all. All call it. */
void pare_world_broadcast(const pare_ctx *cx, void *bytes, size_t count);

/* All processes return PARE_OK, or the failure of the first of them that has one, "rank 2: " in
 * front of its message. All call it, each with its own status. Behind a failure they are no longer
 * in step: every later call returns `s` at once. */
PARE_CHECKED pare_status pare_world_agree(pare_ctx *cx, pare_status s);

#endif
