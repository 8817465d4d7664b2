/* compress/batch/batch_plan.h - what the jobs of a batch will take, each by its plan. */
#ifndef PARE_COMPRESS_BATCH_PLAN_H
#define PARE_COMPRESS_BATCH_PLAN_H

#include "compress/batch/batch.h"

/* What a run would do with a job. */
typedef enum pare_batch_act {
    PARE_BATCH_ACT_PLANNED, /* to do: figures of it are known */
    PARE_BATCH_ACT_LATER,   /* to do, and planned once its model is there */
    PARE_BATCH_ACT_THERE, /* what is there stays: the run looks at it, and makes missing exports */
    PARE_BATCH_ACT_INFEASIBLE, /* nothing would be written */
    PARE_BATCH_ACT_WAITS,      /* for a job that is not done */
    PARE_BATCH_ACT_STALE,      /* refused: a run does not touch what is there */
    PARE_BATCH_ACT_FAILED,
    PARE_BATCH_ACT_DONE,
    PARE_BATCH_ACT_SHARD /* of another shard */
} pare_batch_act;
enum { PARE_BATCH_ACTS = PARE_BATCH_ACT_SHARD + 1 };
const char *pare_batch_act_name(pare_batch_act x); /* "planned", "later" .. */

typedef struct pare_batch_plan_row {
    const pare_batch_row *row;
    pare_batch_act act;
    pare_status status; /* of a plan that failed, or of a job that is refused */
    char why[PARE_BATCH_WHY];
    double bits;            /* per weight of the linears */
    bool infeasible;        /* the files of the recipe itself are larger than is required; */
    bool falls_back;        /* then the figures are those of a fallback whose files are not */
    bool goes_on;           /* with what an earlier run began */
    bool unsure;            /* they may be larger */
    const char *known_once; /* they are the most until then (pare_plan_known_once); or NULL */
    uint64_t bytes, memory, disk;
    double seconds;
    uint64_t exports;     /* bytes of those to be made */
    size_t missing, of;   /* exports: to be made, of how many; where the output is there */
    char verdict[16];     /* on that output; or empty */
    bool shares;          /* takes what jobs of a model and calibration share: */
    double spare_seconds; /* of `seconds`, and of `disk`, what an earlier job can spare it; */
    uint64_t spare_disk;
    double shared_seconds; /* what one of the plan does; `disk` is without it */
} pare_batch_plan_row;

typedef struct pare_batch_plan {
    pare_batch_plan_row *row; /* [batch.rows] jobs of this shard that are not done are planned */
    size_t count[PARE_BATCH_ACTS];
    size_t damaged;                /* of the stale ones: no --restart mends them */
    size_t to_do;                  /* planned, later or there; of them: */
    uint64_t bytes, exports, disk; /* of all outputs */
    uint64_t memory;               /* most of one job */
    double seconds;                /* one after the other, without what is shared */
} pare_batch_plan;

/* Plans every job of the shard that a run would do. A plan that fails is told in its row, and which
 * jobs are stale or wait for such a one. PARE_ENOMEM,
 * PARE_EINTERRUPTED. */
PARE_CHECKED pare_status pare_batch_plan_make(pare_jobs *b, pare_batch_plan *out);

#endif
