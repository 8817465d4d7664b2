/* compress/run/run_unfinished.h - whether an unfinished job is one that is asked for. */
#ifndef PARE_COMPRESS_RUN_UNFINISHED_H
#define PARE_COMPRESS_RUN_UNFINISHED_H

#include "recipes/recipe.h"

/* Refuses the work in `partial` as pare_compress of the recipe would, as far as its passes and
 * settings tell: PARE_EEXISTS, the message names the first line that differs. Fine where there is
 * no such work. Not for recipes with fallbacks or a search, whose work may be of one that they lead
 * to. Nothing is said of files of others (pare_owned_partial does). PARE_EIO, PARE_ENOMEM. */
PARE_CHECKED pare_status pare_unfinished_check(pare_ctx *cx, pare_arena *a, const char *partial,
                                               const pare_recipe *asked);

#endif
