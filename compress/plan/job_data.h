/* compress/plan/job_data.h - the data of a job as the recipe names them, read by the planner and by
 * the job, so that both refuse the same in the same words. */
#ifndef PARE_COMPRESS_PLAN_JOB_DATA_H
#define PARE_COMPRESS_PLAN_JOB_DATA_H

#include "calib/tokens.h"
#include "compress/evaluate/choice_items.h"
#include "compress/evaluate/needle.h"
#include "compress/evaluate/task.h"
#include "compress/plan/plan.h"
#include "formats/sha256.h"

/* What reading takes. */
typedef struct pare_data_reader {
    pare_ctx *cx;
    pare_arena *a, *scratch; /* results; texts and streams on their way */
    const pare_plan *plan;
    const pare_checkpoint *checkpoint; /* has the tokenizer */
    const pare_model *model;           /* writes its own calibration where the recipe says so */
    pare_teller teller;                /* of texts that are not valid UTF-8 */
} pare_data_reader;

/* The calibration as it was read. */
typedef struct pare_calibration_data {
    pare_tokens tokens;   /* [samples, window] */
    pare_tokens held_out; /* windows that calibration does not see, [, window] */
    pare_tokens training; /* windows to train on: those of calibration first, [, window] */
    char sha256[PARE_SHA256_HEX], held_out_sha256[PARE_SHA256_HEX],
        training_sha256[PARE_SHA256_HEX];
    size_t *share; /* windows of each text, or NULL when no weights are given */
} pare_calibration_data;

/* Items of a multiple-choice file that fit both models. */
typedef struct pare_choice_data {
    pare_choice_item *item;
    size_t items, all; /* those to ask, and those in the file */
    size_t longest;    /* tokens of the longest with a choice of its own */
} pare_choice_data;

/* A data file of the recipe: a path relative to the recipe, in the arena. NULL: PARE_ENOMEM. */
char *pare_data_path(pare_arena *a, const pare_plan *plan, const pare_text *t);

/* The calibration and what is held out of it, into the arena `a`; nothing for a plan without. Into
 * settled: samples, windows, fresh, held_out; memory and disk, when the number of samples was not
 * known. PARE_EUSAGE (with place) for data of too few windows, and the statuses of tokenizers,
 * files, generation, pare__plan_cost and pare__plan_disk. */
PARE_CHECKED pare_status pare_data_calibration(const pare_data_reader *r,
                                               pare_calibration_data *out, pare_settled *settled);

/* Tokens of the file of one evaluation, in scratch; *windows that it has. */
PARE_CHECKED pare_status pare_data_evaluation(const pare_data_reader *r, const pare_evaluation *e,
                                              pare_tokens *out, size_t *windows);

/* What an evaluation of a task asks, with paths in the arena `a`. PARE_ENOMEM. */
PARE_CHECKED pare_status pare_data_asked(pare_arena *a, const pare_plan *plan,
                                         const pare_evaluation *e, pare_task_asked *out);

/* The documents of a task, in scratch. Statuses of pare_task_load. */
PARE_CHECKED pare_status pare_data_task(const pare_data_reader *r, const pare_evaluation *e,
                                        const pare_task_asked *asked, pare_task_data *out);

/* The same for one of multiple choice. */
PARE_CHECKED pare_status pare_data_choice(const pare_data_reader *r, const pare_evaluation *e,
                                          pare_choice_data *out);

/* The prompts of a needle, in scratch, and what they were made by; its file may be NULL in the
 * latter. Statuses of pare_needle_load. */
void pare_data_needle_opts(const pare_evaluation *e, const char *file, pare_needle_opts *out);
PARE_CHECKED pare_status pare_data_needle(const pare_data_reader *r, const pare_evaluation *e,
                                          pare_needle_opts *opts, pare_choice_item **item);

/* Looks at the data of an evaluation, so that a mistake in them does not cost a whole run. */
PARE_CHECKED pare_status pare_data_check(const pare_data_reader *r, const pare_evaluation *e);

#endif
