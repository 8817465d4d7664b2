/* compress/plan/plan_kept.h - a job whose statistics come out of a file (calib/stats_file.h): one
 * that is there (calibration: from), or that the job makes first, unless it is there (keep). One
 * that is there may be an importance matrix instead (calib/imatrix.h). */
#ifndef PARE_COMPRESS_PLAN_PLAN_KEPT_H
#define PARE_COMPRESS_PLAN_PLAN_KEPT_H

#include "calib/imatrix.h"
#include "calib/stats_file.h"

typedef struct pare_plan_kept {
    bool used;              /* the steps take statistics from the file: no activations pass them */
    bool made;              /* the job makes it: keep */
    bool imatrix;           /* it is an importance matrix */
    char *path;             /* NULL: the recipe names none */
    pare_stats_about about; /* with from: what it is of; with keep: sizes alone */
} pare_plan_kept;

#endif
