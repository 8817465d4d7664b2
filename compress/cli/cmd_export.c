#include <math.h>
#include <stdio.h>

#include "compress/cli/cli.h"
#include "compress/export.h"
#include "compress/report/units.h"

static pare_status find_target(pare_cli *cli, const char *name, const pare_export_target **out)
{
    char known[512] = "";
    size_t used = 0;
    if (name && (*out = pare_export_find(name)) != NULL)
        return PARE_OK;
    for (size_t i = 0; pare_export_targets[i] && used < sizeof known; i++)
        used += (size_t)snprintf(known + used, sizeof known - used, "%s%s", i ? ", " : "",
                                 pare_export_targets[i]->name);
    if (!name)
        return pare_fail(&cli->cx, PARE_EUSAGE, "export: --format is missing: %s", known);
    return pare_fail(&cli->cx, PARE_EUSAGE, "--format \"%s\": expected one of %s", name, known);
}

static pare_status print_json(const pare_export_job *job, const pare_export_result *r,
                              pare_json_writer *w)
{
    pare_json_open_object(w, NULL);
    pare_json_put_text(w, "artifact", job->artifact);
    pare_json_put_text(w, "format", job->target->name);
    pare_json_put_text(w, "output", job->output);
    pare_json_put_integer(w, "linears", (int64_t)r->packed);
    pare_json_put_integer(w, "rounded", (int64_t)r->rounded);
    pare_json_put_number(w, "relative_error", sqrt(r->error));
    pare_json_put_integer(w, "bytes", (int64_t)r->bytes);
    if (r->notice)
        pare_json_put_text(w, "notice", r->notice);
    pare_json_close(w);
    return pare_cli_print(w);
}

static void print_text(const pare_export_job *job, const pare_export_result *r)
{
    char bytes[PARE_UNIT_TEXT];
    (void)printf("output    %s (%s, %s)\n", job->output, job->target->name,
                 pare_units_bytes(r->bytes, bytes));
    (void)printf("linears   %zu quantized, of %zu; each read back and compared\n", r->packed,
                 r->linears);
    if (r->rounded)
        (void)printf("weights   rounded in %zu linears, relative error %.2e\n", r->rounded,
                     sqrt(r->error));
    else
        (void)printf("weights   every one has the value that our kernels decode\n");
    if (r->notice)
        (void)printf("note      %s\n", r->notice);
}

pare_status pare_export_command(pare_cli *cli, const pare_args *args)
{
    pare_export_job job = {.artifact = args->operand[0],
                           .output = pare_args_text(args, "output"),
                           .restart = pare_args_given(args, "restart")};
    pare_export_result result;
    PARE_TRY(find_target(cli, pare_args_text(args, "format"), &job.target));
    if (!job.output)
        return pare_fail(&cli->cx, PARE_EUSAGE, "export: --output is missing");
    PARE_TRY(pare_cli_threads(cli, args));
    PARE_TRY(pare_export_run(&cli->cx, &cli->arena, &job, &result));
    if (!pare_args_given(args, "json")) {
        print_text(&job, &result);
        return PARE_OK;
    }
    pare_json_writer *w;
    PARE_TRY(pare_json_writer_new(&cli->cx, &w));
    return print_json(&job, &result, w);
}
