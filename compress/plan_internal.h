/* compress/plan_internal.h - the parts of the planner. */
#ifndef PARE_COMPRESS_PLAN_INTERNAL_H
#define PARE_COMPRESS_PLAN_INTERNAL_H

#include "compress/plan.h"

/* Which step quantizes which linear; facts and storage checked. Fills linear, linears, sites,
 * calibrated, sequential, bits_per_weight. */
PARE_CHECKED pare_status pare__plan_resolve(pare_ctx *cx, pare_arena *a, pare_plan *plan);

/* Memory, disk and flops; the checks against limits. Needs the layout. Once more when the number
 * of samples becomes known (samples: all). */
PARE_CHECKED pare_status pare__plan_cost(pare_ctx *cx, pare_arena *a, pare_plan *plan);

#endif
