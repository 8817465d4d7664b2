/* recipes/batch_recipe.h - a file of "pare batch": one recipe and what it is varied by, as jobs.
 *
 *   models x methods x parameters of the method, without `exclude`, and those of `include` behind
 *
 * in the order of the file, the last one varied first. A parameter that no pass of a method has
 * does not multiply that method. Every job becomes a recipe of its own, checked by the rules of
 * recipes; errors name the place in the file or in the base recipe that a value came from. */
#ifndef PARE_RECIPES_BATCH_RECIPE_H
#define PARE_RECIPES_BATCH_RECIPE_H

#include "recipes/recipe.h"

enum { PARE_BATCH_JOBS_MAX = 4096, PARE_BATCH_NAME_MAX = 120 };

/* The passes, and which of them leave rounding to a pass behind them: a method that is named by one
 * such word alone gets "rtn" there. */
typedef struct pare_batch_words {
    const pare_pass_words *passes;
    const bool *rounds_not; /* [count] */
    size_t count;
} pare_batch_words;

typedef struct pare_batch_job {
    const char *name;   /* unique, and fit for a file: gptq-bits3-group64 */
    const char *model;  /* as the file names it: its last part, or the job that writes it */
    pare_place place;   /* of the entry of `include`, or of the matrix */
    size_t after;       /* the job that must be done before; itself: none */
    size_t root;        /* the first of that chain */
    pare_recipe recipe; /* checked; its paths are absolute, or in the folder of the batch */
} pare_batch_job;

typedef struct pare_batch_recipe {
    const char *file;
    pare_text output; /* the folder of all; text NULL: not given */
    pare_batch_job *job;
    size_t jobs;
} pare_batch_recipe;

/* Parses a file, and the recipe that it names; strings live in the arena. `output` of each job is
 * its name, in the folder of the batch; a model that another job writes has that one's name, too;
 * paths of exports get the name of the job in front. PARE_EUSAGE, PARE_ENOTFOUND or PARE_EIO (of
 * the recipe), PARE_ENOMEM. */
PARE_CHECKED pare_status pare_batch_parse(pare_ctx *cx, pare_arena *a,
                                          const pare_recipe_source *source,
                                          const pare_batch_words *words, pare_batch_recipe *out);

/* Keys of the file, ended by a NULL name. */
extern const pare_recipe_key pare_batch_keys[];

#endif
