/* What processes 1 and up do: they obey process 0. */
#include "compress/run/run_serve.h"

#include "compress/run/run_evaluate.h"
#include "compress/run/run_internal.h"
#include "compress/run/run_keep.h"
#include "compress/run/run_mixture.h"
#include "compress/run/run_walk.h"
#include "runtime/machine.h"
#include "runtime/world.h"

/* What process 0 has written. */
static pare_status take_trained(pare_run *run)
{
    PARE_TRY(pare__floats_look(run, PARE_FLOATS_TRAINED, &run->trained));
    return pare__front_source(run);
}

static pare_status begin(pare_run *run, const pare_team_order *o)
{
    const size_t count = (size_t)o->tokens;
    run->settled.samples = (size_t)o->samples;
    run->settled.fresh = o->fresh; /* all decide alike what experts get too little */
    run->source = run->model;
    run->team.block = 0;
    int32_t *const id = PARE_NEW(run->a, int32_t, count);
    pare_status s = id || !count ? PARE_OK : PARE_ENOMEM;
    if (s == PARE_OK && o->trained)
        s = take_trained(run);
    PARE_TRY(pare_world_agree(run->cx, s));
    run->data.tokens = (pare_tokens){.id = id, .count = count};
    if (count)
        pare_world_broadcast(run->cx, id, count * sizeof *id);
    const uint64_t chunk = run->settled.memory.chunk;
    pare_world_send(run->cx, 0, &chunk, sizeof chunk);
    return pare__walk_begin(run);
}

/* The block as process 0 has it; what it does not send is as in the model. */
static pare_status take_block(pare_run *run, const pare_team_order *o)
{
    pare_status s = PARE_OK;
    if (run->team.block != o->block + 1) {
        run->midway = run->floats_ahead = false;
        s = pare__run_load(run, (size_t)o->block);
        run->team.block = (size_t)o->block + 1;
    }
    pare__team_spread(run);
    return pare__mixture_spread(run, (size_t)o->stored, s);
}

static pare_status gather(pare_run *run, const pare_team_order *o)
{
    pare_stats stats;
    const pare_mark mark = pare_arena_mark(&run->scratch);
    pare_status s = take_block(run, o);
    if (s == PARE_OK)
        s = pare__run_take_sites(run, (unsigned)o->active, &stats);
    if (s == PARE_OK)
        s = pare__run_gather(run, (size_t)o->block, &stats);
    pare_arena_rewind(&run->scratch, mark);
    return s;
}

static pare_status count(pare_run *run, const pare_team_order *o)
{
    const pare_status s = take_block(run, o);
    return s == PARE_OK ? pare__run_experts_count(run, (size_t)o->block) : s;
}

static pare_status gather_experts(pare_run *run, const pare_team_order *o)
{
    const pare_status s = take_block(run, o);
    return s == PARE_OK ? pare__run_experts_gather(run, (size_t)o->block, (size_t)o->first,
                                                   (size_t)o->count, (unsigned)o->active)
                        : s;
}

static pare_status carry(pare_run *run, const pare_team_order *o)
{
    const pare_status s = take_block(run, o);
    if (s != PARE_OK)
        return s;
    return o->op == PARE_TEAM_MIDWAY ? pare__run_carry_midway(run, (size_t)o->block)
                                     : pare__run_carry(run, (size_t)o->block);
}

/* Behind the blocks: an evaluation, or a training. */
static pare_status run_text(pare_run *run, const pare_team_order *o)
{
    pare__walk_end(run);
    const pare_mark mark = pare_arena_mark(&run->scratch);
    pare_tokens tokens = {.id = PARE_NEW(&run->scratch, int32_t, (size_t)o->tokens),
                          .count = (size_t)o->tokens};
    pare_status s = pare_world_agree(run->cx, tokens.id ? PARE_OK : PARE_ENOMEM);
    if (s == PARE_OK) {
        pare_world_broadcast(run->cx, tokens.id, tokens.count * sizeof *tokens.id);
        s = o->op == PARE_TEAM_TRAIN
                ? pare__run_train_part(run, &tokens)
                : pare__run_evaluate_part(run, &tokens, (size_t)o->window, o->kl != 0);
    }
    pare_arena_rewind(&run->scratch, mark);
    return s;
}

static pare_status obey(pare_run *run, const pare_team_order *o)
{
    const double start = pare_seconds();
    pare_status s = PARE_OK;
    switch ((pare_team_op)o->op) {
    case PARE_TEAM_STOP: return (pare_status) - (int64_t)o->status;
    case PARE_TEAM_BEGIN: s = begin(run, o); break;
    case PARE_TEAM_GATHER: s = gather(run, o); break;
    case PARE_TEAM_COUNT: s = count(run, o); break;
    case PARE_TEAM_EXPERTS: s = gather_experts(run, o); break;
    case PARE_TEAM_MIDWAY:
    case PARE_TEAM_CARRY: s = carry(run, o); break;
    case PARE_TEAM_SOLVE: pare__run_solve(run); break;
    case PARE_TEAM_EVALUATE:
    case PARE_TEAM_TRAIN: s = run_text(run, o); break;
    case PARE_TEAM_FIGURES: {
        const pare_report_rank r = pare__team_own_figures(run);
        pare_world_send(run->cx, 0, &r, sizeof r);
        return PARE_OK;
    }
    }
    run->team.seconds += pare_seconds() - start;
    if (o->op == PARE_TEAM_SOLVE) /* between two processes */
        return PARE_OK;
    return pare_world_agree(run->cx, s);
}

/* The walk that begins, behind the one that was there. */
static void turn_to(pare_run *run, const pare_plan *plan, const pare_team_order *o,
                    pare_plan *stage)
{
    pare__walk_end(run);
    run->plan = plan;
    run->units.found = run->front.found = (size_t)o->found; /* of the walk */
    if (o->keeps)
        pare__keep_walk(run, stage);
    else
        pare__front_walk(run, o->front != 0);
}

pare_status pare__team_serve(pare_run *run)
{
    const pare_plan *const plan = run->plan;
    pare_plan stage;
    pare_team_order o = {.op = PARE_TEAM_BEGIN};
    pare_status s = PARE_OK;
    pare__front_walk(run, false);
    while (s == PARE_OK && o.op != PARE_TEAM_STOP) {
        pare_world_receive(run->cx, 0, &o, sizeof o);
        if (o.op == PARE_TEAM_BEGIN)
            turn_to(run, plan, &o, &stage);
        s = obey(run, &o);
    }
    run->plan = plan; /* `stage` ends here */
    return s;
}
