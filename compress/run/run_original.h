/* compress/run/run_original.h - the model that results are compared with: the one that the recipe
 * names beside the model, else the model itself. */
#ifndef PARE_COMPRESS_RUN_RUN_ORIGINAL_H
#define PARE_COMPRESS_RUN_RUN_ORIGINAL_H

#include "formats/checkpoint.h"
#include "runtime/model.h"

typedef struct pare_run pare_run; /* compress/run/run_internal.h */

const pare_model *pare__run_original(const pare_run *run);
const pare_checkpoint *pare__run_original_files(const pare_run *run);

#endif
