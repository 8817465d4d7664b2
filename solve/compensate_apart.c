/* Columns kept apart: the last positions of the sweep, in int8 with one scale per row. */
#include "solve/compensate_internal.h"

#include <math.h>

#include "kernels/half.h"

#define F16_MAX 65504.0F

pare_status pare__sweep_check_apart(pare_ctx *cx, const pare_compensate *c, const pare_codes *out)
{
    const size_t apart = c->factor->apart;
    if (c->grid && out->outliers != apart)
        return pare_fail(cx, PARE_ESHAPE, "%zu columns kept apart, the factor was made for %zu",
                         out->outliers, apart);
    if (!apart)
        return PARE_OK;
    if (c->sparsity)
        return pare_fail(cx, PARE_EINVAL, "columns are not kept apart while weights are pruned");
    if (!c->grid || !pare_encodings[c->grid->encoding].uniform || !c->grid->symmetric ||
        c->grid->clip == PARE_CLIP_WEIGHTED || !out->outlier_code || !out->outlier_scale)
        return pare_fail(
            cx, PARE_EINVAL,
            "columns are kept apart in int8 beside uniform symmetric grids only, without "
            "clip weighted");
    return PARE_OK;
}

/* A group without a position begins, and ends, at `inner`. */
pare_status pare__sweep_take_starts(pare_arena *scratch, pare__sweep *job)
{
    const size_t group = job->grid->group, groups = job->out->groups;
    job->begins = PARE_NEW(scratch, size_t, groups + 1);
    if (!job->begins)
        return PARE_ENOMEM;
    for (size_t g = 0, position = 0; g < groups; g++) {
        while (job->factor->apart && position < job->inner &&
               job->factor->order[position] < g * group)
            position++;
        job->begins[g] = job->factor->apart ? position : g * group;
    }
    job->begins[groups] = job->inner;
    return PARE_OK;
}

bool pare__sweep_fit_apart(const pare__sweep *job, size_t r0, size_t r1, pare__tile_fault *fault)
{
    for (size_t i = r0; i < r1; i++) {
        float most = 0;
        for (size_t j = job->inner; j < job->k; j++) {
            const float a = fabsf(job->w[i * job->k + j]);
            most = a > most || isnan(a) ? a : most;
        }
        if (!(most <= F16_MAX)) {
            *fault = (pare__tile_fault){PARE_GRID_OVERFLOW, i, job->out->groups, most};
            return false;
        }
        job->out->outlier_scale[i] = pare_f16_scale(most / 127);
    }
    return true;
}

pare_status pare__sweep_fail_apart(pare_ctx *cx, const pare__tile_fault *fault)
{
    return pare_fail(cx, PARE_ENUMERIC,
                     "row %zu: a weight of %g cannot be kept apart: repair the checkpoint, raise "
                     "the damping, or leave this linear out",
                     fault->row, (double)fault->value);
}
