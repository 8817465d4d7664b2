/* compress/cli/job_end.h - what compress, batch and train do around a job: --notify, energy,
 * memory. */
#ifndef PARE_COMPRESS_JOB_END_H
#define PARE_COMPRESS_JOB_END_H

#include <stdint.h>

#include "runtime/energy.h"
#include "runtime/status.h"

/* What is known of the job. */
typedef struct pare_job_end {
    bool began;
    const char *command; /* of --notify, or NULL */
    const char *output;  /* NULL: not known */
    char summary[256];   /* empty: what failed */
    double started;
    pare_energy energy; /* count 0: the machine does not tell it */
} pare_job_end;

struct pare_cli;
struct pare_args;

/* A job begins: reads --notify, opens the counters of energy. PARE_EUSAGE. */
PARE_CHECKED pare_status pare_job_begin(struct pare_cli *cli, const struct pare_args *args);

/* Where the output is (NULL: as --output says), and a line about what the job came to. */
void pare_job_told(struct pare_cli *cli, const char *output, const char *fmt, ...)
    PARE_PRINTF(3, 4);

/* A line on stdout; nothing where it is 0. */
void pare_cli_print_energy(const struct pare_cli *cli, double joules);

/* A line on stdout: what was allocated at most, and resident (0: not known). */
void pare_cli_print_memory(uint64_t allocated, uint64_t resident);

/* The command is over with this exit code: runs --notify, unless it is `refused` for how it was
 * asked, with code 2 or 20. `what`: why it failed. Where that command fails, it is a warning. */
void pare_job_ended(struct pare_cli *cli, const char *what, bool refused, int code);

#endif
