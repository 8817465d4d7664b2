/* compress/cli/screen.h - the terminal: a progress bar and messages on stderr.
 *
 * A bar appears only on a terminal and only for a step that has taken two seconds; it is wiped
 * before any other line. Colour only on a terminal, and not with NO_COLOR or TERM=dumb. */
#ifndef PARE_COMPRESS_SCREEN_H
#define PARE_COMPRESS_SCREEN_H

#include <stdbool.h>

#include "runtime/context.h"

typedef struct pare_screen {
    bool terminal, colour;
    bool mute;           /* nobody wants to read errors any more */
    bool drawn;          /* a bar stands in the last line */
    char step[64];       /* step the clock runs for */
    double began, shown; /* seconds */
} pare_screen;

/* Looks at stderr and the environment and hooks into cx->progress. */
void pare_screen_init(pare_screen *s, pare_ctx *cx);

/* Wipes the bar. */
void pare_screen_wipe(pare_screen *s);

/* One line on stderr. */
void pare_screen_say(pare_screen *s, const char *fmt, ...) PARE_PRINTF(2, 3);

/* "pare: error: message", the first word in red where there is colour. */
void pare_screen_error(pare_screen *s, const char *message);

/* Monotonic seconds. */
double pare_screen_clock(void);

#endif
