#include "runtime/threads.h"

#include <assert.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <time.h>

#include "runtime/machine.h"
#include "runtime/room.h"

/* Of a helper. That of the shell may be unlimited or large, and each counts as address space. */
enum { STACK_BYTES = 2 << 20 };
enum { SPINS = 4000 }; /* about 20-60 us of pause instructions, then sleep */

/* A helper that loses its core in the middle of a chunk holds up the end of a loop by a time slice,
 * a few milliseconds: nothing beside a long loop, far too much beside a loop of microseconds. After
 * such a stall the caller runs loops alone for a while and asks for help only when one takes longer
 * than ALONE_NS. The while doubles from one stall to the next and is forgotten when stalls stay
 * away. Who computes a chunk never changes what it computes. */
enum {
    STALL_NS = 100 * 1000, /* on top of the time of a few chunks */
    ALONE_NS = 500 * 1000,
    WAKE_NS = 30 * 1000, /* a loop that takes longer, or follows one, is worth waking sleepers */
    PAUSE_LEAST_NS = 2 * 1000 * 1000,
    PAUSE_MOST_NS = 64 * 1000 * 1000
};

/* `state` holds one loop: its turn in the high half, OPEN while helpers may join, and below it the
 * number that have joined and not left. A helper that wakes late finds the turn closed and is not
 * waited for, so a core that is taken by another process never holds up a loop it has no part in.
 */
#define OPEN    ((uint64_t)1 << 31)
#define ACTIVE  (OPEN - 1)
#define TURN(s) ((s) >> 32)

/* A share is a stretch of the chunks. With pare_parallel_apart each worker has one of its own, and
 * takes from those of others when it is through; else all chunks are the first share. */
typedef struct worker {
    pare_pool *pool;
    pthread_t thread; /* of a helper */
    size_t end;
    atomic_size_t next; /* first chunk of the share not yet handed out */
    char apart[64];     /* no two of them in one line of the cache */
} worker;

struct pare_pool {
    size_t helpers;
    pare_task *task;
    void *arg;
    size_t count, chunk, shares;
    int64_t alone_until, pause, stalled; /* ns; the caller's: see STALL_NS */
    int64_t last_ns;                     /* length of the last loop */
    _Atomic uint64_t state;
    atomic_bool stop;
    pthread_mutex_t lock;
    pthread_cond_t turn_changed, all_idle;
    worker worker[]; /* the caller, then the helpers */
};

static inline void pause_cpu(void)
{
#if defined(__x86_64__)
    __builtin_ia32_pause();
#endif
}

