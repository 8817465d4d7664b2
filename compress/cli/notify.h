/* compress/cli/notify.h - a command of the user's, run by the shell when a job has ended. */
#ifndef PARE_COMPRESS_NOTIFY_H
#define PARE_COMPRESS_NOTIFY_H

#include "runtime/arena.h"

enum { PARE_NOTIFY_SECONDS = 60, PARE_NOTIFY_WHY = 160 };

/* What the command is told, as environment variables. */
typedef struct pare_notice {
    const char *status;  /* PARE_STATUS: finished, fallback, verdict, interrupted, failed */
    int code;            /* PARE_EXIT */
    const char *output;  /* PARE_OUTPUT: a path; "" where it is not known */
    double seconds;      /* PARE_SECONDS */
    const char *summary; /* PARE_SUMMARY: a line */
    bool quiet;          /* what it prints goes nowhere, else to stderr */
} pare_notice;

/* Runs `/bin/sh -c command` in a process group of its own, with /dev/null as stdin, and waits for
 * the shell. What is left of the group after `limit` seconds is killed. False, with the reason in
 * `why`: it could not be started, it ended with another code than 0, or it was killed. */
bool pare_notify(pare_arena *a, const char *command, const pare_notice *n, double limit,
                 char why[PARE_NOTIFY_WHY]);

#endif
