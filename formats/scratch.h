/* formats/scratch.h - memory on disk, for what a file holds in no form that can be viewed in place.
 *
 * An unlinked temporary file in $TMPDIR, or /tmp without it, mapped piece by piece: the system may
 * write it out under pressure, so weights larger than memory have a place too. Space is reserved
 * before it is mapped: a full disk is an error, never a signal in the middle of a write. The file
 * has no name and is gone with the process, however that ends. Not thread-safe. */
#ifndef PARE_FORMATS_SCRATCH_H
#define PARE_FORMATS_SCRATCH_H

#include <stdbool.h>
#include <stdint.h>

#include "runtime/arena.h"

struct pare_scratch_piece;

typedef struct pare_scratch {
    pare_ctx *cx;
    struct pare_scratch_piece *newest; /* NULL: nothing was taken yet */
    uint64_t reserved;                 /* bytes of the file */
    uint64_t counted;                  /* `reserved` of a scratch that took what was counted */
    size_t counted_left;               /* bytes of its last piece that are left */
    int fd;
    bool open; /* fd is the file */
} pare_scratch;

/* An empty scratch; no file is made before the first byte is taken. Never fails. */
void pare_scratch_init(pare_ctx *cx, pare_scratch *s);

/* Unmaps and removes everything that was taken. A scratch may be closed twice. */
void pare_scratch_close(pare_scratch *s);

/* `bytes` zeros, writable, PARE_ALIGN-aligned, until pare_scratch_close. Zero bytes are fine: *out
 * is then an address that nothing may be read from.
 *
 * Returns PARE_OK, or
 *   PARE_ENOSPC  the disk is full; the message names the directory and the bytes needed
 *   PARE_EIO     no file can be made in that directory
 *   PARE_ENOMEM  more than an address space holds
 *
 * Memory   pages of the file, which the system may write out. */
PARE_CHECKED pare_status pare_scratch_take(pare_scratch *s, uint64_t bytes, void **out);

/* Adds to s->counted what pare_scratch_take would reserve of the disk, and takes nothing. */
void pare_scratch_count(pare_scratch *s, uint64_t bytes);

/* Whether `bytes` are free where the file would go. PARE_ENOSPC with both figures and what to do;
 * PARE_EIO for a directory that cannot be looked at. */
PARE_CHECKED pare_status pare_scratch_check_free(pare_ctx *cx, uint64_t bytes);

/* $TMPDIR, or /tmp without it. */
const char *pare_scratch_directory(void);

#endif
