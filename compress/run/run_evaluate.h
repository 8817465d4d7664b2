/* compress/run/run_evaluate.h - the end of a job: what the model lost, and what is told of it. */
#ifndef PARE_COMPRESS_RUN_RUN_EVALUATE_H
#define PARE_COMPRESS_RUN_RUN_EVALUATE_H

#include "calib/spill.h"
#include "calib/tokens.h"
#include "compress/evaluate/evaluate.h"
#include "compress/run/job_events.h"

typedef struct pare_run pare_run; /* compress/run/run_internal.h */

/* The recipe's evaluations on the model before and after, and samples of both, into the report. */
PARE_CHECKED pare_status pare__run_evaluate(pare_run *run, pare_report *r);

/* The part of an evaluation that another process than 0 does (compress/run/run_team.h): some
 * windows of a text. */
PARE_CHECKED pare_status pare__run_evaluate_part(pare_run *run, const pare_tokens *tokens,
                                                 size_t window, bool kl);

/* What each part of a job cost, from evaluations and training; `after` is the finished model. The
 * statuses of pare_evaluate. */
PARE_CHECKED pare_status pare__run_stages(pare_run *run, const pare_model *after, pare_report *r);

/* What the recipe requires, held against the report; and against run.json of the finished output,
 * whose files then say it. With `strict`, that one tells of its numeric steps, too. PARE_ENOMEM,
 * and for the latter PARE_EFORMAT, PARE_ENOTFOUND, PARE_EIO.
 */
PARE_CHECKED pare_status pare__run_verdict(pare_run *run, pare_report *r);
PARE_CHECKED pare_status pare__run_verdict_again(pare_run *run, pare_report *r);

/* The verdict of r into the files of the finished output, of whose run.json `all` is the content,
 * with the recipe that has the requirements. PARE_EIO, PARE_ENOSPC, PARE_EFORMAT for a SHA256SUMS
 * that is none, PARE_ENOMEM. */
PARE_CHECKED pare_status pare__run_judged(pare_run *run, const pare_json *all,
                                          const pare_report *r);

/* What the blocks of the original give for the tokens of an evaluation, where jobs share that. */
typedef struct pare_run_stream {
    bool use; /* else there is none */
    pare_eval_stream stream;
    pare_spill file; /* that it goes to */
    const char *key;
    char *kept; /* path in the folder that jobs share */
    uint64_t bytes;
} pare_run_stream;

/* Takes it, or makes room for it. PARE_ENOMEM, PARE_EIO. Close in any case; `whole`: all of it was
 * found, and is kept for other jobs. */
PARE_CHECKED pare_status pare__run_stream_open(pare_run *run, const pare_tokens *tokens,
                                               size_t window, pare_run_stream *out);
void pare__run_stream_close(pare_run *run, bool whole, pare_run_stream *s);

/* Prompts for samples from the first data that has enough tokens: run->prompts. PARE_ENOMEM. */
PARE_CHECKED pare_status pare__run_sample_prompts(pare_run *run, const char *data,
                                                  const pare_tokens *tokens);

/* What both models write behind the prompts; nothing without prompts or a tokenizer. */
PARE_CHECKED pare_status pare__run_samples(pare_run *run, const pare_model *after,
                                           pare_report_samples *out);

/* Evaluates, and writes what a user reads of the job. */
PARE_CHECKED pare_status pare__run_report(pare_run *run, pare_compress_result *out);

#endif
