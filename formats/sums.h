/* formats/sums.h - SHA256SUMS, the list of digests that the tool sha256sum writes and checks.
 *
 *   DIGEST (64 lower-case hex digits), two blanks, NAME, a line feed; one line per file
 *
 * Read strictly, so that no byte of the list can change unnoticed: NAME is a plain file name (no
 * slash, backslash or control character, no dot in front), names ascend by their bytes, every line
 * ends with a line feed. */
#ifndef PARE_FORMATS_SUMS_H
#define PARE_FORMATS_SUMS_H

#include "formats/sha256.h"

#define PARE_SUMS_NAME "SHA256SUMS"
enum { PARE_SUMS_CAP = 64 * 1024 * 1024 }; /* bytes of a list that are accepted */

typedef struct pare_sum {
    const char *name;
    char sha256[PARE_SHA256_HEX];
} pare_sum;

typedef struct pare_sums {
    pare_sum *item; /* by name */
    size_t count;
} pare_sums;

/* Reads a list; `name` stands in messages, names are copied into the arena. PARE_EFORMAT with the
 * line: not of this form, two lines out of order or for one file, more than PARE_SUMS_CAP bytes;
 * PARE_ENOMEM. */
PARE_CHECKED pare_status pare_sums_parse(pare_ctx *cx, pare_arena *a, const char *name,
                                         const void *bytes, size_t len, pare_sums *out);

/* The line of a file, NULL when there is none. */
const pare_sum *pare_sums_find(const pare_sums *s, const char *name);

/* The text of a list, in the arena; sorts the items. PARE_EINVAL for a name that the form does not
 * allow or that stands twice, or a digest that is none; PARE_ENOMEM. */
PARE_CHECKED pare_status pare_sums_text(pare_ctx *cx, pare_arena *a, pare_sums *s, char **text,
                                        size_t *len);

#endif
