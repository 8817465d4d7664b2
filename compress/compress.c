#include "compress/compress.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "compress/compress_internal.h"
#include "compress/inventory.h"
#include "compress/need.h"
#include "compress/output.h"
#include "compress/plan_internal.h"
#include "compress/run_evaluate.h"
#include "compress/run_phases.h"
#include "compress/version.h"
#include "formats/checksums.h"
#include "runtime/file.h"
#include "runtime/linalg.h"

/* Another one when the same recipe leads to other decisions or another journal. */
#define JOURNAL_FORMAT "4"

double pare__seconds(void)
{
    struct timespec t;
    (void)clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* That an evaluation or an export begins is a step of the job, too. */
void pare__notify(pare_run *run, pare_event_kind kind, const char *fmt, ...)
{
    char text[512], step[sizeof text + 16];
    va_list ap;
    va_start(ap, fmt);
    (void)vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    if (kind == PARE_EVENT_EVALUATE || kind == PARE_EVENT_EXPORT) {
        const bool evaluates = kind == PARE_EVENT_EVALUATE;
        (void)snprintf(step, sizeof step, "%s %s", evaluates ? "evaluating" : "exporting", text);
        pare_ctx_step(run->cx, evaluates ? PARE__PHASE_EVALUATE : PARE__PHASE_EXPORT, step);
    }
    if (!run->events || !run->events->event)
        return;
    const pare_event e = {.kind = kind,
                          .text = text,
                          .blocks = run->plan.out.blocks,
                          .seconds = pare__seconds() - run->started};
    run->events->event(run->events->self, &e);
}

/* The output that the run was asked to replace, by its manifest: no other one is replaced when it
 * is continued. */
static pare_status put_replaced(pare_run *run, pare_json_writer *w)
{
    char hex[PARE_SHA256_HEX], text[PARE_SHA256_HEX + 64];
    pare_file f;
    if (!run->plan.replaces) {
        pare_json_put_text(w, PARE_JOURNAL_REPLACES, PARE_JOURNAL_NO_OUTPUT);
        return PARE_OK;
    }
    char *const path = pare_path_join(run->a, run->plan.output_path, PARE_MANIFEST_NAME);
    if (!path)
        return PARE_ENOMEM;
    PARE_TRY(pare_file_map(run->cx, run->a, path, &f));
    const pare_status s = pare_sha256_hex(run->cx, f.data, (size_t)f.bytes, hex);
    pare_file_unmap(&f);
    PARE_TRY(s);
    (void)snprintf(text, sizeof text, "an output with manifest.json sha256 %s", hex);
    pare_json_put_text(w, PARE_JOURNAL_REPLACES, text);
    return PARE_OK;
}

/* What must be equal for an unfinished run to be continued: not the bytes of what is only
 * evaluated, on which no unit depends, and which the run that ends the job reads. The recipe goes
 * in line by line, so that a refusal can name the line that differs. */
static pare_status fingerprint(pare_run *run, pare_json_writer *w, const char **text)
{
    const pare_plan *const plan = &run->plan;
    char key[64], hex[PARE_XXH3_HEX];
    size_t len = strlen(run->recipe_portable);
    char *const recipe = pare_arena_text(run->a, run->recipe_portable, len);
    if (!recipe)
        return PARE_ENOMEM;
    pare_json_open_object(w, NULL);
    pare_json_put_text(w, "program", "pare " PARE_VERSION);
    pare_json_put_text(w, "format", JOURNAL_FORMAT);
    pare_json_put_text(w, "cpu", pare_cpu_name(run->cx->cpu));
    pare_json_put_text(w, "blas", run->blas);
    for (size_t i = 0; i < run->inputs; i++) {
        (void)snprintf(key, sizeof key, PARE_JOURNAL_FILE "%zu", i + 1);
        char value[512];
        pare_xxh3_text(run->hash.input_xxh3[i], hex);
        (void)snprintf(value, sizeof value, "%s xxh3 %s", run->input[i].file, hex);
        pare_json_put_text(w, key, value);
    }
    pare_json_put_text(w, PARE_JOURNAL_TOKENS, plan->calibrated ? run->tokens_sha256 : "not used");
    size_t line = 0;
    for (char *at = recipe; *at; line++) {
        char *const end = strchr(at, '\n');
        if (end)
            *end = '\0';
        (void)snprintf(key, sizeof key, PARE_JOURNAL_RECIPE "%zu", line + 1);
        pare_json_put_text(w, key, at);
        at = end ? end + 1 : at + strlen(at);
    }
    PARE_TRY(put_replaced(run, w));
    pare_json_close(w);
    PARE_TRY(pare_json_writer_finish(w, text, &len));
    run->fingerprint = pare_arena_text(run->a, *text, len);
    return run->fingerprint ? PARE_OK : PARE_ENOMEM;
}

/* Opens the journal, or begins it anew. */
static pare_status open_journal(pare_run *run, pare_journal_record **record, size_t *count)
{
    pare_ctx *const cx = run->cx;
    const char *const directory = run->plan.partial_path, *text;
    pare_json_writer *w = NULL;
    *count = 0;
    *record = NULL;
    pare_status s = pare_json_writer_new(cx, &w);
    if (s == PARE_OK)
        s = fingerprint(run, w, &text);
    if (s == PARE_OK && run->plan.job->restart)
        s = pare_journal_restart(cx, directory, text, &run->journal);
    else if (s == PARE_OK)
        s = pare_journal_open(cx, run->a, directory, text, &run->journal, record, count);
    pare_json_writer_free(w);
    return s;
}

/* Units of the journal, up to the first that does not decode. */
static pare_status decode_units(pare_run *run, const pare_journal_record *record, size_t count)
{
    const size_t units = run->plan.out.blocks + 1;
    run->record = record;
    run->unit = PARE_NEW(run->a, pare_unit_result, units);
    if (!run->unit)
        return PARE_ENOMEM;
    for (size_t i = 0; i < count; i++) {
        pare_status s = i < units ? pare_result_decode(run->cx, run->a, record[i].payload,
                                                       record[i].len, &run->unit[i])
                                  : pare_fail(run->cx, PARE_EFORMAT, "no such unit");
        if (s == PARE_EFORMAT)
            return pare__run_forget(run, i);
        PARE_TRY(s);
        run->units_found = i + 1;
    }
    if (pare_journal_lost(run->journal))
        pare__notify(run, PARE_EVENT_NOTICE,
                     "%s: the journal of the unfinished run is damaged; everything is done again",
                     run->plan.partial_path);
    return PARE_OK;
}

pare_status pare__run_identify(pare_run *run)
{
    const pare_pass_words *words;
    char *text;
    size_t len;
    PARE_TRY(pare_pass_words_take(run->a, &words));
    PARE_TRY(pare_recipe_normalize(run->cx, run->a, &run->plan.recipe, words, true, &text, &len));
    run->recipe_portable = text;
    run->blas = pare_blas_name();
    return PARE_OK;
}

static void tell(void *self, const char *text)
{
    pare__notify(self, PARE_EVENT_NOTICE, "%s", text);
}

/* The place of the output: locked, mended, and free for what the plan is about. */
static pare_status claim(pare_run *run)
{
    pare_plan *const plan = &run->plan;
    bool unfinished;
    PARE_TRY(
        pare_lock_take(run->cx, run->a, plan->output_path, "compress", &run->teller, &run->lock));
    PARE_TRY(pare_place_mend(run->cx, run->a, &plan->place, &run->teller, &unfinished));
    return pare_plan_places(run->cx, run->a, plan, unfinished);
}

static pare_status open_output(pare_run *run)
{
    pare_plan *const plan = &run->plan;
    const size_t blocks = plan->out.blocks;
    pare_journal_record *record;
    size_t count;
    PARE_TRY(pare_output_make(run->cx, run->a, plan->partial_path));
    PARE_TRY(open_journal(run, &record, &count));
    PARE_TRY(decode_units(run, record, count));
    count = run->units_found;
    PARE_TRY(pare_ours_discard(run->cx, plan->partial_path, PARE_OUTPUT_ARTIFACT,
                               count ? PARE_OURS_TEMPORARY : PARE_OURS_BUT_JOURNAL));
    if (!count)
        return PARE_OK;
    pare__run_phases(run); /* of what is left */
    pare__notify(run, PARE_EVENT_RESUME, "continuing: %zu of %zu block%s %s done",
                 count < blocks ? count : blocks, blocks, pare_plural(blocks),
                 count == 1 || blocks == 1 ? "is" : "are");
    return PARE_OK;
}

/* A linear in floats and what is made of it: one room for all of them, because fresh memory costs
 * as much as rounding. */
static pare_status take_work(pare_run *run)
{
    size_t most = 0;
    if (run->plan.calibrated || run->plan.pruned)
        return PARE_OK;
    for (size_t i = 0; i < run->plan.linears; i++) {
        const pare_packed_linear *const l = &run->plan.linear[i].packed;
        most = l->n * l->k > most ? l->n * l->k : most;
    }
    run->work = pare_arena_take_raw(&run->stage, most, sizeof *run->work);
    if (!run->work)
        return PARE_ENOMEM;
    pare_arena_release(&run->scratch);
    return pare_arena_init(run->cx, &run->scratch, pare__plan_stored_bytes(&run->plan));
}

/* Space for the current block's float weights, twice when folds carry a reference along. */
static pare_status take_weights(pare_run *run)
{
    const pare_plan *const plan = &run->plan;
    PARE_TRY(pare_float_block_take(&run->stage, &plan->model.config, plan->room, &run->current));
    PARE_TRY(take_work(run));
    PARE_TRY(pare__run_prune_take(run, &run->common, 0));
    PARE_TRY(pare__run_experts_take(run));
    if (plan->reference)
        PARE_TRY(
            pare_float_block_take(&run->stage, &plan->model.config, plan->room, &run->reference));
    memcpy(run->common.weight, run->current.weight, sizeof run->common.weight);
    memcpy(run->common.bias, run->current.bias, sizeof run->common.bias);
    memcpy(run->common.whole, run->reference.weight, sizeof run->common.whole);
    return PARE_OK;
}

static pare_status start_wave(pare_run *run)
{
    pare_plan *const plan = &run->plan;
    if (!plan->calibrated)
        return PARE_OK;
    const pare_config *const c = &plan->model.config;
    if (plan->spill)
        pare__notify(run, PARE_EVENT_NOTICE, "activations (%.1f MiB) go to a file in %s",
                     (double)plan->activation_bytes / 0x1p20, plan->partial_path);
    const char *const spill = plan->spill ? plan->partial_path : NULL;
    PARE_TRY(pare_wave_open(run->cx, &run->stage, plan->samples, plan->window, c->hidden, spill,
                            &run->wave));
    if (plan->drift)
        PARE_TRY(pare_wave_open(run->cx, &run->stage, plan->samples, plan->window, c->hidden, spill,
                                &run->floats));
    return pare_forward_init(run->cx, &run->stage, &plan->model, plan->window, true, &run->forward);
}

/* The inputs of the first block. */
static pare_status fill_wave(pare_run *run, pare_wave *wave)
{
    PARE_TRY(pare_wave_embed(run->cx, &run->scratch, wave, &run->plan.model, run->tokens.id));
    return pare__rotate_wave(run, wave);
}

static pare_status fill_waves(pare_run *run)
{
    if (run->plan.calibrated)
        PARE_TRY(fill_wave(run, &run->wave));
    return run->plan.drift ? fill_wave(run, &run->floats) : PARE_OK;
}

static void tell_plan(pare_run *run)
{
    const pare_plan *const plan = &run->plan;
    if (plan->structured)
        pare__notify(run, PARE_EVENT_PLAN, "a plain checkpoint of %zu block%s, %.1f MiB",
                     plan->out.blocks, pare_plural(plan->out.blocks),
                     (double)plan->packed_bytes / 0x1p20);
    else
        pare__notify(run, PARE_EVENT_PLAN, "%zu linear%s in %zu block%s, %.3f bits per weight",
                     plan->linears, pare_plural(plan->linears), plan->out.blocks,
                     pare_plural(plan->out.blocks), plan->bits_per_weight);
}

/* Codes of codes lose twice. */
static void tell_quantized(pare_run *run)
{
    char types[256];
    if (pare_checkpoint_quantized(&run->plan.checkpoint, types, sizeof types))
        pare__notify(run, PARE_EVENT_NOTICE,
                     "warning: the model is already quantized (%s): its errors stay in it", types);
}

/* Steps that will not get enough calibration, as far as the number of tokens tells. */
static void tell_short(pare_run *run)
{
    char text[PARE_SHORTAGE_TEXT];
    pare_shortage s;
    for (size_t step = 0; step < run->plan.recipe.steps; step++)
        if (pare_plan_short(&run->plan, step, &s))
            pare__notify(run, PARE_EVENT_NOTICE, "warning: calibration: %s",
                         pare_shortage_text(&run->plan, step, &s, text));
}

/* Blocks of an earlier run are one step. */
static void tell_step(const pare_run *run, size_t block)
{
    const size_t blocks = run->plan.out.blocks;
    char step[96];
    if (block >= run->units_found) {
        (void)snprintf(step, sizeof step, "block %zu of %zu", block + 1, blocks);
        pare_ctx_step(run->cx, PARE__PHASE_BLOCKS, step);
    } else if (block == 0) {
        (void)snprintf(step, sizeof step, "finding %zu of %zu blocks again",
                       run->units_found < blocks ? run->units_found : blocks, blocks);
        pare_ctx_step(run->cx, PARE__PHASE_FOUND, step);
    }
}

static pare_status run_job(pare_run *run, pare_compress_result *out)
{
    pare_ctx *const cx = run->cx;
    const size_t blocks = run->plan.out.blocks;
    pare__run_phases(run);
    tell_plan(run);
    tell_quantized(run);
    PARE_TRY(pare__run_watch_inputs(run));
    PARE_TRY(pare__run_hash_inputs(run));
    PARE_TRY(pare__run_finite(run));
    if (run->plan.calibrated)
        pare_ctx_step(cx, PARE__PHASE_TOKENS, "reading calibration text");
    PARE_TRY(pare__run_tokens(run));
    tell_short(run);
    for (size_t i = 0; i < run->plan.recipe.evaluations; i++)
        PARE_TRY(pare__run_check_evaluation(run, &run->plan.recipe.evaluation[i]));
    PARE_TRY(pare__run_hash_evaluations(run));
    PARE_TRY(pare__run_identify(run));
    PARE_TRY(pare__run_inputs_watched(run));
    PARE_TRY(open_output(run));
    PARE_TRY(take_weights(run));
    PARE_TRY(start_wave(run));
    PARE_TRY(pare__run_weigh(run));
    PARE_TRY(fill_waves(run));
    if (run->plan.ratios) {
        PARE_TRY(pare__run_ratios(run));
        PARE_TRY(fill_waves(run));
    }
    PARE_TRY(pare_packed_create(cx, run->plan.partial_path, &run->plan.layout, &run->writer));
    PARE_TRY(pare__run_check_found(run));
    PARE_TRY(pare__run_hash_packed(run));
    PARE_TRY(pare__run_structure_begin(run));
    PARE_TRY(pare__rotate_check_begin(run));
    for (size_t i = 0; i < blocks; i++) {
        PARE_TRY(pare_ctx_interrupted(cx));
        tell_step(run, i);
        PARE_TRY(pare__run_block(run, i));
        PARE_TRY(pare__run_packed_ready(run, i));
    }
    pare_wave_close(&run->wave);
    pare_wave_close(&run->floats);
    pare_token_weights_close(&run->weights);
    pare_arena_release(&run->stage);
    pare_arena_release(&run->scratch); /* the room of blocks */
    pare_ctx_step(cx, PARE__PHASE_FINISH, "writing the rest");
    PARE_TRY(pare__rotate_check_head(run));
    PARE_TRY(pare__run_kept(run));
    PARE_TRY(pare__run_packed_ready(run, blocks));
    PARE_TRY(pare__run_describe(run));
    PARE_TRY(pare__run_report(run, out));
    PARE_TRY(pare_inventory_write(cx, run->a, run->plan.partial_path, run->output, run->outputs));
    PARE_TRY(pare__run_inputs_same(run));
    PARE_TRY(pare__run_publish(run));
    PARE_TRY(pare__run_exports(run, out));
    out->report.seconds = pare__seconds() - run->started;
    pare__notify(run, PARE_EVENT_DONE, "%s", run->plan.output_path);
    return PARE_OK;
}

pare_status pare_compress(pare_ctx *cx, pare_arena *a, const pare_job *job,
                          const pare_events *events, pare_compress_result *out)
{
    *out = (pare_compress_result){0};
    pare_run run = {.cx = cx, .a = a, .events = events, .started = pare__seconds()};
    run.teller = (pare_teller){tell, &run};
    const size_t limit = cx->limit_bytes;
    pare_status s = pare_arena_init(cx, &run.scratch, 0);
    if (s == PARE_OK)
        s = pare_arena_init(cx, &run.stage, 0);
    if (s == PARE_OK)
        s = pare_arena_init(cx, &run.views, 0);
    if (s == PARE_OK)
        s = pare_linalg_init(cx);
    if (s == PARE_OK)
        s = pare_plan_make(cx, a, job, &run.plan);
    if (s == PARE_OK)
        s = claim(&run);
    pare_memory_trim();
    if (s == PARE_OK) {
        cx->limit_bytes = (size_t)run.plan.allocator_bytes;
        s = run.plan.finished ? pare__run_again(&run, out) : run_job(&run, out);
        cx->limit_bytes = limit;
        pare_ctx_job(cx, NULL, 0, 0);
    }
    pare_hashing_free(cx, run.hash.input);
    pare_hashing_free(cx, run.hash.packed);
    pare_wave_close(&run.wave);
    pare_wave_close(&run.floats);
    pare_token_weights_close(&run.weights);
    pare_packed_close(cx, run.writer);
    pare_journal_close(cx, run.journal);
    pare_plan_close(&run.plan);
    pare_lock_release(&run.lock);
    pare_arena_release(&run.stage);
    pare_arena_release(&run.views);
    pare_arena_release(&run.scratch);
    return s;
}
