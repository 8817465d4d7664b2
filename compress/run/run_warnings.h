/* compress/run/run_warnings.h - the warnings of a job, for its report. */
#ifndef PARE_COMPRESS_RUN_RUN_WARNINGS_H
#define PARE_COMPRESS_RUN_RUN_WARNINGS_H

#include "compress/report/report.h"
#include "compress/text/warnings.h"

typedef struct pare_run pare_run; /* compress/run/run_internal.h */

/* Whether a training made the model worse on the windows held out; and what is said of it. */
bool pare__run_harmed(const pare_training_result *t);
enum { PARE_RUN_HARM_TEXT = 256 };
const char *pare__run_harm_text(const pare_run *run, const pare_training_result *t,
                                char text[PARE_RUN_HARM_TEXT]);

/* Fills r->warning: what the first of two jobs warned of, as its run.json says; what the plan does,
 * evaluations that ran elsewhere, a training that did harm, and what was told on the way.
 * PARE_ENOMEM. */
PARE_CHECKED pare_status pare__run_take_warnings(pare_run *run, pare_report *r);

#endif
