#include "compress/compress.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "compress/budget/budget.h"
#include "compress/output/inventory.h"
#include "compress/output/output.h"
#include "compress/plan/calibration_need.h"
#include "compress/plan/chain.h"
#include "compress/plan/fallback.h"
#include "compress/plan/fallback_sizes.h"
#include "compress/plan/plan_reap.h"
#include "compress/plan/plan_walks.h"
#include "compress/run/run_evaluate.h"
#include "compress/run/run_internal.h"
#include "compress/run/run_phases.h"
#include "compress/run/run_rotate.h"
#include "compress/run/run_serve.h"
#include "compress/run/run_team.h"
#include "compress/run/run_training.h"
#include "compress/run/run_walk.h"
#include "compress/text/units.h"
#include "compress/text/version.h"
#include "formats/checksums.h"
#include "runtime/block_ops.h"
#include "runtime/energy.h"
#include "runtime/file.h"
#include "runtime/linalg.h"
#include "runtime/machine.h"
#include "runtime/world.h"

/* Opens the journal, or begins it anew. */
static pare_status open_journal(pare_run *run, pare_journal_record **record, size_t *count)
{
    pare_ctx *const cx = run->cx;
    const char *const directory = run->plan->place.partial, *text;
    pare_json_writer *w = NULL;
    *count = 0;
    *record = NULL;
    pare_status s = pare_json_writer_new(cx, &w);
    if (s == PARE_OK)
        s = pare__run_fingerprint(run, w, &text);
    if (s == PARE_OK && run->plan->job->restart)
        s = pare_journal_restart(cx, directory, text, &run->journal);
    else if (s == PARE_OK)
        s = pare_journal_open(cx, run->a, directory, text, &run->journal, record, count);
    pare_json_writer_free(w);
    return s;
}

/* Whether the unfinished run is of this job, before statistics are made for it. */
static pare_status check_journal(pare_run *run)
{
    const pare_plan *const plan = run->plan;
    const char *text;
    pare_json_writer *w;
    if (!plan->kept.used || !plan->kept.made || plan->job->restart)
        return PARE_OK;
    PARE_TRY(pare_json_writer_new(run->cx, &w));
    pare_status s = pare__run_fingerprint(run, w, &text);
    if (s == PARE_OK)
        s = pare_journal_check(run->cx, run->a, plan->place.partial, text, PARE_JOURNAL_STATISTICS);
    pare_json_writer_free(w);
    return s;
}

/* What was trained with other settings, and what lies behind it. */
static pare_status forget_training(pare_run *run)
{
    const size_t blocks = run->plan->out.blocks;
    const pare_training_result *const t =
        run->front.found > blocks ? run->front.result[blocks].training : NULL;
    if (!t || pare__run_trained_as_asked(run, t))
        return PARE_OK;
    pare__run_forget_training(run);
    return pare__run_forget(run, &run->front, blocks);
}

/* Units of the journal, up to the first that does not decode. */
static pare_status decode_units(pare_run *run, const pare_journal_record *record, size_t count)
{
    const size_t units = run->plan->out.blocks + 1;
    run->record = record;
    run->units = (pare_run_units){.result = PARE_NEW(run->a, pare_unit_result, units),
                                  .lead = run->plan->training ? units : 0};
    run->front = (pare_run_units){.result = PARE_NEW(run->a, pare_unit_result, units)};
    if (!run->units.result || !run->front.result)
        return PARE_ENOMEM;
    for (size_t i = 0; i < count; i++) {
        pare_run_units *const of = i < run->units.lead ? &run->front : &run->units;
        const size_t unit = i - of->lead;
        pare_status s = unit < units ? pare_result_decode(run->cx, run->a, record[i].payload,
                                                          record[i].len, &of->result[unit])
                                     : pare_fail(run->cx, PARE_EFORMAT, "no such unit");
        if (s == PARE_EFORMAT)
            return pare__run_forget(run, of, unit);
        PARE_TRY(s);
        of->found = unit + 1;
    }
    if (pare_journal_lost(run->journal))
        pare__notify(run, PARE_EVENT_NOTICE,
                     "%s: the journal of the unfinished run is damaged; everything is done again",
                     run->plan->place.partial);
    return forget_training(run);
}

static void tell(void *self, const char *text)
{
    pare__notify(self, PARE_EVENT_NOTICE, "%s", text);
}

