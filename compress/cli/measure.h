/* compress/cli/measure.h - what eval and compare measure, asked for by the same options. */
#ifndef PARE_COMPRESS_MEASURE_H
#define PARE_COMPRESS_MEASURE_H

#include "compress/cli/cli.h"
#include "compress/evaluate/figures.h"

typedef struct pare_measure_steps pare_measure_steps; /* measure_steps.h */

typedef struct pare_measure {
    const char *text, *tokens; /* files; one of them at most */
    const char *choice[PARE_ARGS_MAX];
    size_t choices;
    pare_task_asked task[PARE_ARGS_MAX];
    size_t tasks;
    bool bos, speed, exact;
    const char *by; /* the field of items and documents that shares are told apart by, or NULL */
    size_t limit;   /* windows of the text, items of a choice file, documents of a task; 0: all */
    pare_eval_opts opts; /* with the data: by pare_measure_data */
    pare_tokens data;
    pare_measure_steps *steps; /* of the whole command */
} pare_measure;

/* Tokens of a window where --window is not given. */
enum { PARE_MEASURE_WINDOW = 2048 };

/* Reads --text, --tokens, --choice, --bos, --speed, --exact, --limit, --tasks, --shots and
 * --shots-from; `command` is for messages.
 * PARE_EUSAGE for nothing to measure and for an option without the one that it needs. */
PARE_CHECKED pare_status pare_measure_options(pare_cli *cli, const pare_args *args,
                                              const char *command, pare_measure *out);

/* Settings that several measurements take: PARE_EUSAGE for --temperature and --seed without one of
 * them; `draft`: the command has --draft. */
PARE_CHECKED pare_status pare_measure_shared(pare_cli *cli, const pare_args *args,
                                             const char *command, bool draft);

/* Adds the files of data to what must stay as it is. PARE_ENOMEM. */
PARE_CHECKED pare_status pare_measure_watch(pare_cli *cli, const pare_measure *m, pare_loaded *l);

/* --window and --stride within the model's context, and the text in its tokens; nothing without a
 * text. PARE_EUSAGE (too short for a window, too), and what reading and encoding return. */
PARE_CHECKED pare_status pare_measure_data(pare_cli *cli, const pare_args *args,
                                           const pare_loaded *l, pare_measure *m);

/* Whether a model, which may be a listed one with its configuration, takes every item of the choice
 * files. PARE_EFORMAT names file and line. */
PARE_CHECKED pare_status pare_measure_check_choices(pare_cli *cli, const pare_measure *m,
                                                    const pare_loaded *l);

/* Whether another model can be measured on the data of the first: PARE_EUSAGE when it has another
 * vocabulary or a context below the window. */
PARE_CHECKED pare_status pare_measure_fits(pare_cli *cli, const pare_measure *m,
                                           const pare_config *first, const char *path,
                                           const pare_config *other);

/* PARE_EUSAGE when the file at `path` has other tokens for `other` than for `first`. */
PARE_CHECKED pare_status pare_measure_same_tokens(pare_cli *cli, const pare_loaded *first,
                                                  const pare_loaded *other, const char *path);

/* The same of the tokens of --tokens: of the text that they stand for. Nothing is said of a model
 * without a tokenizer. */
PARE_CHECKED pare_status pare_measure_same_ids(pare_cli *cli, const pare_measure *m,
                                               const pare_loaded *first, const pare_loaded *other);

/* Sizes and bits of the model, by its files. Statuses of pare_inspect. */
PARE_CHECKED pare_status pare_measure_sizes(pare_cli *cli, const pare_loaded *l, pare_figures *f);

/* Perplexity on the text, and KL to a baseline that is not NULL. After PARE_EINTERRUPTED the
 * figures have what was done, here and below. Here and below, too, models leave a device that
 * cannot go on (pare_loaded_leave_device). */
PARE_CHECKED pare_status pare_measure_text(pare_cli *cli, const pare_measure *m, pare_loaded *l,
                                           pare_loaded *baseline, pare_figures *f);

/* The next choice file, number f->choices; f->choice has room for m->choices. PARE_EFORMAT
 * names file and line. */
PARE_CHECKED pare_status pare_measure_choice(pare_cli *cli, const pare_measure *m, pare_loaded *l,
                                             pare_figures *f);

/* Holds the answers of a model against those of a baseline, in each file that both have. */
void pare_measure_pair(const pare_figures *baseline, pare_figures *f);

/* Times the model, if that was asked for. */
PARE_CHECKED pare_status pare_measure_speed(pare_cli *cli, const pare_measure *m, pare_loaded *l,
                                            pare_figures *f);

/* Prints an accuracy, with its standard error where there is one: "61.50% +- 1.12%". */
void pare_measure_print_share(double share, double error);

/* "first 20 windows of the text and items of each choice file", or "" without a limit. Returns
 * text. */
enum { PARE_MEASURE_TEXT = 128 };
const char *pare_measure_limit_text(const pare_measure *m, char text[PARE_MEASURE_TEXT]);

#endif
