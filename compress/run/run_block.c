#include <math.h>
#include <stdio.h>
#include <string.h>

#include "compress/plan/calibration_need.h"
#include "compress/plan/plan_walks.h"
#include "compress/run/run_internal.h"
#include "compress/run/run_mixture.h"
#include "compress/run/run_rotate.h"
#include "compress/run/run_serve.h"
#include "runtime/machine.h"

/* A block that is about to be compressed. */
static pare_status begin_block(pare_run *run, size_t block)
{
    const pare_config *const c = &run->model.config;
    run->midway = run->floats_ahead = false;
    PARE_TRY(pare__run_load(run, block));
    if (run->plan->reference)
        pare_block_load(run->cx, c, run->plan->training ? &run->model.block[block] : &run->current,
                        &run->reference);
    pare__run_part_begin(&run->part);
    if (run->plan->training && !run->walk.front && block >= run->units.found)
        PARE_TRY(pare__front_take_over(run, block, 0, (1u << PARE_SITES) - 1));
    return pare__rotate_check_block(run, block);
}

/* `sites` (bit per site) of part 0: their statistics in one pass of the wave, then every step on
 * them. */
static pare_status run_sites(pare_run *run, size_t block, unsigned sites, pare_stats *stats,
                             pare_unit_result *unit)
{
    const unsigned wanted = stats->active;
    stats->active &= sites;
    if (stats->active)
        PARE_TRY(pare__run_gather(run, block, stats));
    PARE_TRY(pare_stats_support(&run->scratch, stats, sites));
    stats->active = wanted;
    for (size_t step = run->walk.begin; step < run->walk.end; step++) {
        if (pare_pass_transforms(pare_passes[run->plan->recipe.step[step].pass])) {
            PARE_TRY(pare__run_transform(run, block, step, sites, stats));
            PARE_TRY(pare__run_check_block(run, block, step));
            continue;
        }
        PARE_TRY(pare__run_stability(run, block, step, sites));
        PARE_TRY(pare__run_step(run, block, 0, step, sites, stats, unit));
    }
    return pare__run_rest(run, block, 0, sites, stats, unit);
}

/* Statistics of these sites, and no others, are in memory. */
pare_status pare__run_take_sites(pare_run *run, unsigned sites, pare_stats *stats)
{
    const pare_plan *const plan = run->plan;
    unsigned kinds[PARE_SITES];
    for (unsigned site = 0; site < PARE_SITES; site++)
        kinds[site] = sites & (1u << site) ? run->walk.kinds[site] : 0;
    PARE_TRY(pare_stats_take(run->cx, &run->scratch, &run->shape, 0, kinds,
                             (uint64_t)run->settled.samples * plan->window, stats));
    PARE_TRY(
        pare_stats_take_drift(&run->scratch, kinds, run->drift.path ? &run->drift : NULL, stats));
    stats->held_from =
        (uint64_t)(run->settled.samples - run->settled.samples / PARE_HELD_PART) * plan->window;
    for (unsigned site = 0; site < PARE_SITES; site++)
        stats->site[site].weight = pare_token_weights_at(&run->weights, (pare_site)site);
    return PARE_OK;
}

static pare_status compress_sites(pare_run *run, size_t block, unsigned sites,
                                  pare_unit_result *unit)
{
    pare_stats stats;
    const pare_mark mark = pare_arena_mark(&run->scratch);
    pare_status s = pare__run_take_sites(run, sites, &stats);
    if (s == PARE_OK)
        s = run_sites(run, block, sites, &stats, unit);
    pare_arena_rewind(&run->scratch, mark);
    return s;
}

/* What every token runs. */
static pare_status compress_common(pare_run *run, size_t block, pare_unit_result *unit)
{
    PARE_TRY(pare_token_weights_load(run->cx, block, &run->weights));
    PARE_TRY(pare__run_structure(run, block));
    PARE_TRY(pare__run_transforms_begin(run, block));
    if (run->plan->sequential)
        for (unsigned site = 0; site < PARE_SITES; site++) {
            if (run->plan->halves && run->walk.calibrated && site == PARE_SITE_MLP)
                PARE_TRY(pare__run_carry_midway(run, block));
            PARE_TRY(compress_sites(run, block, 1u << site, unit));
        }
    else
        PARE_TRY(compress_sites(run, block, (1u << PARE_SITES) - 1, unit));
    return run->walk.front ? PARE_OK : pare__run_store_changed(run, block);
}

static pare_status compress_block(pare_run *run, size_t block)
{
    pare_unit_result *const unit = &run->units.result[block];
    const size_t linears = pare_plan_linears(run->plan, block);
    unit->row = PARE_NEW(run->a, pare_linear_result, linears);
    if (run->walk.front)
        unit->kept = PARE_NEW(run->a, pare_kept_hash, linears);
    if (!unit->row || (run->walk.front && !unit->kept))
        return PARE_ENOMEM;
    PARE_TRY(pare__kept_begin(run, block));
    const pare_mark mark = pare_arena_mark(&run->scratch);
    const pare_status s = compress_common(run, block, unit);
    pare_arena_rewind(&run->scratch, mark);
    PARE_TRY(s);
    PARE_TRY(pare__run_experts(run, block, unit));
    pare__kept_end(run);
    const pare_variants *const v = run->plan->job->variants;
    if (v)
        PARE_TRY(v->block(v->self, block));
    return pare__run_commit(run, unit);
}