/* The place of the output: locked, mended, and free for what the plan is about. */
static pare_status claim(pare_run *run)
{
    const pare_plan *const plan = run->plan;
    bool unfinished;
    PARE_TRY(pare_output_check_room(run->cx, plan->place.output));
    if (plan->kept.used && plan->kept.made && !pare_path_is_file(plan->kept.path))
        PARE_TRY(pare_output_check_room(run->cx, plan->kept.path));
    if (!run->lock->held)
        PARE_TRY(pare_lock_take(run->cx, run->a, plan->place.output, "compress", &run->teller,
                                run->lock));
    PARE_TRY(pare_output_place_mend(run->cx, run->a, &plan->place, &run->teller, &unfinished));
    return pare_plan_places(run->cx, run->a, plan, unfinished, &run->settled);
}

/* What an earlier run did. */
static void tell_found(pare_run *run)
{
    const size_t blocks = run->plan->out.blocks;
    const bool trained = run->front.found > blocks, prunes = run->plan->training && !trained;
    size_t found = prunes ? run->front.found : run->units.found;
    found = found < blocks ? found : blocks;
    if (pare_plan_reaps(run->plan)) {
        pare__notify(run, PARE_EVENT_RESUME, "continuing: experts are scored anew");
        return;
    }
    pare__notify(run, PARE_EVENT_RESUME, "continuing: %s%zu of %zu block%s %s %s",
                 trained ? "training is done; " : "", found, blocks, pare_plural(blocks),
                 found == 1 || blocks == 1 ? "is" : "are",
                 trained             ? "written"
                 : !prunes           ? "done"
                 : run->plan->pruned ? "pruned; training comes after that"
                                     : "quantized; training comes after that");
}

/* `other`: work of another job is there. */
static pare_status open_output(pare_run *run, bool *other)
{
    const pare_plan *const plan = run->plan;
    pare_journal_record *record;
    size_t count;
    PARE_TRY(pare_output_make_work(run->cx, run->a, plan->place.partial, &run->made));
    pare_status s = check_journal(run);
    *other = s == PARE_EEXISTS;
    PARE_TRY(s);
    PARE_TRY(pare__kept_open(run));
    s = open_journal(run, &record, &count);
    *other = s == PARE_EEXISTS;
    PARE_TRY(s);
    PARE_TRY(decode_units(run, record, count));
    count = run->units.found ? run->units.found : run->front.found;
    PARE_TRY(pare_owned_discard(run->cx, plan->place.partial, PARE_OUTPUT_ARTIFACT,
                                count ? PARE_OWNED_TEMPORARY : PARE_OWNED_BUT_JOURNAL));
    if (!count)
        return PARE_OK;
    PARE_TRY(pare__run_phases(run)); /* of what is left */
    tell_found(run);
    return PARE_OK;
}

static void tell_plan(pare_run *run)
{
    const pare_plan *const plan = run->plan;
    if (plan->structured)
        pare__notify(run, PARE_EVENT_PLAN, "a plain checkpoint of %zu block%s, %.1f MiB",
                     plan->out.blocks, pare_plural(plan->out.blocks),
                     (double)run->settled.packed_bytes / 0x1p20);
    else
        pare__notify(run, PARE_EVENT_PLAN, "%zu linear%s in %zu block%s, %.3f bits per weight",
                     plan->linears, pare_plural(plan->linears), plan->out.blocks,
                     pare_plural(plan->out.blocks), run->settled.bits_per_weight);
}

static void tell_quantized(pare_run *run)
{
    char text[PARE_SHORTAGE_TEXT];
    if (pare_checkpoint_quantized_text(&run->checkpoint, text, sizeof text))
        pare__notify(run, PARE_EVENT_NOTICE, "warning: %s", text);
}

/* Steps that will not get enough calibration, as far as the number of tokens tells, and what else
 * the plan warns of. */
static void tell_short(pare_run *run)
{
    char text[PARE_SHORTAGE_TEXT];
    pare_shortage s;
    for (size_t step = 0; step < run->plan->recipe.steps; step++)
        if (pare_plan_short(run->plan, &run->settled, step, &s))
            pare__notify(run, PARE_EVENT_NOTICE, "warning: calibration: %s",
                         pare_shortage_text(run->plan, &run->settled, step, &s, text));
    if (pare_plan_experts_idle(run->plan))
        pare__notify(run, PARE_EVENT_NOTICE, "warning: %s", pare_plan_experts_idle(run->plan));
    if (pare_plan_few_held(run->plan, &run->settled, text))
        pare__notify(run, PARE_EVENT_NOTICE, "warning: %s", text);
}