static int64_t now_ns(void)
{
    struct timespec t;
    (void)clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

static void share_out(pare_pool *p)
{
    const size_t chunks = p->count / p->chunk + (p->count % p->chunk ? 1 : 0);
    size_t begin = 0;
    for (size_t i = 0; i < p->shares; i++) {
        const size_t one_more = i < chunks % p->shares ? 1 : 0;
        p->worker[i].end = begin + chunks / p->shares + one_more;
        atomic_store(&p->worker[i].next, begin);
        begin = p->worker[i].end;
    }
}

/* Runs the next chunk of a share; false when none is left. */
static bool run_chunk_of(pare_pool *p, worker *of, size_t self)
{
    if (atomic_load(&of->next) >= of->end)
        return false;
    const size_t chunk = atomic_fetch_add(&of->next, 1);
    if (chunk >= of->end)
        return false;
    const size_t begin = chunk * p->chunk, left = p->count - begin;
    p->task(p->arg, begin, begin + (left < p->chunk ? left : p->chunk), self);
    return true;
}

/* Runs a chunk of the worker's own share, or of the next one that has any; false when none is left.
 */
static bool run_chunk(pare_pool *p, size_t self)
{
    for (size_t i = 0; i < p->shares; i++)
        if (run_chunk_of(p, &p->worker[(self + i) % p->shares], self))
            return true;
    return false;
}

/* Waits for a turn other than `seen`; returns the state that showed it. */
static uint64_t wait_turn(pare_pool *p, uint64_t seen)
{
    uint64_t now;
    for (int i = 0; i < SPINS; i++) {
        now = atomic_load(&p->state);
        if (TURN(now) != seen)
            return now;
        pause_cpu();
    }
    (void)pthread_mutex_lock(&p->lock);
    while (TURN(now = atomic_load(&p->state)) == seen)
        (void)pthread_cond_wait(&p->turn_changed, &p->lock);
    (void)pthread_mutex_unlock(&p->lock);
    return now;
}

/* Enters the turn of `s` unless it has closed meanwhile. */
static bool join_turn(pare_pool *p, uint64_t s)
{
    const uint64_t turn = TURN(s);
    while (TURN(s) == turn && (s & OPEN))
        if (atomic_compare_exchange_weak(&p->state, &s, s + 1))
            return true;
    return false;
}

static void leave_turn(pare_pool *p)
{
    const uint64_t before = atomic_fetch_sub(&p->state, 1);
    if ((before & ACTIVE) == 1 && !(before & OPEN)) {
        (void)pthread_mutex_lock(&p->lock);
        (void)pthread_cond_signal(&p->all_idle);
        (void)pthread_mutex_unlock(&p->lock);
    }
}

static void *helper_main(void *arg)
{
    const worker *const self = arg;
    pare_pool *const p = self->pool;
    for (uint64_t seen = 0; !atomic_load(&p->stop);) {
        const uint64_t s = wait_turn(p, seen);
        seen = TURN(s);
        if (join_turn(p, s)) {
            while (run_chunk(p, (size_t)(self - p->worker)))
                ;
            leave_turn(p);
        }
    }
    return NULL;
}

/* Only helpers that still spin see it; wake_sleepers reaches the rest. */
static void open_turn(pare_pool *p, uint64_t open)
{
    const uint64_t turn = (TURN(atomic_load(&p->state)) + 1) << 32;
    atomic_store(&p->state, turn | open);
}

static void wake_sleepers(pare_pool *p)
{
    (void)pthread_mutex_lock(&p->lock);
    (void)pthread_cond_broadcast(&p->turn_changed);
    (void)pthread_mutex_unlock(&p->lock);
}

static void close_turn(pare_pool *p)
{
    (void)atomic_fetch_and(&p->state, ~OPEN);
    for (int i = 0; i < SPINS; i++) {
        if ((atomic_load(&p->state) & ACTIVE) == 0)
            return;
        pause_cpu();
    }
    (void)pthread_mutex_lock(&p->lock);
    while ((atomic_load(&p->state) & ACTIVE) != 0)
        (void)pthread_cond_wait(&p->all_idle, &p->lock);
    (void)pthread_mutex_unlock(&p->lock);
}

static void stop_helpers(pare_pool *p, size_t started)
{
    atomic_store(&p->stop, true);
    open_turn(p, 0);
    wake_sleepers(p);
    for (size_t i = 0; i < started; i++)
        (void)pthread_join(p->worker[i + 1].thread, NULL);
    (void)pthread_mutex_destroy(&p->lock);
    (void)pthread_cond_destroy(&p->turn_changed);
    (void)pthread_cond_destroy(&p->all_idle);
}

size_t pare_cpu_count(void)
{
    pare_machine m;
    pare_machine_read("", &m);
    return m.threads;
}

static size_t pool_bytes(size_t helpers)
{
    return sizeof(pare_pool) + (helpers + 1) * sizeof(worker);
}

uint64_t pare_pool_room(size_t threads)
{
    return (uint64_t)(threads - 1) * STACK_BYTES;
}

/* Starts the helpers; how many have come up. */
static size_t start_helpers(pare_pool *p)
{
    pthread_attr_t attr;
    size_t started = 0;
    if (pthread_attr_init(&attr) != 0)
        return 0;
    if (pthread_attr_setstacksize(&attr, STACK_BYTES) == 0)
        while (started < p->helpers && pthread_create(&p->worker[started + 1].thread, &attr,
                                                      helper_main, &p->worker[started + 1]) == 0)
            started++;
    (void)pthread_attr_destroy(&attr);
    return started;
}

pare_status pare_pool_new(pare_ctx *cx, size_t threads, pare_pool **pool)
{
    *pool = NULL;
    if (threads == 0) {
        threads = pare_cpu_count();
        threads = threads < PARE_THREADS_MAX ? threads : PARE_THREADS_MAX;
    }
    if (threads > PARE_THREADS_MAX)
        return pare_fail(cx, PARE_EINVAL, "%zu threads asked for, at most %d are supported",
                         threads, PARE_THREADS_MAX);
    const size_t want = threads - 1;
    char what[64];
    (void)snprintf(what, sizeof what, "%zu threads", threads);
    PARE_TRY(pare_room_check(cx, pare_pool_room(threads), what, "give a smaller --threads"));
    pare_pool *const p = cx->alloc.resize(cx->alloc.self, NULL, 0, pool_bytes(want));
    if (!p)
        return pare_fail(cx, PARE_ENOMEM, "out of memory: pool of %zu threads", threads);
    *p = (pare_pool){.helpers = want};
    (void)pthread_mutex_init(&p->lock, NULL);
    (void)pthread_cond_init(&p->turn_changed, NULL);
    (void)pthread_cond_init(&p->all_idle, NULL);
    for (size_t i = 0; i <= want; i++)
        p->worker[i].pool = p;
    const size_t started = start_helpers(p);
    if (started < want) {
        stop_helpers(p, started);
        (void)cx->alloc.resize(cx->alloc.self, p, pool_bytes(want), 0);
        return pare_fail(cx, PARE_ENOMEM, "cannot start thread %zu of %zu", started + 2, threads);
    }
    *pool = p;
    return PARE_OK;
}

void pare_pool_free(pare_ctx *cx, pare_pool *p)
{
    if (!p)
        return;
    stop_helpers(p, p->helpers);
    (void)cx->alloc.resize(cx->alloc.self, p, pool_bytes(p->helpers), 0);
}

size_t pare_threads(const pare_ctx *cx)
{
    return cx->pool ? cx->pool->helpers + 1 : 1;
}

/* Learns from the time the caller waited for helpers at the end of a loop. */
static void note_wait(pare_pool *p, int64_t now, int64_t waited, int64_t chunk_ns)
{
    if (waited > STALL_NS + 4 * chunk_ns) {
        p->pause = p->pause ? 2 * p->pause : PAUSE_LEAST_NS;
        p->pause = p->pause < PAUSE_MOST_NS ? p->pause : PAUSE_MOST_NS;
        p->stalled = now;
        p->alone_until = now + p->pause;
    } else if (now - p->stalled > 4 * p->pause) {
        p->pause = 0;
    }
}

static void run_loop(const pare_ctx *cx, size_t count, size_t chunk, pare_task *task, void *arg,
                     bool apart)
{
    assert(chunk > 0);
    pare_pool *const p = cx->pool;
    if (!p || p->helpers == 0 || count <= chunk) {
        for (size_t i = 0; i < count; i += chunk)
            task(arg, i, count - i < chunk ? count : i + chunk, 0);
        return;
    }
    p->task = task;
    p->arg = arg;
    p->count = count;
    p->chunk = chunk;
    p->shares = apart ? p->helpers + 1 : 1;
    share_out(p);
    const int64_t start = now_ns(), alone = start < p->alone_until ? ALONE_NS : 0;
    bool open = !alone, awake = false;
    size_t chunks = 0;
    if (open)
        open_turn(p, OPEN);
    if (open && p->last_ns > WAKE_NS) {
        wake_sleepers(p);
        awake = true;
    }
    int64_t now = start;
    for (; run_chunk(p, 0); chunks++) {
        now = now_ns();
        if (!open && now - start > alone) {
            open_turn(p, OPEN);
            open = true;
        }
        if (open && !awake && now - start > WAKE_NS) {
            wake_sleepers(p);
            awake = true;
        }
    }
    p->last_ns = now - start;
    if (!open)
        return;
    close_turn(p);
    note_wait(p, now, now_ns() - now, chunks ? (now - start) / (int64_t)chunks : 0);
}

void pare_parallel(const pare_ctx *cx, size_t count, size_t chunk, pare_task *task, void *arg)
{
    run_loop(cx, count, chunk, task, arg, false);
}

void pare_parallel_apart(const pare_ctx *cx, size_t count, size_t chunk, pare_task *task, void *arg)
{
    run_loop(cx, count, chunk, task, arg, true);
}
