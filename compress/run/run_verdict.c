/* What a recipe requires, held against what was found: at the end of a job, and of an output that
 * is there already. */
#include <math.h>
#include <string.h>

#include "compress/run/run_evaluate.h"
#include "compress/run/run_internal.h"
#include "runtime/file.h"

/* Of choice, of needle, then of tasks; p NAN: nothing was paired. */
static void take_shares(const pare_report_eval *e, pare_gate_figures *out)
{
    const pare_choice_figures *const was = &e->choice_before, *const is = &e->choice_after;
    const pare_task_figures *const before = &e->task_before, *const after = &e->task_after;
    if (e->kind == PARE_EVALUATE_CHOICE)
        out->share[out->shares++] = (pare_gate_share){"accuracy",
                                                      is->result.accuracy,
                                                      was->result.accuracy,
                                                      (double)is->paired.gained,
                                                      (double)is->paired.lost,
                                                      is->paired.p};
    if (e->kind == PARE_EVALUATE_NEEDLE) {
        const pare_needle_figures *const n = &e->needle_after;
        out->share[out->shares++] = (pare_gate_share){pare_gate_needle,
                                                      pare_needle_share(n->all),
                                                      pare_needle_share(e->needle_before.all),
                                                      (double)n->paired.gained,
                                                      (double)n->paired.lost,
                                                      n->paired.p};
    }
    for (size_t i = 0; e->kind == PARE_EVALUATE_TASK && i < after->metrics; i++) {
        const pare_task_metric *const m = &after->metric[i];
        const bool paired = m->right && after->has_paired;
        if (m->share)
            out->share[out->shares++] = (pare_gate_share){m->name,
                                                          m->value,
                                                          before->metric[i].value,
                                                          (double)m->paired.gained,
                                                          (double)m->paired.lost,
                                                          paired ? m->paired.p : NAN};
    }
}

static pare_gate_figures figures_of(const pare_report_eval *e)
{
    const bool text = pare_evaluation_scores(e->kind);
    pare_gate_figures f = {.data = e->data,
                           .has_perplexity = text,
                           .has_kl = text && e->after.has_kl,
                           .perplexity = e->after.ppl,
                           .error = e->after.ppl_stderr,
                           .perplexity_before = e->before.ppl,
                           .error_before = e->before.ppl_stderr,
                           .kl = e->after.kl_mean,
                           .top1 = e->after.top1};
    if (e->kind == PARE_EVALUATE_TASK)
        f.task = e->task_after.asked.name;
    if (e->kind == PARE_EVALUATE_NEEDLE)
        f.task = pare_gate_needle;
    take_shares(e, &f);
    return f;
}

static pare_status take(pare_run *run, const pare_gate_figures *found, size_t count, pare_report *r)
{
    pare_gate *const v = PARE_NEW(run->a, pare_gate, 1);
    if (!v)
        return PARE_ENOMEM;
    r->verdict = v;
    return pare_gate_take(run->a, &run->plan->recipe, found, count, run->settled.packed_bytes, v);
}

pare_status pare__run_verdict(pare_run *run, pare_report *r)
{
    if (!run->plan->recipe.requirements)
        return PARE_OK;
    pare_gate_figures *const found = PARE_NEW(run->a, pare_gate_figures, r->evaluations);
    if (!found)
        return PARE_ENOMEM;
    for (size_t i = 0; i < r->evaluations; i++)
        found[i] = figures_of(&r->evaluation[i]);
    return take(run, found, r->evaluations, r);
}

/* --- of an output that is there ----------------------------------------------------------------
 */

/* A number of an object of an object; NAN where it is null or not there. */
static double number(const pare_json *of, const char *part, const char *key)
{
    return pare_json_number(pare_json_get(part ? pare_json_get(of, part) : of, key), NAN);
}

static pare_status copy_text(pare_run *run, const pare_json *of, const char *key, const char **out)
{
    const char *const text = pare_json_text(pare_json_get(of, key), NULL);
    *out = pare_arena_text(run->a, text ? text : "", text ? strlen(text) : 0);
    return *out ? PARE_OK : PARE_ENOMEM;
}