/* Blocks of an earlier run are one step. */
static void tell_step(const pare_run *run, size_t block)
{
    const size_t blocks = run->plan->out.blocks;
    char step[96];
    if (block >= run->units.found) {
        (void)snprintf(step, sizeof step, "block %zu of %zu", block + 1, blocks);
        pare_ctx_step(run->cx, run->walk.front ? PARE__PHASE_PRUNE : PARE__PHASE_BLOCKS, step);
    } else if (block == 0 && run->walk.calibrated) {
        (void)snprintf(step, sizeof step,
                       "running the calibration through %zu of %zu blocks that are done",
                       run->units.found < blocks ? run->units.found : blocks, blocks);
        pare_ctx_step(run->cx, PARE__PHASE_FOUND, step);
    }
}

static pare_status walk_blocks(pare_run *run)
{
    for (size_t i = 0; i < run->plan->out.blocks; i++) {
        PARE_TRY(pare_ctx_interrupted(run->cx));
        tell_step(run, i);
        PARE_TRY(pare__run_block(run, i));
        PARE_TRY(pare__run_packed_ready(run, i));
    }
    return PARE_OK;
}

static pare_status begin_walk(pare_run *run, bool front)
{
    pare__front_walk(run, front);
    return pare__walk_begin(run);
}

/* The walk in front of the training and the training, as far as no earlier run did them; the walk
 * behind begins. */
static pare_status run_front(pare_run *run)
{
    const size_t blocks = run->plan->out.blocks;
    pare__walk_end(run);
    PARE_TRY(pare__front_open(run));
    if (run->front.found <= blocks) {
        PARE_TRY(begin_walk(run, true));
        PARE_TRY(walk_blocks(run));
        pare__walk_end(run);
        PARE_TRY(pare__run_train(run));
        pare_arena_release(&run->scratch);
        pare__front_walk(run, false);
    }
    if (run->units.found <= blocks)
        PARE_TRY(pare__front_source(run));
    return begin_walk(run, false);
}

/* What keeps an attempt from being the last: its verdict, where another setting may do better. */
static bool falls_short(const pare_compress_result *r)
{
    const pare_gate *const v = r->report.verdict;
    return v && (v->kind == PARE_GATE_REGRESSION || v->kind == PARE_GATE_INFEASIBLE);
}

static bool is_last(const pare_compress_result *r)
{
    return r->attempt >= r->last;
}

/* What is not the output yet becomes it, with its exports. */
static pare_status finish_job(pare_run *run, pare_compress_result *out)
{
    PARE_TRY(pare_inventory_write(run->cx, run->a, run->plan->place.partial, run->files.output,
                                  run->files.outputs));
    PARE_TRY(pare__run_inputs_same(run));
    PARE_TRY(pare__run_publish(run));
    PARE_TRY(pare__run_exports(run, out));
    out->report.seconds = pare_seconds() - run->started;
    out->report.joules = pare_energy_since(run->cx->energy, run->joules);
    pare__notify(run, PARE_EVENT_DONE, "%s", run->plan->place.output);
    return PARE_OK;
}

