/* A walk over the blocks: its memory, and the activations that go along. */
#include "compress/run/run_walk.h"
#include "compress/plan/plan_walks.h"
#include "compress/run/run_internal.h"
#include "compress/run/run_rotate.h"
#include "runtime/block_ops.h"

/* A linear in floats and what is made of it: one room for all of them, because fresh memory costs
 * as much as rounding. */
static pare_status take_work(pare_run *run)
{
    size_t most = 0;
    if (run->plan->calibrated || run->plan->pruned)
        return PARE_OK;
    for (size_t i = 0; i < run->plan->linears; i++) {
        const pare_packed_linear *const l = &run->settled.linear[i].packed;
        most = l->n * l->k > most ? l->n * l->k : most;
    }
    run->work = pare_arena_take_raw(&run->stage, most, sizeof *run->work);
    if (!run->work)
        return PARE_ENOMEM;
    pare_arena_release(&run->scratch);
    return pare_arena_init(run->cx, &run->scratch, pare_plan_stored_bytes(run->plan));
}

/* Space for the current block's float weights, twice when folds carry a reference along. */
static pare_status take_weights(pare_run *run)
{
    const pare_plan *const plan = run->plan;
    const pare_config *const c = &run->model.config;
    if (!run->settled.memory.sparing)
        PARE_TRY(pare_block_take(&run->stage, c, plan->biases, &run->current));
    PARE_TRY(take_work(run));
    PARE_TRY(pare__run_prune_take(run, &run->part, 0));
    PARE_TRY(pare__run_experts_take(run));
    if (plan->reference)
        PARE_TRY(pare_block_take(&run->stage, c, plan->biases, &run->reference));
    run->part.linear = run->current.linear;
    run->part.reference = run->reference.linear;
    return PARE_OK;
}

/* Transforms stand in front of a training, and want it there. */
bool pare__walk_floats(const pare_run *run)
{
    const pare_plan *const plan = run->plan;
    return plan->drift || (plan->floats_beside && (!plan->training || run->walk.front));
}

static pare_status open_waves(pare_run *run)
{
    const pare_plan *const plan = run->plan;
    const pare_config *const c = &run->model.config;
    if (run->settled.memory.spill)
        pare__notify(run, PARE_EVENT_NOTICE, "activations (%.1f MiB) go to a file in %s",
                     (double)run->settled.memory.activation_bytes / 0x1p20, plan->place.partial);
    const char *const spill = run->settled.memory.spill ? plan->place.partial : NULL;
    const uint64_t drift = run->settled.memory.sparing ? pare_plan_drift_file(plan) : 0;
    const size_t samples = run->settled.samples;
    size_t first, end;
    pare__team_windows(run, &first, &end);
    run->team.windows = end - first;
    PARE_TRY(pare_wave_open_part(run->cx, &run->stage, samples, first, end, plan->window, c->hidden,
                                 spill, &run->wave));
    run->wave.stored = run->settled.memory.sparing;
    if (drift)
        PARE_TRY(pare_spill_open(run->cx, &run->stage, plan->place.partial, PARE_SPILL_DRIFT, drift,
                                 "drift of inputs", &run->drift));
    return pare__walk_floats(run)
               ? pare_wave_open_part(run->cx, &run->stage, samples, first, end, plan->window,
                                     c->hidden, spill, &run->floats)
               : PARE_OK;
}

/* Tokens are weighed before waves take memory; their file is there before, so that a full disk is
 * told at once. */
static pare_status start_waves(pare_run *run)
{
    const pare_plan *const plan = run->plan;
    if (!run->walk.calibrated && !plan->kept.used)
        return PARE_OK;
    PARE_TRY(
        pare_forward_init(run->cx, &run->stage, &run->source, plan->window, true, &run->forward));
    if (plan->kept.used)
        return pare__kept_take(run);
    run->wave_forward = run->forward;
    run->wave_forward.backend = plan->bf16 ? &pare_cpu_bf16 : NULL;
    if (run->settled.memory.spill)
        PARE_TRY(open_waves(run));
    PARE_TRY(pare__run_weigh(run));
    return run->settled.memory.spill ? PARE_OK : open_waves(run);
}

/* The inputs of the first block. */
static pare_status fill_wave(pare_run *run, pare_wave *wave)
{
    PARE_TRY(pare_wave_embed(run->cx, &run->scratch, wave, &run->source, run->data.tokens.id));
    return pare__rotate_wave(run, wave);
}

pare_status pare__walk_fill(pare_run *run)
{
    if (run->walk.calibrated)
        PARE_TRY(fill_wave(run, &run->wave));
    return run->walk.calibrated && pare__walk_floats(run) ? fill_wave(run, &run->floats) : PARE_OK;
}

static pare_status take_all(pare_run *run)
{
    PARE_TRY(take_weights(run));
    PARE_TRY(start_waves(run));
    return pare__walk_fill(run);
}

pare_status pare__walk_begin(pare_run *run)
{
    if (!run->plan->calibrated)
        return take_all(run);
    PARE_TRY(pare__team_begin(run));
    return pare__team_end(run, take_all(run));
}

void pare__walk_end(pare_run *run)
{
    pare_wave_close(&run->wave);
    pare_wave_close(&run->floats);
    pare_spill_close(&run->drift);
    pare_token_weights_close(&run->weights);
    run->weights = (pare_token_weights){0};
    pare_arena_release(&run->stage);
    pare_arena_release(&run->experts.views);
    pare_arena_release(&run->scratch); /* the room of blocks */
}
