/* compress/text/warnings.h - what a job warned of on the way, for its report. */
#ifndef PARE_COMPRESS_WARNINGS_H
#define PARE_COMPRESS_WARNINGS_H

#include "runtime/arena.h"

typedef struct pare_warning {
    struct pare_warning *next;
    const char *text; /* without the mark in front */
} pare_warning;

/* In the order in which they were told, each text once. All 0 is none. */
typedef struct pare_warnings {
    pare_warning *first, *last;
    size_t count;
    bool lost; /* memory ended */
} pare_warnings;

/* Keeps a notice that begins with "warning: "; its text is copied into the arena. */
void pare_warnings_keep(pare_warnings *all, pare_arena *a, const char *notice);

/* The texts [count]. PARE_ENOMEM, also where one was lost. */
PARE_CHECKED pare_status pare_warnings_list(const pare_warnings *all, pare_arena *a,
                                            const char ***out);

#endif
