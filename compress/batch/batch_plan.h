/* compress/batch/batch_plan.h - what the jobs of a batch will take, each by its plan. */
#ifndef PARE_COMPRESS_BATCH_PLAN_H
#define PARE_COMPRESS_BATCH_PLAN_H

#include "compress/batch/batch.h"

typedef struct pare_batch_plan_row {
    const pare_batch_row *row;
    bool planned;       /* else the rest is not known: `why`, where it is not done */
    bool later;         /* to do, and planned once its model is there */
    bool stale;         /* a run does not touch what is there */
    pare_status status; /* of a plan that failed, or of a stale job that is refused */
    char why[PARE_BATCH_WHY];
    double bits;                 /* per weight of the linears */
    bool infeasible, falls_back; /* its files are larger than is required; those of a fallback
                                    are not, and its are the figures */
    bool unsure;                 /* they may be larger */
    const char *known_once;      /* they are the most until then (pare_plan_known_once); or NULL */
    uint64_t bytes, memory, disk;
    double seconds, shared_seconds; /* the latter: of the former, for what an earlier job keeps */
} pare_batch_plan_row;

typedef struct pare_batch_plan {
    pare_batch_plan_row *row; /* [batch.rows] jobs of this shard that are not done are planned */
    size_t planned, later;    /* to do; `planned` have figures, and these are of them: */
    uint64_t bytes, disk;     /* of all outputs */
    uint64_t memory;          /* most of one job */
    double seconds;           /* one after the other, without what is shared */
    size_t failed, stale;     /* would fail; are refused */
} pare_batch_plan;

/* Plans every job of the shard that a run would do. A plan that fails is told in its row, and which
 * jobs are stale or wait for such a one. PARE_ENOMEM,
 * PARE_EINTERRUPTED. */
PARE_CHECKED pare_status pare_batch_plan_make(pare_jobs *b, pare_batch_plan *out);

#endif
