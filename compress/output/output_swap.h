/* compress/output/output_swap.h - where an output goes: OUTPUT, the work in OUTPUT.partial beside
 * it, and the step from one to the other. The caller holds the lock of the output
 * (compress/output/lock.h).
 *
 * A directory takes the place of another in one step, or, where the file system has none for that,
 * in two: OUTPUT to OUTPUT.replaced, OUTPUT.partial to OUTPUT. The old one is marked as replaced
 * before, and only what has that mark is removed. Whatever moment a run is killed at, the next one
 * finds the old output or the new one, and goes on from there (pare_output_place_mend). */
#ifndef PARE_COMPRESS_OUTPUT_OUTPUT_SWAP_H
#define PARE_COMPRESS_OUTPUT_OUTPUT_SWAP_H

#include "compress/output/lock.h"
#include "compress/output/owned_files.h"

typedef struct pare_output_place {
    pare_output_kind kind;
    char *output, *partial; /* without slashes at the end */
    char *work;             /* what becomes the output: `partial`, or the file in it */
    char *replaced;
} pare_output_place;

/* Fills *out; `output` may end in slashes. PARE_ENOMEM. */
PARE_CHECKED pare_status pare_output_place_make(pare_arena *a, pare_output_kind kind,
                                                const char *output, pare_output_place *out);

/* The ending of the output's name that belongs to files beside outputs (".partial", ".lock" ...),
 * or NULL: such an output could be in the way of another. */
const char *pare_output_place_reserved(const pare_output_place *p);

/* Ends what a killed run was about: an output that was moved away and not yet replaced comes back,
 * what was marked as replaced is removed, and a good journal of pare in a finished output.
 * *unfinished: work lies in `partial` that a run of the same job continues; work on exports is not
 * continued but removed, and so is work with a damaged journal beside an output: nobody knows
 * whether it may replace that.
 * PARE_EEXISTS: what lies in `partial` is not of pare or of another kind, and nothing was touched;
 * or an old output was moved away, and what came to its place is no finished output as pare left
 * it: both stay. PARE_EIO, PARE_ENOMEM, PARE_EINTERRUPTED. */
PARE_CHECKED pare_status pare_output_place_mend(pare_ctx *cx, pare_arena *a,
                                                const pare_output_place *p,
                                                const pare_teller *teller, bool *unfinished);

/* Refuses an output that may not be replaced: pare_owned_check; something of the user's is where it
 * may have to go first; or PARE_EIO, its directory may not be written into. */
PARE_CHECKED pare_status pare_output_place_check(pare_ctx *cx, pare_arena *a,
                                                 const pare_output_place *p);

/* Refuses an output that may not be replaced, as far as that is told without a change, for a plan:
 * nothing is said of one with a journal, which the next run removes. PARE_EEXISTS, PARE_EIO,
 * PARE_ENOMEM, PARE_EINTERRUPTED. */
PARE_CHECKED pare_status pare_output_place_look(pare_ctx *cx, pare_arena *a,
                                                const pare_output_place *p);

/* `work` becomes the output, durable; with `replace` that of an earlier run, if there is one, is
 * looked at once more (pare_output_place_check) and removed. What cannot be removed is told.
 * PARE_EEXISTS when something lies there without `replace`, or that look refuses it: the work stays
 * in `partial`. PARE_EIO, PARE_ENOSPC, PARE_ENOMEM, PARE_EINTERRUPTED: the old output is then in
 * place, or comes back with the next run. */
PARE_CHECKED pare_status pare_output_place_publish(pare_ctx *cx, pare_arena *a,
                                                   const pare_output_place *p, bool replace,
                                                   const pare_teller *teller);

#endif
