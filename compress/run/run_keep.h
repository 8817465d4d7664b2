/* compress/run/run_keep.h - the file of statistics in the making. */
#ifndef PARE_COMPRESS_RUN_RUN_KEEP_H
#define PARE_COMPRESS_RUN_RUN_KEEP_H

#include "calib/stats_file.h"
#include "compress/plan/plan.h"

typedef struct pare_run pare_run; /* compress/run/run_internal.h */

/* What statistics of the job's model and calibration are of. PARE_ENOMEM. */
PARE_CHECKED pare_status pare__keep_about(pare_run *run, pare_stats_about *out);

/* The walk that gathers what goes to the file, as a job of its own: its plan asks for every
 * statistic, and lies in `stage` until the job has its own back. */
void pare__keep_walk(pare_run *run, pare_plan *stage);

/* Makes the file unless something has its name: all statistics of the model in floats, in one walk.
 * It is FILE.partial until it is whole and durable; who else comes to make it waits. A file of that
 * name that pare left is made anew, and another one is not touched: PARE_EEXISTS. Directories that
 * were made for it go when it is not. */
PARE_CHECKED pare_status pare__keep_file(pare_run *run);

#endif
