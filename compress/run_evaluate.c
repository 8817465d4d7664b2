#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include "compress/compress_internal.h"
#include "compress/need.h"
#include "compress/version.h"
#include "runtime/file.h"
#include "runtime/machine.h"
#include "runtime/threads.h"

/* Tokens of one evaluation's data file, in the scratch arena. */
static pare_status read_data(pare_run *run, const pare_evaluation *e, pare_tokens *out)
{
    const pare_text *const file = e->text.text ? &e->text : &e->tokens;
    const char *const path = pare__run_data_path(run, file);
    const size_t vocab = run->plan.model.config.vocab;
    if (!path)
        return PARE_ENOMEM;
    if (!e->text.text)
        return pare_tokens_read(run->cx, &run->scratch, path, vocab, out);
    pare_tokenizer *t = NULL;
    pare_status s = pare_checkpoint_tokenizer(&run->plan.checkpoint, &t);
    if (s == PARE_OK)
        s = pare_tokens_encode(run->cx, &run->scratch, t, &path, 1, -1, vocab, out);
    pare_tokenizer_free(t);
    pare_memory_trim();
    return s;
}

pare_status pare__run_check_evaluations(pare_run *run)
{
    const pare_mark mark = pare_arena_mark(&run->scratch);
    pare_status s = PARE_OK;
    for (size_t i = 0; s == PARE_OK && i < run->plan.recipe.evaluations; i++) {
        const pare_evaluation *const e = &run->plan.recipe.evaluation[i];
        pare_tokens tokens;
        s = read_data(run, e, &tokens);
        if (s == PARE_OK && tokens.count < e->window)
            s = pare_recipe_fail(
                run->cx, e->place, "%s has %zu tokens, fewer than one window of %zu",
                e->text.text ? e->text.text : e->tokens.text, tokens.count, e->window);
        pare_arena_rewind(&run->scratch, mark);
    }
    return s;
}

/* The model before and after on `tokens`. */
static pare_status evaluate_tokens(pare_run *run, const pare_model *after,
                                   const pare_tokens *tokens, bool kl, pare_report_eval *out)
{
    pare_ctx *const cx = run->cx;
    pare_forward before_f, after_f;
    PARE_TRY(pare_forward_init(cx, &run->scratch, &run->plan.model, out->window, false, &before_f));
    PARE_TRY(pare_forward_init(cx, &run->scratch, after, out->window, false, &after_f));
    const pare_eval_opts opts = {.window = out->window};
    pare_status s =
        pare_evaluate(cx, &before_f, NULL, &opts, tokens->id, tokens->count, &out->before);
    if (s == PARE_OK)
        s = pare_evaluate(cx, &after_f, kl ? &before_f : NULL, &opts, tokens->id, tokens->count,
                          &out->after);
    return s == PARE_OK ? s : pare_fail_context(cx, s, "evaluation on %s", out->data);
}

static pare_status evaluate_one(pare_run *run, const pare_model *after, const pare_evaluation *e,
                                pare_report_eval *out)
{
    const char *const what = e->kl ? "kl" : "perplexity";
    const pare_text *const file = e->text.text ? &e->text : &e->tokens;
    *out = (pare_report_eval){.what = what, .data = file->text, .window = e->window};
    pare__notify(run, PARE_EVENT_EVALUATE, "%s on %s", what, file->text);
    pare_tokens tokens;
    PARE_TRY(read_data(run, e, &tokens));
    return evaluate_tokens(run, after, &tokens, e->kl, out);
}

/* What pruning did, when the recipe does not say on what to look at it. */
static pare_status evaluate_held_out(pare_run *run, const pare_model *after, pare_report_eval *out)
{
    *out = (pare_report_eval){
        .what = "kl", .data = "calibration windows held out", .window = run->plan.window};
    pare__notify(run, PARE_EVENT_EVALUATE, "kl on %zu calibration windows held out",
                 run->held_out.count / run->plan.window);
    return evaluate_tokens(run, after, &run->held_out, true, out);
}

/* Opens the finished weights as a user will, and evaluates them. */
static pare_status evaluate_all(pare_run *run, pare_report_eval *evaluation)
{
    pare_checkpoint ck;
    pare_model after;
    const size_t count = run->plan.recipe.evaluations;
    pare_status s = pare_checkpoint_open(run->cx, run->a, run->plan.partial_path, &ck);
    if (s == PARE_OK)
        s = pare_model_load(run->cx, run->a, &ck, &after);
    for (size_t i = 0; s == PARE_OK && i < count; i++) {
        const pare_mark mark = pare_arena_mark(&run->scratch);
        s = evaluate_one(run, &after, &run->plan.recipe.evaluation[i], &evaluation[i]);
        pare_arena_rewind(&run->scratch, mark);
    }
    if (s == PARE_OK && run->plan.held_out) {
        const pare_mark mark = pare_arena_mark(&run->scratch);
        s = evaluate_held_out(run, &after, &evaluation[count]);
        pare_arena_rewind(&run->scratch, mark);
    }
    pare_checkpoint_close(&ck);
    return s;
}

/* Bits of every tensor of the artifact over the weights of the model that it was made from, biases
 * and norms included. What a step adds, such as the head that a rotation unties, costs bits. */
