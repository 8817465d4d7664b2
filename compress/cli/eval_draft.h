/* compress/cli/eval_draft.h - --draft of pare eval: a model that drafts for the one measured. */
#ifndef PARE_COMPRESS_EVAL_DRAFT_H
#define PARE_COMPRESS_EVAL_DRAFT_H

#include "compress/cli/measure.h"
#include "compress/evaluate/drafts.h"

typedef struct pare_eval_draft {
    const char *path; /* NULL: there is none */
    pare_loaded model;
    pare_draft_opts opts;
    pare_draft_result result;
} pare_eval_draft;

/* Reads --draft, --draft-tokens, --temperature, --seed. PARE_EUSAGE for --draft-tokens without
 * --draft, for --draft without a text, and with a device. */
PARE_CHECKED pare_status pare_eval_draft_options(pare_cli *cli, const pare_args *args,
                                                 const pare_measure *m, pare_eval_draft *d);

/* Opens the draft of a model that is open, with its text in its tokens; nothing without --draft.
 * PARE_EUSAGE when they do not go together (vocabulary, tokenizer, context), or a cache is in
 * codes; else what pare_loaded_open returns. Close d->model in any case. */
PARE_CHECKED pare_status pare_eval_draft_open(pare_cli *cli, const pare_args *args,
                                              const pare_measure *m, const pare_loaded *l,
                                              pare_eval_draft *d);

/* Measures; nothing without --draft. After PARE_EINTERRUPTED d->result has what was done. */
PARE_CHECKED pare_status pare_eval_draft_measure(pare_cli *cli, const pare_measure *m,
                                                 const pare_loaded *l, pare_eval_draft *d);

/* Prints the lines of a result; nothing where no prompt was done. */
void pare_eval_draft_print(const pare_eval_draft *d);

#endif
