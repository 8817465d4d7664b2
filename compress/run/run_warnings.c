/* What a job warns of: texts of the plan, of the run, and of what came out. */
#include "compress/run/run_warnings.h"

#include <stdio.h>
#include <string.h>

#include "compress/plan/calibration_need.h"
#include "compress/run/run_internal.h"

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

pare_status pare__run_take_warnings(pare_run *run, pare_report *r)
{
    char text[PARE_SHORTAGE_TEXT], harm[PARE_RUN_HARM_TEXT];
    pare_shortage s;
    const size_t told = run->warnings.count + 1; /* and of the training */
    const char **list;
    PARE_TRY(pare_warnings_list(&run->warnings, run->a, &list));
    const char **const warning =
        PARE_NEW(run->a, const char *, run->plan->recipe.steps + r->evaluations + told);
    if (!warning)
        return PARE_ENOMEM;
    r->warning = warning;
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
