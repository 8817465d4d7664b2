/* compress/run/run_serve.h - processes 1 and up of a job (compress/run/run_team.h), and what they
 * do of the job as process 0 does. */
#ifndef PARE_COMPRESS_RUN_RUN_SERVE_H
#define PARE_COMPRESS_RUN_RUN_SERVE_H

#include "calib/stats.h"
#include "compress/plan/settled.h"

typedef struct pare_run pare_run; /* compress/run/run_internal.h */

/* Processes 1 and up: obey until the job is over. What ended it for process 0, or for all. */
PARE_CHECKED pare_status pare__team_serve(pare_run *run);

/* Runs steps on the linears of a list that process 0 sends (compress/run/run_owner.h); process 0
 * learns how it went, and gets what came of it. */
void pare__run_solve(pare_run *run);

/* Statistics of the sites (bit per site) of experts first .. first + count - 1, here for process 0
 * to add up. PARE_ENOMEM, and what the wave returns. */
PARE_CHECKED pare_status pare__run_experts_gather(pare_run *run, size_t block, size_t first,
                                                  size_t count, unsigned sites);

/* Statistics of the sites (bit per site) of part 0, in scratch. PARE_ENOMEM. */
PARE_CHECKED pare_status pare__run_take_sites(pare_run *run, unsigned sites, pare_stats *stats);

/* Curvature of the loss in the outputs of a linear; NULL where a transform may have changed them,
 * or a rotation has. */
const float *pare__run_outputs(const pare_run *run, const pare_plan_linear *l);

#endif
