/* runtime/arena.h - bump allocation with marks; one arena per lifetime, freed whole.
 *
 *     model  | lives as long as the model        | shapes, names, scales, parsed files
 *     pass   | reset when a pass ends            | statistics, Hessians
 *     layer  | reset when a layer ends           | scratch of one algorithm call
 *
 * An arena is a chain of blocks: taking more than the newest block has left adds a block, so a
 * parser need not know its size; who plans sizes gives them to pare_arena_init and gets one block.
 * Not thread-safe. Under AddressSanitizer the space between objects is poisoned. */
#ifndef PARE_RUNTIME_ARENA_H
#define PARE_RUNTIME_ARENA_H

#include <stddef.h>

#include "runtime/context.h"

enum { PARE_ALIGN = 64 };

struct pare_arena_block;

typedef struct pare_arena {
    pare_ctx *cx;
    struct pare_arena_block *newest;
} pare_arena;

typedef struct pare_mark {
    struct pare_arena_block *block;
    size_t used;
    size_t far[2]; /* of a backend with memory of its own */
} pare_mark;

/* Makes an arena whose first block has `bytes` (0: none until the first take).
 * PARE_ENOMEM when the allocator refuses. Release it with pare_arena_release in any case. */
PARE_CHECKED pare_status pare_arena_init(pare_ctx *cx, pare_arena *a, size_t bytes);
void pare_arena_release(pare_arena *a);

/* Room for `bytes` more in one piece: what is taken, given back and taken again comes from there,
 * and the system clears no new pages for it each time. PARE_ENOMEM. */
PARE_CHECKED pare_status pare_arena_reserve(pare_arena *a, size_t bytes);

/* `count` zeroed objects of `size` bytes, PARE_ALIGN-aligned. NULL, with the message recorded in
 * the context, when memory ends or count * size overflows; the caller then returns PARE_ENOMEM. */
PARE_CHECKED void *pare_arena_take(pare_arena *a, size_t count, size_t size);

/* The same, but they hold anything: large scratch that is written before it is read. */
PARE_CHECKED void *pare_arena_take_raw(pare_arena *a, size_t count, size_t size);

/* Copy of `len` bytes of `text` with a NUL behind; NULL as above. */
PARE_CHECKED char *pare_arena_text(pare_arena *a, const char *text, size_t len);

/* A point to return to: everything taken after the mark is freed by the rewind. */
pare_mark pare_arena_mark(const pare_arena *a);
void pare_arena_rewind(pare_arena *a, pare_mark m);

#define PARE_NEW(arena, type, count) ((type *)pare_arena_take((arena), (count), sizeof(type)))

#endif
