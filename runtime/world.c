#include "runtime/world.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/world_internal.h"

size_t pare_world_started(void)
{
    static const char *const names[] = {"OMPI_COMM_WORLD_SIZE", "PMI_SIZE"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        const char *const text = getenv(names[i]);
        const unsigned long long size = text ? strtoull(text, NULL, 10) : 0;
        if (size > 1 && size <= SIZE_MAX)
            return (size_t)size;
    }
    return 1;
}

pare_status pare_world_open(pare_ctx *cx, pare_world *world)
{
    *world = (pare_world){.size = 1};
    if (pare_world_started() < 2)
        return PARE_OK;
#ifdef PARE_MPI
    PARE_TRY(pare__world_mpi(cx, world));
    cx->world = world;
    return PARE_OK;
#else
    return pare_fail(cx, PARE_ENOTSUP,
                     "started as one of %zu processes, but this pare was built without MPI: "
                     "configure with -DPARE_MPI=ON, or start one process",
                     pare_world_started());
#endif
}

void pare_world_close(pare_ctx *cx)
{
    if (cx->world)
        cx->world->link->close(cx->world->self);
    cx->world = NULL;
}

void pare_world_send(const pare_ctx *cx, size_t to, const void *bytes, size_t count)
{
    cx->world->link->send(cx->world->self, to, bytes, count);
}

void pare_world_receive(const pare_ctx *cx, size_t from, void *bytes, size_t count)
{
    cx->world->link->receive(cx->world->self, from, bytes, count);
}

void pare_world_broadcast(const pare_ctx *cx, void *bytes, size_t count)
{
    cx->world->link->broadcast(cx->world->self, bytes, count);
}

typedef struct outcome {
    int32_t status;
    uint32_t rank; /* of whom */
    char what[sizeof((pare_ctx *)NULL)->what];
} outcome;

static outcome outcome_of(const pare_ctx *cx, pare_status s)
{
    outcome o = {.status = (int32_t)s, .rank = (uint32_t)pare_world_rank(cx)};
    if (s != PARE_OK)
        memcpy(o.what, cx->what, sizeof o.what);
    return o;
}

/* A process of a group that fails alike says what it failed of itself. */
static pare_status take_over(pare_ctx *cx, const outcome *o)
{
    const pare_status s = (pare_status)o->status;
    if (s == PARE_OK || o->rank == pare_world_rank(cx))
        return s;
    pare_ctx_clear(cx);
    if (o->rank == 0)
        return pare_fail(cx, s, "%s", o->what[0] ? o->what : pare_strstatus(s));
    return pare_fail(cx, s, "rank %u: %s", o->rank, o->what[0] ? o->what : pare_strstatus(s));
}

pare_status pare_world_agree(pare_ctx *cx, pare_status s)
{
    outcome first = outcome_of(cx, s);
    if (pare_world_size(cx) == 1 || cx->world->ended)
        return s;
    if (pare_world_rank(cx) > 0)
        pare_world_send(cx, 0, &first, sizeof first);
    for (size_t r = 1; pare_world_rank(cx) == 0 && r < pare_world_size(cx); r++) {
        outcome o;
        pare_world_receive(cx, r, &o, sizeof o);
        if (first.status == PARE_OK)
            first = o;
    }
    pare_world_broadcast(cx, &first, sizeof first);
    cx->world->ended = first.status != PARE_OK;
    first.what[sizeof first.what - 1] = '\0';
    return take_over(cx, &first);
}
