/* The recipe's evaluations: the model before and after, on the same data. */
#include <stdio.h>
#include <string.h>

#include "compress/evaluate/choice_items.h"
#include "compress/run/run_evaluate.h"
#include "compress/run/run_internal.h"
#include "runtime/file.h"

static const char *path_of(pare_run *run, const pare_evaluation *e)
{
    return pare__run_data_path(run, pare_evaluation_data(e));
}

/* Tokens of one evaluation's data file, in the scratch arena; *windows that the file has. */
static pare_status read_data(pare_run *run, const pare_evaluation *e, pare_tokens *out,
                             size_t *windows)
{
    const char *const path = path_of(run, e);
    const size_t vocab = run->plan.model.config.vocab, most = e->limit * e->window;
    if (!path)
        return PARE_ENOMEM;
    pare_tokenizer *t = NULL;
    pare_status s = e->text.text ? pare_checkpoint_tokenizer(&run->plan.checkpoint, &t) : PARE_OK;
    if (s == PARE_OK && t)
        s = pare_tokens_encode(run->cx, &run->scratch, t, &path, 1, -1, vocab, out);
    else if (s == PARE_OK)
        s = pare_tokens_read(run->cx, &run->scratch, path, vocab, out);
    pare_tokenizer_free(t);
    pare_memory_trim();
    *windows = s == PARE_OK ? out->count / e->window : 0;
    if (s == PARE_OK && most && most < out->count)
        out->count = most;
    return s;
}

/* Items of a multiple-choice file that fit both models, in the scratch arena. */
typedef struct quiz {
    pare_choice_item *item;
    size_t items, all; /* those to ask, and those in the file */
    size_t longest;    /* tokens of the longest with a choice of its own */
} quiz;

static pare_status read_items(pare_run *run, const pare_evaluation *e, quiz *out)
{
    const char *const path = path_of(run, e);
    pare_choice_texts texts;
    *out = (quiz){0};
    if (!path)
        return PARE_ENOMEM;
    PARE_TRY(pare_choice_load(run->cx, &run->scratch, &run->plan.checkpoint,
                              run->plan.model.config.context, path, e->limit, &texts, &out->item));
    out->items = texts.count;
    out->all = texts.all;
    for (size_t i = 0; i < texts.count; i++)
        for (size_t c = 0; c < out->item[i].choices; c++) {
            const size_t tokens = out->item[i].context_count + out->item[i].choice_count[c];
            out->longest = tokens > out->longest ? tokens : out->longest;
        }
    return PARE_OK;
}

static pare_status check_tokens(pare_run *run, const pare_evaluation *e)
{
    pare_tokens tokens;
    size_t windows;
    PARE_TRY(read_data(run, e, &tokens, &windows));
    pare__run_tell_text(run, &tokens);
    if (tokens.count >= e->window)
        return PARE_OK;
    return pare_recipe_fail(
        run->cx, e->place,
        "%s has %zu token%s, fewer than one window of %zu; give a longer text or a smaller window",
        pare_evaluation_data(e)->text, tokens.count, pare_plural(tokens.count), e->window);
}

static pare_status check_items(pare_run *run, const pare_evaluation *e)
{
    quiz q;
    return read_items(run, e, &q);
}

pare_status pare__run_check_evaluation(pare_run *run, const pare_evaluation *e)
{
    const pare_mark mark = pare_arena_mark(&run->scratch);
    const pare_status s =
        e->kind == PARE_EVALUATE_CHOICE ? check_items(run, e) : check_tokens(run, e);
    pare_arena_rewind(&run->scratch, mark);
    return s;
}

/* How messages name both. */
static const char original[] = "the original", compressed[] = "the compressed model";

/* The model as it was, and as it is now. */
typedef struct sides {
    const pare_model *after;
    pare_forward before_f, after_f;
} sides;

static pare_status take_sides(pare_run *run, size_t positions, sides *s)
{
    PARE_TRY(pare_forward_init(run->cx, &run->scratch, &run->plan.model, positions, false,
                               &s->before_f));
    return pare_forward_init(run->cx, &run->scratch, s->after, positions, false, &s->after_f);
}

/* Of both models at once, when KL is asked for. */
static pare_status evaluate_tokens(pare_run *run, sides *m, const pare_tokens *tokens,
                                   pare_report_eval *out)
{
    pare_ctx *const cx = run->cx;
    const bool kl = out->kind == PARE_EVALUATE_KL;
    pare_eval_opts opts = {.window = out->window, .model = compressed, .baseline = original};
    PARE_TRY(take_sides(run, out->window, m));
    pare_status s = pare_evaluate(cx, &m->after_f, kl ? &m->before_f : NULL, &opts, tokens->id,
                                  tokens->count, &out->after);
    if (s == PARE_OK && kl)
        out->before = pare_figures_baseline(&out->after);
    opts.model = original;
    if (s == PARE_OK && !kl)
        s = pare_evaluate(cx, &m->before_f, NULL, &opts, tokens->id, tokens->count, &out->before);
    return s == PARE_OK ? s : pare_fail_context(cx, s, "evaluation on %s", out->data);
}