static const pare_linear_result *find_row(const pare_unit_result *unit, const char *name)
{
    for (size_t r = 0; r < unit->rows; r++)
        if (strcmp(unit->row[r].linear.name, name) == 0)
            return &unit->row[r];
    return NULL;
}

/* What the plan knows is not taken from the file. */
static void adopt_row(const pare_run *run, size_t block, const pare_plan_linear *l,
                      pare_linear_result *row)
{
    row->linear = l->packed;
    row->block = block;
    row->part = l->part;
    row->pruned = l->pruned;
    row->method = pare_passes[run->plan->recipe.step[l->step].pass]->name;
}

/* A block that an earlier run stored: compared with the journal (PARE_EFORMAT); with `take` it is
 * the current one. */
static pare_status restore_block(pare_run *run, size_t block, bool take)
{
    pare_unit_result *const unit = &run->units.result[block];
    const size_t linears = pare_plan_linears(run->plan, block);
    const size_t first = run->plan->first ? run->plan->first[block * run->plan->parts] : 0;
    size_t found = 0, expected = 0;
    for (size_t i = first; i < first + linears; i++) {
        const pare_plan_linear *const l = &run->settled.linear[i];
        const pare_linear_result *const row = find_row(unit, l->packed.name);
        const bool mine = !run->walk.front || pare_plan_trains(run->plan, l);
        expected += mine;
        if (!row || !mine)
            continue;
        const pare_mark mark = pare_arena_mark(&run->scratch);
        const pare_status s = run->walk.front ? pare__front_restore(run, i, take)
                                              : pare__run_restore(run, l, row, take);
        pare_arena_rewind(&run->scratch, mark);
        PARE_TRY(s);
        if (take)
            adopt_row(run, block, l, &unit->row[row - unit->row]);
        found++;
    }
    if (found != expected || unit->rows != expected)
        return pare_fail(run->cx, PARE_EFORMAT,
                         "%s: the journal of block %zu names %zu of its %zu linears",
                         run->plan->place.partial, block, found, expected);
    return run->walk.front ? PARE_OK : pare__run_restore_changed(run, block, take);
}

pare_status pare__run_forget(pare_run *run, pare_run_units *units, size_t unit)
{
    const size_t blocks = run->plan->out.blocks;
    char why[sizeof run->cx->what];
    (void)snprintf(why, sizeof why, "%s", run->cx->what);
    pare_ctx_clear(run->cx);
    if (unit < blocks)
        pare__notify(run, PARE_EVENT_NOTICE,
                     "block %zu of %zu of the unfinished run is damaged and is done again, with "
                     "all behind it: %s",
                     unit + 1, blocks, why);
    for (size_t i = unit; i <= blocks; i++)
        units->result[i] = (pare_unit_result){0};
    units->found = unit;
    if (units->lead == 0)
        (units == &run->units ? &run->front : &run->units)->found = 0;
    return pare_journal_keep(run->cx, run->journal, run->record, units->lead + unit);
}

pare_status pare__run_check_found(pare_run *run)
{
    for (size_t i = 0; i < run->plan->out.blocks && i < run->units.found; i++) {
        PARE_TRY(pare_ctx_interrupted(run->cx));
        const pare_mark mark = pare_arena_mark(&run->scratch);
        const pare_status s = restore_block(run, i, false);
        pare_arena_rewind(&run->scratch, mark);
        if (s == PARE_EFORMAT)
            return pare__run_forget(run, &run->units, i);
        PARE_TRY(s);
    }
    return run->walk.front ? PARE_OK : pare__run_check_tables(run);
}

/* The linear of the plan that a result of the block is of; NULL: the plan has none such. */
static const pare_plan_linear *planned(const pare_run *run, size_t block,
                                       const pare_linear_result *r)
{
    const pare_plan *const plan = run->plan;
    size_t i, end;
    for (pare_plan_range(plan, block, 0, &i, &end); i < plan->linears; i++)
        if (strcmp(run->settled.linear[i].packed.name, r->linear.name) == 0)
            return &run->settled.linear[i];
    return NULL;
}

/* Whether the recipe lets experts of a block see fewer tokens than they need and could see. */
static bool asks_too_little(const pare_run *run, const pare_unit_result *unit)
{
    const pare_calibration *const c = &run->plan->recipe.calibration;
    bool thin = false;
    for (size_t i = 0; i < unit->rows; i++)
        thin |= unit->row[i].part > 0 && unit->row[i].thin;
    return thin && c->kind != PARE_CALIBRATION_FROM && c->cold == PARE_COLD_FILL && c->min_tokens &&
           c->min_tokens < pare_need_of_experts(run->plan, &run->settled);
}

