/* compress/output/inventory.h - SHA256SUMS of a directory that pare wrote: made last, over every
 * file there, and what lies there later held against it. */
#ifndef PARE_COMPRESS_OUTPUT_INVENTORY_H
#define PARE_COMPRESS_OUTPUT_INVENTORY_H

#include "formats/sha256.h"
#include "formats/sums.h"

/* A file that went in or came out; `file` is a name without a directory. */
typedef struct pare_file_digest {
    const char *file;
    uint64_t bytes;
    char sha256[PARE_SHA256_HEX];
} pare_file_digest;

/* Name, bytes and SHA-256 of files of a directory, in the order of `name` [count]; in parallel,
 * with progress. PARE_ENOTFOUND, PARE_EIO, PARE_ENOMEM, PARE_EINTERRUPTED. */
PARE_CHECKED pare_status pare_inventory_digest(pare_ctx *cx, pare_arena *a, const char *directory,
                                               const char *const *name, size_t count,
                                               pare_file_digest *out);

/* Writes SHA256SUMS over every file of a directory but itself, its signature, `journal` and
 * `training.state`. Digests of the files
 * `known` [count] are taken over, the others are computed. PARE_EEXISTS for what is no regular
 * file, PARE_EFORMAT for a name that the list cannot hold, PARE_EIO, PARE_ENOSPC, PARE_ENOMEM,
 * PARE_EINTERRUPTED. */
PARE_CHECKED pare_status pare_inventory_write(pare_ctx *cx, pare_arena *a, const char *directory,
                                              const pare_file_digest *known, size_t count);

/* What differs, once per file: "missing", "is not listed in SHA256SUMS", ... `name` lies in the
 * directory. */
typedef void pare_inventory_found(void *self, const char *name, const char *what);

typedef struct pare_inventory_result {
    size_t files; /* that are listed and there, SHA256SUMS itself included */
    uint64_t bytes;
    size_t findings;
} pare_inventory_result;

/* Holds a directory against its SHA256SUMS: every file that is listed is there, a regular file, and
 * has its digest; nothing else is there but a signature of the list (a `journal` counts as
 * something else). Reads every byte,
 * files in parallel, with progress. Findings are not errors.
 * PARE_ENOTFOUND when there is no SHA256SUMS, PARE_EFORMAT when it is none, PARE_EIO, PARE_ENOMEM,
 * PARE_EINTERRUPTED. */
PARE_CHECKED pare_status pare_inventory_check(pare_ctx *cx, pare_arena *a, const char *directory,
                                              pare_inventory_found *found, void *self,
                                              pare_inventory_result *out);

#endif
