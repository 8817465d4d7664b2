/* compress/cli/job_options.h - the options that compress, plan and train share, as a job. */
#ifndef PARE_COMPRESS_JOB_H
#define PARE_COMPRESS_JOB_H

#include "compress/cli/cli.h"
#include "compress/plan/plan.h"

/* Refuses a --device other than cpu: PARE_EUSAGE. */
PARE_CHECKED pare_status pare_job_device(pare_cli *cli, const pare_args *args);

/* Reads the job from the command line; memory from the command's arena. PARE_EUSAGE, also for a
 * recipe that is not there. */
PARE_CHECKED pare_status pare_job_read(pare_cli *cli, const pare_args *args, pare_job *out);

#endif
