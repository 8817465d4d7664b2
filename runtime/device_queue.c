/* A queue in front of a device. Decoding asks for the same kernels for each token; of their
 * arguments only positions differ, which the caller's structs hold by value. So what was asked for
 * is compared with what a graph has, and the calls that differ are set: whatever a caller changes,
 * the graph runs what was asked for. */
#include <stdio.h>
#include <string.h>

#include "runtime/arena.h"
#include "runtime/device.h"

enum {
    CALLS = 2048,   /* that wait at most, with ... */
    ROOM = 1 << 20, /* ... so many bytes of arguments */
    LEAST = 32,     /* calls that are worth a graph */
    GRAPHS = 8,     /* that are kept */
    SEEN = 8        /* rows that came once */
};

/* Calls in a row, with their arguments. */
typedef struct row {
    pare_call *call;
    uint8_t *bytes;
    size_t count, used;
} row;

typedef struct kept {
    pare_arena arena; /* of the row */
    row row;
    void *graph; /* NULL: free */
} kept;

typedef struct queue {
    pare_device base;
    pare_device *inner;
    pare_arena arena; /* what follows, and this struct */
    row row;
    kept kept[GRAPHS];
    size_t next; /* that gives way */
    bool plain;  /* no graphs: there was no memory for one */
    uint64_t seen[SEEN];
    size_t next_seen;
    pare_status failed; /* of a call that cannot fail */
    char what[sizeof((pare_ctx *)NULL)->what];
} queue;

static queue *of(pare_device *d)
{
    return (queue *)(void *)d;
}

/* Of the kernels, FNV-1a. */
static uint64_t name_of(const row *r)
{
    uint64_t h = 0xcbf29ce484222325u;
    for (size_t i = 0; i < r->count; i++)
        h = (h ^ (uint64_t)(uintptr_t)r->call[i].kernel) * 0x100000001b3u;
    return h;
}

static bool same_kernels(const row *a, const row *b)
{
    if (a->count != b->count)
        return false;
    for (size_t i = 0; i < a->count; i++)
        if (a->call[i].kernel != b->call[i].kernel || a->call[i].bytes != b->call[i].bytes)
            return false;
    return true;
}

static bool came_before(queue *q, uint64_t name)
{
    for (size_t i = 0; i < SEEN; i++)
        if (q->seen[i] == name)
            return true;
    q->seen[q->next_seen++ % SEEN] = name;
    return false;
}

static void drop(pare_ctx *cx, queue *q, kept *k)
{
    if (k->graph)
        q->inner->op->graph_drop(cx, q->inner, k->graph);
    k->graph = NULL;
    pare_arena_release(&k->arena);
}

static pare_status keep(pare_ctx *cx, queue *q, kept *k)
{
    const row *const r = &q->row;
    drop(cx, q, k);
    k->arena = (pare_arena){.cx = q->arena.cx};
    k->row = (row){.call = PARE_NEW(&k->arena, pare_call, r->count),
                   .bytes = pare_arena_take(&k->arena, 1, r->used),
                   .count = r->count,
                   .used = r->used};
    if (!k->row.call || !k->row.bytes)
        return pare_fail(cx, PARE_ENOMEM, "out of memory: a graph of %zu launches", r->count);
    memcpy(k->row.bytes, r->bytes, r->used);
    for (size_t i = 0; i < r->count; i++) {
        k->row.call[i] = r->call[i];
        k->row.call[i].arguments =
            k->row.bytes + ((const uint8_t *)r->call[i].arguments - r->bytes);
    }
    PARE_TRY(q->inner->op->graph_make(cx, q->inner, k->row.call, r->count, &k->graph));
    return q->inner->op->graph_run(cx, q->inner, k->graph);
}

/* What is asked for now, by a graph of the same kernels. */
static pare_status run_again(pare_ctx *cx, queue *q, kept *k)
{
    for (size_t i = 0; i < k->row.count; i++) {
        const pare_call *const now = &q->row.call[i];
        pare_call *const then = &k->row.call[i];
        if (memcmp(&now->how, &then->how, sizeof now->how) == 0 &&
            memcmp(now->arguments, then->arguments, now->bytes) == 0)
            continue;
        PARE_TRY(q->inner->op->graph_set(cx, q->inner, k->graph, i, now));
        then->how = now->how;
        memcpy(k->row.bytes + ((const uint8_t *)then->arguments - k->row.bytes), now->arguments,
               now->bytes);
    }
    return q->inner->op->graph_run(cx, q->inner, k->graph);
}

static pare_status run_one_by_one(pare_ctx *cx, queue *q)
{
    for (size_t i = 0; i < q->row.count; i++) {
        const pare_call *const c = &q->row.call[i];
        PARE_TRY(q->inner->op->launch(cx, q->inner, c->kernel, &c->how, c->arguments, c->bytes));
    }
    return PARE_OK;
}

/* A graph takes memory of the host and of the device. One that has none did not run. */
static pare_status go_on_without_graphs(pare_ctx *cx, queue *q)
{
    for (size_t i = 0; i < GRAPHS; i++)
        drop(cx, q, &q->kept[i]);
    q->plain = true;
    pare_warn(cx, "no memory for a graph, kernels are launched one by one: %s", cx->what);
    pare_ctx_clear(cx);
    return run_one_by_one(cx, q);
}

