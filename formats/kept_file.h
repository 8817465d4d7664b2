/* formats/kept_file.h - bytes in a file, for who comes to need the same: found by a text that names
 * all that they depend on.
 *
 *   8 B "PAREKF01" | 16 B XXH3-128 of that text, the key | 16 B XXH3-128 of the bytes | bytes
 *
 * The file is untrusted: what it holds counts only when its length and both sums fit. It appears in
 * one step, and is never written to again. */
#ifndef PARE_FORMATS_KEPT_FILE_H
#define PARE_FORMATS_KEPT_FILE_H

#include <stdbool.h>
#include <stdint.h>

#include "runtime/arena.h"

enum { PARE_KEPT_HEAD = 40 }; /* bytes in front of those that are kept */

/* Opens `path` and holds all of it against its sums. *why NULL: *fd is open, to be closed, and what
 * a killed process left of writing the same is removed; else why there is nothing to take.
 * PARE_ENOMEM. */
PARE_CHECKED pare_status pare_kept_open(pare_ctx *cx, pare_arena *scratch, const char *path,
                                        const char *key, uint64_t bytes, int *fd, const char **why);

/* Writes the first `bytes` of an open file to `path`, in place of what is there. *kept false:
 * another process is writing the same, and nothing was done. PARE_ENOMEM, PARE_ENOSPC, PARE_EIO:
 * `path` is as it was. */
PARE_CHECKED pare_status pare_kept_put(pare_ctx *cx, pare_arena *scratch, int from,
                                       const char *from_path, uint64_t bytes, const char *path,
                                       const char *key, bool *kept);

#endif
