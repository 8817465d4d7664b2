/* What a recipe requires of its result: whether something measures it, and whether its fallbacks
 * are recipes. */
#include <string.h>

#include "compress/evaluate/task.h"
#include "compress/plan/fallback.h"
#include "compress/plan/plan_internal.h"

static bool is_measured(const pare_plan *plan, const pare_requirement *r)
{
    bool text = plan->held_out > 0, kl = text, choice = false, task = false, needle = false;
    for (size_t i = 0; i < plan->recipe.evaluations; i++) {
        const pare_evaluation *const e = &plan->recipe.evaluation[i];
        choice |= e->kind == PARE_EVALUATE_CHOICE;
        task |= e->kind == PARE_EVALUATE_TASK && r->task && strcmp(r->task, e->task.text) == 0;
        needle |= e->kind == PARE_EVALUATE_NEEDLE;
        text |= pare_evaluation_scores(e->kind);
        kl |= e->kind == PARE_EVALUATE_KL;
    }
    switch (r->kind) {
    case PARE_REQUIRE_PERPLEXITY: return text;
    case PARE_REQUIRE_KL:
    case PARE_REQUIRE_TOP1: return kl;
    case PARE_REQUIRE_CHOICE: return choice;
    case PARE_REQUIRE_TASK: return task;
    case PARE_REQUIRE_NEEDLE: return needle;
    case PARE_REQUIRE_BYTES: break;
    }
    return true;
}

/* An evaluation that would. */
static const char *example(pare_requirement_kind kind)
{
    return kind == PARE_REQUIRE_CHOICE       ? "choice: {file: FILE}"
           : kind == PARE_REQUIRE_TASK       ? "tasks: {TASK: FILE}"
           : kind == PARE_REQUIRE_NEEDLE     ? "needle: {text: FILE}"
           : kind == PARE_REQUIRE_PERPLEXITY ? "perplexity: {text: FILE}"
                                             : "kl: {text: FILE}";
}

/* Whether the figures of a task have the share that is asked for. */
static bool has_metric(const pare_requirement *r)
{
    const pare_task_row *const task = r->task ? pare_task_find(r->task) : NULL;
    return !task || pare_task_has_share(task, r->metric);
}

pare_status pare__plan_require(pare_ctx *cx, const pare_plan *plan)
{
    for (size_t i = 0; i < plan->recipe.requirements; i++) {
        const pare_requirement *const r = &plan->recipe.requirement[i];
        if (!is_measured(plan, r))
            return pare_recipe_fail(cx, r->text.place,
                                    "require: no evaluation measures %s; add \"evaluate: [%s]\"",
                                    r->name, example(r->kind));
        if (!has_metric(r))
            return pare_recipe_fail(
                cx, r->text.place,
                "require: %s has no share \"%s\"; \"pare help tasks\" lists them", r->task,
                r->metric);
    }
    return PARE_OK;
}

/* Whether settings change what statistics are of, while these stay in the same file. */
static bool changes_kept(const pare_recipe *r, const pare_recipe *attempt,
                         const pare_texts *fallback)
{
    static const char *const of[] = {"calibration", "seed", "nan"};
    const char *const keep = r->calibration.keep.text, *const now = attempt->calibration.keep.text;
    bool changes = false;
    for (size_t i = 0; i < fallback->count; i++)
        for (size_t j = 0; j < sizeof of / sizeof *of; j++) {
            const char *const set = fallback->item[i].text;
            const size_t len = strlen(of[j]);
            changes |= strncmp(set, of[j], len) == 0 && (set[len] == '.' || set[len] == '=');
        }
    return changes && keep && now && strcmp(keep, now) == 0;
}

pare_status pare__plan_fallbacks(pare_ctx *cx, pare_arena *a, const pare_plan *plan,
                                 const pare_pass_words *words)
{
    if (plan->job->fallback) /* all were looked at with the recipe's own settings */
        return PARE_OK;
    for (size_t i = 0; i < plan->recipe.fallbacks; i++) {
        const pare_texts *const fallback = &plan->recipe.fallback[i];
        pare_recipe attempt;
        pare_job job;
        PARE_TRY(pare_job_fallback(a, plan->job, fallback, &job));
        const pare_recipe_source source = {pare_job_file(&job), plan->recipe_text, plan->recipe_len,
                                           job.sets, job.set_count};
        const pare_status s = pare_recipe_parse(cx, a, &source, words, pare_pass_count(), &attempt);
        if (s == PARE_EUSAGE)
            return pare_recipe_fail_at(cx, s, fallback->item[0].place);
        PARE_TRY(s);
        if (changes_kept(&plan->recipe, &attempt, fallback))
            return pare_recipe_fail(cx, fallback->item[0].place,
                                    "a fallback changes the calibration, whose statistics are kept "
                                    "in one file; give it a calibration.keep of its own");
    }
    return PARE_OK;
}
