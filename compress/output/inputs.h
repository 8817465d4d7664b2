/* compress/output/inputs.h - files that a job, an export or an evaluation reads, and that must stay
 * as they are until its result has its name. */
#ifndef PARE_COMPRESS_OUTPUT_INPUTS_H
#define PARE_COMPRESS_OUTPUT_INPUTS_H

#include "formats/checkpoint.h"

/* Adds to ck->watch what belongs to a model beside its weights, there or not (pare_companions).
 * Right after the checkpoint is opened. PARE_ENOMEM. */
PARE_CHECKED pare_status pare_inputs_watch(pare_arena *a, pare_checkpoint *ck);

/* Refuses a model that is the directory in which an unfinished job works, OUTPUT.partial, with
 * words for how to go on: PARE_EFORMAT; and one that is not there while such a directory is, or
 * that of an unfinished search: PARE_ENOTFOUND. PARE_ENOTSUP for the work of a newer program,
 * PARE_EIO, PARE_ENOMEM. */
PARE_CHECKED pare_status pare_inputs_no_work(pare_ctx *cx, pare_arena *a, const char *path);

#endif
