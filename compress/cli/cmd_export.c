#include <stdio.h>
#include <string.h>

#include "compress/artifact/inspect.h"
#include "compress/cli/cli.h"
#include "compress/export/export.h"
#include "compress/output/inputs.h"
#include "compress/text/units.h"
#include "formats/export_parallel.h"

static pare_status find_target(pare_cli *cli, const char *name, const pare_export_target **out)
{
    char known[512], meant[PARE_EXPORT_TEXT];
    *out = name ? pare_export_find(name) : NULL;
    if (*out)
        return PARE_OK;
    (void)pare_export_known(known, sizeof known);
    if (!name)
        return pare_fail(&cli->cx, PARE_EUSAGE, "export: --format is missing: %s", known);
    const char *const hint = pare_export_meant(name, meant);
    return hint ? pare_fail(&cli->cx, PARE_EUSAGE, "--format \"%s\": %s", name, hint)
                : pare_fail(&cli->cx, PARE_EUSAGE, "--format \"%s\": expected one of %s", name,
                            known);
}

static pare_status print_json(const pare_export_job *job, const pare_export_result *r,
                              pare_json_writer *w)
{
    pare_json_open_object(w, NULL);
    pare_json_put_text(w, "model", job->artifact);
    pare_json_put_text(w, "format", job->target->name);
    pare_json_put_text(w, "output", job->output);
    pare_json_put_bool(w, "checked", !job->unchecked);
    pare_export_put(w, r, true);
    pare_json_close(w);
    return pare_cli_print(w);
}

static bool same_kind(const pare_export_row *a, const pare_export_row *b)
{
    return a->fate == b->fate && a->type == b->type &&
           (a->was && b->was ? strcmp(a->was, b->was) == 0 : a->was == b->was);
}

/* One line for each storage and what became of it: how many linears, the largest error. */
static void print_fates(const pare_export_result *r)
{
    int width = 24;
    for (size_t i = 0; i < r->rows; i++) {
        const size_t len = r->row[i].was ? strlen(r->row[i].was) : 0;
        width = len > (size_t)width ? (int)len : width;
    }
    (void)printf("%-*s %-30s %7s  %s\n", width, "linears of the artifact", "here", "count",
                 "largest relative error");
    for (size_t i = 0; i < r->rows; i++) {
        const pare_export_row *const row = &r->row[i];
        size_t before = 0, count = 0;
        double error = 0;
        for (size_t j = 0; j < r->rows; j++) {
            if (r->row[j].again || !same_kind(row, &r->row[j]))
                continue;
            before += j < i;
            count++;
            error = r->row[j].error > error ? r->row[j].error : error;
        }
        if (before || !count)
            continue;
        (void)printf("%-*s %-5s %-24s %7zu  ", width, row->was ? row->was : "float",
                     row->type ? row->type : "", pare_export_fate_text(row->fate), count);
        if (error > 0)
            (void)printf("%.2e\n", error);
        else
            (void)printf("none\n");
    }
}

static void print_text(const pare_export_job *job, const pare_export_result *r)
{
    char bytes[PARE_UNIT_TEXT];
    print_fates(r);
    (void)printf("\noutput    %s (%s, %s)\n", job->output, job->target->name,
                 pare_units_bytes(r->bytes, bytes));
    (void)printf("checked   every weight was read back by the rules of the format and compared\n");
    if (r->ranks > 1)
        (void)printf("ranks     %zu: each gets whole heads, groups, blocks and words\n", r->ranks);
    if (r->notice)
        (void)printf("note      %s\n", r->notice);
}

/* Of a model that does not keep to what its recipe requires. */
static pare_status warn_of_verdict(pare_cli *cli, const char *artifact)
{
    const char *verdict;
    PARE_TRY(pare_inspect_verdict(&cli->cx, &cli->arena, artifact, &verdict));
    if (verdict && strcmp(verdict, "ACCEPT") != 0)
        pare_screen_say(&cli->screen,
                        "warning: the verdict of %s is %s: its README.md says what it does not "
                        "keep to",
                        artifact, verdict);
    return PARE_OK;
}

pare_status pare_export_command(pare_cli *cli, const pare_args *args)
{
    PARE_TRY(pare_inputs_no_work(&cli->cx, &cli->arena, args->operand[0]));
    pare_export_job job = {.artifact = args->operand[0],
                           .output = pare_args_text(args, "output"),
                           .restart = pare_args_given(args, "restart"),
                           .strict = pare_args_given(args, "strict"),
                           .teller = {pare_cli_tell, cli}};
    pare_export_result result;
    uint64_t ranks = 1;
    PARE_TRY(pare_args_count(&cli->cx, args, "tensor-parallel", 1, PARE_RANKS_MAX, &ranks));
    job.ranks = (size_t)ranks;
    PARE_TRY(find_target(cli, pare_args_text(args, "format"), &job.target));
    if (!job.output)
        return pare_fail(&cli->cx, PARE_EUSAGE, "export: --output is missing");
    pare_phase phase[] = {{.name = "comparing checksums", .amount = 0.2, .steps = 1},
                          {.name = "writing the export", .amount = 1, .steps = 1},
                          {.name = "reading the export back", .amount = 1, .steps = 1}};
    PARE_TRY(pare_cli_threads(cli));
    PARE_TRY(warn_of_verdict(cli, job.artifact));
    job.unchecked = pare_cli_unchecked(cli, args, job.artifact);
    pare_ctx_job(&cli->cx, phase, sizeof phase / sizeof *phase, 0);
    const pare_status s = pare_export_run(&cli->cx, &cli->arena, &job, &result);
    pare_ctx_job(&cli->cx, NULL, 0, 0);
    PARE_TRY(s);
    if (!pare_args_given(args, "json")) {
        print_text(&job, &result);
        return PARE_OK;
    }
    pare_json_writer *w;
    PARE_TRY(pare_json_writer_new(&cli->cx, &w));
    return print_json(&job, &result, w);
}
