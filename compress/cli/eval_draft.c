#include "compress/cli/eval_draft.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "compress/cli/measure_steps.h"

enum { DRAFTED = 4 }; /* where --draft-tokens is not given */

pare_status pare_eval_draft_options(pare_cli *cli, const pare_args *args, const pare_measure *m,
                                    pare_eval_draft *d)
{
    pare_ctx *const cx = &cli->cx;
    const char *const device = pare_args_text(args, "device");
    uint64_t drafted = DRAFTED;
    *d = (pare_eval_draft){.path = pare_args_text(args, "draft"), .opts = {.temperature = 1}};
    if (!d->path && pare_args_given(args, "draft-tokens"))
        return pare_fail(cx, PARE_EUSAGE, "eval: --draft-tokens needs --draft");
    if (d->path && !m->text && !m->tokens)
        return pare_fail(
            cx, PARE_EUSAGE,
            "eval: --draft needs --text or --tokens, from which its prompts are taken");
    if (d->path && device && strcmp(device, "cpu") != 0)
        return pare_fail(cx, PARE_EUSAGE,
                         "eval: --draft is measured on the CPU; leave --device "
                         "out");
    PARE_TRY(pare_args_count(cx, args, "draft-tokens", 1, PARE_DRAFTED_MAX, &drafted));
    PARE_TRY(pare_args_number(cx, args, "temperature", 0, 1000, &d->opts.temperature));
    PARE_TRY(pare_args_count(cx, args, "seed", 0, INT64_MAX, &d->opts.seed));
    d->opts.drafted = (size_t)drafted;
    d->result.draft = d->path;
    return PARE_OK;
}

/* Tokens that are not accepted leave a cache of floats only. */
static pare_status check_cache(pare_cli *cli, const pare_loaded *l)
{
    const pare_kv_method method = l->model.kv.method;
    if (method == PARE_KV_FLOAT)
        return PARE_OK;
    return pare_fail(&cli->cx, PARE_EUSAGE,
                     "--draft: the key/value cache of %s is %s, from which tokens that are not "
                     "accepted cannot be taken back; give --kv none",
                     l->checkpoint.path, pare_kv_method_name(method));
}

pare_status pare_eval_draft_open(pare_cli *cli, const pare_args *args, const pare_measure *m,
                                 const pare_loaded *l, pare_eval_draft *d)
{
    if (!d->path)
        return PARE_OK;
    PARE_TRY(check_cache(cli, l));
    pare_measure_step(cli, m, d->path, "reading", NULL);
    PARE_TRY(pare_loaded_open(cli, args, d->path, m->exact, m->text, &d->model));
    PARE_TRY(pare_loaded_kv(cli, args, &d->model));
    PARE_TRY(check_cache(cli, &d->model));
    PARE_TRY(pare_measure_fits(cli, m, &l->model.config, d->path, &d->model.model.config));
    PARE_TRY(m->text ? pare_measure_same_tokens(cli, l, &d->model, m->text)
                     : pare_measure_same_ids(cli, m, l, &d->model));
    pare_loaded_text_done(&d->model);
    d->opts.window = m->opts.window;
    d->opts.stride = m->opts.stride;
    return PARE_OK;
}

pare_status pare_eval_draft_measure(pare_cli *cli, const pare_measure *m, const pare_loaded *l,
                                    pare_eval_draft *d)
{
    if (!d->path)
        return PARE_OK;
    pare_measure_step(cli, m, d->path, "drafts for ", l->checkpoint.path);
    const pare_status s = pare_evaluate_draft(&cli->cx, &l->forward, &d->model.forward, &d->opts,
                                              m->data.id, m->data.count, &d->result);
    return s == PARE_ENUMERIC ? pare_fail_context(&cli->cx, s, "--draft %s", d->path) : s;
}

/* "0.125", or "-" for what was not measured. Returns text. */
enum { FIGURE = 32 };
static const char *figure(double value, int decimals, char text[FIGURE])
{
    if (!isfinite(value))
        return "-";
    (void)snprintf(text, FIGURE, "%.*f", decimals, value);
    return text;
}

void pare_eval_draft_print(const pare_eval_draft *d)
{
    const pare_draft_result *const r = &d->result;
    const pare_draft_figures f = pare_draft_figures_of(r);
    char one[FIGURE], two[FIGURE], three[FIGURE];
    if (!r->prompts)
        return;
    (void)printf("draft             %s\n", d->path);
    (void)printf("  accepted        %s%% of the drafted tokens; mean sum min(p, q) %s\n",
                 figure(f.acceptance * 100, 2, one), figure(f.overlap, 4, two));
    (void)printf("  tokens          %.3f per pass with %zu drafted   (temperature %g; %zu prompt%s "
                 "of %zu token%s, %zu more each%s)\n",
                 f.tokens_per_pass, r->opts.drafted, r->opts.temperature, r->prompts,
                 pare_plural(r->prompts), r->prompt, pare_plural(r->prompt), r->continued,
                 r->complete ? "" : ", interrupted");
    if (r->opts.temperature <= 0)
        (void)printf("                  all %zu are those of greedy decoding without the draft\n",
                     r->both.tokens);
    (void)printf("  time            %s ms per token, %s ms without: %s times as fast\n",
                 figure(f.tpot_ms, 3, one), figure(f.alone_tpot_ms, 3, two),
                 figure(f.speedup, 2, three));
    (void)printf("  costs           a step of the draft %s, a pass of %zu tokens %s, in steps "
                 "of the model\n",
                 figure(f.draft_cost, 3, one), r->opts.drafted + 1, figure(f.pass_cost, 3, two));
    if (!isfinite(f.acceptance) || !isfinite(f.pass_cost) || !isfinite(f.alone_tpot_ms))
        (void)printf("                  too few tokens for what is -; take a larger --window or "
                     "smaller --draft-tokens\n");
}
