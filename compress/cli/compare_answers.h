/* compress/cli/compare_answers.h - --needle and --continuations of pare compare. */
#ifndef PARE_COMPRESS_COMPARE_ANSWERS_H
#define PARE_COMPRESS_COMPARE_ANSWERS_H

#include "compress/cli/eval_continue.h"
#include "compress/cli/eval_needle.h"

typedef struct pare_compare_answers {
    pare_eval_needle *needle;      /* [models] */
    pare_eval_continue *continued; /* [models] */
    pare_needle_cell *cell;        /* [models, cells] */
    size_t models, cells;
} pare_compare_answers;

/* Reads the options for so many models. PARE_EUSAGE. */
PARE_CHECKED pare_status pare_compare_answers_options(pare_cli *cli, const pare_args *args,
                                                      const pare_measure *m, size_t models,
                                                      pare_compare_answers *a);

/* The steps of model `i`, in the order of pare_compare_answers_needle and _continue. */
void pare_compare_answers_expect(pare_measure *m, const pare_compare_answers *a, size_t i);

/* Whether prompts fit a model, the original or one that is held against it; its tokenizer can be
 * read. Lengths that are not given are what fits all that were looked at. */
PARE_CHECKED pare_status pare_compare_answers_check(pare_cli *cli, const pare_measure *m,
                                                    const pare_loaded *l, pare_compare_answers *a);

/* Room for the figures of all, once all are checked. PARE_ENOMEM. */
PARE_CHECKED pare_status pare_compare_answers_take(pare_cli *cli, pare_compare_answers *a);

/* Measures model `i`, held against the first; f gets its figures, which outlive the model. After
 * PARE_EINTERRUPTED they are of what was done. */
PARE_CHECKED pare_status pare_compare_answers_needle(pare_cli *cli, const pare_measure *m,
                                                     pare_loaded *l, size_t i,
                                                     pare_compare_answers *a, pare_figures *f);
PARE_CHECKED pare_status pare_compare_answers_continue(pare_cli *cli, const pare_measure *m,
                                                       pare_loaded *l, pare_loaded *original,
                                                       size_t i, pare_compare_answers *a,
                                                       pare_figures *f);

#endif
