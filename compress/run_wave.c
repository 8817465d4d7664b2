/* The current block: its weights in floats, and activations through it. */
#include "compress/compress_internal.h"

static const pare_block *block_of(const pare_run *run, size_t block)
{
    return &run->plan.model.block[run->source ? run->source[block] : block];
}

/* The weights of a block in floats, in the basis that the plan asks for. */
static pare_status load_floats(pare_run *run, size_t block, pare_float_block *to)
{
    const pare_rotation *const rotation = run->plan.rotation;
    pare_float_block_load(run->cx, &run->plan.model.config, block_of(run, block), to);
    return rotation ? pare_rotation_block(run->cx, &run->scratch, rotation, to) : PARE_OK;
}

pare_status pare__run_load(pare_run *run, size_t block)
{
    const pare_block *const from = block_of(run, block);
    const pare_rotation *const rotation = run->plan.rotation;
    run->like = *from;
    for (size_t role = 0; role < PARE_ROLES; role++)
        run->like.linear[role].rotated =
            rotation && pare_rotation_is_online(rotation, (pare_role)role);
    pare__run_experts_begin(run, from);
    PARE_TRY(load_floats(run, block, &run->current));
    run->block = pare_float_block_view(&run->current, &run->like);
    return PARE_OK;
}

pare_status pare__run_wave(pare_run *run, const pare_tap *tap, const char *what)
{
    const double start = pare__seconds();
    const pare_status s =
        pare_wave_run(run->cx, &run->scratch, &run->wave, &run->forward, &run->block, tap, what);
    run->calibration_seconds += pare__seconds() - start;
    return s;
}

/* Both models through the current block, the float one a batch ahead. */
static pare_status run_both(pare_run *run, const pare_tap *floats, const pare_tap *tap,
                            const char *what)
{
    const double start = pare__seconds();
    const pare_block view = pare_float_block_view(&run->reference, &run->like);
    const pare_wave_side side[2] = {{&run->floats, &view, floats}, {&run->wave, &run->block, tap}};
    const pare_status s = pare_wave_run_both(run->cx, &run->scratch, &run->forward, side, what);
    run->calibration_seconds += pare__seconds() - start;
    return s;
}

pare_status pare__run_gather(pare_run *run, pare_stats *stats)
{
    static const char what[] = "gathering statistics";
    const pare_tap tap = pare_stats_tap(stats), floats = pare_stats_float_tap(stats);
    return run->plan.drift ? run_both(run, &floats, &tap, what) : pare__run_wave(run, &tap, what);
}

/* The float model goes on as it was before anything was folded into it: that differs in the last
 * bits, and a block of an earlier run is not folded again. */
pare_status pare__run_carry(pare_run *run, size_t block)
{
    static const char what[] = "carrying activations to the next block";
    if (!run->plan.drift)
        return pare__run_wave(run, NULL, what);
    const pare_mark mark = pare_arena_mark(&run->scratch);
    const pare_status s = run->plan.transforms ? load_floats(run, block, &run->reference) : PARE_OK;
    pare_arena_rewind(&run->scratch, mark);
    return s == PARE_OK ? run_both(run, NULL, NULL, what) : s;
}