static pare_status run_job(pare_run *run, pare_compress_result *out)
{
    pare_ctx *const cx = run->cx;
    const size_t blocks = run->plan->out.blocks;
    PARE_TRY(pare__run_phases(run));
    tell_plan(run);
    tell_quantized(run);
    PARE_TRY(pare__run_watch_inputs(run));
    PARE_TRY(pare__run_hash_inputs(run));
    PARE_TRY(pare__run_finite(run));
    if (run->plan->calibrated)
        pare_ctx_step(cx, PARE__PHASE_TOKENS, "reading calibration text");
    const pare_data_reader reader = pare__run_reader(run);
    PARE_TRY(pare_data_calibration(&reader, &run->data, &run->settled));
    tell_short(run);
    for (size_t i = 0; i < run->plan->recipe.evaluations; i++)
        PARE_TRY(pare_data_check(&reader, &run->plan->recipe.evaluation[i]));
    PARE_TRY(pare__run_hash_evaluations(run));
    PARE_TRY(pare__run_identify(run));
    PARE_TRY(pare__run_inputs_watched(run));
    run->source = run->model;
    PARE_TRY(open_output(run, &out->other));
    pare__front_walk(run, false);
    if (!run->plan->training || run->plan->ratios)
        PARE_TRY(begin_walk(run, run->plan->training != NULL));
    if (run->plan->ratios) {
        PARE_TRY(pare__run_ratios(run));
        PARE_TRY(pare__walk_fill(run));
    }
    pare__front_walk(run, false);
    PARE_TRY(pare_packed_create(cx, run->plan->place.partial, &run->settled.layout, &run->writer));
    PARE_TRY(pare__run_check_found(run));
    if (run->plan->job->variants)
        PARE_TRY(run->plan->job->variants->begin(run->plan->job->variants->self, run->units.found));
    PARE_TRY(pare__run_hash_packed(run));
    PARE_TRY(pare__run_structure_begin(run));
    PARE_TRY(pare__rotate_check_begin(run));
    if (run->plan->training)
        PARE_TRY(run_front(run));
    PARE_TRY(walk_blocks(run));
    PARE_TRY(pare__run_head_inputs(run));
    pare__walk_end(run);
    pare_ctx_step(cx, PARE__PHASE_FINISH, "writing the rest");
    PARE_TRY(pare__rotate_check_head(run));
    PARE_TRY(pare__run_kept(run));
    PARE_TRY(pare__run_packed_ready(run, blocks));
    PARE_TRY(pare__run_describe(run));
    PARE_TRY(pare__run_report(run, out));
    pare__front_close(run, true);
    return falls_short(out) && !is_last(out) ? PARE_OK : finish_job(run, out);
}

/* Whether the files are larger than is required, where that is known now. */
static pare_status check_feasible(pare_run *run, pare_compress_result *out, bool *feasible)
{
    if (pare_plan_known_once(run->plan))
        return PARE_OK;
    pare_gate *const v = PARE_NEW(run->a, pare_gate, 1);
    if (!v)
        return PARE_ENOMEM;
    PARE_TRY(pare_gate_of_bytes(run->a, &run->plan->recipe, run->settled.packed_bytes, v));
    *feasible = v->kind != PARE_GATE_INFEASIBLE;
    if (!*feasible)
        out->report = (pare_report){.output = run->plan->place.output, .verdict = v};
    return PARE_OK;
}

/* The attempts that a job may come to. The first plans all others, unless the output is finished:
 * what cannot be is no surprise of the last hour. */
static pare_status plan_attempts(const pare_run *run, const pare_job *job,
                                 pare_fallback_size **size, pare_compress_result *out)
{
    const pare_recipe *const r = &run->plan->recipe;
    out->fallback = r->fallback;
    out->attempts = r->fallbacks + 1;
    out->left = pare_plan_leaves(run->plan);
    if (r->fallbacks && out->attempt == 0 && !run->settled.finished)
        PARE_TRY(pare_plan_fallback_sizes(run->cx, run->a, job, r, size));
    for (size_t i = 0; i < r->fallbacks; i++)
        out->last = *size && pare_fallback_infeasible(&(*size)[i]) ? out->last : i + 1;
    return PARE_OK;
}

/* One attempt: the job with its settings as they are. The lock of the output is taken unless it is
 * held, and stays. `all`: what attempts have in common; so is *size, of the fallbacks. */
