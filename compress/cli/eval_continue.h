/* compress/cli/eval_continue.h - --continuations of pare eval and compare: what models write. */
#ifndef PARE_COMPRESS_EVAL_CONTINUE_H
#define PARE_COMPRESS_EVAL_CONTINUE_H

#include "compress/cli/measure.h"
#include "compress/evaluate/continuations.h"

typedef struct pare_eval_continue {
    pare_continue_opts opts; /* prompts 0: it is not asked for */
    bool given;              /* opts.most was */
    pare_continue_figures result[2];
} pare_eval_continue;

/* `command` is for messages. Reads --continuations, --continue-tokens, --temperature, --seed.
 * PARE_EUSAGE for the second without the first, and for the first without a text. */
PARE_CHECKED pare_status pare_eval_continue_options(pare_cli *cli, const pare_args *args,
                                                    const char *command, const pare_measure *m,
                                                    pare_eval_continue *c);

/* Whether prompts and continuations fit the contexts of the models, of which the second may be
 * NULL; behind pare_measure_data. PARE_EUSAGE. */
PARE_CHECKED pare_status pare_eval_continue_check(pare_cli *cli, const pare_measure *m,
                                                  const pare_loaded *l, const pare_loaded *baseline,
                                                  pare_eval_continue *c);

/* Measures; nothing without --continuations. After PARE_EINTERRUPTED figures are of what was
 * done. */
PARE_CHECKED pare_status pare_eval_continue_measure(pare_cli *cli, const pare_measure *m,
                                                    pare_loaded *l, pare_loaded *baseline,
                                                    pare_eval_continue *c, pare_figures *f,
                                                    pare_figures *base);

/* Prints the lines; nothing where no prompt was done. */
void pare_eval_continue_print(const pare_figures *f, const pare_figures *base);

#endif
