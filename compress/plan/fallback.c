#include "compress/plan/fallback.h"

pare_status pare_job_fallback(pare_arena *a, const pare_job *job, const pare_texts *fallback,
                              pare_job *out)
{
    const char **const sets = PARE_NEW(a, const char *, job->set_count + fallback->count);
    if (!sets)
        return PARE_ENOMEM;
    *out = *job;
    out->sets = sets;
    out->restart = false;
    out->fallback = true;
    for (size_t i = 0; i < job->set_count; i++)
        sets[i] = job->sets[i];
    for (size_t i = 0; i < fallback->count; i++)
        sets[out->set_count++] = fallback->item[i].text;
    return PARE_OK;
}
