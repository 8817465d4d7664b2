#include <math.h>
#include <stdio.h>
#include <string.h>

#include "compress/cli/cli.h"
#include "compress/cli/job_options.h"
#include "compress/cli/measure.h"
#include "compress/compress.h"
#include "compress/plan/recipe_home.h"
#include "compress/text/units.h"

/* What a block came to. */
static void log_block(pare_screen *screen, const pare_event *e)
{
    pare_json_writer *const w = pare_screen_event(screen, "block", e->text);
    if (w) {
        pare_json_put_integer(w, "block", (int64_t)e->block);
        pare_json_put_integer(w, "blocks", (int64_t)e->blocks);
        pare_json_open_array(w, "linears");
        for (size_t i = 0; i < e->rows; i++) {
            const pare_linear_result *const row = &e->row[i];
            pare_json_open_object(w, NULL);
            pare_json_put_text(w, "name", row->linear.name);
            pare_json_put_text(w, "method", row->method);
            pare_json_put_finite(w, "weight_error", row->weight_error);
            if (row->output_error >= 0)
                pare_json_put_finite(w, "output_error", row->output_error);
            pare_json_put_bool(w, "fallback", row->fallback);
            pare_json_put_finite(w, "seconds", row->seconds);
            pare_json_close(w);
        }
        pare_json_close(w);
    }
    pare_screen_event_end(screen, w);
}

/* The largest error of outputs, of weights where no linear has one. */
static double largest_error(const pare_event *e, const char **of)
{
    double outputs = -1, weights = 0;
    for (size_t i = 0; i < e->rows; i++) {
        outputs = fmax(outputs, e->row[i].output_error);
        weights = fmax(weights, e->row[i].weight_error);
    }
    *of = outputs >= 0 ? "outputs" : "weights";
    return outputs >= 0 ? outputs : weights;
}

static void tell_block(pare_screen *screen, const pare_event *e)
{
    char seconds[PARE_UNIT_TEXT];
    (void)pare_units_seconds(e->seconds, seconds);
    const char *of;
    const double largest = largest_error(e, &of);
    if (e->rows)
        pare_screen_line(screen, true, "block %zu of %zu  largest error of %s %.2e  (after %s)",
                         e->block + 1, e->blocks, of, largest, seconds);
    else
        pare_screen_line(screen, true, "%s  (after %s)", e->text, seconds);
    log_block(screen, e);
}

static void on_event(void *self, const pare_event *e)
{
    pare_screen *const screen = &((pare_cli *)self)->screen;
    switch (e->kind) {
    case PARE_EVENT_BLOCK: tell_block(screen, e); break;
    case PARE_EVENT_NOTICE: pare_screen_say(screen, "%s", e->text); break;
    case PARE_EVENT_PLAN:
    case PARE_EVENT_RESUME:
        pare_screen_line(screen, false, "%s", e->text);
        pare_screen_event_end(
            screen,
            pare_screen_event(screen, e->kind == PARE_EVENT_PLAN ? "plan" : "resume", e->text));
        break;
    case PARE_EVENT_EVALUATE: /* a step of the job, which the screen shows */
    case PARE_EVENT_EXPORT:
    case PARE_EVENT_DONE: break; /* the result says it */
    }
}

static size_t numeric_steps(const pare_report *r)
{
    size_t count = 0;
    for (size_t i = 0; i < r->rows; i++)
        count += r->row[i].fallback || r->row[i].f64 || r->row[i].raises || r->row[i].coarse ||
                 r->row[i].lost;
    return count;
}

/* Share of zeros in the pruned linears; below 0 when there are none. */
static double pruned_zeros(const pare_report *r)
{
    double zeros = 0, weights = 0;
    for (size_t i = 0; i < r->rows; i++) {
        const pare_linear_result *const l = &r->row[i];
        const double count = l->pruned ? (double)l->linear.n * (double)l->linear.k : 0;
        zeros += l->zeros * count;
        weights += count;
    }
    return weights > 0 ? zeros / weights : -1;
}

static void put_exports(pare_json_writer *w, const pare_compress_result *result)
{
    pare_json_open_array(w, "exports");
    for (size_t i = 0; i < result->exports; i++) {
        pare_json_open_object(w, NULL);
        pare_json_put_text(w, "format", result->export[i].format);
        pare_json_put_text(w, "output", result->export[i].path);
        pare_export_put(w, &result->export[i].result, false);
        pare_json_close(w);
    }
    pare_json_close(w);
    if (result->olders)
        pare_json_open_array(w, "exports_from_before");
    for (size_t i = 0; i < result->olders; i++)
        pare_json_put_text(w, NULL, result->older[i]);
    if (result->olders)
        pare_json_close(w);
}

