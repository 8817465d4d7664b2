#include "compress/passes/correct_step.h"

#include <string.h>

pare_correct pare_correct_of(double choice)
{
    return choice == (double)PARE_CORRECT_AUTO ? PARE_CORRECT_NONE : (pare_correct)choice;
}

void pare_correct_decide(double *choice, bool can)
{
    if (*choice == (double)PARE_CORRECT_AUTO)
        *choice = can ? PARE_CORRECT_GPTAQ : PARE_CORRECT_NONE;
}

float pare_correct_share(pare_correct method, double alpha)
{
    return alpha > 0 ? (float)alpha : method == PARE_CORRECT_GPTAQ ? 0.25F : 1.0F;
}

pare_status pare_correct_drift(pare_arena *scratch, const pare_site_stats *stats, pare_drift *out)
{
    const size_t count = stats->k * stats->k;
    *out = stats->drift;
    if (!out->shared)
        return PARE_OK;
    out->d = pare_arena_take_raw(scratch, count, sizeof *out->d);
    if (!out->d)
        return PARE_ENOMEM;
    memcpy(out->d, stats->drift.d, count * sizeof *out->d);
    return PARE_OK;
}
