/* compress/storage/pack.h - a folder of files to an archive (formats/archive.h) and back. */
#ifndef PARE_COMPRESS_STORAGE_PACK_H
#define PARE_COMPRESS_STORAGE_PACK_H

#include "compress/output/lock.h"
#include "formats/archive.h"

typedef struct pare_pack_opts {
    const char *path;   /* a folder, or a file */
    const char *output; /* the archive; NULL: beside `path`, named after it */
    const char *base;   /* what the archive is a difference from; NULL: nothing */
    int level;
    bool replace; /* an archive that lies there, and is none of the files that are read */
    pare_teller teller;
} pare_pack_opts;

typedef struct pare_pack_result {
    const char *output;
    size_t files, frames, form[PARE_FORMS]; /* frames of each form */
    uint64_t bytes, stored;                 /* of the files, of the archive */
    uint64_t base_bytes;                    /* of the base files that it needs */
} pare_pack_result;

/* Writes the archive: to OUTPUT.partial, which gets its name when it is whole and durable. Files
 * are hashed beside; a SHA256SUMS in the folder must fit, and all that it lists be there; what it
 * does not list is told. Bytes are the same for any number of
 * threads. PARE_EUSAGE, PARE_EEXISTS for the output, PARE_EFORMAT for the files, also when one
 * changes meanwhile; PARE_ENOTFOUND, PARE_EIO, PARE_ENOSPC, PARE_ENOMEM, PARE_EINTERRUPTED: nothing
 * is left then. A process that is killed leaves OUTPUT.partial, which the next one writes anew. */
PARE_CHECKED pare_status pare_pack(pare_ctx *cx, pare_arena *a, const pare_pack_opts *opts,
                                   pare_pack_result *out);

typedef struct pare_unpack_opts {
    const char *path;   /* the archive */
    const char *output; /* a folder that is not there; NULL: named after the archive */
    const char *base;   /* the folder that it is a difference from */
    bool check;         /* decode and compare everything, write nothing */
    pare_teller teller;
} pare_unpack_opts;

typedef struct pare_unpack_result {
    const char *output; /* NULL with `check` */
    pare_archive archive;
} pare_unpack_result;

/* Reads the index alone; texts in the arena. Statuses of pare_archive_parse, PARE_ENOTFOUND. */
PARE_CHECKED pare_status pare_unpack_list(pare_ctx *cx, pare_arena *a, const char *path,
                                          pare_archive *out);

/* Writes the files into OUTPUT.partial, which gets the name of the output when every file is whole,
 * has its SHA-256 and is durable. Until then PARE_ARCHIVE_MARK lies in it: a folder of that name is
 * replaced only with that mark, or empty. The space that they need must be free in front.
 * PARE_EUSAGE, PARE_EEXISTS for the output, PARE_EFORMAT for a damaged archive or a base that is
 * another one; the rest as above. */
PARE_CHECKED pare_status pare_unpack(pare_ctx *cx, pare_arena *a, const pare_unpack_opts *opts,
                                     pare_unpack_result *out);

#endif
