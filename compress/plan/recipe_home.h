/* compress/plan/recipe_home.h - the recipe that lies in an output.
 *
 * An output holds a copy of its recipe, and relative paths in a recipe are relative to where the
 * recipe lies. So run.json says where the first one lay, as a path from the output
 * ("recipe_directory": ".."): a copy works where it is, also after both moved together. */
#ifndef PARE_COMPRESS_PLAN_RECIPE_HOME_H
#define PARE_COMPRESS_PLAN_RECIPE_HOME_H

#include "compress/plan/plan_job.h"
#include "runtime/arena.h"

/* If job->recipe is recipe.yaml of an output, the job is that of the recipe where it lay first: its
 * text, its folder, and job->file for messages. Warns of what else made the output (--set). Other
 * jobs stay as they are, and so do those of outputs whose run.json says nothing. PARE_ENOMEM. */
PARE_CHECKED pare_status pare_recipe_go_home(pare_ctx *cx, pare_arena *a, pare_job *job);

/* The way from the folder `from` to the folder `to`, both as they are named from the working
 * directory: "..", "../recipes", "."; links are followed. NULL: PARE_ENOMEM, or a path that is too
 * long. */
char *pare_recipe_way(pare_arena *a, const char *from, const char *to);

#endif
