/* compress/output/journal.h - the record of an unfinished compression: what is done, and of what.
 *
 * OUTPUT.partial/journal is a list of records, each written with one append and made durable:
 *
 *   u32 le magic "PJ01" | u32 le index | u64 le length | payload | 16 B XXH3-128 of the record so
 * far
 *
 * Record 0 is the fingerprint: a JSON object of strings (input hashes, recipe, program version
 * ...). Record i + 1 holds whatever unit i left. A torn or damaged tail is cut off;
 * the records before it count. The journal is untrusted input: every length is checked. */
#ifndef PARE_COMPRESS_OUTPUT_JOURNAL_H
#define PARE_COMPRESS_OUTPUT_JOURNAL_H

#include <stdbool.h>
#include <stdint.h>

#include "runtime/arena.h"

#define PARE_JOURNAL_NAME       "journal"
#define PARE_TRAINING_STATE     "training.state"  /* of a training, beside it */
#define PARE_JOURNAL_STATISTICS "statistics xxh3" /* of the file that has them */
#define PARE_JOURNAL_REPLACES   "replaces" /* of the fingerprint: what output the run may replace */
#define PARE_JOURNAL_NO_OUTPUT  "nothing"  /* its value when there is none */
#define PARE_JOURNAL_TOKENS     "calibration tokens" /* SHA-256 of the ids, or */
#define PARE_JOURNAL_UNUSED     "not used"
#define PARE_JOURNAL_PRECISION  "precision"   /* of products of the calibration, where it is used */
#define PARE_JOURNAL_FILE       "model file " /* with a number: name and XXH3 */
#define PARE_JOURNAL_RECIPE     "recipe line " /* with a number, of the normalized recipe */
#define PARE_JOURNAL_TRAINING   "training"     /* only where it is one of pare train */

typedef struct pare_journal_record {
    const unsigned char *payload;
    size_t len;
} pare_journal_record;

typedef struct pare_journal pare_journal;

/* Parses bytes [len] of a journal: records in the arena (views of bytes), *valid the length of the
 * good prefix. Never fails on content: what is not a good record ends the list. PARE_ENOMEM. */
PARE_CHECKED pare_status pare_journal_parse(pare_ctx *cx, pare_arena *a, const unsigned char *bytes,
                                            size_t len, pare_journal_record **record, size_t *count,
                                            size_t *valid);

/* Opens DIRECTORY/journal, cutting a bad tail, or creates it with `fingerprint` (JSON text).
 * An existing journal whose fingerprint differs is refused: PARE_EEXISTS, the message names what
 * differs (of the recipe the first line), or that it is of the other command (one has "training"),
 * and says that --restart starts over. Only "replaces" may have become "nothing". A "format" above
 * that of `fingerprint` is PARE_ENOTSUP. One without a good fingerprint begins anew. record and
 * count: the unit records found (without the fingerprint), in the arena. The caller holds the lock
 * of the output (compress/output/lock.h). PARE_EIO, PARE_ENOSPC, PARE_ENOMEM, PARE_EFORMAT for what
 * is no regular file. On failure *out is NULL. */
PARE_CHECKED pare_status pare_journal_open(pare_ctx *cx, pare_arena *a, const char *directory,
                                           const char *fingerprint, pare_journal **out,
                                           pare_journal_record **record, size_t *count);

/* True when what pare_journal_open found was damaged from its start, and begins anew. */
bool pare_journal_lost(const pare_journal *j);

/* As pare_journal_open, and drops what the journal held: only the fingerprint stays, durable. At
 * any moment the old journal or the new one is there, whole; the first of a directory may be torn.
 */
PARE_CHECKED pare_status pare_journal_restart(pare_ctx *cx, const char *directory,
                                              const char *fingerprint, pare_journal **out);

/* Drops the records behind the first `count` that pare_journal_open found in `record`; durable.
 * PARE_EIO, PARE_ENOSPC. */
PARE_CHECKED pare_status pare_journal_keep(pare_ctx *cx, pare_journal *j,
                                           const pare_journal_record *record, size_t count);

/* Appends the record of the next unit and makes it durable. PARE_ENOSPC, PARE_EIO: the tail is
 * then cut back, so that the journal stays good. */
PARE_CHECKED pare_status pare_journal_append(pare_ctx *cx, pare_journal *j, const void *payload,
                                             size_t len);

/* The file stays. NULL is allowed. */
void pare_journal_close(pare_ctx *cx, pare_journal *j);

/* What a journal is without the job that it belongs to. */
typedef enum pare_journal_kind {
    PARE_JOURNAL_NONE,
    PARE_JOURNAL_FOREIGN, /* nothing that pare wrote */
    PARE_JOURNAL_DAMAGED, /* its start is empty, torn or damaged, but it was one of pare */
    /* Its fingerprint names pare as the "program", and has */
    PARE_JOURNAL_TRAIN,    /* a member "training" */
    PARE_JOURNAL_COMPRESS, /* the lines of a recipe */
    PARE_JOURNAL_EXPORT,   /* nothing else */
    PARE_JOURNAL_REPLACED  /* a member "replaced" */
} pare_journal_kind;

/* Looks at DIRECTORY/journal. PARE_ENOTSUP for one whose records have a later form, PARE_EIO,
 * PARE_ENOMEM. */
PARE_CHECKED pare_status pare_journal_look(pare_ctx *cx, pare_arena *a, const char *directory,
                                           pare_journal_kind *kind);

/* Refuses DIRECTORY/journal as pare_journal_open does, as far as `fingerprint` tells, which lacks
 * the member `without`; changes nothing. No good fingerprint is fine. */
PARE_CHECKED pare_status pare_journal_check(pare_ctx *cx, pare_arena *a, const char *directory,
                                            const char *fingerprint, const char *without);

/* The same of the command and the recipe alone: `lines` is a fingerprint of nothing but
 * PARE_JOURNAL_RECIPE members, PARE_JOURNAL_TRAINING where it is of pare train, and
 * PARE_JOURNAL_REPLACES where that is known. */
PARE_CHECKED pare_status pare_journal_check_recipe(pare_ctx *cx, pare_arena *a,
                                                   const char *directory, const char *lines);

/* Puts a journal with nothing but `fingerprint` into `directory`, in place of one that is there:
 * whole from the moment on that it has its name, and durable. It is written in the directory
 * `beside` first, as journal.tmp. PARE_EIO, PARE_ENOSPC, PARE_ENOMEM, PARE_EFORMAT for what is no
 * regular file. */
PARE_CHECKED pare_status pare_journal_put(pare_ctx *cx, const char *directory, const char *beside,
                                          const char *fingerprint);

#endif
