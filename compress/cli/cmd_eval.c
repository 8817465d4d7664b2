#include <math.h>
#include <stdio.h>
#include <string.h>

#include "compress/cli/cli.h"
#include "compress/cli/eval_continue.h"
#include "compress/cli/eval_draft.h"
#include "compress/cli/eval_needle.h"
#include "compress/cli/measure_steps.h"
#include "compress/cli/measure_tasks.h"
#include "compress/text/units.h"
#include "runtime/machine.h"

/* Everything one run measured, of a model and of the one that it is held against. */
typedef struct evaluation {
    pare_measure asked;
    pare_measure_steps steps;
    pare_loaded model, other;
    pare_loaded *baseline; /* &other or NULL */
    pare_eval_draft draft;
    pare_eval_needle needle;
    pare_eval_continue continued;
    pare_figures f, base;
    bool checked; /* the checksums of the model, the baseline and the draft */
    uint64_t peak_rss_bytes, peak_anonymous_bytes; /* of the run */
} evaluation;

/* In the order of open_all and measure. */
static pare_status plan_job(pare_cli *cli, const pare_args *args, evaluation *e)
{
    pare_measure *const m = &e->asked;
    const size_t models = pare_args_text(args, "baseline") ? 2 : 1;
    uint64_t window = PARE_MEASURE_WINDOW;
    PARE_TRY(pare_args_count(&cli->cx, args, "window", 2, UINT32_MAX, &window));
    PARE_TRY(pare_measure_steps_take(cli, models * (3 + m->choices + m->tasks) + 4, &e->steps));
    m->steps = &e->steps;
    for (size_t i = 0; i < models; i++)
        pare_measure_expect_open(m);
    if (e->draft.path)
        pare_measure_expect_open(m);
    pare_measure_expect_text(m, (size_t)window, models);
    for (size_t i = 0; i < m->choices * models; i++)
        pare_measure_expect_choice(m, i / models);
    for (size_t i = 0; i < m->tasks * models; i++)
        pare_measure_expect_task(m, i / models);
    for (size_t i = 0; e->needle.opts.file && i < models; i++)
        pare_measure_expect_needle(m, &e->needle.opts);
    if (e->continued.opts.prompts)
        pare_measure_expect_continue(m, models * e->continued.opts.prompts, e->continued.opts.most);
    for (size_t i = 0; i < models; i++)
        pare_measure_expect_speed(m);
    if (e->draft.path)
        pare_measure_expect_draft(m);
    pare_measure_steps_begin(cli, m);
    return PARE_OK;
}

static pare_status open_all(pare_cli *cli, const pare_args *args, evaluation *e)
{
    const char *const path = pare_args_text(args, "baseline");
    const bool text = e->asked.text || e->asked.choices || e->asked.tasks || e->needle.opts.file;
    pare_measure_step(cli, &e->asked, e->f.model, "reading", NULL);
    PARE_TRY(pare_loaded_open(cli, args, e->f.model, e->asked.exact, text, &e->model));
    PARE_TRY(pare_loaded_kv(cli, args, &e->model));
    if (path) {
        e->base.model = path;
        pare_measure_step(cli, &e->asked, path, "reading", NULL);
        PARE_TRY(pare_loaded_open(cli, args, path, e->asked.exact, text, &e->other));
        e->baseline = &e->other;
    }
    PARE_TRY(pare_measure_watch(cli, &e->asked, &e->model));
    if (e->needle.opts.file)
        PARE_TRY(pare_loaded_watch(cli, &e->model, e->needle.opts.file));
    PARE_TRY(pare_measure_data(cli, args, &e->model, &e->asked));
    PARE_TRY(pare_measure_check_choices(cli, &e->asked, &e->model));
    PARE_TRY(pare_measure_check_tasks(cli, &e->asked, &e->model));
    if (path) {
        PARE_TRY(pare_measure_check_choices(cli, &e->asked, &e->other));
        PARE_TRY(pare_measure_check_tasks(cli, &e->asked, &e->other));
    }
    if (path && e->asked.data.count)
        PARE_TRY(pare_measure_fits(cli, &e->asked, &e->model.model.config, path,
                                   &e->other.model.config));
    if (path && e->asked.text)
        PARE_TRY(pare_measure_same_tokens(cli, &e->model, &e->other, e->asked.text));
    if (path && e->asked.tokens)
        PARE_TRY(pare_measure_same_ids(cli, &e->asked, &e->model, &e->other));
    PARE_TRY(pare_eval_needle_check(cli, &e->model, e->baseline, &e->needle));
    PARE_TRY(pare_eval_continue_check(cli, &e->asked, &e->model, e->baseline, &e->continued));
    PARE_TRY(pare_eval_draft_open(cli, args, &e->asked, &e->model, &e->draft));
    pare_loaded_text_done(&e->model);
    pare_loaded_text_done(&e->other);
    PARE_TRY(pare_loaded_evaluate_on_device(cli, &e->model, e->baseline, &e->asked.opts,
                                            e->asked.data.count));
    e->checked = e->model.checked && (!path || e->other.checked) &&
                 (!e->draft.path || e->draft.model.checked);
    e->f.choice = PARE_NEW(&cli->arena, pare_choice_figures, e->asked.choices);
    e->base.choice = PARE_NEW(&cli->arena, pare_choice_figures, e->asked.choices);
    e->f.task = PARE_NEW(&cli->arena, pare_task_figures, e->asked.tasks);
    e->base.task = PARE_NEW(&cli->arena, pare_task_figures, e->asked.tasks);
    return e->f.choice && e->base.choice && e->f.task && e->base.task ? PARE_OK : PARE_ENOMEM;
}

