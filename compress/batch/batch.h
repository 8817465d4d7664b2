/* compress/batch/batch.h - many jobs of "pare compress", each in a process of its own.
 *
 *   OUTPUT/NAME.yaml   the recipe of a job, which "pare compress" also runs alone
 *   OUTPUT/NAME/       what it writes;  OUTPUT/NAME.log what it says
 *   OUTPUT/NAME.speed.json             its speed, where that is asked for
 *   OUTPUT/NAME.failed                 why it is not done, until it is tried again
 *   OUTPUT/shared/     what jobs of one model and calibration share
 *   OUTPUT/summary.csv, summary.json, report.html
 *
 * What is done is known by what lies there, so a batch goes on after any break: a finished output
 * whose recipe is that of the job is not made again, an unfinished one is continued by its journal.
 * Several shards may run at once in one OUTPUT. */
#ifndef PARE_COMPRESS_BATCH_BATCH_H
#define PARE_COMPRESS_BATCH_BATCH_H

#include <sys/types.h>

#include "compress/output/lock.h"
#include "compress/text/text_out.h"
#include "recipes/batch_recipe.h"

typedef struct pare_batch_opts {
    const char *file, *output; /* of the batch; output NULL: that of the file */
    size_t at_once;            /* jobs that run at the same time */
    size_t threads;            /* of all of them together */
    uint64_t ram_limit;        /* bytes, of all of them together; 0: as the recipe says */
    size_t shard, shards;      /* 1 .. shards */
    bool restart, strict, speed;
} pare_batch_opts;

typedef enum pare_batch_state {
    PARE_BATCH_MISSING,    /* nothing is there yet */
    PARE_BATCH_UNFINISHED, /* begun; goes on where it was */
    PARE_BATCH_RUNNING,
    PARE_BATCH_DONE,
    PARE_BATCH_STALE, /* something finished is there that is not, or not all, of this job */
    PARE_BATCH_FAILED,
    PARE_BATCH_INFEASIBLE, /* what it requires cannot be; nothing was written */
    PARE_BATCH_WAITS       /* for a job that failed or is not done */
} pare_batch_state;
enum { PARE_BATCH_STATES = PARE_BATCH_WAITS + 1 };
const char *pare_batch_state_name(pare_batch_state s); /* "missing", "done", ... */

/* How a batch starts a job, "pare --of-batch compress ..", and the exit code of one that did not
 * replace what is there, which is of another job. */
#define PARE_BATCH_CHILD "--of-batch"
enum { PARE_BATCH_OTHER = 20 };

enum { PARE_BATCH_WHY = 1024, PARE_BATCH_TASKS = 16, PARE_BATCH_TASK = 64 };

/* A job as it stands. Figures that are not known are below 0. */
typedef struct pare_batch_row {
    const pare_batch_job *job;
    char *recipe, *output, *log, *speed_file, *failed_file; /* paths */
    char *text;                                             /* of the recipe */
    bool mine;                                              /* of this shard */
    pare_batch_state state;
    bool ran;                 /* in this call */
    bool anew;                /* what is there was there at --restart, which was not done yet */
    bool there;               /* a finished output is, whole, and no work beside it */
    bool begun;               /* work of it lies there, which a job goes on with */
    bool stays;               /* a job does not touch what is there without --restart */
    bool damaged;             /* what is there is, so that it does not touch it at all */
    bool torn;                /* its recipe.yaml or run.json is not the one that is listed */
    bool refused;             /* it is stale, and was tried: only --restart makes it anew */
    bool fallback;            /* with `strict`: a numeric fallback */
    char why[PARE_BATCH_WHY]; /* it failed; or empty */
    char verdict[16];         /* on what its recipe requires; or empty */
    char fallback_of[128];    /* settings of the fallback that it is; or empty */
    pid_t child;
    double bytes, bits, model_bits; /* weights; bits per weight of linears, of the whole model */
    double perplexity, kl, top1, tokens_s;
    double seconds, resumed;       /* of the run that ended it; blocks that runs before it did */
    double task[PARE_BATCH_TASKS]; /* in the order of pare_jobs.task */
    size_t warnings;
    char warning[PARE_BATCH_WHY];           /* the first of them */
    double before_bytes, before_perplexity; /* the original */
    bool front, fast_front; /* no other job that keeps to what it requires has less of one and not
                               more of the other: bytes and quality; time of a token and quality */
    bool beside;            /* its KL is to what another job wrote: it is on no front by KL */
} pare_batch_row;

typedef struct pare_jobs {
    pare_ctx *cx;
    pare_arena *a;
    const pare_batch_opts *opts;
    pare_batch_recipe file;
    char *output, *shared;
    pare_batch_row *row;
    size_t rows;
    size_t at_once; /* opts.at_once, but no more than rows: what they share is divided by it */
    bool by_kl;     /* quality is KL; else perplexity */
    char task[PARE_BATCH_TASKS][PARE_BATCH_TASK]; /* what jobs measured, as "piqa.acc" */
    size_t tasks;
    size_t before_bytes;        /* of the context, which are not of the batch */
    struct pare_looked *looked; /* once jobs are planned: models (compress/run/run_look.h) */
    char *restart_file; /* is there from --restart on until all jobs of the shard are done */
    pare_lock lock;
    pare_teller teller;
} pare_jobs;

/* Reads the file, with all recipes. Touches nothing. Statuses of pare_batch_parse, and PARE_EUSAGE
 * for an output that cannot be one. */
PARE_CHECKED pare_status pare_batch_open(pare_ctx *cx, pare_arena *a, const pare_batch_opts *opts,
                                         const pare_teller *teller, pare_jobs *out);

/* Locks this shard and writes the recipes of its jobs. PARE_EEXISTS: another process runs it, or a
 * file of another program has the name of one. Release in any case. */
PARE_CHECKED pare_status pare_batch_begin(pare_jobs *b);
void pare_batch_release(pare_jobs *b);

/* Runs what is not done, and measures speeds. PARE_EINTERRUPTED once all children have stopped;
 * PARE_OK also when jobs failed: their rows say so. */
PARE_CHECKED pare_status pare_batch_run(pare_jobs *b);

/* What lies there: states, figures, fronts. PARE_ENOMEM. */
PARE_CHECKED pare_status pare_batch_look(pare_jobs *b);

/* The summary, and its files in OUTPUT. */
void pare_batch_text(pare_text_out *t, const pare_jobs *b);
void pare_batch_csv(pare_text_out *t, const pare_jobs *b);
PARE_CHECKED pare_status pare_batch_json(pare_text_out *t, const pare_jobs *b);
void pare_batch_html(pare_text_out *t, const pare_jobs *b);
PARE_CHECKED pare_status pare_batch_write(pare_jobs *b);

/* A script that runs the batch: of make, a rule for each job; or of Slurm, an array of shards.
 * PARE_EUSAGE for a path that such a script cannot hold. */
PARE_CHECKED pare_status pare_batch_emit(pare_text_out *t, const pare_jobs *b, bool make);

/* Threads of a job. */
static inline size_t pare_batch_threads(const pare_jobs *b)
{
    return b->opts->threads / b->at_once ? b->opts->threads / b->at_once : 1;
}

/* Rows of a state. */
size_t pare_batch_count(const pare_jobs *b, pare_batch_state s);

#endif
