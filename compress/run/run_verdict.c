/* What a recipe requires, held against what was found: at the end of a job, and of an output that
 * is there already. */
#include <math.h>
#include <string.h>

#include "compress/run/run_evaluate.h"
#include "compress/run/run_internal.h"
#include "runtime/file.h"

static pare_gate_figures figures_of(const pare_report_eval *e)
{
    const pare_choice_figures *const was = &e->choice_before, *const is = &e->choice_after;
    const bool choice = e->kind == PARE_EVALUATE_CHOICE;
    return (pare_gate_figures){.data = e->data,
                               .has_perplexity = !choice,
                               .has_kl = !choice && e->after.has_kl,
                               .has_choice = choice,
                               .perplexity = e->after.ppl,
                               .error = e->after.ppl_stderr,
                               .perplexity_before = e->before.ppl,
                               .error_before = e->before.ppl_stderr,
                               .kl = e->after.kl_mean,
                               .top1 = e->after.top1,
                               .accuracy = is->result.accuracy,
                               .accuracy_before = was->result.accuracy,
                               .gained = (double)is->paired.gained,
                               .lost = (double)is->paired.lost,
                               .p = is->paired.p};
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

static pare_status read_figures(pare_run *run, const pare_json *e, pare_gate_figures *out)
{
    const pare_json *const before = pare_json_get(e, "baseline"),
                           *const choice = pare_json_at(pare_json_get(e, "choice"), 0),
                           *const choice_before = pare_json_at(pare_json_get(before, "choice"), 0);
    const char *const data = pare_json_text(pare_json_get(e, "data"), NULL);
    *out = (pare_gate_figures){
        .data = pare_arena_text(run->a, data ? data : "", data ? strlen(data) : 0),
        .has_perplexity = pare_json_get(e, "perplexity") != NULL,
        .has_kl = pare_json_get(e, "kl") != NULL,
        .has_choice = choice != NULL,
        .perplexity = number(e, "perplexity", "ppl"),
        .error = number(e, "perplexity", "stderr"),
        .perplexity_before = number(before, "perplexity", "ppl"),
        .error_before = number(before, "perplexity", "stderr"),
        .kl = number(e, "kl", "mean"),
        .top1 = number(e, "kl", "top1_agreement"),
        .accuracy = number(choice, NULL, "accuracy"),
        .accuracy_before = number(choice_before, NULL, "accuracy"),
        .gained = number(choice, "paired", "gained"),
        .lost = number(choice, "paired", "lost"),
        .p = number(choice, "paired", "p")};
    return out->data ? PARE_OK : PARE_ENOMEM;
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
    if (!run->plan->recipe.requirements)
        return PARE_OK;
    char *const path = pare_path_join(run->a, run->plan->place.output, "run.json"), *text;
    size_t len;
    pare_json *all = NULL;
    if (!path)
        return PARE_ENOMEM;
    PARE_TRY(pare_file_read(run->cx, &run->scratch, path, CAP, &text, &len));
    PARE_TRY(pare_json_parse(run->cx, path, text, len, CAP, &all));
    const pare_status s = read_all(run, pare_json_get(all, "evaluations"), r);
    pare_json_free(all);
    return s;
}