static void put_report(pare_json_writer *w, const pare_compress_result *result)
{
    const pare_report *const r = &result->report;
    pare_json_put_integer(w, "linears", (int64_t)r->rows);
    if (pruned_zeros(r) >= 0)
        pare_json_put_finite(w, "zeros", pruned_zeros(r));
    if (pare_report_stability(r) > 0)
        pare_json_put_finite(w, "stability", pare_report_stability(r));
    pare_report_put(w, r);
    pare_json_put_finite(w, "export_seconds", result->export_seconds);
}

/* By this run. */
static bool is_made(const pare_compress_result *result)
{
    const pare_gate *const v = result->report.verdict;
    return !result->again && !(v && v->kind == PARE_GATE_INFEASIBLE);
}

static pare_status print_json(pare_cli *cli, const pare_compress_result *result)
{
    pare_json_writer *w;
    PARE_TRY(pare_json_writer_new(&cli->cx, &w));
    pare_json_open_object(w, NULL);
    pare_json_put_text(w, "output", result->report.output);
    pare_json_put_bool(w, "already_complete", result->again);
    if (result->attempts > 1)
        pare_json_put_integer(w, "fallback", (int64_t)result->attempt);
    if (is_made(result))
        put_report(w, result);
    else if (result->report.verdict)
        pare_gate_put(w, result->report.verdict);
    put_exports(w, result);
    pare_json_close(w);
    return pare_cli_print(w);
}

static void print_exports(const pare_compress_result *result)
{
    char a[PARE_UNIT_TEXT];
    for (size_t i = 0; i < result->exports; i++) {
        const pare_compress_export *const x = &result->export[i];
        (void)printf("exported          %s (%s, %s)%s%s\n", x->path, x->format,
                     pare_units_bytes(x->result.bytes, a), x->result.notice ? "; note: " : "",
                     x->result.notice ? x->result.notice : "");
    }
}

static void print_choice(const pare_report_eval *e)
{
    const pare_choice_result *const was = &e->choice_before.result;
    const pare_choice_result *const is = &e->choice_after.result;
    const pare_paired *const p = &e->choice_after.paired;
    char notes[PARE_REPORT_NOTES];
    (void)printf("choice            ");
    pare_measure_print_share(was->accuracy, was->accuracy_stderr);
    (void)printf(" -> ");
    pare_measure_print_share(is->accuracy, is->accuracy_stderr);
    (void)printf(", per byte ");
    pare_measure_print_share(was->accuracy_norm, was->accuracy_norm_stderr);
    (void)printf(" -> ");
    pare_measure_print_share(is->accuracy_norm, is->accuracy_norm_stderr);
    (void)printf("; %zu gained, %zu lost, p %.3f   (%s", p->gained, p->lost, p->p, e->data);
    if (!e->limit)
        (void)printf(", %zu item%s", is->n, pare_plural(is->n));
    (void)printf("%s)\n", pare_report_notes(e, ", ", notes));
}

static void print_value(const pare_task_metric *m)
{
    if (m->share)
        pare_measure_print_share(m->value, m->error);
    else
        (void)printf("%.4f", m->value);
}

static void print_task(const pare_report_eval *e)
{
    const pare_task_figures *const was = &e->task_before, *const is = &e->task_after;
    char notes[PARE_REPORT_NOTES];
    (void)printf("%-17s ", is->asked.name);
    for (size_t i = 0; i < is->metrics; i++) {
        const pare_task_metric *const m = &is->metric[i];
        (void)printf("%s%s ", i ? "; " : "", m->name);
        print_value(&was->metric[i]);
        (void)printf(" -> ");
        print_value(m);
        if (m->right)
            (void)printf(", %zu gained, %zu lost, p %.3f", m->paired.gained, m->paired.lost,
                         m->paired.p);
    }
    (void)printf("   (%s, %zu document%s%s)\n", e->data, is->n, pare_plural(is->n),
                 pare_report_notes(e, ", ", notes));
}

static void print_needle(const pare_report_eval *e)
{
    const pare_needle_figures *const was = &e->needle_before, *const is = &e->needle_after;
    const pare_paired *const p = &is->paired;
    char notes[PARE_REPORT_NOTES];
    (void)printf("needle            ");
    pare_measure_print_share(pare_needle_share(was->all), pare_needle_error(was->all));
    (void)printf(" -> ");
    pare_measure_print_share(pare_needle_share(is->all), pare_needle_error(is->all));
    (void)printf("; %zu gained, %zu lost, p %.3f   (%s, %zu prompt%s%s)\n", p->gained, p->lost,
                 p->p, e->data, is->all.n, pare_plural(is->all.n),
                 pare_report_notes(e, ", ", notes));
}

