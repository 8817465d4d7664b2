/* compress/output/journal_told.h - compares the fingerprints of two jobs, and tells how they
 * differ; of the journal alone. `path` is that of the journal. */
#ifndef PARE_COMPRESS_OUTPUT_JOURNAL_TOLD_H
#define PARE_COMPRESS_OUTPUT_JOURNAL_TOLD_H

#include "compress/output/journal.h"

enum { PARE_JOURNAL_JSON_CAP = 1 << 20 };

/* Refuses the fingerprint in `record` as pare_journal_open does; `without`: a member that
 * `fingerprint` lacks yet, or NULL. PARE_EEXISTS, PARE_ENOTSUP, PARE_ENOMEM. */
PARE_CHECKED pare_status pare__journal_compare(pare_ctx *cx, const char *path,
                                               const pare_journal_record *record,
                                               const char *fingerprint, const char *without);

/* The same as pare_journal_check_recipe does. */
PARE_CHECKED pare_status pare__journal_compare_recipe(pare_ctx *cx, const char *path,
                                                      const pare_journal_record *record,
                                                      const char *lines);

#endif
