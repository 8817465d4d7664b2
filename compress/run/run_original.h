/* compress/run/run_original.h - the model that results are compared with: the one that the recipe
 * names beside the model, else the model itself. */
#ifndef PARE_COMPRESS_RUN_RUN_ORIGINAL_H
#define PARE_COMPRESS_RUN_RUN_ORIGINAL_H

#include "compress/run/run_internal.h"

static inline const pare_model *pare__run_original(const pare_run *run)
{
    return run->plan->original_path ? &run->plan->original : &run->model;
}

static inline const pare_checkpoint *pare__run_original_files(const pare_run *run)
{
    return run->plan->original_path ? &run->plan->original_checkpoint : &run->checkpoint;
}

#endif
