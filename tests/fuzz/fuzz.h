/* tests/fuzz/fuzz.h - what the fuzz targets share. */
#ifndef PARE_TESTS_FUZZ_H
#define PARE_TESTS_FUZZ_H

#include <stdint.h>
#include <stdlib.h>

#include "runtime/arena.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len);

static inline void require(int condition)
{
    if (!condition)
        abort();
}

/* As pare_ctx_init, but the processor is asked only once: in a virtual machine that takes longer
 * than most parses. */
static inline void fuzz_ctx_init(pare_ctx *cx)
{
    static pare_ctx first;
    if (!first.alloc.resize)
        pare_ctx_init(&first);
    *cx = first;
    cx->alloc.self = cx;
}

/* One parse in an arena of its own: it fails with a message or succeeds without, and leaves
 * nothing behind. */
static inline void fuzz_parse(pare_status (*parse)(pare_ctx *cx, pare_arena *a, const void *bytes,
                                                   size_t len),
                              const uint8_t *bytes, size_t len)
{
    pare_ctx cx;
    fuzz_ctx_init(&cx);
    pare_arena a;
    require(pare_arena_init(&cx, &a, 0) == PARE_OK);
    const pare_status s = parse(&cx, &a, bytes, len);
    require((s == PARE_OK) == (cx.what[0] == '\0'));
    pare_arena_release(&a);
    require(cx.live_bytes == 0);
}

#endif
