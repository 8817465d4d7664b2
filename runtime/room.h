/* runtime/room.h - how much a process may still take under the limits of the shell.
 *
 * The address space (ulimit -v) counts everything that is mapped: the program, its libraries,
 * mapped files, stacks, memory whether used or not. The data segment (ulimit -d) counts what is
 * private and may be written. Libraries deal badly with a mapping that is refused: OpenBLAS waits
 * for ever. So what they will take is asked for here before they are called. */
#ifndef PARE_RUNTIME_ROOM_H
#define PARE_RUNTIME_ROOM_H

#include "runtime/context.h"

typedef struct pare_room {
    const char *name;     /* "address space (ulimit -v)" */
    uint64_t limit, used; /* bytes; limit UINT64_MAX: none */
} pare_room;

enum { PARE_ROOM_ADDRESS, PARE_ROOM_DATA, PARE_ROOMS };

/* Both limits as they are now. Where the system does not say what is used, it counts as all of the
 * limit. Never fails. */
void pare_room_read(pare_room room[PARE_ROOMS]);

/* Bytes that may still be taken; UINT64_MAX without a limit. */
uint64_t pare_room_left(const pare_room *room);

/* The one of the two that leaves less; NULL when neither is limited. */
const pare_room *pare_room_least(const pare_room room[PARE_ROOMS]);

/* PARE_OK when `bytes` more of private memory fit, else PARE_ENOMEM with what needs them ("2
 * threads"), the need, the limit, and the remedy beside raising it ("give a smaller --threads"), or
 * NULL. */
PARE_CHECKED pare_status pare_room_check(pare_ctx *cx, uint64_t bytes, const char *what,
                                         const char *remedy);

#endif
