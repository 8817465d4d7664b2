/* The recipe's evaluations: the model before and after, on the same data. */
#include <stdio.h>
#include <string.h>

#include "compress/run/run_evaluate.h"
#include "compress/run/run_internal.h"
#include "compress/run/run_original.h"
#include "compress/run/run_team.h"
#include "runtime/cuda.h"
#include "runtime/machine.h"
#include "runtime/world.h"

/* How messages name both. */
static const char original[] = "the original", compressed[] = "the compressed model";

/* The model as it was, and as it is now. */
typedef struct sides {
    const pare_model *after;
    pare_run_on place;
    bool f16;    /* products of floats on a device */
    bool shared; /* the other processes were told to evaluate their windows */
    pare_forward before_f, after_f;
    pare_device *device; /* NULL: the CPU */
    pare_cuda *before_on, *after_on;
    const char *name, *fallback; /* of the device; why `auto` took the CPU, or NULL */
} sides;

static void leave_device(pare_run *run, sides *s)
{
    pare_cuda_close(s->after_on);
    pare_cuda_close(s->before_on);
    if (s->device)
        s->device->op->close(run->cx, s->device);
    s->after_on = s->before_on = NULL;
    s->device = NULL;
}

static pare_status go_to_device(pare_run *run, sides *s)
{
    PARE_TRY(pare_device_open_queued(run->cx, &s->device));
    s->name = pare_arena_text(run->a, s->device->name, strlen(s->device->name));
    if (!s->name)
        return PARE_ENOMEM;
    PARE_TRY(pare_cuda_open(run->cx, s->device, 0, &s->before_f, &s->before_on));
    PARE_TRY(pare_cuda_open(run->cx, s->device, 0, &s->after_f, &s->after_on));
    if (s->f16) {
        pare_cuda_use_f16(s->before_on);
        pare_cuda_use_f16(s->after_on);
    }
    return PARE_OK;
}

/* Under `auto` the CPU does what the device cannot, with the figures of exact products. Whether it
 * is to. */
static bool back_to_cpu(pare_run *run, sides *s, pare_status failed)
{
    if (s->place != PARE_RUN_ON_AUTO || !pare_cuda_cannot(failed))
        return false;
    s->place = PARE_RUN_ON_CPU;
    leave_device(run, s);
    s->fallback = pare_arena_text(run->a, run->cx->what, strlen(run->cx->what));
    s->fallback = s->fallback ? s->fallback : "memory ran out";
    pare_warn(run->cx, "evaluating on the CPU%s: %s",
              s->f16 ? ", without device_products: f16" : "", run->cx->what);
    pare_ctx_clear(run->cx);
    return true;
}

/* Both models, where they are to run; leave_device in any case. */
static pare_status take_sides(pare_run *run, size_t positions, sides *m)
{
    PARE_TRY(pare_forward_init(run->cx, &run->scratch, pare__run_original(run), positions, false,
                               &m->before_f));
    PARE_TRY(pare_forward_init(run->cx, &run->scratch, m->after, positions, false, &m->after_f));
    const pare_status s = m->place == PARE_RUN_ON_CPU ? PARE_OK : go_to_device(run, m);
    return back_to_cpu(run, m, s) ? PARE_OK : s;
}

/* Of both models at once, when KL is asked for. */
static pare_status measure_both(pare_ctx *cx, const sides *m, const pare_tokens *tokens,
                                const pare_eval_stream *stream, pare_report_eval *out)
{
    const bool kl = out->kind == PARE_EVALUATE_KL;
    pare_eval_opts opts = {.window = out->window,
                           .model = compressed,
                           .baseline = original,
                           .stream = kl ? stream : NULL,
                           .shared = m->shared};
    pare_status s = pare_evaluate(cx, &m->after_f, kl ? &m->before_f : NULL, &opts, tokens->id,
                                  tokens->count, &out->after);
    if (s == PARE_OK && kl)
        out->before = pare_figures_baseline(&out->after);
    opts.model = original;
    opts.stream = stream;
    if (s == PARE_OK && !kl)
        s = pare_evaluate(cx, &m->before_f, NULL, &opts, tokens->id, tokens->count, &out->before);
    return s == PARE_OK ? s : pare_fail_context(cx, s, "evaluation on %s", out->data);
}

/* What the original gives is shared where it runs on the CPU. */
static pare_status measure_tokens(pare_run *run, const sides *m, const pare_tokens *tokens,
                                  pare_report_eval *out)
{
    pare_run_stream shared = {0};
    pare_status s = PARE_OK;
    if (!m->device)
        s = pare__run_stream_open(run, tokens, out->window, &shared);
    if (s == PARE_OK)
        s = measure_both(run->cx, m, tokens, shared.use ? &shared.stream : NULL, out);
    pare__run_stream_close(run, s == PARE_OK, &shared);
    return s;
}

