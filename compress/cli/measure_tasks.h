/* compress/cli/measure_tasks.h - the tasks of "pare eval": their options, and what they gave. */
#ifndef PARE_COMPRESS_MEASURE_TASKS_H
#define PARE_COMPRESS_MEASURE_TASKS_H

#include "compress/cli/measure.h"

/* Reads --tasks NAME=FILE[,NAME=FILE...], --shots and --shots-from, all of them repeated as often
 * as wanted; a comma belongs to a file name unless NAME= of a task follows. PARE_EUSAGE. */
PARE_CHECKED pare_status pare_measure_task_options(pare_cli *cli, const pare_args *args,
                                                   pare_measure *m);

/* Whether a model takes every document of the tasks. Statuses of pare_task_load. */
PARE_CHECKED pare_status pare_measure_check_tasks(pare_cli *cli, const pare_measure *m,
                                                  const pare_loaded *l);

/* The next task, number f->tasks; f->task has room for m->tasks. As pare_measure_choice. */
PARE_CHECKED pare_status pare_measure_task(pare_cli *cli, const pare_measure *m, pare_loaded *l,
                                           pare_figures *f);

/* Prints the shares of groups, and those of the baseline's where there are such, with the changes.
 */
void pare_measure_print_groups(const pare_task_group *group, size_t groups,
                               const pare_task_group *base, size_t bases);

/* Prints what a model gave, and with a baseline that gave something, too, both and the changes. */
void pare_measure_print_task(const pare_task_figures *t, const pare_task_figures *baseline);

#endif