static pare_status measure_items(pare_cli *cli, evaluation *e)
{
    for (size_t i = 0; i < e->asked.choices; i++) {
        PARE_TRY(pare_measure_choice(cli, &e->asked, &e->model, &e->f));
        if (e->baseline)
            PARE_TRY(pare_measure_choice(cli, &e->asked, e->baseline, &e->base));
    }
    for (size_t i = 0; i < e->asked.tasks; i++) {
        PARE_TRY(pare_measure_task(cli, &e->asked, &e->model, &e->f));
        if (e->baseline)
            PARE_TRY(pare_measure_task(cli, &e->asked, e->baseline, &e->base));
    }
    return PARE_OK;
}

static bool is_alone(const evaluation *e)
{
    return !e->baseline && !e->draft.path;
}

/* Up to an interrupt, which leaves what was done. */
static pare_status measure(pare_cli *cli, evaluation *e)
{
    PARE_TRY(pare_measure_sizes(cli, &e->model, &e->f));
    if (e->baseline)
        PARE_TRY(pare_measure_sizes(cli, e->baseline, &e->base));
    pare_status s = pare_measure_text(cli, &e->asked, &e->model, e->baseline, &e->f);
    if (e->f.text.has_kl) {
        e->base.window = e->f.window;
        e->base.stride = e->f.stride;
        e->base.text_complete = e->f.text_complete;
        e->base.text = pare_figures_baseline(&e->f.text);
    }
    if (s == PARE_OK)
        s = measure_items(cli, e);
    pare_measure_pair(&e->base, &e->f);
    if (s == PARE_OK)
        s = pare_eval_needle_measure(cli, &e->asked, &e->model, e->baseline, &e->needle, &e->f,
                                     &e->base);
    if (s == PARE_OK)
        s = pare_eval_continue_measure(cli, &e->asked, &e->model, e->baseline, &e->continued, &e->f,
                                       &e->base);
    if (s == PARE_OK)
        s = pare_measure_speed(cli, &e->asked, &e->model, &e->f);
    if (s == PARE_OK && e->baseline)
        s = pare_measure_speed(cli, &e->asked, e->baseline, &e->base);
    if (s == PARE_OK)
        s = pare_eval_draft_measure(cli, &e->asked, &e->model, &e->draft);
    e->peak_rss_bytes = pare_machine_peak_resident();
    e->peak_anonymous_bytes = cli->cx.peak_bytes;
    if (is_alone(e)) { /* else they are of all models */
        e->f.memory.peak_rss_bytes = e->peak_rss_bytes;
        e->f.memory.peak_anonymous_bytes = e->peak_anonymous_bytes;
    }
    return s;
}

static pare_status print_json(pare_cli *cli, const evaluation *e, bool complete)
{
    const pare_ran_on on = pare_loaded_ran_on(cli, &e->model);
    pare_json_writer *w;
    PARE_TRY(pare_json_writer_new(&cli->cx, &w));
    pare_json_open_object(w, NULL);
    pare_figures_put(w, &e->f);
    pare_json_put_bool(w, "checked", e->checked);
    pare_json_put_bool(w, "complete", complete);
    if (e->asked.limit)
        pare_json_put_integer(w, "limit", (int64_t)e->asked.limit);
    pare_json_put_kv(w, &e->model.model.config, &e->model.model.kv);
    pare_json_put_ran_on(w, &on);
    if (e->baseline) {
        const pare_ran_on other = pare_loaded_ran_on(cli, e->baseline);
        pare_json_open_object(w, "baseline");
        pare_figures_put(w, &e->base);
        pare_json_put_ran_on(w, &other);
        pare_json_close(w);
    }
    if (e->draft.result.prompts)
        pare_draft_put(w, &e->draft.result);
    if (!is_alone(e)) {
        pare_json_open_object(w, "run_memory");
        pare_figures_put_peaks(w, e->peak_rss_bytes, e->peak_anonymous_bytes);
        pare_json_close(w);
    }
    pare_json_close(w);
    return pare_cli_print(w);
}

