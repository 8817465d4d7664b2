/* compress/run/run_training.h - the training of a job as its files know it. */
#ifndef PARE_COMPRESS_RUN_RUN_TRAINING_H
#define PARE_COMPRESS_RUN_RUN_TRAINING_H

#include "compress/artifact/training_state.h"

typedef struct pare_run pare_run; /* compress/run/run_internal.h */

/* Whether a training of an earlier run had the settings of this recipe; tells when it had not.
 * Known once the fingerprint is. */
bool pare__run_trained_as_asked(pare_run *run, const pare_training_result *t);

/* Where the state of the training lies; and it goes. */
pare_training_place pare__run_training_place(pare_run *run);
void pare__run_forget_training(pare_run *run);

#endif