/* Of choice, or of a task: name and value are the keys there. */
static pare_status read_share(pare_run *run, const pare_json *is, const pare_json *was,
                              const char *value, pare_gate_figures *out)
{
    pare_gate_share *const s = &out->share[out->shares];
    *s = (pare_gate_share){.name = "accuracy",
                           .after = number(is, NULL, value),
                           .before = number(was, NULL, value),
                           .gained = number(is, "paired", "gained"),
                           .lost = number(is, "paired", "lost"),
                           .p = number(is, "paired", "p")};
    if (out->task)
        PARE_TRY(copy_text(run, is, "name", &s->name));
    out->shares += strncmp(s->name, "acc", 3) == 0 || /* others of tasks are no shares */
                   strncmp(s->name, "exact_match", 11) == 0;
    return PARE_OK;
}

static pare_status read_task(pare_run *run, const pare_json *task, const pare_json *before,
                             pare_gate_figures *out)
{
    const pare_json *const is = pare_json_get(task, "metrics"), *const was = pare_json_get(
                                                                    before, "metrics");
    if (!task)
        return PARE_OK;
    PARE_TRY(copy_text(run, task, "task", &out->task));
    for (size_t i = 0; i < pare_json_count(is) && out->shares < PARE_GATE_SHARES; i++)
        PARE_TRY(read_share(run, pare_json_at(is, i), pare_json_at(was, i), "value", out));
    return PARE_OK;
}

static pare_status read_figures(pare_run *run, const pare_json *e, pare_gate_figures *out)
{
    const pare_json *const before = pare_json_get(e, "baseline"), *const choice = pare_json_at(
                                                                      pare_json_get(e, "choice"),
                                                                      0);
    const pare_json *const needle = pare_json_get(e, "needle");
    *out = (pare_gate_figures){.has_perplexity = pare_json_get(e, "perplexity") != NULL,
                               .has_kl = pare_json_get(e, "kl") != NULL,
                               .perplexity = number(e, "perplexity", "ppl"),
                               .error = number(e, "perplexity", "stderr"),
                               .perplexity_before = number(before, "perplexity", "ppl"),
                               .error_before = number(before, "perplexity", "stderr"),
                               .kl = number(e, "kl", "mean"),
                               .top1 = number(e, "kl", "top1_agreement")};
    PARE_TRY(copy_text(run, e, "data", &out->data));
    if (choice)
        PARE_TRY(read_share(run, choice, pare_json_at(pare_json_get(before, "choice"), 0),
                            "accuracy", out));
    if (needle) {
        PARE_TRY(read_share(run, needle, pare_json_get(before, "needle"), "accuracy", out));
        out->share[0].name = out->task = pare_gate_needle;
    }
    return read_task(run, pare_json_at(pare_json_get(e, "tasks"), 0),
                     pare_json_at(pare_json_get(before, "tasks"), 0), out);
}

static pare_status read_all(pare_run *run, const pare_json *evaluations, pare_report *r)
{
    const size_t count = pare_json_count(evaluations);
    pare_gate_figures *const found = PARE_NEW(run->a, pare_gate_figures, count);
    if (!found)
        return PARE_ENOMEM;
    for (size_t i = 0; i < count; i++)
        PARE_TRY(read_figures(run, pare_json_at(evaluations, i), &found[i]));
    return take(run, found, count, r);
}

pare_status pare__run_verdict_again(pare_run *run, pare_report *r)
{
    enum { CAP = 64 << 20 };
    const bool required = run->plan->recipe.requirements > 0;
    if (!required && !run->plan->job->strict)
        return PARE_OK;
    char *const path = pare_path_join(run->a, run->plan->place.output, "run.json"), *text;
    size_t len;
    pare_json *all = NULL;
    if (!path)
        return PARE_ENOMEM;
    pare_status s = pare_file_read(run->cx, &run->scratch, path, CAP, &text, &len);
    if (s == PARE_OK)
        s = pare_json_parse(run->cx, path, text, len, CAP, &all);
    if (s != PARE_OK && s != PARE_ENOMEM)
        (void)pare_fail_after(run->cx, s,
                              "%s needs it; move the output away, and the same command makes it "
                              "anew",
                              required ? "the verdict" : "--strict");
    if (s == PARE_OK)
        r->fallbacks = (size_t)pare_json_number(pare_json_get(all, "fallbacks"), 0);
    if (s == PARE_OK && required)
        s = read_all(run, pare_json_get(all, "evaluations"), r);
    if (s == PARE_OK && required && !run->plan->job->look_only)
        s = pare__run_judged(run, all, r);
    pare_json_free(all);
    return s;
}