static void note_limit(pare_report_eval *e, size_t taken, size_t all)
{
    e->limit = taken < all ? taken : 0;
    e->all = all;
}

static pare_status ask(pare_run *run, const pare_forward *f, const char *name, const quiz *q,
                       pare_choice_figures *out)
{
    const pare_status s = pare_choice_ask(run->cx, &run->scratch, f, q->item, q->items, out);
    return s == PARE_OK ? s
                        : pare_fail_context(run->cx, s, "evaluation on %s: %s", out->file, name);
}

static pare_status evaluate_choice(pare_run *run, sides *m, const pare_evaluation *e,
                                   pare_report_eval *out)
{
    pare_choice_figures *const before = &out->choice_before, *const after = &out->choice_after;
    quiz q;
    before->file = after->file = out->data;
    PARE_TRY(read_items(run, e, &q));
    note_limit(out, q.items, q.all);
    PARE_TRY(take_sides(run, q.longest, m));
    PARE_TRY(ask(run, &m->before_f, original, &q, before));
    PARE_TRY(ask(run, &m->after_f, compressed, &q, after));
    pare_choice_pair(before, after);
    before->verdict = after->verdict = NULL; /* of the scratch arena */
    return PARE_OK;
}

static pare_status evaluate_one(pare_run *run, const pare_model *after, const pare_evaluation *e,
                                pare_report_eval *out)
{
    sides m = {.after = after};
    pare_tokens tokens;
    size_t windows;
    *out = (pare_report_eval){
        .kind = e->kind, .data = pare_evaluation_data(e)->text, .window = e->window};
    pare__notify(run, PARE_EVENT_EVALUATE, "%s on %s", pare_evaluation_kind_name(e->kind),
                 out->data);
    if (e->kind == PARE_EVALUATE_CHOICE)
        return evaluate_choice(run, &m, e, out);
    PARE_TRY(read_data(run, e, &tokens, &windows));
    note_limit(out, tokens.count / e->window, windows);
    PARE_TRY(pare__run_sample_prompts(run, out->data, &tokens));
    return evaluate_tokens(run, &m, &tokens, out);
}

/* What pruning did, when the recipe does not say on what to look at it. */
static pare_status evaluate_held_out(pare_run *run, const pare_model *after, pare_report_eval *out)
{
    sides m = {.after = after};
    *out = (pare_report_eval){.kind = PARE_EVALUATE_KL,
                              .data = "calibration windows held out",
                              .window = run->plan.window};
    const size_t windows = run->held_out.count / run->plan.window;
    pare__notify(run, PARE_EVENT_EVALUATE, "kl on %zu calibration window%s held out", windows,
                 pare_plural(windows));
    PARE_TRY(pare__run_sample_prompts(run, out->data, &run->held_out));
    return evaluate_tokens(run, &m, &run->held_out, out);
}

static pare_status evaluate_all(pare_run *run, const pare_model *after, pare_report *r)
{
    const size_t count = run->plan.recipe.evaluations;
    pare_report_eval *const evaluation =
        PARE_NEW(run->a, pare_report_eval, count + (run->plan.held_out > 0));
    if (!evaluation)
        return PARE_ENOMEM;
    r->evaluation = evaluation;
    for (size_t i = 0; i < count + (run->plan.held_out > 0); i++) {
        const pare_mark mark = pare_arena_mark(&run->scratch);
        PARE_TRY(i < count ? evaluate_one(run, after, &run->plan.recipe.evaluation[i],
                                          &evaluation[r->evaluations])
                           : evaluate_held_out(run, after, &evaluation[r->evaluations]));
        r->evaluations++;
        pare_arena_rewind(&run->scratch, mark);
    }
    return pare__run_samples(run, after, &r->samples);
}

/* The finished weights are opened as a user will open them. */
pare_status pare__run_evaluate(pare_run *run, pare_report *r)
{
    if (!run->plan.recipe.evaluations && !run->plan.held_out)
        return PARE_OK;
    pare_checkpoint ck;
    pare_model after;
    pare_status s = pare_checkpoint_open(run->cx, run->a, run->plan.partial_path, &ck);
    if (s == PARE_OK)
        s = pare_model_load(run->cx, run->a, &ck, &after);
    if (s == PARE_OK)
        s = evaluate_all(run, &after, r);
    pare_checkpoint_close(&ck);
    return s;
}
