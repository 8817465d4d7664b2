/* What a job warns of: texts of the plan, of the run, and of what came out. */
#include "compress/run/run_warnings.h"

#include <stdio.h>
#include <string.h>

#include "compress/plan/calibration_need.h"
#include "compress/run/run_internal.h"
#include "runtime/file.h"

bool pare__run_harmed(const pare_training_result *t)
{
    return t && t->kl_after > t->kl_before;
}

const char *pare__run_harm_text(const pare_run *run, const pare_training_result *t,
                                char text[PARE_RUN_HARM_TEXT])
{
    (void)snprintf(text, PARE_RUN_HARM_TEXT,
                   "%s: training made the model worse: KL %.4f on windows held out before it, "
                   "%.4f after it; take a smaller rate, or more windows",
                   pare_passes[run->plan->training->pass]->name, t->kl_before, t->kl_after);
    return text;
}

/* Unless another holds the text: what the plan says is told with what it is about in front. */
static pare_status put(pare_run *run, pare_report *r, const char **warning, const char *text)
{
    for (size_t i = 0; i < r->warnings; i++)
        if (strstr(text, warning[i]))
            return PARE_OK;
    warning[r->warnings] = pare_arena_text(run->a, text, strlen(text));
    return warning[r->warnings++] ? PARE_OK : PARE_ENOMEM;
}

static pare_status warn_of_cpu(pare_run *run, pare_report *r, const pare_report_eval *e,
                               const char **warning)
{
    char text[sizeof run->cx->what + 128];
    if (!e->device_fallback)
        return PARE_OK;
    (void)snprintf(text, sizeof text, "%s on %s ran on the CPU: %s",
                   pare_evaluation_kind_name(e->kind), e->data, e->device_fallback);
    return put(run, r, warning, text);
}

/* What the first of two jobs wrote of itself; NULL where the job is no second one, or nothing can
 * be read. */
static pare_status read_first(pare_run *run, pare_json **out)
{
    enum { CAP = 64 << 20 };
    char *const path = pare_path_join(run->a, run->plan->model_path, "run.json"), *text;
    size_t len;
    *out = NULL;
    if (!path)
        return PARE_ENOMEM;
    if (run->plan->job->part != PARE_JOB_REST || !pare_path_is_file(path))
        return PARE_OK;
    const pare_mark mark = pare_arena_mark(&run->scratch);
    pare_status s = pare_file_read(run->cx, &run->scratch, path, CAP, &text, &len);
    if (s == PARE_OK)
        s = pare_json_parse(run->cx, path, text, len, CAP, out);
    pare_arena_rewind(&run->scratch, mark);
    if (s != PARE_ENOMEM)
        pare_ctx_clear(run->cx);
    return s == PARE_ENOMEM ? s : PARE_OK;
}

static pare_status put_first(pare_run *run, pare_report *r, const pare_json *list,
                             const char **warning)
{
    char text[1024];
    for (size_t i = 0; i < pare_json_count(list); i++) {
        const char *const of = pare_json_text(pare_json_at(list, i), NULL);
        if (!of)
            continue;
        (void)snprintf(text, sizeof text, "of the smaller checkpoint: %s", of);
        PARE_TRY(put(run, r, warning, text));
    }
    return PARE_OK;
}

static pare_status put_own(pare_run *run, pare_report *r, const char **warning)
{
    char text[PARE_SHORTAGE_TEXT], harm[PARE_RUN_HARM_TEXT];
    const char **list;
    pare_shortage s;
    PARE_TRY(pare_warnings_list(&run->warnings, run->a, &list));
    for (size_t i = 0; i < r->evaluations; i++)
        PARE_TRY(warn_of_cpu(run, r, &r->evaluation[i], warning));
    for (size_t step = 0; step < run->plan->recipe.steps; step++)
        if (pare_plan_short(run->plan, &run->settled, step, &s))
            PARE_TRY(
                put(run, r, warning, pare_shortage_text(run->plan, &run->settled, step, &s, text)));
    if (pare__run_harmed(run->training))
        PARE_TRY(put(run, r, warning, pare__run_harm_text(run, run->training, harm)));
    for (size_t i = 0; i < run->warnings.count; i++)
        PARE_TRY(put(run, r, warning, list[i]));
    return PARE_OK;
}

pare_status pare__run_take_warnings(pare_run *run, pare_report *r)
{
    pare_json *first;
    PARE_TRY(read_first(run, &first));
    const pare_json *const list = pare_json_get(first, "warnings");
    const size_t own = run->plan->recipe.steps + r->evaluations + run->warnings.count + 1;
    const char **const warning = PARE_NEW(run->a, const char *, pare_json_count(list) + own);
    pare_status s = warning ? PARE_OK : PARE_ENOMEM;
    r->warning = warning;
    if (s == PARE_OK)
        s = put_first(run, r, list, warning);
    pare_json_free(first);
    return s == PARE_OK ? put_own(run, r, warning) : s;
}