/* On the CPU processes share the windows. */
static pare_status evaluate_shared(pare_run *run, sides *m, const pare_tokens *tokens,
                                   pare_report_eval *out)
{
    PARE_TRY(pare__team_text(run, tokens, out->window, out->kind == PARE_EVALUATE_KL));
    m->shared = true;
    const double start = pare_seconds();
    pare_status s = take_sides(run, out->window, m);
    if (s == PARE_OK)
        s = measure_tokens(run, m, tokens, out);
    if (pare_world_rank(run->cx) == 0)
        run->team.seconds += pare_seconds() - start;
    return pare__team_end(run, s);
}

/* A device is of process 0 alone; what it cannot is shared on the CPU. */
static pare_status evaluate_tokens(pare_run *run, sides *m, const pare_tokens *tokens,
                                   pare_report_eval *out)
{
    if (m->place == PARE_RUN_ON_CPU)
        return evaluate_shared(run, m, tokens, out);
    const pare_mark mark = pare_arena_mark(&run->scratch);
    pare_status s = take_sides(run, out->window, m);
    if (s == PARE_OK && m->device)
        s = measure_tokens(run, m, tokens, out);
    if (m->place != PARE_RUN_ON_CPU && !back_to_cpu(run, m, s))
        return s;
    pare_arena_rewind(&run->scratch, mark);
    return evaluate_shared(run, m, tokens, out);
}

static void note_limit(pare_report_eval *e, size_t taken, size_t all)
{
    e->limit = taken < all ? taken : 0;
    e->all = all;
}

static pare_status ask(pare_run *run, const pare_forward *f, const char *name,
                       const pare_choice_data *q, pare_choice_figures *out)
{
    const pare_status s = pare_choice_ask(run->cx, &run->scratch, f, q->item, q->items, out);
    return s == PARE_OK ? s
                        : pare_fail_context(run->cx, s, "evaluation on %s: %s", out->file, name);
}

static pare_status ask_both(pare_run *run, const sides *m, const pare_choice_data *q,
                            pare_report_eval *out)
{
    PARE_TRY(ask(run, &m->before_f, original, q, &out->choice_before));
    return ask(run, &m->after_f, compressed, q, &out->choice_after);
}

static pare_status evaluate_choice(pare_run *run, sides *m, const pare_evaluation *e,
                                   pare_report_eval *out)
{
    pare_choice_figures *const before = &out->choice_before, *const after = &out->choice_after;
    const pare_data_reader reader = pare__run_reader(run);
    pare_choice_data q;
    before->file = after->file = out->data;
    PARE_TRY(pare_data_choice(&reader, e, &q));
    note_limit(out, q.items, q.all);
    PARE_TRY(take_sides(run, q.longest, m));
    const pare_status s = ask_both(run, m, &q, out);
    PARE_TRY(back_to_cpu(run, m, s) ? ask_both(run, m, &q, out) : s);
    pare_choice_pair(before, after);
    before->verdict = after->verdict = NULL; /* of the scratch arena */
    return PARE_OK;
}

static pare_status ask_task(pare_run *run, const pare_forward *f, const char *name,
                            const pare_task_data *data, const pare_task_asked *asked,
                            pare_task_figures *out)
{
    const pare_status s = pare_task_ask(run->cx, &run->scratch, f, data, asked, out);
    return s == PARE_OK ? s
                        : pare_fail_context(run->cx, s, "evaluation on %s: %s", asked->file, name);
}

static pare_status ask_task_both(pare_run *run, const sides *m, const pare_task_data *data,
                                 const pare_task_asked *asked, pare_report_eval *out)
{
    PARE_TRY(ask_task(run, &m->before_f, original, data, asked, &out->task_before));
    return ask_task(run, &m->after_f, compressed, data, asked, &out->task_after);
}

/* Leaves the scratch arena; files are named as the recipe has them. */
static pare_status keep_task(pare_run *run, const pare_evaluation *e, pare_task_figures *t)
{
    pare_task_group *const group = PARE_NEW(run->a, pare_task_group, t->groups);
    if (!group)
        return PARE_ENOMEM;
    for (size_t i = 0; i < t->groups; i++) {
        group[i] = t->group[i];
        group[i].name = pare_arena_text(run->a, group[i].name, strlen(group[i].name));
        if (!group[i].name)
            return PARE_ENOMEM;
    }
    t->group = group;
    t->asked.file = e->file.text;
    t->asked.shots_file = e->shots_file.text;
    t->verdict = NULL;
    t->part = NULL;
    return PARE_OK;
}

