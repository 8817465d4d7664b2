/* compress/inputs.h - files that a job, an export or an evaluation reads, and that must stay as
 * they are until its result has its name. */
#ifndef PARE_COMPRESS_INPUTS_H
#define PARE_COMPRESS_INPUTS_H

#include "formats/checkpoint.h"

/* Adds to ck->watch what belongs to a model beside its weights, there or not (pare_companions).
 * Right after the checkpoint is opened. PARE_ENOMEM. */
PARE_CHECKED pare_status pare_inputs_watch(pare_arena *a, pare_checkpoint *ck);

#endif
