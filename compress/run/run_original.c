#include "compress/run/run_original.h"

#include "compress/run/run_internal.h"

const pare_model *pare__run_original(const pare_run *run)
{
    return run->plan->original_path ? &run->plan->original : &run->model;
}

const pare_checkpoint *pare__run_original_files(const pare_run *run)
{
    return run->plan->original_path ? &run->plan->original_checkpoint : &run->checkpoint;
}
