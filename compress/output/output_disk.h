/* compress/output/output_disk.h - the disk that an output goes to. */
#ifndef PARE_COMPRESS_OUTPUT_OUTPUT_DISK_H
#define PARE_COMPRESS_OUTPUT_OUTPUT_DISK_H

#include "compress/output/output_swap.h"

typedef struct pare_output_disk {
    const char *directory; /* the innermost that exists of those that OUTPUT lies in */
    uint64_t free_bytes;   /* that this process may take there */
    uint64_t held_bytes;   /* of an unfinished run: the run that continues it, or replaces it, uses
                              them again */
} pare_output_disk;

/* PARE_EIO for a place that cannot be looked at, or where no file can be written (/proc);
 * PARE_ENOMEM. */
PARE_CHECKED pare_status pare_output_disk_find(pare_ctx *cx, pare_arena *a,
                                               const pare_output_place *place,
                                               pare_output_disk *out);

#endif