static pare_status run_once(const pare_run *all, const pare_job *job, size_t attempt,
                            pare_fallback_size **size, pare_compress_result *out)
{
    pare_ctx *const cx = all->cx;
    pare_arena *const a = all->a;
    bool feasible = true;
    *out = (pare_compress_result){.attempt = attempt};
    pare_plan plan = {0};
    pare_run run = *all;
    run.plan = &plan;
    run.teller = (pare_teller){tell, &run};
    const size_t limit = cx->limit_bytes;
    pare_status s = pare_arena_init(cx, &run.scratch, 0);
    if (s == PARE_OK)
        s = pare_arena_init(cx, &run.stage, 0);
    if (s == PARE_OK)
        s = pare_arena_init(cx, &run.experts.views, 0);
    if (s == PARE_OK)
        s = pare_plan_make(cx, a, job, &plan);
    out->report.output = plan.place.output; /* for who asks when it fails */
    run.settled = plan.settled;
    run.checkpoint = plan.checkpoint;
    run.model = plan.model;
    if (s == PARE_OK)
        s = plan_attempts(&run, job, size, out);
    s = pare__team_check(&run, s);
    const bool leads = pare_world_rank(cx) == 0;
    if (s == PARE_OK && !leads) {
        cx->limit_bytes = (size_t)run.settled.memory.allocator_bytes;
        s = pare__team_serve(&run);
        cx->limit_bytes = limit;
    }
    if (s == PARE_OK && leads)
        s = check_feasible(&run, out, &feasible);
    if (s == PARE_OK && leads && feasible)
        s = claim(&run);
    pare_memory_trim();
    if (s == PARE_OK && leads && feasible) {
        cx->limit_bytes =
            (size_t)run.settled.memory.allocator_bytes + (job->variants ? job->variants->bytes : 0);
        s = run.settled.finished ? pare__run_again(&run, out) : run_job(&run, out);
        cx->limit_bytes = limit;
        pare_ctx_job(cx, NULL, 0, 0);
    }
    pare__team_stop(&run, s);
    pare_hashing_free(cx, run.hash.input);
    pare_hashing_free(cx, run.hash.packed);
    pare_wave_close(&run.wave);
    pare_wave_close(&run.floats);
    pare_spill_close(&run.drift);
    pare_token_weights_close(&run.weights);
    pare__front_close(&run, false);
    pare_stats_group_close(&run.kept.group);
    pare_packed_close(cx, run.writer);
    pare_journal_close(cx, run.journal);
    pare_output_drop_work(plan.place.partial, run.made);
    pare_plan_close(&plan);
    pare_arena_release(&run.stage);
    pare_arena_release(&run.experts.views);
    pare_arena_release(&run.scratch);
    return s;
}

/* What is not tried. */
static void tell_left_out(pare_run *all, const pare_compress_result *r,
                          const pare_fallback_size *size)
{
    char bytes[PARE_UNIT_TEXT];
    for (size_t i = r->attempt; size && i + 1 < r->attempts && pare_fallback_infeasible(&size[i]);
         i++)
        pare__notify(all, PARE_EVENT_NOTICE,
                     "fallback %zu of %zu is left out: INFEASIBLE: its files take %s", i + 1,
                     r->attempts - 1, pare_units_bytes(size[i].bytes, bytes));
}

static pare_status tell_fallback(pare_run *all, const pare_compress_result *r, size_t number)
{
    const pare_texts *const next = &r->fallback[number - 1];
    const char *why;
    char sets[256] = "";
    PARE_TRY(pare_gate_why(all->a, r->report.verdict, &why));
    for (size_t i = 0, used = 0; i < next->count && used < sizeof sets; i++)
        used += (size_t)snprintf(sets + used, sizeof sets - used, "%s%s", i ? ", " : "",
                                 next->item[i].text);
    pare__notify(all, PARE_EVENT_NOTICE, "%s: %s; fallback %zu of %zu: %s",
                 pare_gate_name(r->report.verdict->kind), why, number, r->attempts - 1, sets);
    return PARE_OK;
}

/* The job with the settings of the next attempt. Work that fell short is begun anew. */
static pare_status next_attempt(pare_arena *a, const pare_job *job, const pare_compress_result *r,
                                size_t number, pare_job *attempt)
{
    const pare_gate *const v = r->report.verdict;
    const bool restart = attempt->restart, worked = v && v->kind != PARE_GATE_INFEASIBLE;
    PARE_TRY(pare_job_fallback(a, job, &r->fallback[number - 1], attempt));
    attempt->restart = restart || worked;
    return PARE_OK;
}

static void tell_left(pare_run *all, const pare_compress_result *r)
{
    const size_t left = r->attempts - 1 - r->attempt;
    pare__notify(all, PARE_EVENT_NOTICE,
                 "%s: a finished output stays; --restart tries the recipe and its fallback%s on "
                 "what is required now",
                 pare_gate_name(r->report.verdict->kind), pare_plural(left));
}

/* Attempts in turn. Only the last one becomes the output, so an output that is there is final.
 * Unfinished work belongs to one of them: those before it were tried. */
