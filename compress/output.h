/* compress/output.h - directories that a job or an export leaves: files that go along with a model,
 * and where a directory lies. */
#ifndef PARE_COMPRESS_OUTPUT_H
#define PARE_COMPRESS_OUTPUT_H

#include <limits.h>
#include <stdbool.h>

#include "formats/checkpoint.h"

/* Bytes of the name of an output and of its path, at most: names in it and beside it are longer. */
enum { PARE_OUTPUT_NAME_MOST = NAME_MAX - 16, PARE_OUTPUT_PATH_MOST = PATH_MAX - 256 };

/* Whether a path is short enough for an output, and each directory in it for a file system; slashes
 * at its end do not count. PARE_EUSAGE for one that is not. */
bool pare_output_fits(const char *path);
PARE_CHECKED pare_status pare_output_check_length(pare_ctx *cx, const char *path);

/* Writes a companion of a checkpoint (pare_checkpoint_companion) to DIRECTORY_TO/name; *copied is
 * false when there is none, and then none is there afterwards either. PARE_EIO, PARE_ENOSPC,
 * PARE_ENOMEM, PARE_EFORMAT for a file above 256 MiB. A tokenizer that cannot be written as a
 * tokenizer.json counts as none. */
PARE_CHECKED pare_status pare_output_copy(pare_arena *a, const pare_checkpoint *from,
                                          const char *to, const char *name, bool *copied);

/* Makes a directory with its parents; one that is there is fine. PARE_EIO, PARE_ENOSPC,
 * PARE_ENOMEM. */
PARE_CHECKED pare_status pare_output_make(pare_ctx *cx, pare_arena *a, const char *path);

/* True when `path` is `directory` or lies inside it, or would once it is made; the directory must
 * exist. Links are followed. */
bool pare_output_lies_in(const char *path, const char *directory);

#endif
