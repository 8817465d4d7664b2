/* compress/cli/output_file.h - a single file that a command writes at its end: a place for it is
 * found before the work, and nothing of the user's is lost. */
#ifndef PARE_COMPRESS_OUTPUT_FILE_H
#define PARE_COMPRESS_OUTPUT_FILE_H

#include "compress/cli/cli.h"

/* Whether `path` can be written: PARE_EUSAGE when its directory is missing or closed, when only
 * files of a model belong there, or when it is too long; PARE_ENOSPC when the disk takes no page
 * more. `command` is for messages. */
PARE_CHECKED pare_status pare_output_file_place(pare_cli *cli, const char *command,
                                                const char *model, const char *path);

/* Whether the disk of `path` has room for `bytes`, before work that ends with them: PARE_ENOSPC. */
PARE_CHECKED pare_status pare_output_file_room(pare_cli *cli, const char *command, const char *path,
                                               uint64_t bytes);

/* Whether a file at `path` would be one too many among files of a model (it lies beside config.json
 * and weights, in an artifact, an export or the `model`, which may be NULL, or has the name of a
 * model's file): then PARE_EUSAGE.
 * `option` is for messages. */
PARE_CHECKED pare_status pare_output_file_apart(pare_cli *cli, const char *option,
                                                const char *model, const char *path);

/* Whether something is at `path`: PARE_EUSAGE when it is no regular file, when it may not be
 * replaced (`restart`), or when path + ".tmp" is taken. */
PARE_CHECKED pare_status pare_output_file_there(pare_cli *cli, const char *command,
                                                const char *path, bool restart, bool *there);

/* The same, and what is there is what the command writes, as far as can be seen: tokens or text.
 * Under the lock, before the work and after it: nothing of the user's is lost. */
PARE_CHECKED pare_status pare_output_file_fits(pare_cli *cli, const char *command, const char *path,
                                               bool tokens, bool restart, bool *there);

/* Looks once more, and writes; tokens as little-endian int32. */
PARE_CHECKED pare_status pare_output_file_write(pare_cli *cli, const char *command,
                                                const char *path, bool tokens, bool restart,
                                                const void *bytes, size_t len);
PARE_CHECKED pare_status pare_output_file_tokens(pare_cli *cli, const char *command,
                                                 const char *path, bool restart, const int32_t *ids,
                                                 size_t count);

/* The part of a path behind the last slash. */
const char *pare_last_name(const char *path);

#endif
