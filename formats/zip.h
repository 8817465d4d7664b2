/* formats/zip.h - a zip archive whose entries are stored, not compressed: the outer form of
 * PyTorch's checkpoints and of npz.
 *
 *   local header | name | extra | data | (descriptor)    one per entry
 *   entry | name | extra | comment                       the directory, one per entry
 *   zip64 end | zip64 locator                            in large or careful files
 *   end of directory                                     the last 22 bytes
 *
 * Reading starts at the end. Checks: the directory lies inside the file and holds as many entries
 * as it says; each entry is stored, not encrypted, whole, and described alike in the directory and
 * in front of its data; no two entries share bytes or a name; nothing follows the end. An entry
 * that is compressed is refused by name: data must be viewed where it lies. */
#ifndef PARE_FORMATS_ZIP_H
#define PARE_FORMATS_ZIP_H

#include "runtime/arena.h"

typedef struct pare_zip_entry {
    const char *name;
    const unsigned char *data; /* inside the bytes given */
    uint64_t bytes;
} pare_zip_entry;

typedef struct pare_zip {
    pare_zip_entry *entry; /* sorted by name */
    size_t entries;
} pare_zip;

/* Parses a whole archive in memory. Names are copied into the arena, data are views.
 *   name  the file for messages
 * PARE_EFORMAT "name: reason" (with entry and byte), PARE_ENOTSUP for what a zip may hold but this
 * reader does not take (compression, encryption, several disks), PARE_ENOMEM. */
PARE_CHECKED pare_status pare_zip_parse(pare_ctx *cx, pare_arena *a, const char *name,
                                        const void *bytes, uint64_t len, pare_zip *out);

/* Entry by name, NULL when there is none. */
const pare_zip_entry *pare_zip_find(const pare_zip *zip, const char *name);

#endif