static void print_continuations(const pare_report_eval *e)
{
    const pare_continue_figures *const f = &e->continued[0];
    const pare_continue_means is = pare_continue_means_of(f),
                              was = pare_continue_means_of(&e->continued[1]);
    char notes[PARE_REPORT_NOTES];
    (void)printf("continuations     %.1f -> %.1f tokens, %.1f%% -> %.1f%% never ended", was.length,
                 is.length, 100 * was.endless, 100 * is.endless);
    if (f->grams && e->continued[1].grams)
        (void)printf(", %.1f%% -> %.1f%% of 4-grams repeated", 100 * was.repeated,
                     100 * is.repeated);
    (void)printf("; %.1f%% are the same   (%s, %zu prompt%s%s)\n", 100 * is.same, e->data,
                 f->prompts, pare_plural(f->prompts), pare_report_notes(e, ", ", notes));
}

static void print_evaluation(const pare_report_eval *e)
{
    if (e->kind == PARE_EVALUATE_NEEDLE || e->kind == PARE_EVALUATE_CONTINUATIONS) {
        (e->kind == PARE_EVALUATE_NEEDLE ? print_needle : print_continuations)(e);
        return;
    }
    if (e->kind == PARE_EVALUATE_TASK) {
        print_task(e);
        return;
    }
    if (e->kind == PARE_EVALUATE_CHOICE) {
        print_choice(e);
        return;
    }
    char notes[PARE_REPORT_NOTES];
    (void)printf("perplexity        %.4f -> %.4f (%+.2f%%)", e->before.ppl, e->after.ppl,
                 100 * (e->after.ppl / e->before.ppl - 1));
    if (e->after.has_kl)
        (void)printf(", KL %.6f, flips %.2f%%", e->after.kl_mean, 100 * (1 - e->after.top1));
    (void)printf("   (%s%s)\n", e->data, pare_report_notes(e, ", ", notes));
}

/* What each part of the recipe cost, on the calibration windows held out. */
static void print_stages(const pare_report *r)
{
    for (size_t i = 1; i < r->stages; i++) /* the first is the original */
        (void)printf("%-17s KL %.6f, perplexity %.4f   (behind: %s)\n", i == 1 ? "held out" : "",
                     r->stage[i].kl, exp(r->stage[i].nll), r->stage[i].passes);
}

static void print_repaired(const pare_report *r)
{
    const unsigned long long weights = pare_report_repaired(r);
    if (weights)
        (void)printf("repaired          %llu weight%s in %zu tensor%s, NaN or infinite before: set "
                     "to %s\n",
                     weights, pare_plural(weights), r->repairs, pare_plural(r->repairs),
                     pare_repair_text(r->nan));
}

static void print_time(const pare_compress_result *result)
{
    char all[PARE_UNIT_TEXT], exports[PARE_UNIT_TEXT];
    (void)printf("time              %s", pare_units_seconds(result->report.seconds, all));
    if (result->exports)
        (void)printf(", of which exports %s", pare_units_seconds(result->export_seconds, exports));
    if (result->report.resumed_blocks)
        (void)printf(", in this run; %zu of %zu blocks were done before",
                     result->report.resumed_blocks, result->report.config->blocks);
    (void)printf("\n");
}

/* The verdict, and the settings that it is of. */
static pare_status print_verdict(pare_cli *cli, const pare_compress_result *result)
{
    const pare_gate *const v = result->report.verdict;
    const char *text;
    if (!v)
        return PARE_OK;
    PARE_TRY(pare_gate_why(&cli->arena, v, &text));
    (void)printf("verdict           %s: %s\n", pare_gate_name(v->kind), text);
    if (!result->attempt)
        return PARE_OK;
    const pare_texts *const sets = &result->fallback[result->attempt - 1];
    (void)printf("fallback          %zu of %zu:", result->attempt, result->attempts - 1);
    for (size_t i = 0; i < sets->count; i++)
        (void)printf(" %s", sets->item[i].text);
    (void)printf("\n");
    return PARE_OK;
}

