/* The current block: its weights in floats, and activations through it. */
#include "compress/plan/plan_walks.h"
#include "compress/run/run_internal.h"
#include "compress/run/run_team.h"
#include "compress/run/run_walk.h"
#include "runtime/machine.h"

static const pare_block *block_of(const pare_run *run, size_t block)
{
    return &run->source.block[run->structure.source ? run->structure.source[block] : block];
}

/* The weights of a block in floats, in the basis that the plan asks for. */
static pare_status load_floats(pare_run *run, size_t block, pare_block *to)
{
    const pare_rotation *const rotation = run->plan->rotation;
    pare_block_load(run->cx, &run->model.config, block_of(run, block), to);
    for (size_t role = 0; role < PARE_ROLES; role++)
        to->linear[role].rotated = rotation && pare_rotation_is_online(rotation, (pare_role)role);
    to->expert = run->experts.linear;
    return rotation ? pare_rotation_block(run->cx, &run->scratch, rotation, to) : PARE_OK;
}

/* The block as the model has it, with the experts as they are now. */
static pare_block view_of(const pare_run *run, size_t block)
{
    pare_block b = *block_of(run, block);
    b.expert = run->experts.linear;
    b.kv = (pare_kv_levels){0};
    return b;
}

pare_status pare__run_load(pare_run *run, size_t block)
{
    pare_block_config(&run->model.config, block, &run->shape);
    pare__run_experts_begin(run, block_of(run, block));
    if (run->settled.memory.sparing) {
        run->current = view_of(run, block);
        return PARE_OK;
    }
    return load_floats(run, block, &run->current);
}

/* A tap that sees nothing and stops nowhere. */
static const pare_tap whole_half = {.last = PARE_SITES};

static pare_status run_wave(pare_run *run, const pare_tap *tap, const char *what)
{
    const double start = pare_seconds();
    const pare_status s = pare_wave_run(run->cx, &run->scratch, &run->wave, &run->wave_forward,
                                        &run->current, tap, what);
    run->calibration_seconds += pare_seconds() - start;
    return s;
}

pare_status pare__run_wave(pare_run *run, const pare_tap *tap, const char *what)
{
    pare_tap rest = tap ? *tap : whole_half;
    rest.half = run->midway ? PARE_HALF_MLP : PARE_HALF_BOTH;
    return run_wave(run, &rest, what);
}

/* Both models through the current block, the float one a batch ahead. */
static pare_status run_both(pare_run *run, const pare_block *whole, const pare_tap *floats,
                            const pare_tap *tap, const char *what)
{
    const double start = pare_seconds();
    const pare_wave_side side[2] = {{&run->floats, whole, floats},
                                    {&run->wave, &run->current, tap}};
    const pare_status s =
        pare_wave_run_both(run->cx, &run->scratch, &run->wave_forward, side, what);
    run->calibration_seconds += pare_seconds() - start;
    return s;
}

/* The block as the float model has it before any fold. */
static pare_status load_whole(pare_run *run, size_t block, pare_block *out)
{
    const pare_plan *const plan = run->plan;
    if (run->settled.memory.sparing) {
        *out = view_of(run, block);
        return PARE_OK;
    }
    if (pare_plan_reference_is_whole(plan))
        *out = run->reference; /* folds are over, or there are none and it holds this */
    else
        PARE_TRY(pare_block_take(&run->scratch, &run->model.config, plan->biases, out));
    const pare_mark mark = pare_arena_mark(&run->scratch);
    const pare_status s = load_floats(run, block, out);
    pare_arena_rewind(&run->scratch, mark);
    return s;
}

/* The float model of the statistics follows the folds. Where there are none it goes on behind the
 * last site of a half: its weights there are known. */
static pare_status gather_both(pare_run *run, size_t block, pare_stats *stats, const char *what)
{
    pare_tap tap = pare_stats_tap(stats), floats = pare_stats_float_tap(stats);
    pare_block whole = run->reference;
    tap.half = floats.half = run->midway ? PARE_HALF_MLP : PARE_HALF_ATTENTION;
    if (!run->plan->halves)
        tap.half = floats.half = PARE_HALF_BOTH;
    else if (tap.last == PARE_SITE_ATTENDED || tap.last == PARE_SITE_ACTIVATED) {
        floats.last = PARE_SITES;
        run->floats_ahead = true;
    }
    PARE_TRY(pare_stats_drift_room(&run->scratch, run->plan->batch * run->plan->window, stats));
    if (!pare_plan_reference_is_whole(run->plan))
        PARE_TRY(load_whole(run, block, &whole));
    return run_both(run, &whole, &floats, &tap, what);
}

pare_status pare__run_gather(pare_run *run, size_t block, pare_stats *stats)
{
    static const char what[] = "gathering statistics";
    const pare_tap tap = pare_stats_tap(stats);
    if (run->plan->kept.used)
        return pare__kept_fill(run, block, stats);
    const pare_mark mark = pare_arena_mark(&run->scratch);
    pare_stats_parts parts = {stats, 0, 1};
    unsigned char *shares = NULL;
    pare_status s = pare__team_block(run, PARE_TEAM_GATHER, block, stats->active);
    if (s == PARE_OK)
        s = pare__team_room(run, &parts, &shares);
    if (s == PARE_OK)
        s = run->plan->drift ? gather_both(run, block, stats, what)
                             : pare__run_wave(run, &tap, what);
    s = pare__team_join(run, &parts, shares, s);
    const pare_status drift = pare_stats_drift_done(stats);
    s = s == PARE_OK ? drift : s;
    pare_arena_rewind(&run->scratch, mark);
    return pare__team_end(run, s);
}

/* The float model goes on as it was before anything was folded into it: that differs in the last
 * bits, and a block of an earlier run is not folded again. */
static pare_status carry(pare_run *run, size_t block, pare_half half, const char *what)
{
    pare_tap tap = whole_half;
    tap.half = half;
    if (!pare__walk_floats(run) || run->floats_ahead) {
        run->floats_ahead = false;
        return run_wave(run, &tap, what);
    }
    const pare_mark mark = pare_arena_mark(&run->scratch);
    pare_block whole;
    pare_status s = load_whole(run, block, &whole);
    if (s == PARE_OK)
        s = run_both(run, &whole, &tap, &tap, what);
    pare_arena_rewind(&run->scratch, mark);
    return s;
}

pare_status pare__run_carry_midway(pare_run *run, size_t block)
{
    PARE_TRY(pare__team_block(run, PARE_TEAM_MIDWAY, block, 0));
    PARE_TRY(pare__team_end(
        run, carry(run, block, PARE_HALF_ATTENTION, "carrying activations to the MLP")));
    run->midway = true;
    return PARE_OK;
}

pare_status pare__run_carry(pare_run *run, size_t block)
{
    const pare_half half = run->midway ? PARE_HALF_MLP : PARE_HALF_BOTH;
    PARE_TRY(pare__team_block(run, PARE_TEAM_CARRY, block, 0));
    PARE_TRY(
        pare__team_end(run, carry(run, block, half, "carrying activations to the next block")));
    run->midway = false;
    return PARE_OK;
}

pare_status pare__run_weigh(pare_run *run)
{
    const pare_plan *const plan = run->plan;
    if (!plan->token_weights || run->units.found >= plan->out.blocks)
        return PARE_OK;
    const double start = pare_seconds();
    pare_ctx_step(run->cx, PARE__PHASE_WEIGH, "weighing tokens by the loss");
    const pare_status s = pare__run_token_weights(run);
    run->calibration_seconds += pare_seconds() - start;
    return s;
}
