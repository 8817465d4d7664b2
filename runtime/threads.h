/* runtime/threads.h - one pool of threads and a parallel loop over chunks.
 *
 * Chunks are handed out in order to whoever is free. What a chunk computes must not depend on the
 * worker that runs it nor on the number of workers: then results are the same for every thread
 * count. Waiting spins for a bounded time and then sleeps, and after a helper was held up by a busy
 * neighbour on its core short loops run without it for a while, so that a neighbour costs about its
 * share and no more. */
#ifndef PARE_RUNTIME_THREADS_H
#define PARE_RUNTIME_THREADS_H

#include "runtime/context.h"

enum { PARE_THREADS_MAX = 256 };

typedef struct pare_pool pare_pool;

/* Runs items [begin, end) of a loop. `worker` is below pare_threads(cx): an index for scratch. */
typedef void pare_task(void *arg, size_t begin, size_t end, size_t worker);

/* Starts threads - 1 helpers (the caller is the other worker); 0 means pare_cpu_count().
 * PARE_EINVAL above PARE_THREADS_MAX, PARE_ENOMEM when memory or threads run out, or a limit of the
 * shell leaves too little for them. */
PARE_CHECKED pare_status pare_pool_new(pare_ctx *cx, size_t threads, pare_pool **pool);

/* Bytes of stacks that such a pool maps; threads is above 0. */
uint64_t pare_pool_room(size_t threads);

/* Stops and joins the helpers. NULL is allowed. */
void pare_pool_free(pare_ctx *cx, pare_pool *pool);

/* Workers of cx->pool, 1 without a pool. */
size_t pare_threads(const pare_ctx *cx);

/* CPUs this process may keep busy: those of its affinity mask, or fewer where a control group
 * limits its time (runtime/machine.h); at least 1. */
size_t pare_cpu_count(void);

/* Runs task over [0, count) in chunks of `chunk` items (the last may be shorter) and returns when
 * all are done. Not reentrant: a task must not start a loop on the same pool. */
void pare_parallel(const pare_ctx *cx, size_t count, size_t chunk, pare_task *task, void *arg);

/* The same for tasks that ask for memory ahead of time: each worker begins with a stretch of the
 * loop of its own, so what it asked for behind a chunk it mostly reads itself. When it is through,
 * it takes from the stretches of others. */
void pare_parallel_apart(const pare_ctx *cx, size_t count, size_t chunk, pare_task *task,
                         void *arg);

#endif