static pare_status run_attempts(pare_run *all, const pare_job *job, pare_compress_result *out)
{
    pare_ctx *const cx = all->cx;
    char first[sizeof cx->what] = "";
    pare_job attempt = *job;
    pare_fallback_size *size = NULL;
    for (size_t i = 0;;) {
        const pare_status s = run_once(all, &attempt, i, &size, out);
        const bool other = s == PARE_EEXISTS && all->lock->held; /* of another job */
        if (other && !first[0])
            memcpy(first, cx->what, sizeof first);
        if (other && is_last(out))
            return pare_fail(cx, s, "%s", first);
        if (!other && s == PARE_OK && falls_short(out))
            tell_left_out(all, out, size);
        i++;
        while (size && i < out->last && pare_fallback_infeasible(&size[i - 1]))
            i++;
        if (other)
            pare_ctx_clear(cx);
        else if (s != PARE_OK || is_last(out) || !falls_short(out))
            return s;
        else if (out->again)
            tell_left(all, out);
        else
            PARE_TRY(tell_fallback(all, out, i));
        if (out->again)
            return PARE_OK;
        PARE_TRY(next_attempt(all->a, job, out, i, &attempt));
    }
}

/* One of the jobs of a chain, under the lock of its output. */
static pare_status run_locked(pare_ctx *cx, pare_arena *a, const pare_job *job,
                              const pare_events *events, pare_compress_result *out)
{
    const pare_plan none = {0};
    pare_lock lock = {0};
    pare_run all = {.plan = &none,
                    .cx = cx,
                    .a = a,
                    .events = events,
                    .lock = &lock,
                    .started = pare_seconds(),
                    .joules = cx->energy ? pare_energy_read(cx->energy) : 0};
    const pare_status s = run_attempts(&all, job, out);
    pare_lock_release(&lock);
    return s;
}

/* A smaller checkpoint that the same passes made stays, with --restart, too. Of the rest only
 * counts stay in memory, so that the second job has it for itself. */
static pare_status run_first(pare_ctx *cx, const pare_job *job, const pare_events *events,
                             pare_compress_result *out)
{
    pare_arena own = {.cx = cx};
    pare_job first = *job;
    first.restart = false;
    pare_status s = run_locked(cx, &own, &first, events, out);
    if (s == PARE_EEXISTS && job->restart) {
        pare_ctx_clear(cx);
        s = run_locked(cx, &own, job, events, out);
    }
    *out = (pare_compress_result){
        .report = {.output = job->output, .fallbacks = out->report.fallbacks},
        .attempt = out->attempt,
        .attempts = out->attempts,
        .left = out->left,
        .other = out->other,
    };
    pare_arena_release(&own);
    return s;
}

static pare_status run_chain(pare_ctx *cx, pare_arena *a, const pare_job *job,
                             const pare_events *events, pare_compress_result *out)
{
    pare_chain chain;
    pare_status s = pare_chain_make(cx, a, job, &chain);
    if (s == PARE_OK)
        s = pare_chain_check(cx, &chain);
    if (s == PARE_OK && chain.jobs > 1 && pare_world_size(cx) > 1)
        s = pare_fail(cx, PARE_ENOTSUP,
                      "a recipe of two jobs: %zu processes cannot share this; start one",
                      pare_world_size(cx));
    PARE_TRY(pare_world_agree(cx, s));
    size_t fallbacks = 0;
    if (chain.jobs > 1) {
        PARE_TRY(run_first(cx, &chain.job[0], events, out));
        fallbacks = out->report.fallbacks;
        chain.job[1].left = out->left;
    }
    PARE_TRY(run_locked(cx, a, &chain.job[chain.jobs - 1], events, out));
    out->report.fallbacks += fallbacks;
    return PARE_OK;
}

pare_status pare_compress(pare_ctx *cx, pare_arena *a, const pare_job *job,
                          const pare_events *events, pare_compress_result *out)
{
    bool searches;
    *out = (pare_compress_result){0};
    pare_status s = pare_budget_asked(cx, a, job, &searches);
    if (s == PARE_OK && searches && pare_world_size(cx) > 1)
        s = pare_fail(cx, PARE_ENOTSUP,
                      "a search for settings: %zu processes cannot share this; start one",
                      pare_world_size(cx));
    PARE_TRY(pare_world_agree(cx, s));
    return searches ? pare_budget_compress(cx, a, job, events, run_locked, out)
                    : run_chain(cx, a, job, events, out);
}