/* Says how many linears of a block get too little calibration, and what the first of them got. */
static void tell_first_thin(pare_run *run, size_t block, size_t count, const pare_unit_result *unit,
                            const pare_plan_linear *l, const pare_linear_result *r)
{
    const pare_plan *const plan = run->plan;
    const pare_support *const h = &r->support;
    const uint64_t all = (uint64_t)run->settled.samples * plan->window,
                   tokens = h->known || h->tokens ? h->tokens : all;
    const bool asks = asks_too_little(run, unit);
    char is[112] = "", needs[112] = "";
    pare_need need;
    const pare_step *const step =
        &plan->recipe.step[pare_need_first(plan, &run->settled, l, h, &need)];
    if (need.rank && h->known) {
        (void)snprintf(is, sizeof is, ", rank %zu of %zu and %.1f effective samples", h->rank,
                       r->linear.k, pare_need_effective(plan, &run->settled, h));
        (void)snprintf(needs, sizeof needs, ", rank %zu and %zu effective samples", need.rank,
                       need.samples);
    }
    pare__notify(
        run, PARE_EVENT_NOTICE,
        "warning: calibration: block %zu of %zu: too little for %zu of %zu linears; the first, %s, "
        "got %llu token%s (%llu new)%s, where %s needs %llu new tokens%s: they %s; %s%s; "
        "layers.csv lists the linears of all blocks",
        block + 1, plan->out.blocks, count, unit->rows, r->linear.name, (unsigned long long)tokens,
        pare_plural(tokens), (unsigned long long)pare_need_fresh(plan, &run->settled, tokens), is,
        pare_passes[step->pass]->name, (unsigned long long)need.tokens, needs,
        pare_need_outcome(step, false),
        plan->recipe.calibration.kind == PARE_CALIBRATION_FROM
            ? "gather statistics of more text or samples"
            : "give more text or samples",
        asks ? ", or experts: {min_tokens: auto} in the calibration" : "");
}

static size_t count_thin(const pare_unit_result *unit)
{
    size_t count = 0;
    for (size_t r = 0; r < unit->rows; r++)
        count += unit->row[r].thin;
    return count;
}

/* The results that tell best why linears of a block are thin: those of the walk in front of a
 * training, which has the statistics, where it met them. */
static const pare_unit_result *met_thin(const pare_run *run, size_t block)
{
    const bool behind = run->plan->training && !run->walk.front;
    const pare_unit_result *const front = &run->front.result[block];
    return behind && count_thin(front) ? front : &run->units.result[block];
}

/* The first block stands for all, and for both walks of a job that trains. One that an earlier run
 * did is told in its words: its results come from the journal. */
static void tell_thin(pare_run *run, size_t block)
{
    const pare_unit_result *const unit = met_thin(run, block);
    const size_t count = run->told_thin ? 0 : count_thin(unit);
    size_t first = 0;
    if (count == 0)
        return;
    while (!unit->row[first].thin)
        first++;
    const pare_plan_linear *const l = planned(run, block, &unit->row[first]);
    run->told_thin = true;
    if (l)
        tell_first_thin(run, block, count, unit, l, &unit->row[first]);
}

/* Experts of a block that too few tokens reach: an earlier run told of them, or the walk in front
 * of a training did that an earlier run ended. */
static void tell_cold(pare_run *run, size_t block)
{
    if (run->plan->training && !run->walk.front && run->front.found > run->plan->out.blocks)
        pare__run_experts_retell(run, block, &run->front.result[block]);
    if (block < run->units.found)
        pare__run_experts_retell(run, block, &run->units.result[block]);
}

static void tell_block(pare_run *run, size_t block)
{
    if (!run->events || !run->events->event)
        return;
    char text[64];
    (void)snprintf(text, sizeof text, "block %zu of %zu", block + 1, run->plan->out.blocks);
    const pare_event e = {.kind = PARE_EVENT_BLOCK,
                          .text = text,
                          .block = block,
                          .blocks = run->plan->out.blocks,
                          .seconds = pare_seconds() - run->started,
                          .row = run->units.result[block].row,
                          .rows = run->units.result[block].rows};
    run->events->event(run->events->self, &e);
}

pare_status pare__run_block(pare_run *run, size_t block)
{
    const size_t blocks = run->plan->out.blocks;
    const bool found = block < run->units.found;
    const pare_mark mark = pare_arena_mark(&run->scratch);
    pare_status s = begin_block(run, block);
    if (s == PARE_OK)
        s = found ? restore_block(run, block, true) : compress_block(run, block);
    pare_arena_rewind(&run->scratch, mark);
    PARE_TRY(s);
    if (!found)
        tell_block(run, block);
    tell_cold(run, block);
    tell_thin(run, block);
    if (!run->walk.front)
        PARE_TRY(pare__run_kv(run, block));
    const bool needed = run->units.found < blocks || pare__run_watches_kv(run);
    const bool watched = !run->plan->structured || run->plan->watched;
    const bool head =
        !run->walk.front && pare_plan_looks_at_head(run->plan) && run->units.found <= blocks;
    if (run->walk.calibrated && (block + 1 < blocks || head) && (needed || head) && watched)
        PARE_TRY(pare__run_carry(run, block));
    return PARE_OK;
}
