/* What each part of a job that trains cost: the passes in front of the training, the training, and
 * what lies behind it, all on the calibration windows held out. */
#include <string.h>

#include "compress/plan/plan_walks.h"
#include "compress/run/run_evaluate.h"
#include "compress/run/run_internal.h"
#include "compress/text/text_out.h"

/* "sparsegpt + gptq": passes begin .. end of the recipe; NULL without memory. */
static const char *names_of(pare_run *run, size_t begin, size_t end)
{
    pare_text_out t = {.cx = run->cx};
    for (size_t i = begin; i < end; i++)
        pare__text_put(&t, "%s%s", i > begin ? " + " : "",
                       pare_passes[run->plan->recipe.step[i].pass]->name);
    const char *const names = t.status == PARE_OK ? pare_arena_text(run->a, t.text, t.len) : NULL;
    pare__text_free(&t);
    return names;
}

pare_status pare__run_stages(pare_run *run, pare_report *r)
{
    const pare_plan *const plan = run->plan;
    const pare_training_result *const t = run->training;
    if (!t || !plan->held_out)
        return PARE_OK;
    const size_t front = pare_plan_front(plan), steps = plan->recipe.steps;
    const pare_report_eval *const held_out = &r->evaluation[r->evaluations - 1];
    const pare_report_stage stage[] = {
        {"none: the original", 0, held_out->before.nll},
        {front ? names_of(run, 0, front) : "none: the model", t->kl_before, t->nll_before},
        {names_of(run, front, front + 1), t->kl_after, t->nll_after},
        {front + 1 < steps ? names_of(run, front + 1, steps) : "none: as packed",
         held_out->after.kl_mean, held_out->after.nll},
    };
    enum { STAGES = sizeof stage / sizeof *stage };
    pare_report_stage *const kept = PARE_NEW(run->a, pare_report_stage, STAGES);
    if (!kept || !stage[1].passes || !stage[2].passes || !stage[3].passes)
        return PARE_ENOMEM;
    memcpy(kept, stage, sizeof stage);
    r->stage = kept;
    r->stages = STAGES;
    return PARE_OK;
}
