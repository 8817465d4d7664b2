/* compress/artifact/training_state.h - a training as it is behind some step, in a file beside the
 * journal.
 *
 *   "PTS1" | u64 le length | record of a unit with what the training did so far | f64 first, least
 * | u64 steps, steps in the last point | of each leaf, then of a projection: values, m, v, F32, or
 * m and v as codes of 8 bits and then the scales of both | 16 B XXH3-128 of all that
 *
 * It is written under another name, made durable, and then takes the place of the last one. One
 * that is torn or damaged is worth nothing: training begins anew. */
#ifndef PARE_COMPRESS_ARTIFACT_TRAINING_STATE_H
#define PARE_COMPRESS_ARTIFACT_TRAINING_STATE_H

#include "compress/artifact/manifest.h"
#include "compress/output/lock.h"
#include "distill/train.h"

/* Whose it is and where. */
typedef struct pare_training_place {
    pare_ctx *cx;
    pare_arena *scratch;
    const char *directory; /* of the job */
    const uint8_t *asked;  /* [16] hash of the settings of this job */
    const char *other;     /* what to tell of a training with other settings */
    const pare_teller *teller;
} pare_training_place;

typedef struct pare_training_state {
    pare_train_state at;
    pare_training_result result;
    size_t in_point; /* steps in its last point */
    size_t kept;     /* steps of the state in the file; 0: there is none */
    pare_trained *leaf;
    size_t leaves;
    const pare_trained *projection; /* distill/projection.h; NULL: there is none */
} pare_training_state;

/* Takes a step into the curve: steps are spread over its points, as means of loss and norm. */
void pare_training_state_add(pare_training_state *t, const pare_train_step *s);

/* PARE_EIO, PARE_ENOSPC, PARE_ENOMEM: the last one stays. */
PARE_CHECKED pare_status pare_training_state_save(const pare_training_place *p,
                                                  pare_training_state *t);

/* The state that an earlier run saved, with values and moments in its leaves; *found false, and
 * nothing changed, where there is none that is whole and of these settings, which is told.
 * PARE_ENOMEM, PARE_EIO. */
PARE_CHECKED pare_status pare_training_state_load(const pare_training_place *p,
                                                  pare_training_state *t, bool *found);

/* `s`, with which a job ends; for PARE_ENOSPC the message says what is kept, too. */
pare_status pare_training_state_end(pare_ctx *cx, const pare_training_state *t, pare_status s);

/* It goes: when the job is done, because until then the trained weights may turn out damaged, or
 * when it is of other settings. */
void pare_training_state_remove(const pare_training_place *p);

#endif
