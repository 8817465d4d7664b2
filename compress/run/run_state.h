/* compress/run/run_state.h - a training as it is behind some step, in a file beside the journal.
 *
 *   "PTS1" | u64 le length | record of a unit with what the training did so far | f64 first, least
 * | u64 steps, steps in the last point | of each leaf: values, m, v, F32 | 16 B XXH3-128 of all
 * that
 *
 * It is written under another name, made durable, and then takes the place of the last one. One
 * that is torn or damaged is worth nothing: training begins anew. */
#ifndef PARE_COMPRESS_RUN_RUN_STATE_H
#define PARE_COMPRESS_RUN_RUN_STATE_H

#include "compress/artifact/manifest.h"
#include "distill/train.h"

typedef struct pare_run pare_run; /* compress/run/run_internal.h */

/* The name in the directory of the job. */
#define PARE_TRAINING_STATE "training.state"

typedef struct pare_run_state {
    pare_train_state at;
    pare_training_result result;
    size_t in_point; /* steps in its last point */
    pare_trained *leaf;
    size_t leaves;
} pare_run_state;

/* PARE_EIO, PARE_ENOSPC, PARE_ENOMEM: the last one stays. */
PARE_CHECKED pare_status pare__state_save(pare_run *run, const pare_run_state *s);

/* The state that an earlier run saved, with values and moments in its leaves; *found false, and
 * nothing changed, where there is none that is whole and of these settings, which is told.
 * PARE_ENOMEM, PARE_EIO. */
PARE_CHECKED pare_status pare__state_load(pare_run *run, pare_run_state *s, bool *found);

/* It goes: when the job is done, because until then the trained weights may turn out damaged, or
 * when it is of other settings. */
void pare__state_remove(pare_run *run);

#endif
