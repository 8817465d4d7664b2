/* compress/cli/eval_needle.h - --needle of pare eval and compare: a number that stands in a long
 * text. */
#ifndef PARE_COMPRESS_EVAL_NEEDLE_H
#define PARE_COMPRESS_EVAL_NEEDLE_H

#include "compress/cli/measure.h"
#include "compress/evaluate/needle.h"

typedef struct pare_eval_needle {
    pare_needle_opts opts;       /* file NULL: it is not asked for */
    pare_needle_figures f, base; /* of the model, of the baseline */
} pare_eval_needle;

/* Reads --needle, --lengths, --keys, --seed; `command` is for messages. PARE_EUSAGE for the second
 * and third without the first. */
PARE_CHECKED pare_status pare_eval_needle_options(pare_cli *cli, const pare_args *args,
                                                  const char *command, pare_eval_needle *n);

/* Lengths within the contexts of the models, of which the second may be NULL, and prompts that fit
 * them. PARE_EUSAGE, and the statuses of pare_needle_load. */
PARE_CHECKED pare_status pare_eval_needle_check(pare_cli *cli, const pare_loaded *l,
                                                const pare_loaded *baseline, pare_eval_needle *n);

/* Asks both; nothing without --needle. After PARE_EINTERRUPTED f->needle is what was done. */
PARE_CHECKED pare_status pare_eval_needle_measure(pare_cli *cli, const pare_measure *m,
                                                  pare_loaded *l, pare_loaded *baseline,
                                                  pare_eval_needle *n, pare_figures *f,
                                                  pare_figures *base);

/* Prints the table; nothing where no prompt was asked. */
void pare_eval_needle_print(const pare_eval_needle *n);

#endif
