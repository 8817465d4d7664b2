/* compress/plan/plan_time.h - how long a job will take: what it does, phase by phase, over what
 * this machine does in a second as it is now. */
#ifndef PARE_COMPRESS_PLAN_PLAN_TIME_H
#define PARE_COMPRESS_PLAN_PLAN_TIME_H

#include "compress/plan/plan_rates.h"

typedef enum pare_plan_phase {
    PARE_PHASE_CHECK,    /* weights read, hashed by XXH3 and looked at for NaN */
    PARE_PHASE_HASH,     /* SHA-256 of what is read and of what is written */
    PARE_PHASE_TOKENS,   /* texts to tokens */
    PARE_PHASE_WEIGH,    /* token weights: the float model forward and backward */
    PARE_PHASE_WAVE,     /* activations of the calibration */
    PARE_PHASE_STATS,    /* what is learned from them */
    PARE_PHASE_PASSES,   /* the steps of the recipe */
    PARE_PHASE_STORE,    /* weights loaded, packed, decoded, measured */
    PARE_PHASE_TRAIN,    /* both models forward, one back, the optimizer */
    PARE_PHASE_SCORE,    /* windows held out, before and after training, both models */
    PARE_PHASE_WRITE,    /* the artifact on the disk */
    PARE_PHASE_EVALUATE, /* what the recipe evaluates, both models */
    PARE_PHASE_EXPORT,   /* written, read back and compared */
    PARE_PLAN_PHASES
} pare_plan_phase;

/* As people read it: "calibration". */
const char *pare_plan_phase_name(pare_plan_phase phase);

typedef struct pare_plan_estimate {
    double phase[PARE_PLAN_PHASES], seconds; /* the latter is their sum */
    double samples;                          /* of both models: a part of PARE_PHASE_EVALUATE */
    double tables;             /* passes of embeddings and head: a part of PARE_PHASE_PASSES */
    char disk[PARE_RATES_WHY]; /* why it has no time of the disk; empty: it has */
    double least, most;        /* seconds that the job is likely to take */
    uint64_t load, cpus;       /* tasks that others keep running on the CPUs of the machine; load 0:
                                  fewer than a fifth of what the job takes from them */
} pare_plan_estimate;

/* Sets least and most of an estimate from `seconds`, and load and cpus. Jobs took 0.65 to 1.6 times
 * their plan (docs/plan.md). The plan is for the machine as it is; least is for one without the
 * load, on which `threads` do not wait:
 *
 *   slowdown = max(1, (load + threads) / cpus)
 *   least = 0.65 seconds / slowdown,  most = 1.6 seconds */
void pare_plan_time_range(pare_plan_estimate *e, uint64_t load, uint64_t cpus, size_t threads);

/* The time of a whole job, from nothing to its exports, on a machine of these rates with the
 * threads of cx; `settled` is that of the plan or of the job. PARE_ENOMEM. */
PARE_CHECKED pare_status pare_plan_time_at(pare_ctx *cx, const pare_plan *plan,
                                           const pare_settled *settled, const pare_plan_rates *rate,
                                           pare_plan_estimate *out);

/* The same on this machine as it is now. Reports progress. Statuses as pare_plan_rates_measure. */
PARE_CHECKED pare_status pare_plan_time(pare_ctx *cx, const pare_plan *plan,
                                        pare_plan_estimate *out);

#endif
