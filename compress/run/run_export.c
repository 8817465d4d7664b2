#include <string.h>
#include <sys/stat.h>

#include "compress/output/output.h"
#include "compress/run/run_internal.h"
#include "runtime/machine.h"

static pare_export_job job_of(const pare_run *run, size_t i)
{
    const pare_plan_export *const x = &run->plan->export[i];
    return (pare_export_job){.artifact = run->plan->place.output,
                             .output = x->path,
                             .target = x->target,
                             .ranks = x->result.ranks,
                             .restart = run->settled.replaces || run->plan->job->restart ||
                                        run->settled.export[i].stale,
                             .strict = run->plan->job->strict,
                             .teller = run->teller};
}

static pare_status export_one(pare_run *run, size_t i, pare_export_result *out)
{
    const pare_plan_export *const x = &run->plan->export[i];
    const pare_export_job job = job_of(run, i);
    pare__notify(run, PARE_EVENT_EXPORT, "%s to %s", x->target->name, x->path);
    const pare_status s = pare_export_run(run->cx, run->a, &job, out);
    return s == PARE_OK ? s
                        : pare_fail_context(run->cx, s,
                                            "%s is complete, and the same command%s makes exports "
                                            "that are missing; its export to %s (pare export "
                                            "--format %s) failed",
                                            run->plan->place.output,
                                            run->plan->job->restart ? " without --restart" : "",
                                            x->path, x->target->name);
}

/* No export is made of such a model. One that is there stays, as it may be the user's last: it is
 * named, with which verdict it does not have. */
static pare_status refuse_exports(pare_run *run, pare_compress_result *out)
{
    const pare_plan *const plan = run->plan;
    const char *const verdict = pare_gate_name(out->report.verdict->kind);
    struct stat st;
    out->older = PARE_NEW(run->a, const char *, plan->exports);
    if (!out->older)
        return PARE_ENOMEM;
    pare__notify(run, PARE_EVENT_NOTICE,
                 "%s: no export is made of a model with the verdict %s; pare export makes one all "
                 "the same",
                 plan->place.output, verdict);
    for (size_t i = 0; i < plan->exports; i++) {
        const char *const path = plan->export[i].path;
        if (lstat(path, &st) != 0)
            continue;
        out->older[out->olders++] = path;
        pare__notify(
            run, PARE_EVENT_NOTICE,
            "%s: was there before the verdict %s and stays; delete it if nothing is to use "
            "it",
            path, verdict);
    }
    return PARE_OK;
}

pare_status pare__run_exports(pare_run *run, pare_compress_result *out)
{
    const pare_plan *const plan = run->plan;
    const pare_gate *const v = out->report.verdict;
    if (!plan->exports)
        return PARE_OK;
    if (v && v->kind != PARE_GATE_ACCEPT)
        return refuse_exports(run, out);
    const double start = pare_seconds();
    out->export = PARE_NEW(run->a, pare_compress_export, plan->exports);
    if (!out->export)
        return PARE_ENOMEM;
    for (size_t i = 0; i < plan->exports; i++) {
        pare_compress_export *const x = &out->export[out->exports];
        if (run->settled.export[i].taken) {
            const pare_export_job job = job_of(run, i);
            PARE_TRY(pare_export_mend(run->cx, run->a, &job));
            continue;
        }
        x->format = plan->export[i].target->name;
        x->path = plan->export[i].path;
        PARE_TRY(export_one(run, i, &x->result));
        out->exports++;
    }
    out->export_seconds = pare_seconds() - start;
    return PARE_OK;
}
