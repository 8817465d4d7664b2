/* compress/cli/screen.h - stderr: messages, and how far the command is; and the same as events.
 *
 * On a terminal a bar with the time left of the whole job appears once a command takes longer than
 * two seconds; it is wiped before any other line. Elsewhere a line with the time (UTC) is written
 * when a step of a job begins, when a piece of work takes longer than two seconds, and every
 * half minute. A thread of its own keeps that up while the command computes. Colour only on a
 * terminal, and not with NO_COLOR or TERM=dumb. */
#ifndef PARE_COMPRESS_SCREEN_H
#define PARE_COMPRESS_SCREEN_H

#include <pthread.h>
#include <stdbool.h>

#include "compress/cli/eta.h"
#include "compress/cli/event_log.h"

enum { PARE_SCREEN_NAME = 192 };

/* Set before the command runs; the rest is of screen.c. */
typedef struct pare_screen {
    bool terminal, colour;
    bool mute;            /* nobody wants to read errors any more */
    bool silent;          /* --log json: stderr is for events */
    bool no_progress;     /* --no-progress */
    double quiet_seconds; /* in which no progress is shown */
    double beat_seconds;  /* between two lines, or events, of progress */
    pare_event_log log;

    pthread_mutex_t lock; /* of all below, and of the log */
    pthread_cond_t wake;
    pthread_t watcher;
    bool watching, stop;           /* the thread runs; it is asked to end */
    const volatile int *interrupt; /* the signal that asked to stop, or 0 */
    bool begun;                    /* a step or a piece of work */
    bool told_stop;                /* that a signal came */
    bool drawn;                    /* a bar stands in the last line */
    bool told;                     /* a line says what is at work */
    pare_eta eta;
    char step[PARE_SCREEN_NAME];      /* of the job, as it was named; empty: none */
    char piece[PARE_SCREEN_NAME];     /* of work that is reported; empty: none */
    double first, began, done, total; /* first progress, the piece: seconds; its share */
    double shown, beaten;             /* last bar, last line */
} pare_screen;

/* Looks at stderr and the environment and hooks into cx->progress. */
void pare_screen_init(pare_screen *s, pare_ctx *cx);

/* Ends the thread and wipes the bar. */
void pare_screen_end(pare_screen *s);

/* Wipes the bar. */
void pare_screen_wipe(pare_screen *s);

/* One line on stderr, with the time off a terminal while a job runs; and an event: "warning" when
 * it begins so, else "notice". */
void pare_screen_say(pare_screen *s, const char *fmt, ...) PARE_PRINTF(2, 3);

/* A line of what is done or begins, without an event; nothing with --no-progress. One that `waits`
 * is left out where lines would come too often: soon after another, off a terminal. */
void pare_screen_line(pare_screen *s, bool waits, const char *fmt, ...) PARE_PRINTF(3, 4);

/* "pare: error: message", the first word in red where there is colour. */
void pare_screen_error(pare_screen *s, const char *message);

/* An event of the log, as pare_event_log_begin; nothing else is told until its end. */
pare_json_writer *pare_screen_event(pare_screen *s, const char *event, const char *text);
void pare_screen_event_end(pare_screen *s, pare_json_writer *w);

/* The signal that asked to stop as an event, unless that is told. */
void pare_screen_interrupted(pare_screen *s);

#endif
