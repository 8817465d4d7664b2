/* Which search a recipe asks for. */
#include "compress/budget/budget_internal.h"
#include "runtime/energy.h"
#include "runtime/machine.h"

pare_status pare_budget_check(pare_ctx *cx, pare_arena *a, const pare_job *job)
{
    const pare_mark mark = pare_arena_mark(a);
    pare_budget b = {.cx = cx, .a = a, .job = job};
    pare_status s = pare__budget_read(cx, a, job, &b.words, &b.recipe);
    const pare_step *const step = s == PARE_OK ? pare__budget_step(&b.recipe) : NULL;
    if (step)
        s = pare__budget_chooses_widths(step) ? pare__widths_check(&b) : pare__budget_check(&b);
    pare_plan_close(&b.plan);
    pare_arena_rewind(a, mark); /* what stays would count as the job's */
    return s;
}

pare_status pare_budget_compress(pare_ctx *cx, pare_arena *a, const pare_job *job,
                                 const pare_events *events, pare_job_runner *runner,
                                 pare_compress_result *out)
{
    pare_budget b = {.cx = cx, .a = a, .job = job, .events = events, .started = pare_seconds()};
    const double joules = cx->energy ? pare_energy_read(cx->energy) : 0;
    PARE_TRY(pare__budget_read(cx, a, job, &b.words, &b.recipe));
    const pare_status s = pare__budget_chooses_widths(pare__budget_step(&b.recipe))
                              ? pare__widths_search(&b, runner, out)
                              : pare__budget_search(&b, runner, out);
    out->other |= b.other;
    if (s == PARE_OK && !out->again) { /* with the search; run.json has those of the last job */
        out->report.seconds = pare_seconds() - b.started;
        out->report.joules = pare_energy_since(cx->energy, joules);
    }
    return s;
}
