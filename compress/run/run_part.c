/* The part of a block that is worked on: what every token runs, or one expert. */
#include <string.h>

#include "compress/plan/plan_walks.h"
#include "compress/run/run_internal.h"
#include "runtime/world.h"

pare_run_part *pare__run_part(pare_run *run, const pare_plan_linear *l)
{
    return l->part ? &run->experts.part : &run->part;
}

float *pare__run_linear_floats(pare_run *run, const pare_plan_linear *l)
{
    return pare__run_part(run, l)->linear[l->role].floats;
}

void pare__run_part_begin(pare_run_part *part)
{
    memset(part->frozen, 0, sizeof part->frozen);
    memset(part->thin, 0, sizeof part->thin);
    memset(part->stability, 0, sizeof part->stability);
    memset(part->done_count, 0, sizeof part->done_count);
    memset(part->done_error, 0, sizeof part->done_error);
    for (size_t role = 0; role < PARE_ROLES; role++)
        part->pruning[role] = (pare_linear_result){0};
}

void pare__run_experts_begin(pare_run *run, const pare_block *from)
{
    const size_t experts = run->model.config.experts;
    pare_arena_rewind(&run->experts.views, (pare_mark){0});
    if (!experts)
        return;
    memcpy(run->experts.linear, from->expert, experts * PARE_ROLES * sizeof *run->experts.linear);
    run->experts.counted = false;
    run->experts.fresh_count = 0;
    memset(run->experts.cold, 0, experts * sizeof *run->experts.cold);
    memset(run->experts.fill, 0, run->plan->parts * sizeof *run->experts.fill);
}

void pare__run_coverage(const pare_run *run, const pare_plan_linear *l, pare_linear_result *r)
{
    r->part = l->part;
    r->tokens = l->part && run->experts.counted ? (int64_t)run->experts.routed[l->part - 1] : -1;
    r->cold = l->part && l->calibrated ? run->experts.cold[l->part - 1] : PARE_COLD_NOT;
    if (!l->part || run->walk.front || !pare_plan_trains(run->plan, l))
        return;
    const pare_linear_result *const front = &run->experts.part.pruning[l->role];
    if (run->experts.counted && (r->cold != PARE_COLD_NOT || front->cold == PARE_COLD_NOT))
        return;
    r->tokens = front->tokens; /* in front of the training */
    r->cold = front->cold;
}

bool pare__run_views(const pare_run *run, const pare_plan_linear *l)
{
    return l->part > 0 || run->settled.memory.sparing;
}

pare_status pare__run_stored(pare_run *run, const pare_plan_linear *l)
{
    pare_linear *const to = l->part ? &run->experts.linear[(l->part - 1) * PARE_ROLES + l->role]
                                    : &run->current.linear[l->role];
    float *const bias = to->bias;
    if (!run->plan->calibrated) /* nothing runs the block */
        return PARE_OK;
    PARE_TRY(pare_packed_map_linear(run->cx, &run->experts.views, run->writer, &run->settled.layout,
                                    &l->packed, to));
    to->bias = to->bias ? to->bias : bias;
    if (l->part && pare_world_size(run->cx) > 1)
        run->experts.fresh[run->experts.fresh_count++] = (size_t)(l - run->settled.linear);
    return PARE_OK;
}