static pare_status run_row(pare_ctx *cx, queue *q)
{
    pare_status s = PARE_OK;
    size_t i = 0;
    if (q->plain || q->row.count < LEAST)
        return run_one_by_one(cx, q);
    while (i < GRAPHS && !(q->kept[i].graph && same_kernels(&q->row, &q->kept[i].row)))
        i++;
    if (i < GRAPHS)
        s = run_again(cx, q, &q->kept[i]);
    else if (came_before(q, name_of(&q->row)))
        s = keep(cx, q, &q->kept[q->next++ % GRAPHS]);
    else
        return run_one_by_one(cx, q);
    return s == PARE_ENOMEM ? go_on_without_graphs(cx, q) : s;
}

/* Everything that waits goes to the device. */
static pare_status flush(pare_ctx *cx, pare_device *d)
{
    queue *const q = of(d);
    if (q->failed != PARE_OK)
        return pare_fail(cx, q->failed, "%s", q->what);
    const pare_status s = run_row(cx, q);
    q->row.count = q->row.used = 0;
    return s;
}

static pare_status queue_memory(pare_ctx *cx, pare_device *d, size_t *free, size_t *total)
{
    return of(d)->inner->op->memory(cx, of(d)->inner, free, total);
}

static pare_status queue_take(pare_ctx *cx, pare_device *d, size_t bytes, pare_address *at)
{
    return of(d)->inner->op->take(cx, of(d)->inner, bytes, at);
}

/* What waits may use it. */
static void queue_give(pare_ctx *cx, pare_device *d, pare_address at)
{
    queue *const q = of(d);
    const pare_status s = q->row.count ? flush(cx, d) : PARE_OK;
    if (s != PARE_OK && q->failed == PARE_OK) {
        q->failed = s;
        (void)snprintf(q->what, sizeof q->what, "%s", cx->what);
    }
    q->inner->op->give(cx, q->inner, at);
}

#define BEHIND(name, parameters, ...)                                                              \
    static pare_status queue_##name parameters                                                     \
    {                                                                                              \
        PARE_TRY(flush(cx, d));                                                                    \
        return of(d)->inner->op->name(cx, of(d)->inner, __VA_ARGS__);                              \
    }
BEHIND(put, (pare_ctx * cx, pare_device *d, pare_address to, const void *from, size_t bytes), to,
       from, bytes)
BEHIND(get, (pare_ctx * cx, pare_device *d, void *to, pare_address from, size_t bytes), to, from,
       bytes)
BEHIND(fill, (pare_ctx * cx, pare_device *d, pare_address to, uint8_t byte, size_t bytes), to, byte,
       bytes)
BEHIND(copy, (pare_ctx * cx, pare_device *d, pare_address to, pare_address from, size_t bytes), to,
       from, bytes)

static pare_status queue_wait(pare_ctx *cx, pare_device *d)
{
    PARE_TRY(flush(cx, d));
    return of(d)->inner->op->wait(cx, of(d)->inner);
}

static pare_status queue_kernel(pare_ctx *cx, pare_device *d, const char *name, void **kernel)
{
    return of(d)->inner->op->kernel(cx, of(d)->inner, name, kernel);
}

static pare_status queue_launch(pare_ctx *cx, pare_device *d, void *kernel, const pare_launch *l,
                                const void *arguments, size_t bytes)
{
    row *const r = &of(d)->row;
    const size_t room = (bytes + 7) / 8 * 8;
    if (r->count == CALLS || room > ROOM - r->used)
        PARE_TRY(flush(cx, d));
    if (room > ROOM)
        return of(d)->inner->op->launch(cx, of(d)->inner, kernel, l, arguments, bytes);
    uint8_t *const at = r->bytes + r->used;
    memcpy(at, arguments, bytes);
    r->call[r->count++] = (pare_call){kernel, *l, at, bytes};
    r->used += room;
    return PARE_OK;
}

static void queue_close(pare_ctx *cx, pare_device *d)
{
    queue *const q = of(d);
    pare_device *const inner = q->inner;
    pare_arena arena = q->arena;
    for (size_t i = 0; i < GRAPHS; i++)
        drop(cx, q, &q->kept[i]);
    pare_arena_release(&arena);
    inner->op->close(cx, inner);
}

static const pare_device_table table = {.memory = queue_memory,
                                        .take = queue_take,
                                        .give = queue_give,
                                        .put = queue_put,
                                        .get = queue_get,
                                        .fill = queue_fill,
                                        .copy = queue_copy,
                                        .kernel = queue_kernel,
                                        .launch = queue_launch,
                                        .wait = queue_wait,
                                        .close = queue_close};

pare_status pare_device_queue(pare_ctx *cx, pare_device *inner, pare_device **d)
{
    pare_arena arena = {.cx = cx};
    queue *const q = PARE_NEW(&arena, queue, 1);
    pare_call *const call = PARE_NEW(&arena, pare_call, CALLS);
    uint8_t *const bytes = pare_arena_take(&arena, 1, ROOM);
    *d = NULL;
    if (!q || !call || !bytes) {
        pare_arena_release(&arena);
        inner->op->close(cx, inner);
        return PARE_ENOMEM;
    }
    *q = (queue){
        .base = *inner, .inner = inner, .arena = arena, .row = {.call = call, .bytes = bytes}};
    q->base.op = &table;
    *d = &q->base;
    return PARE_OK;
}

pare_status pare_device_open_queued(pare_ctx *cx, pare_device **d)
{
    pare_device *inner;
    *d = NULL;
    PARE_TRY(pare_device_open(cx, &inner));
    return pare_device_queue(cx, inner, d);
}
