/* tests/fuzz/scratch_in_memory.c - scratch (formats/scratch.h) in memory, linked in place of the
 * file: without system calls, and each object has exactly its size, so that a sanitizer sees one
 * byte too far. */
#include <stdlib.h>
#include <string.h>

#include "formats/scratch.h"
#include "tests/fuzz/fuzz.h"

struct pare_scratch_piece {
    struct pare_scratch_piece *older;
    void *bytes;
};

/* names that the linker looks for (--wrap) */
PARE_CHECKED pare_status __wrap_pare_scratch_take(pare_scratch *s, uint64_t bytes, void **out);
void __wrap_pare_scratch_close(pare_scratch *s);

pare_status __wrap_pare_scratch_take(pare_scratch *s, uint64_t bytes, void **out)
{
    struct pare_scratch_piece *const p = malloc(sizeof *p);
    require(p && posix_memalign(&p->bytes, PARE_ALIGN, (size_t)bytes) == 0);
    if (bytes)
        memset(p->bytes, 0, (size_t)bytes);
    p->older = s->newest;
    s->newest = p;
    *out = p->bytes;
    return PARE_OK;
}

void __wrap_pare_scratch_close(pare_scratch *s)
{
    while (s->newest) {
        struct pare_scratch_piece *const p = s->newest;
        s->newest = p->older;
        free(p->bytes);
        free(p);
    }
}
