/* compress/plan/fallback.h - a job with the settings of one of its fallbacks. */
#ifndef PARE_COMPRESS_PLAN_FALLBACK_H
#define PARE_COMPRESS_PLAN_FALLBACK_H

#include "compress/plan/plan.h"

/* The job with these settings behind its own, without `restart`. PARE_ENOMEM. */
PARE_CHECKED pare_status pare_job_fallback(pare_arena *a, const pare_job *job,
                                           const pare_texts *fallback, pare_job *out);

#endif
