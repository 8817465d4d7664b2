/* compress/plan/job_paths.h - paths that a recipe or the command line names: where they come from,
 * and whether an output may be written there. */
#ifndef PARE_COMPRESS_PLAN_JOB_PATHS_H
#define PARE_COMPRESS_PLAN_JOB_PATHS_H

#include "compress/output/output_swap.h"
#include "recipes/recipe.h"

/* Who names it. A path of the recipe is relative to the recipe, one of the command line to the
 * working directory. */
typedef struct pare_job_path {
    const char *recipe;       /* its file */
    const char *key;          /* "output", of the recipe; the option is --output */
    const char *override;     /* of the command line, or NULL */
    const pare_text *written; /* in the recipe */
} pare_job_path;

/* A recipe of at most 1 MiB: `text`, or where that is NULL the file. PARE_EUSAGE, PARE_ENOTFOUND,
 * PARE_EIO, PARE_ENOMEM. */
PARE_CHECKED pare_status pare_job_read_recipe(pare_ctx *cx, pare_arena *a, const char *recipe,
                                              const char *text, char **out, size_t *len);

/* The path without slashes at its end. PARE_EUSAGE when neither names one, PARE_ENOMEM. */
PARE_CHECKED pare_status pare_job_path_pick(pare_ctx *cx, pare_arena *a, const pare_job_path *p,
                                            char **out);

/* Records what is wrong with it: its place in the recipe, or the option that gave it. Returns s. */
pare_status pare_job_path_fail(pare_ctx *cx, pare_status s, const pare_job_path *p, const char *fmt,
                               ...) PARE_PRINTF(4, 5);

/* Whether something lies at `path` that can be a model, and is no unfinished work. PARE_EUSAGE,
 * and what pare_inputs_no_work returns. */
PARE_CHECKED pare_status pare_job_check_model(pare_ctx *cx, pare_arena *a, const pare_job_path *p,
                                              const char *path);

/* Picks the output and checks it: a new name or a directory, not among the files of another model.
 * PARE_EUSAGE, PARE_EEXISTS, PARE_EIO, PARE_ENOMEM. */
PARE_CHECKED pare_status pare_job_output(pare_ctx *cx, pare_arena *a, const pare_job_path *p,
                                         pare_output_place *out);

/* Whether it would replace the model at `model`, or lie in it. PARE_EUSAGE, PARE_EEXISTS. */
PARE_CHECKED pare_status pare_job_output_beside(pare_ctx *cx, const pare_job_path *p,
                                                const pare_output_place *place, const char *model);

/* A finished output stays, unless `replaces`: then it is checked that pare may replace it.
 * *finished says that one is there and stays. PARE_EEXISTS where pare did not write it, PARE_EIO,
 * PARE_ENOMEM. */
PARE_CHECKED pare_status pare_job_check_replacing(pare_ctx *cx, pare_arena *a,
                                                  const pare_job_path *p,
                                                  const pare_output_place *place, bool replaces,
                                                  bool look_only, bool *finished);

#endif
