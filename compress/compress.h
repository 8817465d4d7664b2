/* compress/compress.h - the main job: a checkpoint and a recipe in, an artifact out. */
#ifndef PARE_COMPRESS_COMPRESS_H
#define PARE_COMPRESS_COMPRESS_H

#include "compress/run/job_events.h"

/* Runs the job. Everything goes to OUTPUT.partial, is made durable block by block, and is renamed
 * to OUTPUT when it is complete; an unfinished earlier run of the same job is continued, with the
 * same bytes as a run without a break. Then the exports of the recipe: when one fails, the artifact
 * stays as it is and the message says so; the same job again makes those that are missing. Statuses
 * as pare_plan_make, and PARE_EINTERRUPTED (resumable), PARE_ENUMERIC (a weight that is not
 * finite), PARE_EIO, PARE_ENOSPC (resumable). Memory: plan.anonymous_bytes of anonymous memory.
 * Deterministic set: see formats/packed.h and compress/artifact/manifest.h; same bytes for any
 * thread count, directory, limit and history of kills. */
PARE_CHECKED pare_status pare_compress(pare_ctx *cx, pare_arena *a, const pare_job *job,
                                       const pare_events *events, pare_compress_result *out);

#endif