static pare_status evaluate_task(pare_run *run, sides *m, const pare_evaluation *e,
                                 pare_report_eval *out)
{
    const pare_data_reader reader = pare__run_reader(run);
    pare_task_asked asked;
    pare_task_data data;
    PARE_TRY(pare_data_asked(&run->scratch, run->plan, e, &asked));
    PARE_TRY(pare_data_task(&reader, e, &asked, &data));
    note_limit(out, data.texts.docs, data.texts.all);
    PARE_TRY(take_sides(run, data.longest, m));
    const pare_status s = ask_task_both(run, m, &data, &asked, out);
    PARE_TRY(back_to_cpu(run, m, s) ? ask_task_both(run, m, &data, &asked, out) : s);
    pare_task_pair(&out->task_before, &out->task_after);
    PARE_TRY(keep_task(run, e, &out->task_before));
    return keep_task(run, e, &out->task_after);
}

static pare_status ask_needle(pare_run *run, const pare_forward *f, const char *name,
                              pare_choice_item *item, const pare_needle_opts *opts,
                              pare_needle_figures *out)
{
    const pare_status s = pare_needle_ask(run->cx, &run->scratch, f, item, opts, out);
    return s == PARE_OK ? s
                        : pare_fail_context(run->cx, s, "evaluation on %s: %s", opts->file, name);
}

static pare_status ask_needle_both(pare_run *run, const sides *m, pare_choice_item *item,
                                   const pare_needle_opts *opts, pare_report_eval *out)
{
    PARE_TRY(ask_needle(run, &m->before_f, original, item, opts, &out->needle_before));
    return ask_needle(run, &m->after_f, compressed, item, opts, &out->needle_after);
}

/* As keep_task. */
static pare_status keep_needle(pare_run *run, const char *data, pare_needle_figures *f)
{
    const size_t cells = f->opts.lengths * PARE_NEEDLE_DEPTHS;
    pare_needle_cell *const cell = PARE_NEW(run->a, pare_needle_cell, cells);
    if (!cell)
        return PARE_ENOMEM;
    memcpy(cell, f->cell, cells * sizeof *cell);
    f->cell = cell;
    f->opts.file = data;
    f->verdict = NULL;
    return PARE_OK;
}

static pare_status evaluate_needle(pare_run *run, sides *m, const pare_evaluation *e,
                                   pare_report_eval *out)
{
    const pare_data_reader reader = pare__run_reader(run);
    pare_needle_opts opts;
    pare_choice_item *item;
    size_t longest = 0;
    PARE_TRY(pare_data_needle(&reader, e, &opts, &item));
    for (size_t i = 0; i < opts.lengths; i++)
        longest = opts.length[i] > longest ? opts.length[i] : longest;
    PARE_TRY(take_sides(run, longest, m));
    const pare_status s = ask_needle_both(run, m, item, &opts, out);
    PARE_TRY(back_to_cpu(run, m, s) ? ask_needle_both(run, m, item, &opts, out) : s);
    pare_needle_pair(&out->needle_before, &out->needle_after);
    PARE_TRY(keep_needle(run, out->data, &out->needle_before));
    return keep_needle(run, out->data, &out->needle_after);
}

static pare_status evaluate_continuations(pare_run *run, sides *m, const pare_evaluation *e,
                                          const pare_tokens *tokens, pare_report_eval *out)
{
    const pare_continue_opts opts = {.window = e->window,
                                     .prompts = e->prompts,
                                     .most = e->most,
                                     .temperature = e->temperature,
                                     .seed = e->seed};
    pare_status s;
    PARE_TRY(take_sides(run, pare_continue_prompt(e->window) + e->most, m));
    do
        s = pare_evaluate_continuations(run->cx, &m->after_f, &m->before_f, &opts, tokens->id,
                                        tokens->count, out->continued);
    while (back_to_cpu(run, m, s));
    return s == PARE_OK ? s : pare_fail_context(run->cx, s, "evaluation on %s", out->data);
}

static pare_status evaluate_on(pare_run *run, sides *m, const pare_evaluation *e,
                               pare_report_eval *out)
{
    const pare_data_reader reader = pare__run_reader(run);
    pare_tokens tokens;
    size_t windows;
    *out = (pare_report_eval){
        .kind = e->kind, .data = pare_evaluation_data(e)->text, .window = e->window};
    pare__notify(run, PARE_EVENT_EVALUATE, "%s on %s",
                 e->task.text ? e->task.text : pare_evaluation_kind_name(e->kind), out->data);
    if (e->kind == PARE_EVALUATE_CHOICE)
        return evaluate_choice(run, m, e, out);
    if (e->kind == PARE_EVALUATE_TASK)
        return evaluate_task(run, m, e, out);
    if (e->kind == PARE_EVALUATE_NEEDLE)
        return evaluate_needle(run, m, e, out);
    PARE_TRY(pare_data_evaluation(&reader, e, &tokens, &windows));
    if (e->kind == PARE_EVALUATE_CONTINUATIONS)
        return evaluate_continuations(run, m, e, &tokens, out);
    note_limit(out, tokens.count / e->window, windows);
    PARE_TRY(pare__run_sample_prompts(run, out->data, &tokens));
    return evaluate_tokens(run, m, &tokens, out);
}