static void print_text(const pare_cli *cli, const pare_compress_result *result)
{
    const pare_report *const r = &result->report;
    char a[PARE_UNIT_TEXT], b[PARE_UNIT_TEXT];
    (void)printf("artifact          %s%s\n", r->output,
                 result->again      ? "   (already complete)"
                 : !is_made(result) ? (result->attempt ? "   (the last attempt wrote nothing)"
                                                       : "   (nothing is written)")
                                    : "");
    if (!is_made(result)) {
        print_exports(result);
        return;
    }
    (void)printf("weights           %s -> %s\n",
                 pare_units_bytes(pare_report_total(r->sizes.before), a),
                 pare_units_bytes(pare_report_total(r->sizes.after), b));
    if (!r->structure)
        (void)printf("bits per weight   %.3f in %zu linear%s, %.3f in the whole model%s\n",
                     r->bits_per_weight, r->rows, pare_plural(r->rows), r->model_bits_per_weight,
                     r->untied ? " (rotate unties the head)" : "");
    if (pruned_zeros(r) >= 0)
        (void)printf("zeros             %.2f%% of the pruned linears\n", 100 * pruned_zeros(r));
    if (pare_report_stability(r) > 0)
        (void)printf("stability         %.2f%% of the weights that stay are the same for disjoint "
                     "parts of the calibration\n",
                     100 * pare_report_stability(r));
    for (size_t i = 0; i < r->evaluations; i++)
        print_evaluation(&r->evaluation[i]);
    print_stages(r);
    print_repaired(r);
    print_exports(result);
    if (numeric_steps(r))
        (void)printf("numeric steps     %zu linear%s needed one; manifest.json lists them\n",
                     numeric_steps(r), pare_plural(numeric_steps(r)));
    if (r->thin && r->structure)
        (void)printf("calibration       too little for %zu step%s\n", r->thin,
                     pare_plural(r->thin));
    else if (r->thin)
        (void)printf(
            "calibration       too little for %zu of %zu linears, which layers.csv lists\n",
            r->thin, r->rows);
    if (r->experts.count)
        (void)printf("experts           least %lld, median %lld tokens of the calibration for one; "
                     "%zu of %zu "
                     "get fewer than %llu (run.json)\n",
                     (long long)r->experts.least, (long long)r->experts.median, r->experts.cold,
                     r->experts.count, (unsigned long long)r->experts.min_tokens);
    if (r->untokenized)
        (void)printf("note              " PARE_CLI_UNTOKENIZED "\n");
    print_time(result);
    pare_cli_print_energy(cli, r->joules);
    pare_cli_print_memory(r->peak_anonymous_bytes, r->peak_rss_bytes);
}

/* A line for --notify. */
static void tell_end(pare_cli *cli, const pare_compress_result *result)
{
    const pare_report *const r = &result->report;
    char bytes[PARE_UNIT_TEXT];
    if (r->verdict && r->verdict->kind != PARE_GATE_ACCEPT)
        pare_job_told(cli, r->output, "verdict %s", pare_gate_name(r->verdict->kind));
    else if (!is_made(result))
        pare_job_told(cli, r->output, "already complete");
    else
        pare_job_told(cli, r->output, "%s, %.3f bits per weight",
                      pare_units_bytes(pare_report_total(r->sizes.after), bytes),
                      r->model_bits_per_weight);
}

static pare_status run_job(pare_cli *cli, const pare_args *args, const pare_job *job)
{
    pare_compress_result result = {0};
    const pare_events events = {on_event, cli};
    const pare_status s = pare_compress(&cli->cx, &cli->arena, job, &events, &result);
    if (pare_world_rank(&cli->cx) > 0)
        return s;
    tell_end(cli, &result);
    cli->other = result.other;
    PARE_TRY(s);
    cli->fallback = pare_args_given(args, "strict") && result.report.fallbacks > 0;
    const pare_gate *const v = result.report.verdict;
    cli->refused = v && v->kind != PARE_GATE_ACCEPT;
    if (cli->json)
        return print_json(cli, &result);
    print_text(cli, &result);
    return print_verdict(cli, &result);
}

static pare_status read_job(pare_cli *cli, const pare_args *args, pare_job *job)
{
    PARE_TRY(pare_job_device(cli, args));
    PARE_TRY(pare_job_read(cli, args, job));
    PARE_TRY(pare_recipe_go_home(&cli->cx, &cli->arena, job));
    job->strict = pare_args_given(args, "strict");
    job->share = pare_args_text(args, "share");
    if (job->share && !*job->share)
        return pare_fail(&cli->cx, PARE_EUSAGE, "compress: --share needs the path of a folder");
    if (pare_args_given(args, "resume") && job->restart)
        return pare_fail(&cli->cx, PARE_EUSAGE,
                         "compress: --resume and --restart exclude each other");
    if (pare_world_rank(&cli->cx) == 0)
        PARE_TRY(pare_job_begin(cli, args));
    return pare_cli_threads(cli);
}

pare_status pare_compress_run(pare_cli *cli, const pare_args *args)
{
    pare_job job;
    if (pare_args_given(args, "dry-run"))
        return pare_world_size(&cli->cx) == 1
                   ? pare_plan_run(cli, args)
                   : pare_fail(&cli->cx, PARE_EUSAGE, "compress --dry-run runs in one process");
    PARE_TRY(pare_world_agree(&cli->cx, read_job(cli, args, &job)));
    const pare_status s = run_job(cli, args, &job);
    if (s == PARE_EINTERRUPTED)
        pare_screen_say(&cli->screen, "stopped; the same command%s continues here",
                        job.restart ? " without --restart" : "");
    return s;
}
