/* compress/run/run_look.h - what a job would find of a finished output that is there. */
#ifndef PARE_COMPRESS_RUN_RUN_LOOK_H
#define PARE_COMPRESS_RUN_RUN_LOOK_H

#include "compress/plan/plan.h"
#include "compress/report/gate.h"
#include "formats/sha256.h"

typedef struct pare_look {
    bool finished;            /* an output is there and stays; else only `memory` is filled */
    bool other;               /* it failed because what is there is of another job */
    bool infeasible;          /* no attempt can be as small as is required */
    const pare_gate *verdict; /* on what is required now; or NULL */
    size_t missing, exports;  /* of the latter, those that are to be made */
    uint64_t export_bytes;    /* of them */
    uint64_t memory;          /* bytes that the job allocates at most */
} pare_look;

/* Files of models that looks have read: the next one takes their SHA-256 from there, unless they
 * have other stamps now. */
typedef struct pare_looked_file {
    const char *path;
    pare_file_stamp stamp;
    char sha256[PARE_SHA256_HEX];
    struct pare_looked_file *next;
} pare_looked_file;
typedef struct pare_looked {
    pare_arena *a; /* that of all looks */
    pare_looked_file *first;
} pare_looked;

/* Holds what is there against the job, as pare_compress does before it leaves the output as it is
 * and makes the exports that are missing: recipe, sizes of the files, model, texts, places of
 * exports; reads the model once, unless job->looked has it, but with `places_only` nothing but the
 * last of these. Not for a job with `restart`, a search, or the first of two. Writes nothing, and
 * takes no lock. The statuses of pare_plan_make, and PARE_EEXISTS with what differs. */
PARE_CHECKED pare_status pare_look_at(pare_ctx *cx, pare_arena *a, const pare_job *job,
                                      bool places_only, pare_look *out);

typedef struct pare_run pare_run; /* compress/run/run_internal.h */

/* SHA-256 of the model: run->files.input. */
PARE_CHECKED pare_status pare__run_digest_inputs(pare_run *run);

/* Of pare__run_again (run_internal.h) what only looks. *other: that is why it failed;
 * *texts_unknown: nobody noted on which texts the output was evaluated. */
PARE_CHECKED pare_status pare__run_again_check(pare_run *run, bool *other, bool *texts_unknown);

#endif
