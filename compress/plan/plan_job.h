/* compress/plan/plan_job.h - what a user asks "pare compress" for. */
#ifndef PARE_COMPRESS_PLAN_PLAN_JOB_H
#define PARE_COMPRESS_PLAN_PLAN_JOB_H

#include "compress/artifact/asked_speed.h"
#include "compress/plan/variants.h"

typedef enum pare_job_part { PARE_JOB_WHOLE, PARE_JOB_SMALLER, PARE_JOB_REST } pare_job_part;

/* What a job leaves in the process beside the allocator: what BLAS keeps; columns of the widest
 * product, whose panels stay on the stack of each thread. */
typedef struct pare_job_left {
    uint64_t bytes;
    size_t widest;
} pare_job_left;

typedef struct pare_job {      /* what the user asks for: a recipe, and what changes it */
    const char *recipe, *text; /* path of the recipe; its text, or NULL: read from there */
    const char *file;          /* as messages call the recipe; NULL: by its path */
    pare_job_part part;        /* of a chain (compress/plan/chain.h) */
    const char *model, *output, *tokenizer, *original; /* command line (the last: a chain); relative
                                                          to the working directory */
    const char *const *sets;                           /* "path=value" */
    size_t set_count;
    const char *share;       /* folder for what jobs of one model and calibration share, or NULL */
    const pare_speed *speed; /* of widths that were chosen for one, or NULL */
    const pare_variants *variants; /* made beside the job's own codes, or NULL */
    uint64_t ram_limit;            /* bytes; 0: the recipe's */
    uint64_t beside_bytes; /* of the context that the job will not have: it is planned beside */
    bool strict;           /* refuse exports with codes or types other than asked for */
    bool restart;          /* discard what an earlier run left, and replace a finished output */
    bool plan_only;        /* the plan is all that is wanted: a finished output is no obstacle, */
    bool unlimited;        /* nor is too little memory or disk */
    bool look_only; /* what the job would find in its place is wanted (compress/run/run_look.h) */
    struct pare_looked *looked; /* with it: what other looks have read; or NULL */
    bool fallback;              /* its last settings are those of one of the recipe's fallbacks */
    bool stand_in; /* the model is the whole one, in place of a smaller one that is not there yet */
    pare_job_left left; /* of the first job of a chain, in the second */
} pare_job;

/* What messages call the recipe. */
static inline const char *pare_job_file(const pare_job *job)
{
    return job->file ? job->file : job->recipe;
}

#endif
