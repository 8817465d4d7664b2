/* compress/run/run_outside.h - matrices outside the blocks that a training trains
 * (pare_plan_outside): the embeddings and the head. */
#ifndef PARE_COMPRESS_RUN_RUN_OUTSIDE_H
#define PARE_COMPRESS_RUN_RUN_OUTSIDE_H

#include "compress/artifact/manifest.h"
#include "formats/packed.h"
#include "runtime/leaves.h"

typedef struct pare_run pare_run; /* compress/run/run_internal.h */

/* Values x [n, k] of such a matrix, of run->model, rounded to its type in the file and back: what
 * is measured is what will be stored. PARE_ENUMERIC for one that the type cannot hold. PARE_ENOMEM.
 */
PARE_CHECKED pare_status pare__outside_round(pare_run *run, const pare_leaf *leaf, float *x);

/* run->source reads them from run->trained, which is mapped. */
void pare__outside_source(pare_run *run);

/* That those which an earlier run wrote are as its unit says: else PARE_EFORMAT. PARE_ENOMEM. */
PARE_CHECKED pare_status pare__outside_check(pare_run *run, const pare_unit_result *found);

/* Writes such a matrix: entry e of the packed files, in place of tensor t of the checkpoint; `done`
 * is false for others. found: the unit of an earlier run, which has written it (and
 * pare__outside_check has looked at), or NULL. */
PARE_CHECKED pare_status pare__outside_put(pare_run *run, const pare_packed_entry *e,
                                           const pare_tensor *t, const pare_unit_result *found,
                                           uint8_t hash[16], bool *done);

#endif
