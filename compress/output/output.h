/* compress/output/output.h - directories that a job or an export leaves: files that go along with a
 * model, and where a directory lies. */
#ifndef PARE_COMPRESS_OUTPUT_OUTPUT_H
#define PARE_COMPRESS_OUTPUT_OUTPUT_H

#include <limits.h>
#include <stdbool.h>

#include "formats/checkpoint.h"

/* The folder of a search beside OUTPUT, and in it: the recipe that OUTPUT was made of. */
#define PARE_BUDGET_STORE ".variants"
#define PARE_BUDGET_ASKED "asked.yaml"

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

/* Whether DIRECTORY_TO has what that writes, or has none where there is none to write. */
PARE_CHECKED pare_status pare_output_has_copy(pare_arena *a, const pare_checkpoint *from,
                                              const char *to, const char *name, bool *same);

/* All of them, and the licenses that lie in the model's directory; *names [*count] are those that
 * are there. */
PARE_CHECKED pare_status pare_output_copy_all(pare_arena *a, const pare_checkpoint *from,
                                              const char *to, const char *const **names,
                                              size_t *count);

/* Makes a directory with its parents; one that is there is fine. PARE_EIO, PARE_ENOSPC,
 * PARE_ENOMEM. */
PARE_CHECKED pare_status pare_output_make(pare_ctx *cx, pare_arena *a, const char *path);

/* The same for the folder of a job's work, *made: it was not there; and when the job is over: the
 * folder goes if it was made and nothing came into it. */
PARE_CHECKED pare_status pare_output_make_work(pare_ctx *cx, pare_arena *a, const char *path,
                                               bool *made);
void pare_output_drop_work(const char *path, bool made);

/* Makes the parents of a path that are not there; *made is the first of them, in the arena, and
 * stays when there is none. As pare_output_make. */
PARE_CHECKED pare_status pare_output_make_parents(pare_ctx *cx, pare_arena *a, const char *path,
                                                  char **made);

/* Removes the parents of a path up to `made` (NULL: none) as far as they are empty. */
void pare_output_remove_made(const char *path, const char *made);

/* The absolute path without links, "." and "..", in which those of its directories that are not
 * there count as made; false when it is too long. */
bool pare_output_real(const char *path, char real[PATH_MAX]);

/* True when `path` is `directory` or lies inside it, or would once both are made: by what they
 * name, however they are spelled. */
bool pare_output_lies_in(const char *path, const char *directory);

/* The artifact or export that a path lies in; *home is NULL where there is none. PARE_EUSAGE for a
 * path that is too long, PARE_ENOMEM. */
PARE_CHECKED pare_status pare_output_home(pare_ctx *cx, pare_arena *a, const char *path,
                                          const char **home);

/* Refuses a path by ".." out of a directory that is not there: one made only for that would stay
 * there, empty. PARE_EUSAGE. */
PARE_CHECKED pare_status pare_output_check_way_back(pare_ctx *cx, const char *path);

/* Refuses that, and a path through a file or into a directory that cannot be written to.
 * PARE_EUSAGE. */
PARE_CHECKED pare_status pare_output_check_room(pare_ctx *cx, const char *path);

#endif
