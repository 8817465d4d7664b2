#include <stdarg.h>
#include <stdio.h>

#include "compress/batch/batch.h"
#include "compress/cli/cli.h"
#include "compress/cli/notify.h"
#include "compress/text/units.h"
#include "runtime/machine.h"

pare_status pare_job_begin(pare_cli *cli, const pare_args *args)
{
    char note[160];
    pare_job_end *const end = &cli->end;
    end->command = pare_args_text(args, "notify");
    if (!end->output)
        end->output = pare_args_text(args, "output");
    end->started = pare_seconds();
    if (end->command && !*end->command)
        return pare_fail(&cli->cx, PARE_EUSAGE, "--notify is empty; it needs a command");
    end->began = true;
    if (pare_energy_open(&end->energy, PARE_POWERCAP, note, sizeof note))
        cli->cx.energy = &end->energy;
    return PARE_OK;
}

void pare_job_told(pare_cli *cli, const char *output, const char *fmt, ...)
{
    va_list ap;
    if (output)
        cli->end.output = output;
    va_start(ap, fmt);
    (void)vsnprintf(cli->end.summary, sizeof cli->end.summary, fmt, ap);
    va_end(ap);
}

void pare_cli_print_energy(const pare_cli *cli, double joules)
{
    char text[PARE_UNIT_TEXT];
    if (joules > 0)
        (void)printf("energy            %s (%zu package%s, whole machine)\n",
                     pare_units_joules(joules, text), cli->end.energy.count,
                     pare_plural(cli->end.energy.count));
}

void pare_cli_print_memory(uint64_t allocated, uint64_t resident)
{
    char a[PARE_UNIT_TEXT], b[PARE_UNIT_TEXT];
    (void)printf("memory            at most %s allocated", pare_units_bytes(allocated, a));
    if (resident)
        (void)printf("; at most %s in memory at once, mapped files included",
                     pare_units_bytes(resident, b));
    (void)printf("\n");
}

static const char *status_word(int code)
{
    switch (code) {
    case PARE_EXIT_DONE: return "finished";
    case PARE_EXIT_FALLBACK: return "fallback";
    case PARE_EXIT_VERDICT: return "verdict";
    case PARE_EXIT_INTERRUPTED: return "interrupted";
    default: return "failed";
    }
}

void pare_job_ended(pare_cli *cli, const char *what, bool refused, int code)
{
    pare_job_end *const end = &cli->end;
    const bool done =
        code == PARE_EXIT_DONE || code == PARE_EXIT_FALLBACK || code == PARE_EXIT_VERDICT;
    const pare_notice n = {.status = status_word(code),
                           .code = code,
                           .output = end->output ? end->output : "",
                           .seconds = pare_seconds() - end->started,
                           .summary = done ? end->summary : what,
                           .quiet = cli->screen.silent};
    char why[PARE_NOTIFY_WHY];
    cli->cx.energy = NULL;
    pare_energy_close(&end->energy);
    const bool misused = refused && (code == PARE_EXIT_USAGE || code == PARE_BATCH_OTHER);
    if (!end->began || !end->command || misused)
        return;
    if (!pare_notify(&cli->arena, end->command, &n, PARE_NOTIFY_SECONDS, why))
        pare_screen_say(&cli->screen, "pare: warning: the command of --notify %s", why);
}
