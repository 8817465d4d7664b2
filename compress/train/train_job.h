/* compress/train/train_job.h - a training as a job: a recipe and text in, a plain checkpoint out.
 *
 * It begins with a checkpoint, with some blocks of one, or with random weights; learns from the
 * text alone or from a teacher, too; and trains every weight. */
#ifndef PARE_COMPRESS_TRAIN_JOB_H
#define PARE_COMPRESS_TRAIN_JOB_H

#include "compress/artifact/adapter.h"
#include "compress/artifact/result.h"
#include "compress/output/lock.h"
#include "compress/plan/plan.h"
#include "formats/json.h"

/* What a finished job tells; texts live in its arena. */
typedef struct pare_train_done {
    const char *output, *begun_with; /* "hedge", "4 of 8 blocks of hedge", "random weights" */
    pare_training_result training;
    const pare_config *config;
    uint64_t weights, bytes;                      /* of the model; of its weight files */
    const char *dtype;                            /* of these */
    size_t windows, window, held_out, vocabulary; /* the last: of a tokenizer that was trained */
    const pare_adapter_result *adapter;           /* NULL: all weights are trained */
    size_t resumed;                               /* steps of an earlier run */
    const char **warning;                         /* [warnings] that this run told */
    size_t warnings;
    bool harmed; /* it is worse on the windows held out than what it began with, or further from a
                    teacher that it learned from */
    double seconds;
    double joules; /* of the packages of the machine; 0: not known */

    /* What it takes. With job.plan_only the rest of the training is not known. */
    uint64_t memory, memory_limit, disk, disk_free; /* bytes */
    const char *memory_limit_name;
    double step_seconds; /* of a step on this machine, as it is now */
    bool finished;       /* a finished output is there, which stays without job.restart */
} pare_train_done;

/* Its members of an open object: those known before it begins, and all. */
void pare_train_put_begin(pare_json_writer *w, const pare_train_done *d);
void pare_train_put(pare_json_writer *w, const pare_train_done *d);

/* Runs it. Everything goes to OUTPUT.partial and is renamed to OUTPUT when it is complete. A run
 * that was killed continues with the state that it saved last, to the same bytes, for any number of
 * threads. Of the job recipe, text, model, output, tokenizer, sets, ram_limit, restart and
 * plan_only count. With the last nothing is written: it takes a few windows through one step, to
 * tell the time.
 *
 * PARE_EUSAGE (with the place in the recipe), PARE_EEXISTS (a finished output, an unfinished one of
 * another job), PARE_ENOTSUP (a model whose checkpoint cannot be written), PARE_EFORMAT, PARE_EIO,
 * PARE_ENOSPC, PARE_ENOMEM (said before anything is read, with both figures), PARE_ENUMERIC (it
 * diverges), PARE_EINTERRUPTED (resumable).
 *
 * Memory   16 bytes for each weight (value, gradient, two moments, F32; about 10 with moments in 8
 * bits), 4 more while random
 * weights are made, and pare_train_bytes; the tokens of the text. */
PARE_CHECKED pare_status pare_train_job(pare_ctx *cx, pare_arena *a, const pare_job *job,
                                        const pare_teller *teller, pare_train_done *out);

#endif