static void print_result(const char *name, const pare_choice_result *r)
{
    (void)printf("%-17s ", name);
    pare_measure_print_share(r->accuracy, r->accuracy_stderr);
    (void)printf(", per byte ");
    pare_measure_print_share(r->accuracy_norm, r->accuracy_norm_stderr);
}

static const char *cut_short(bool complete)
{
    return complete ? "" : ", interrupted";
}

static void print_choice(const evaluation *e, size_t i)
{
    if (i < e->f.choices) {
        const pare_choice_figures *const c = &e->f.choice[i];
        print_result("choice", &c->result);
        (void)printf("   (%s, %zu item%s%s)\n", c->file, c->result.n, pare_plural(c->result.n),
                     cut_short(c->complete));
    }
    if (i < e->base.choices) {
        const pare_choice_figures *const b = &e->base.choice[i];
        print_result("  baseline", &b->result);
        (void)printf("   (%s, %zu item%s%s)\n", b->file, b->result.n, pare_plural(b->result.n),
                     cut_short(b->complete));
    }
    if (i < e->f.choices && e->f.choice[i].has_paired) {
        const pare_choice_figures *const c = &e->f.choice[i];
        (void)printf("  paired          %zu gained, %zu lost, p %.3f; per byte %zu gained, %zu "
                     "lost, p %.3f\n",
                     c->paired.gained, c->paired.lost, c->paired.p, c->paired_norm.gained,
                     c->paired_norm.lost, c->paired_norm.p);
    }
    if (i < e->f.choices) {
        const pare_task_parts *const p = &e->f.choice[i].parts, *const b = &e->base.choice[i].parts;
        pare_measure_print_groups(p->group, p->groups, b->group,
                                  i < e->base.choices ? b->groups : 0);
    }
}

static void print_perplexity(const evaluation *e)
{
    const pare_figures *const f = &e->f;
    if (!f->window)
        return;
    (void)printf("perplexity        %.4f +- %.4f   (%.6f nats, %zu token%s scored, window "
                 "%zu%s)\n",
                 f->text.ppl, f->text.ppl_stderr, f->text.nll, f->text.scored,
                 pare_plural(f->text.scored), f->window, cut_short(f->text_complete));
    if (!f->text.has_kl)
        return;
    (void)printf("  baseline        %.4f +- %.4f   (%.6f nats)\n", e->base.text.ppl,
                 e->base.text.ppl_stderr, e->base.text.nll);
    (void)printf("KL to baseline    %.6f mean, %.6f p99; another first choice (flips) %.2f%%\n",
                 f->text.kl_mean, f->text.kl_p99, (1 - f->text.top1) * 100);
}

static void print_positions(const pare_figures *f)
{
    const pare_eval_result *const r = &f->text;
    if (!f->window || !f->by_position)
        return;
    (void)printf("position          tokens    nats    error  perplexity%s\n",
                 r->has_kl ? "  baseline        KL" : "");
    for (size_t b = 0; b < r->bins; b++) {
        const pare_eval_bin *const x = &r->bin[b];
        const size_t from = (size_t)1 << b, end = 2 * from < f->window ? 2 * from : f->window;
        if (!x->scored)
            continue;
        (void)printf("%7zu to %-7zu %6zu  %.4f", from, end - 1, x->scored, x->nll);
        if (isfinite(x->nll_stderr))
            (void)printf("  %7.4f", x->nll_stderr);
        else
            (void)printf("        -");
        (void)printf("  %10.4f", exp(x->nll));
        if (r->has_kl)
            (void)printf("    %.4f  %.6f", x->baseline_nll, x->kl);
        (void)printf("\n");
    }
}

static void print_speed(const char *name, const pare_figures *f)
{
    if (f->has_speed)
        (void)printf("%-17s prefill %.1f tok/s, decode %.1f tok/s   (%zu thread%s; first "
                     "token %.1f ms, then %.2f ms)\n",
                     name, f->speed.prefill_tok_s, f->speed.decode_tok_s, f->speed.threads,
                     pare_plural(f->speed.threads), f->speed.ttft_ms, f->speed.tpot_ms);
}

