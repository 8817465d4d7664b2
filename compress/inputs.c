#include "compress/inputs.h"

#include "compress/output.h"

pare_status pare_inputs_watch(pare_arena *a, pare_checkpoint *ck)
{
    for (size_t i = 0; pare_companions[i]; i++) {
        char *const path = pare_path_join(a, ck->directory, pare_companions[i]);
        if (!path)
            return PARE_ENOMEM;
        PARE_TRY(pare_watch_path(a, &ck->watch, path));
    }
    return PARE_OK;
}