static pare_status evaluate_one(pare_run *run, const pare_model *after, const pare_evaluation *e,
                                pare_report_eval *out)
{
    sides m = {.after = after, .place = e->device, .f16 = e->products == PARE_PRODUCTS_F16};
    const pare_status s = evaluate_on(run, &m, e, out);
    out->device = m.after_on ? m.name : NULL;
    out->device_fallback = m.fallback;
    out->f16 = m.after_on && m.f16;
    leave_device(run, &m);
    return e->device == PARE_RUN_ON_CUDA && pare_cuda_cannot(s)
               ? pare_fail_after(run->cx, s,
                                 "say device: cpu or auto there and give the same command again: "
                                 "what is done stays")
               : s;
}

/* What pruning did, when the recipe does not say on what to look at it. */
static pare_status evaluate_held_out(pare_run *run, const pare_model *after, pare_report_eval *out)
{
    sides m = {.after = after};
    *out = (pare_report_eval){.kind = PARE_EVALUATE_KL,
                              .data = "calibration windows held out",
                              .window = run->plan->window};
    const size_t windows = run->data.held_out.count / run->plan->window;
    pare__notify(run, PARE_EVENT_EVALUATE, "kl on %zu calibration window%s held out", windows,
                 pare_plural(windows));
    PARE_TRY(pare__run_sample_prompts(run, out->data, &run->data.held_out));
    return evaluate_tokens(run, &m, &run->data.held_out, out);
}

static pare_status evaluate_all(pare_run *run, const pare_model *after, pare_report *r)
{
    const size_t count = run->plan->recipe.evaluations;
    pare_report_eval *const evaluation =
        PARE_NEW(run->a, pare_report_eval, count + (run->plan->held_out > 0));
    if (!evaluation)
        return PARE_ENOMEM;
    r->evaluation = evaluation;
    for (size_t i = 0; i < count + (run->plan->held_out > 0); i++) {
        const pare_mark mark = pare_arena_mark(&run->scratch);
        PARE_TRY(i < count ? evaluate_one(run, after, &run->plan->recipe.evaluation[i],
                                          &evaluation[r->evaluations])
                           : evaluate_held_out(run, after, &evaluation[r->evaluations]));
        r->evaluations++;
        pare_arena_rewind(&run->scratch, mark);
    }
    return pare__run_samples(run, after, &r->samples);
}

/* The finished weights, as a user will open them. Warnings about their files are left out: they
 * were printed for the model that the weights come from. */
static pare_status open_finished(pare_run *run, pare_arena *a, pare_checkpoint *ck,
                                 pare_model *after)
{
    const pare_progress told = run->cx->progress;
    run->cx->progress.warn = NULL;
    pare_status s = pare_checkpoint_open(run->cx, a, run->plan->place.partial, ck);
    if (s == PARE_OK)
        s = pare_model_load(run->cx, a, ck, after);
    run->cx->progress.warn = told.warn;
    return s;
}

pare_status pare__run_evaluate_part(pare_run *run, const pare_tokens *tokens, size_t window,
                                    bool kl)
{
    pare_checkpoint ck;
    pare_model after;
    sides m = {.after = &after};
    pare_report_eval out = {.kind = kl ? PARE_EVALUATE_KL : PARE_EVALUATE_PERPLEXITY,
                            .data = "a text",
                            .window = window};
    pare_status s = open_finished(run, &run->scratch, &ck, &after);
    if (s == PARE_OK)
        s = evaluate_shared(run, &m, tokens, &out);
    pare_checkpoint_close(&ck);
    return s;
}

pare_status pare__run_evaluate(pare_run *run, pare_report *r)
{
    if (!run->plan->recipe.evaluations && !run->plan->held_out)
        return PARE_OK;
    pare_checkpoint ck;
    pare_model after;
    pare_status s = open_finished(run, run->a, &ck, &after);
    if (s == PARE_OK)
        s = evaluate_all(run, &after, r);
    if (s == PARE_OK)
        s = pare__run_stages(run, &after, r);
    pare_checkpoint_close(&ck);
    return s;
}