static double model_bits(const pare_plan *plan)
{
    uint64_t bytes = 0;
    for (uint32_t i = 0; i < plan->layout.shards; i++)
        bytes += plan->layout.file_bytes[i] - plan->layout.header_bytes[i];
    double weights = 0.0;
    for (size_t i = 0; i < plan->checkpoint.tensors; i++) {
        double count = 1.0;
        for (uint32_t d = 0; d < plan->checkpoint.tensor[i].rank; d++)
            count *= (double)plan->checkpoint.tensor[i].shape[d];
        weights += count;
    }
    return 8.0 * (double)bytes / weights;
}

/* Without those that count_thin counts. */
static size_t count_fallbacks(const pare_run *run)
{
    size_t count = 0;
    for (size_t i = 0; i < run->rows; i++)
        count += !run->row[i].thin && (run->row[i].fallback || run->row[i].f64 ||
                                       run->row[i].raises || run->row[i].cold != PARE_COLD_NOT);
    return count;
}

/* Linears, or steps that take parts out of the model, that got too little calibration. */
static size_t count_thin(const pare_run *run)
{
    size_t count = 0;
    pare_shortage unused;
    for (size_t i = 0; i < run->rows; i++)
        count += run->row[i].thin;
    for (size_t step = 0; run->plan.structured && step < run->plan.recipe.steps; step++)
        count += pare_plan_short(&run->plan, step, &unused);
    return count;
}

static pare_status texts_of_run(pare_run *run, pare_report *r)
{
    char host[256] = "unknown", started[32] = "";
    if (gethostname(host, sizeof host - 1) != 0)
        (void)snprintf(host, sizeof host, "unknown");
    const time_t then = time(NULL) - (time_t)(pare__seconds() - run->started);
    struct tm utc;
    if (gmtime_r(&then, &utc))
        (void)strftime(started, sizeof started, "%Y-%m-%dT%H:%M:%SZ", &utc);
    r->host = pare_arena_text(run->a, host, strlen(host));
    r->started = pare_arena_text(run->a, started, strlen(started));
    r->recipe_text = pare_arena_text(run->a, run->plan.recipe_text, run->plan.recipe_len);
    return r->host && r->started && r->recipe_text ? PARE_OK : PARE_ENOMEM;
}

static uint64_t peak_rss(void)
{
    struct rusage u;
    return getrusage(RUSAGE_SELF, &u) == 0 ? (uint64_t)u.ru_maxrss * 1024 : 0;
}

/* The most that the allocator gave out, and what the process has beside that: stacks, buffers of
 * BLAS, data of libraries, which stay once they are there. */
static uint64_t peak_anonymous(const pare_ctx *cx)
{
    const uint64_t kib = pare_machine_number("/proc/self/status", "RssAnon:");
    const uint64_t now = kib == UINT64_MAX ? 0 : kib * 1024;
    return cx->peak_bytes + (now > cx->live_bytes ? now - cx->live_bytes : 0);
}

pare_status pare__run_evaluate(pare_run *run, pare_compress_result *out)
{
    const pare_plan *const plan = &run->plan;
    const double start = pare__seconds();
    const size_t evaluations = plan->recipe.evaluations + (plan->held_out > 0);
    pare_report_eval *const evaluation = PARE_NEW(run->a, pare_report_eval, evaluations);
    if (!evaluation)
        return PARE_ENOMEM;
    if (evaluations)
        PARE_TRY(evaluate_all(run, evaluation));
    pare_report *const r = &out->report;
    *r = (pare_report){.model = plan->model_path,
                       .output = plan->output_path,
                       .recipe_file = plan->job->recipe,
                       .program = "pare " PARE_VERSION,
                       .cpu = pare_cpu_name(run->cx->cpu),
                       .blas = run->blas,
                       .threads = pare_threads(run->cx),
                       .config = &plan->out,
                       .structure = plan->structured ? &run->structure : NULL,
                       .kv = &plan->recipe.kv,
                       .row = run->row,
                       .rows = run->rows,
                       .evaluation = evaluation,
                       .evaluations = evaluations,
                       .export = plan->recipe.export,
                       .exports = plan->recipe.exports,
                       .bytes_before = plan->input_bytes,
                       .bytes_after = plan->packed_bytes - plan->layout.index_bytes,
                       .bits_per_weight = plan->bits_per_weight,
                       .model_bits_per_weight = model_bits(plan),
                       .untied = plan->unties,
                       .seconds = pare__seconds() - run->started,
                       .calibration_seconds = run->calibration_seconds,
                       .evaluation_seconds = pare__seconds() - start,
                       .calibration_windows = plan->calibrated ? plan->samples : 0,
                       .calibration_window = plan->calibrated ? plan->window : 0,
                       .calibration_text = plan->recipe.calibration.text.item,
                       .calibration_share = run->share,
                       .calibration_texts = plan->recipe.calibration.text.count,
                       .peak_rss_bytes = peak_rss(),
                       .peak_anonymous_bytes = peak_anonymous(run->cx),
                       .resumed_blocks = run->units_found < plan->out.blocks ? run->units_found
                                                                             : plan->out.blocks};
    r->experts = (pare_report_experts){.min_tokens = plan->recipe.calibration.min_tokens,
                                       .policy = plan->recipe.calibration.cold};
    PARE_TRY(pare_report_experts_take(run->a, run->row, run->rows, &r->experts));
    PARE_TRY(texts_of_run(run, r));
    out->thin = count_thin(run);
    out->fallbacks = count_fallbacks(run) + out->thin;
    return pare_report_write(run->cx, r, plan->partial_path);
}