static void print_weights(const char *name, const pare_memory_figures *m)
{
    char bytes[PARE_UNIT_TEXT], mapped[PARE_UNIT_TEXT];
    (void)pare_units_bytes(m->mapped_bytes, mapped);
    (void)printf("%-17s %s, %.3f bits per weight in the linears, %.3f in the whole model", name,
                 pare_units_bytes(m->weight_bytes, bytes), m->bits_per_weight,
                 m->model_bits_per_weight);
    if (strcmp(bytes, mapped) != 0)
        (void)printf("; %s in memory", mapped);
    (void)printf("\n");
}

/* Said where a device was asked for. */
static void print_device(const char *name, const pare_cli *cli, const pare_loaded *l)
{
    const pare_ran_on on = pare_loaded_ran_on(cli, l);
    char text[PARE_DEVICE_TEXT];
    if (on.device || on.fallback)
        (void)printf("%-17s %s\n", name, pare_ran_on_text(&on, text));
}

static void print_text(const pare_cli *cli, const evaluation *e)
{
    char bytes[PARE_UNIT_TEXT], cache[PARE_KV_TEXT], limit[PARE_MEASURE_TEXT];
    const pare_model *const m = &e->model.model;
    (void)printf("model             %s\n", e->f.model);
    if (e->baseline)
        (void)printf("baseline          %s\n", e->base.model);
    if (e->asked.limit)
        (void)printf("limited to        %s\n", pare_measure_limit_text(&e->asked, limit));
    print_perplexity(e);
    print_positions(&e->f);
    for (size_t i = 0; i < e->asked.choices; i++)
        print_choice(e, i);
    for (size_t i = 0; i < e->f.tasks; i++)
        pare_measure_print_task(&e->f.task[i], i < e->base.tasks ? &e->base.task[i] : NULL);
    pare_eval_needle_print(&e->needle);
    pare_eval_continue_print(&e->f, &e->base);
    print_speed("speed", &e->f);
    print_speed("  baseline", &e->base);
    pare_eval_draft_print(&e->draft);
    print_weights("weights", &e->f.memory);
    if (e->baseline)
        print_weights("  baseline", &e->base.memory);
    pare_kv_text(&m->config, &m->kv, cache);
    (void)printf("KV cache          %s\n", cache);
    print_device("device", cli, &e->model);
    if (e->baseline)
        print_device("  baseline", cli, e->baseline);
    if (e->peak_rss_bytes)
        (void)printf("memory            at most %s in memory at once, %smapped files included\n",
                     pare_units_bytes(e->peak_rss_bytes, bytes),
                     is_alone(e)                    ? ""
                     : e->baseline && e->draft.path ? "all models and "
                                                    : "both models and ");
}

/* The files are still what was measured: only then the figures are of them. */
static pare_status deliver(pare_cli *cli, const evaluation *e, bool complete)
{
    PARE_TRY(pare_loaded_unchanged(cli, &e->model));
    if (e->baseline)
        PARE_TRY(pare_loaded_unchanged(cli, e->baseline));
    if (e->draft.path)
        PARE_TRY(pare_loaded_unchanged(cli, &e->draft.model));
    if (cli->json)
        return print_json(cli, e, complete);
    print_text(cli, e);
    return PARE_OK;
}

static pare_status run(pare_cli *cli, const pare_args *args, evaluation *e)
{
    PARE_TRY(plan_job(cli, args, e));
    pare_status s = open_all(cli, args, e);
    const bool opened = s == PARE_OK;
    if (opened)
        s = measure(cli, e);
    pare_measure_steps_end(cli);
    if (!opened || (s != PARE_OK && s != PARE_EINTERRUPTED))
        return s;
    pare_ctx_clear(&cli->cx);
    PARE_TRY(deliver(cli, e, s == PARE_OK));
    return s == PARE_OK ? s : pare_fail(&cli->cx, s, "interrupted; what was done is printed");
}

pare_status pare_eval_run(pare_cli *cli, const pare_args *args)
{
    evaluation e = {.f = {.model = args->operand[0]}};
    PARE_TRY(pare_measure_options(cli, args, "eval", &e.asked));
    e.f.by_position = pare_args_given(args, "by-position");
    PARE_TRY(pare_cli_threads(cli));
    PARE_TRY(pare_eval_draft_options(cli, args, &e.asked, &e.draft));
    PARE_TRY(pare_eval_needle_options(cli, args, "eval", &e.needle));
    PARE_TRY(pare_eval_continue_options(cli, args, "eval", &e.asked, &e.continued));
    PARE_TRY(pare_measure_shared(cli, args, "eval", true));
    PARE_TRY(pare_cli_device(cli, args));
    const pare_status s = run(cli, args, &e);
    pare_loaded_close(&e.draft.model);
    pare_loaded_close(&e.other);
    pare_loaded_close(&e.model);
    return s;
}
