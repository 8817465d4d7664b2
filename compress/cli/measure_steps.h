/* compress/cli/measure_steps.h - what eval and compare do, as steps of a job, from which follows
 * how far they are. Amounts are bytes of data that go through a model; how fast that is shows only
 * when it is done. */
#ifndef PARE_COMPRESS_MEASURE_STEPS_H
#define PARE_COMPRESS_MEASURE_STEPS_H

#include "compress/cli/measure.h"
#include "compress/evaluate/needle.h"

struct pare_measure_steps {
    pare_phase *phase;
    size_t phases, begun;
};

/* Room for `most` steps. PARE_ENOMEM. */
PARE_CHECKED pare_status pare_measure_steps_take(pare_cli *cli, size_t most, pare_measure_steps *s);

/* The next step, in the order in which they will begin: a model is opened; `models` at once run
 * over the text in windows of `window`; one is asked a choice file, or numbers that are hidden; all
 * continue prompts by at most so many tokens each (0: not known); one is timed; one drafts.
 * Nothing for what is not asked for. */
void pare_measure_expect_open(pare_measure *m);
void pare_measure_expect_text(pare_measure *m, size_t window, size_t models);
void pare_measure_expect_choice(pare_measure *m, size_t file);
void pare_measure_expect_task(pare_measure *m, size_t task);
void pare_measure_expect_needle(pare_measure *m, const pare_needle_opts *o);
void pare_measure_expect_continue(pare_measure *m, size_t prompts, size_t most);
void pare_measure_expect_speed(pare_measure *m);
void pare_measure_expect_draft(pare_measure *m);

/* All steps begin, and are over, between these two. */
void pare_measure_steps_begin(pare_cli *cli, const pare_measure *m);
void pare_measure_steps_end(pare_cli *cli);

/* The next step begins: "MODEL: WHATDATA", MODEL and DATA by the last parts of their paths; DATA
 * may be NULL. */
void pare_measure_step(pare_cli *cli, const pare_measure *m, const char *model, const char *what,
                       const char *data);

#endif
