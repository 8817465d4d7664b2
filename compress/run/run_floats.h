/* compress/run/run_floats.h - weights of linears as floats in a file beside the journal, between
 * one walk over the blocks and the next.
 *
 * F32, those linears of the plan that are trained, in its order: each n * k weights and, where its
 * codes are trained (pare_plan_aware), their steps (compress/run/run_aware.h).
 * Behind them, once trained, matrices outside the blocks.
 * In front of the training such weights are masters, behind it values of codes. The journal has
 * hashes of all: a file is worth what its hashes say. Files go when the job is done. */
#ifndef PARE_COMPRESS_RUN_RUN_FLOATS_H
#define PARE_COMPRESS_RUN_RUN_FLOATS_H

#include "compress/artifact/manifest.h"
#include "runtime/file.h"

typedef struct pare_run pare_run; /* compress/run/run_internal.h */

/* Names in the directory of the job. */
#define PARE_FLOATS_PRUNED  "pruned.f32"
#define PARE_FLOATS_TRAINED "trained.f32"

typedef struct pare_run_floats {
    char *path;
    int fd; /* with path */
    pare_file map;
} pare_run_floats;

/* Opens a file in the directory of the job, or makes it. PARE_EIO, PARE_ENOSPC, PARE_ENOMEM,
 * PARE_EFORMAT for what is no regular file. Close it in any case. */
PARE_CHECKED pare_status pare__floats_open(pare_run *run, const char *name, pare_run_floats *out);
/* Opens what another process has written, to read it. Errors as above, and PARE_EFORMAT where it
 * has not all linears. */
PARE_CHECKED pare_status pare__floats_look(pare_run *run, const char *name, pare_run_floats *out);
void pare__floats_close(pare_run_floats *f);

/* Linear i of the plan, w [n, k] and `steps` (pare_plan_beside; NULL where there are none):
 * written, with the hash of its bytes; and read, when they still have that hash, else PARE_EFORMAT.
 * Behind the linears, i counts on: leaf j of the model (pare_plan_outside) is linears + j. */
PARE_CHECKED pare_status pare__floats_put(pare_run *run, const pare_run_floats *f, size_t i,
                                          const float *w, const float *steps, uint8_t hash[16]);
PARE_CHECKED pare_status pare__floats_get(pare_run *run, const pare_run_floats *f, size_t i,
                                          float *w, float *steps, const uint8_t hash[16]);

/* What was written is on the disk. */
PARE_CHECKED pare_status pare__floats_sync(pare_run *run, const pare_run_floats *f);

/* Weights of i (0: it is not trained), and its name. */
size_t pare__floats_count(const pare_run *run, size_t i);
const char *pare__floats_name(const pare_run *run, size_t i);

/* Maps the file; then where i lies. PARE_EIO, PARE_ENOMEM. */
PARE_CHECKED pare_status pare__floats_map(pare_run *run, pare_run_floats *f);
const float *pare__floats_at(const pare_run *run, const pare_run_floats *f, size_t i);

/* The hash that a unit has of a linear, or NULL. */
const uint8_t *pare__floats_hash(const pare_unit_result *unit, const char *linear);

#endif
