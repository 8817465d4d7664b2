/* What a job warns of: texts of the plan, of the run, and of what came out. */
#include "compress/run/run_warnings.h"

#include <stdio.h>
#include <string.h>

#include "compress/plan/calibration_need.h"
#include "compress/run/run_internal.h"

typedef struct pare_run_warning {
    struct pare_run_warning *next;
    const char *text;
} pare_run_warning;

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

void pare__run_warned(pare_run *run, const char *notice)
{
    static const char mark[] = "warning: ";
    pare_run_warnings *const all = &run->warnings;
    if (strncmp(notice, mark, sizeof mark - 1) != 0)
        return;
    notice += sizeof mark - 1;
    for (const pare_run_warning *w = all->first; w; w = w->next)
        if (strcmp(w->text, notice) == 0)
            return;
    pare_run_warning *const w = PARE_NEW(run->a, pare_run_warning, 1);
    const char *const text = w ? pare_arena_text(run->a, notice, strlen(notice)) : NULL;
    all->lost |= !text;
    if (!text)
        return;
    *w = (pare_run_warning){NULL, text};
    *(all->last ? &all->last->next : &all->first) = w;
    all->last = w;
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
    size_t told = 1; /* of the training */
    for (const pare_run_warning *w = run->warnings.first; w; w = w->next)
        told++;
    const char **const warning =
        PARE_NEW(run->a, const char *, run->plan->recipe.steps + r->evaluations + told);
    if (!warning || run->warnings.lost)
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
    for (const pare_run_warning *w = run->warnings.first; w; w = w->next)
        PARE_TRY(put(run, r, warning, w->text));
    return PARE_OK;
}
