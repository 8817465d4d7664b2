/* compress/cli/event_log.h - what --log asks for: events as JSON, one object a line. */
// clang-format off
/* Every event has "event" (its kind), "time" (UTC, ISO 8601), "seconds" (since the start) and
 * "text" (for a person). More by kind:
 *
 *   start         command, version                the first
 *   plan, resume                                  compress: what it will do; what is done already
 *   phase         job_share, left_seconds         a step begins
 *   progress      share, job_share, left_seconds
 *   block         block, blocks, linears          compress: a block is stored
 *   notice, warning
 *   interrupted   signal                          the program stops at the next safe place
 *   refused       exit_code                       no work was begun: usage, a limit, a lock, a file
 *                                                 of others
 *   error         exit_code
 *   done          exit_code                       the last; without it the program was killed
 *
 * share is of the piece of work that the text names, job_share of the job's time, left_seconds of
 * the job; null where that is not known. */
// clang-format on
#ifndef PARE_COMPRESS_EVENT_LOG_H
#define PARE_COMPRESS_EVENT_LOG_H

#include <stdio.h>

#include "formats/json.h"

typedef struct pare_event_log {
    pare_ctx cx;      /* its own: events come from another thread, too */
    FILE *file;       /* NULL: nobody asked for events */
    const char *path; /* of the file; NULL: stderr */
    double started;   /* monotonic seconds */
    int lost;         /* errno of the first line that could not be written, or 0 */
} pare_event_log;

/* Opens what --log says, "json" or "json:FILE"; FILE is appended to. PARE_EUSAGE for other words
 * and for a file that cannot be opened or does not begin with the first event of a log. */
PARE_CHECKED pare_status pare_event_log_open(pare_ctx *cx, const char *form, pare_event_log *log);

/* An event with its text; members may be put before the end. NULL where there is no log or no
 * memory, which the end takes, too. */
pare_json_writer *pare_event_log_begin(pare_event_log *log, const char *event, const char *text);
void pare_event_log_end(pare_event_log *log, pare_json_writer *w);

/* Closes the file. PARE_ENOSPC, PARE_EIO, ...: a line was lost. */
PARE_CHECKED pare_status pare_event_log_close(pare_ctx *cx, pare_event_log *log);

/* The time as "2026-11-22T19:10:33Z". Returns text. */
enum { PARE_CLOCK_TEXT = 32 };
const char *pare_clock_text(char text[PARE_CLOCK_TEXT]);

#endif
