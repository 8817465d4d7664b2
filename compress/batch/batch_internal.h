/* compress/batch/batch_internal.h - what the files of a batch share. */
#ifndef PARE_COMPRESS_BATCH_INTERNAL_H
#define PARE_COMPRESS_BATCH_INTERNAL_H

#include "compress/batch/batch.h"

enum { PARE__BATCH_FILE_CAP = 1 << 20 };

/* The second line of NAME.failed where the job was refused (PARE_BATCH_OTHER). */
#define PARE__BATCH_REFUSED "stale"

/* Whether a file holds just this text; false, too, where it cannot be read. PARE_ENOMEM. */
PARE_CHECKED pare_status pare__batch_holds(const pare_jobs *b, const char *path, const char *text,
                                           bool *same);

/* Keeps why a row is not done, for summaries to come. */
void pare__batch_failed(const pare_jobs *b, const pare_batch_row *r);

/* Reads the text of a recipe. Statuses of pare_recipe_parse. */
PARE_CHECKED pare_status pare__batch_parse(const pare_jobs *b, const char *file, const char *text,
                                           const pare_pass_words **words, pare_recipe *out);

/* Whether the output of a row, which has a manifest, is not as its job left it: row.damaged, with
 * row.why. Every file that SHA256SUMS lists is there, those of the manifest have their sizes, and
 * those that tell of the job their digests or, where a run that was stopped may have written them
 * anew, can be read. PARE_ENOMEM. */
PARE_CHECKED pare_status pare__batch_check_output(const pare_jobs *b, pare_batch_row *r);

/* Whether jobs that wait for a row wait in vain. */
bool pare__batch_stops(const pare_batch_row *r);

/* Whether the model of a row is what the job before it writes. */
bool pare__batch_has_job_model(const pare_jobs *b, const pare_batch_row *r);

/* Whether a recipe has a step that searches for settings. */
bool pare__batch_searches(const pare_recipe *r);

/* Finished rows whose model another job has written anew since, or is to: they are stale.
 * PARE_ENOMEM. */
PARE_CHECKED pare_status pare__batch_find_remade(const pare_jobs *b);

/* With --restart, notes what is there: all of it is to be made anew. Statuses of files,
 * PARE_ENOMEM.
 */
PARE_CHECKED pare_status pare__batch_restart_mark(const pare_jobs *b);
/* Sets row.anew; false once it ran. PARE_ENOMEM, PARE_EIO. */
PARE_CHECKED pare_status pare__batch_restart_waits(const pare_jobs *b, pare_batch_row *r);
/* --restart is done when all of its jobs are. */
void pare__batch_restart_unmark(const pare_jobs *b);

/* Figures of a finished row out of its run.json; what it lacks is not known. PARE_ENOMEM. */
PARE_CHECKED pare_status pare__batch_figures(pare_jobs *b, pare_batch_row *r);
/* Of all rows, once they have their figures. */
void pare__batch_fronts(pare_jobs *b);

/* Path of the model that a row is compared with. */
const char *pare__batch_original(const pare_batch_row *r);

/* What quality is of a row: less is better. */
static inline double pare__batch_quality(const pare_jobs *b, const pare_batch_row *r)
{
    return b->by_kl ? r->kl : r->perplexity;
}

/* What a child is asked, and where it writes. */
typedef struct pare__child {
    const char *const *argv;
    const char *log; /* appended to: what it says */
    const char *out; /* written anew: what it prints; or NULL, which goes to the log, too */
} pare__child;

/* Starts this program again. In a group of processes of its own, so that ^C of a terminal comes
 * through its parent alone; killed when the parent is. PARE_EIO, PARE_ENOMEM. */
PARE_CHECKED pare_status pare__batch_start(pare_ctx *cx, const pare__child *c, pid_t *pid);

/* Asks a child to stop in order. */
void pare__batch_stop(pid_t pid);

/* Waits until some child ends, or, unless they were `told` of one, a signal comes. *pid 0: none has
 * ended. */
void pare__batch_wait(pare_ctx *cx, bool told, pid_t *pid, int *status);

/* What stands behind the last mark on its line in the end of a log; without one, nothing changes.
 */
void pare__batch_said(const char *log, const char *mark, char said[PARE_BATCH_WHY]);

#endif
