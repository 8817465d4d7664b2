#include "compress/cli/eval_continue.h"

#include <math.h>
#include <stdio.h>

#include "compress/cli/measure_steps.h"
#include "compress/evaluate/drafts.h"
#include "recipes/recipe.h"

enum { PROMPTS_MAX = 1 << 20, TOKENS = 128 };

/* --continue-tokens is of --continuations alone. */
static pare_status fail_without(pare_ctx *cx, const pare_args *args, const char *command)
{
    if (!pare_args_given(args, "draft"))
        return pare_fail(cx, PARE_EUSAGE, "%s: --continue-tokens needs --continuations", command);
    return pare_fail(
        cx, PARE_EUSAGE,
        "%s: --continue-tokens needs --continuations; --draft continues each prompt to "
        "the end of its window, by at most %d tokens: give a smaller --window for "
        "fewer, or --continuations N for continuations without the draft",
        command, PARE_DRAFT_TOKENS);
}

pare_status pare_eval_continue_options(pare_cli *cli, const pare_args *args, const char *command,
                                       const pare_measure *m, pare_eval_continue *c)
{
    pare_ctx *const cx = &cli->cx;
    uint64_t prompts = 0, most = TOKENS;
    *c = (pare_eval_continue){.given = pare_args_given(args, "continue-tokens")};
    PARE_TRY(pare_args_count(cx, args, "continuations", 1, PROMPTS_MAX, &prompts));
    if (!prompts && c->given)
        return fail_without(cx, args, command);
    if (prompts && !m->text && !m->tokens)
        return pare_fail(cx, PARE_EUSAGE,
                         "%s: --continuations needs --text or --tokens, from which its prompts "
                         "are taken",
                         command);
    PARE_TRY(pare_args_count(cx, args, "continue-tokens", 1, PARE_EVALUATION_LENGTH_MOST, &most));
    PARE_TRY(pare_args_number(cx, args, "temperature", 0, 1000, &c->opts.temperature));
    PARE_TRY(pare_args_count(cx, args, "seed", 0, PARE_EVALUATION_SEED_MOST, &c->opts.seed));
    c->opts.prompts = (size_t)prompts;
    c->opts.most = (size_t)most;
    return PARE_OK;
}

pare_status pare_eval_continue_check(pare_cli *cli, const pare_measure *m, const pare_loaded *l,
                                     const pare_loaded *baseline, pare_eval_continue *c)
{
    const pare_loaded *const side[] = {l, baseline};
    const size_t prompt = pare_continue_prompt(m->opts.window);
    if (!c->opts.prompts)
        return PARE_OK;
    c->opts.window = m->opts.window;
    c->opts.stride = m->opts.stride;
    for (size_t i = 0; i < 2 && side[i]; i++) {
        const size_t context = side[i]->model.config.context, room = context - prompt;
        if (c->given && c->opts.most > room)
            return pare_fail(&cli->cx, PARE_EUSAGE,
                             "--continue-tokens %zu: the context of %s is %zu tokens, of which a "
                             "prompt takes %zu; give %zu or less",
                             c->opts.most, side[i]->checkpoint.path, context, prompt, room);
        c->opts.most = c->opts.most < room ? c->opts.most : room;
    }
    return PARE_OK;
}

pare_status pare_eval_continue_measure(pare_cli *cli, const pare_measure *m, pare_loaded *l,
                                       pare_loaded *baseline, pare_eval_continue *c,
                                       pare_figures *f, pare_figures *base)
{
    pare_status s;
    if (!c->opts.prompts)
        return PARE_OK;
    pare_measure_step(cli, m, l->checkpoint.path, "continuations of ",
                      m->text ? m->text : m->tokens);
    do
        s = pare_evaluate_continuations(&cli->cx, &l->forward, baseline ? &baseline->forward : NULL,
                                        &c->opts, m->data.id, m->data.count, c->result);
    while (pare_loaded_leave_device(cli, s, l, baseline));
    f->continuations = c->result[0].prompts ? &c->result[0] : NULL;
    base->continuations = baseline && c->result[1].prompts ? &c->result[1] : NULL;
    return s;
}

/* "12.5", or "-" for what was not measured. Returns text. */
enum { FIGURE = 32 };
static const char *figure(double value, const char *unit, char text[FIGURE])
{
    if (!isfinite(value))
        return "-";
    (void)snprintf(text, FIGURE, "%.1f%s", value, unit);
    return text;
}

static void print_side(const char *name, const pare_continue_figures *f)
{
    const pare_continue_means m = pare_continue_means_of(f);
    char length[FIGURE], endless[FIGURE], repeated[FIGURE];
    (void)printf("%-17s %s tokens, %s never ended, %s of 4-grams repeated", name,
                 figure(m.length, "", length), figure(m.endless * 100, "%", endless),
                 figure(m.repeated * 100, "%", repeated));
}

void pare_eval_continue_print(const pare_figures *f, const pare_figures *base)
{
    const pare_continue_figures *const c = f->continuations;
    char apart[FIGURE], same[FIGURE], first[FIGURE];
    if (!c)
        return;
    print_side("continuations", c);
    (void)printf("   (%zu prompt%s of %zu token%s, at most %zu more, temperature %g%s)\n",
                 c->prompts, pare_plural(c->prompts), pare_continue_prompt(c->opts.window),
                 pare_plural(pare_continue_prompt(c->opts.window)), c->opts.most,
                 c->opts.temperature, c->complete ? "" : ", interrupted");
    if (!base->continuations)
        return;
    print_side("  baseline", base->continuations);
    const pare_continue_means m = pare_continue_means_of(c);
    (void)printf("\n  apart           lengths by %s tokens; %s are the same, the others agree for "
                 "%s tokens\n",
                 figure(m.length_apart, "", apart), figure(m.same * 100, "%", same),
                 figure(m.first_apart, "", first));
}
