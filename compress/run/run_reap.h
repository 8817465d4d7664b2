/* compress/run/run_reap.h - experts that go (prune/reap.h): scored, chosen, left out of what is
 * copied. */
#ifndef PARE_COMPRESS_RUN_RUN_REAP_H
#define PARE_COMPRESS_RUN_RUN_REAP_H

#include "compress/artifact/manifest.h"
#include "formats/packed.h"

typedef struct pare_run pare_run; /* compress/run/run_internal.h */

/* A walk of the wave over the model as it was: the experts of all blocks, into run->structure. What
 * goes is told, and which experts got too few tokens. PARE_ENUMERIC, PARE_ENOMEM, and what the wave
 * returns. */
PARE_CHECKED pare_status pare__reap_choose(pare_run *run);

/* Whether some expert got fewer tokens than its score needs. */
bool pare__reap_few(const pare_run *run);

/* What that took out of a block. */
void pare__reap_cut(const pare_run *run, size_t block, pare_cut_result *out);

/* The tensor of the model whose bytes become those of `name`: where experts went, that of the
 * expert that gets the number. NULL: there is none such. */
const pare_tensor *pare__reap_source(const pare_run *run, const char *name);

/* Writes an entry with a piece for each expert that stays; *done false for any other. */
PARE_CHECKED pare_status pare__reap_put(pare_run *run, const pare_packed_entry *e, uint8_t hash[16],
                                        bool *done);

#endif
