/* compress/run/run_owner.h - linears that process 0 gives to others (runtime/world.h): they run the
 * quantizer, and process 0 packs and writes the codes that come back.
 *
 * A linear costs k^3 + n k^2. Of those that a step quantizes next, the dearest go to the others,
 * one to each, and process 0 does the rest, at least one. k^3 is most of it, so that one of them
 * takes as long as the rest together. What comes back does not depend on where it was made. */
#ifndef PARE_COMPRESS_RUN_RUN_OWNER_H
#define PARE_COMPRESS_RUN_RUN_OWNER_H

#include "calib/stats.h"
#include "compress/passes/pass.h"
#include "compress/plan/settled.h"

typedef struct pare_run pare_run; /* compress/run/run_internal.h */

/* Process 0: gives away linears of part 0 that `step` quantizes on uniform grids at these sites
 * (bit per site). What another process failed of. */
PARE_CHECKED pare_status pare__owner_give(pare_run *run, size_t block, size_t step, unsigned sites,
                                          const pare_stats *stats);

/* Whether a linear was given away and did not come back yet. */
bool pare__owner_has(const pare_run *run, const pare_plan_linear *l);

/* What the quantizer made of it, as pare_pass_run: codes in scratch, result and note. What it
 * failed of, with the process in front. */
PARE_CHECKED pare_status pare__owner_take(pare_run *run, const pare_plan_linear *l,
                                          pare_pass_linear *linear);

/* Waits for what is still away, where the step has failed. */
void pare__owner_drop(pare_run *run);

/* Between two processes: the statistics of a site, and what is known of the outputs of a linear. */
typedef void pare_mover(const pare_ctx *cx, size_t with, void *bytes, size_t count);
void pare__owner_move_site(const pare_ctx *cx, pare_mover *move, size_t with, pare_site_stats *s);
void pare__owner_move_outputs(const pare_run *run, pare_mover *move, size_t with, pare_role role);

/* How a linear came out. */
typedef struct pare_solved {
    int32_t status;
    char what[sizeof((pare_ctx *)NULL)->what];
    double damp;
    uint64_t dead;
    uint32_t raises;
    bool f64, fallback;
    char note[PARE_NOTE];
} pare_solved;

#endif
