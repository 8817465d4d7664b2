/* compress/batch/batch_plan.h - what the jobs of a batch will take, each by its plan. */
#ifndef PARE_COMPRESS_BATCH_PLAN_H
#define PARE_COMPRESS_BATCH_PLAN_H

#include "compress/batch/batch.h"

typedef struct pare_batch_plan_row {
    const pare_batch_row *row;
    bool planned;                /* else the rest is not known: `why`, or it waits for a model */
    pare_status status;          /* of a plan that failed */
    char why[PARE_BATCH_WHY];    /* empty: it did not */
    double bits;                 /* per weight of the linears */
    bool infeasible, falls_back; /* the files are larger than is required; it has fallbacks */
    uint64_t bytes, memory, disk;
    double seconds, shared_seconds; /* the latter: of the former, for what an earlier job keeps */
} pare_batch_plan_row;

typedef struct pare_batch_plan {
    pare_batch_plan_row *row; /* [batch.rows] jobs of this shard that are not done are planned */
    uint64_t bytes, disk;     /* of all outputs */
    uint64_t memory;          /* most of one job */
    double seconds;           /* one after the other, without what is shared */
    size_t planned, failed;
} pare_batch_plan;

/* Plans every job of the shard that is not done. A plan that fails is told in its row. PARE_ENOMEM,
 * PARE_EINTERRUPTED. */
PARE_CHECKED pare_status pare_batch_plan_make(pare_jobs *b, pare_batch_plan *out);

#endif
