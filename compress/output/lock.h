/* compress/output/lock.h - one writer for each output: OUTPUT.lock beside it, locked while somebody
 * writes there, with a line in it that says who. A process that is killed leaves the file but not
 * the lock; the next one takes the file over and removes it at its end. The line is in the file
 * before it has its name, so a file without one is not of pare. */
#ifndef PARE_COMPRESS_OUTPUT_LOCK_H
#define PARE_COMPRESS_OUTPUT_LOCK_H

#include <stdbool.h>

#include "runtime/arena.h"

/* Says something that a user should know, one line. */
typedef struct pare_teller {
    void (*tell)(void *self, const char *text); /* may be NULL */
    void *self;
} pare_teller;

void pare_teller_say(const pare_teller *t, const char *fmt, ...) PARE_PRINTF(2, 3);

typedef struct pare_lock {
    bool held;
    int fd;
    char *path; /* OUTPUT.lock, in the arena */
    char *made; /* the first of the parent directories that were made for it, or NULL */
} pare_lock;

/* Locks `output` (a path without slashes at its end) for a command such as "compress"; parent
 * directories are made. *out is all zero before and after a failure.
 * PARE_EEXISTS: another process writes there (the message says which, where and since when), or
 * OUTPUT.lock is a file that pare did not write: an empty one, too, which a killed run leaves only
 * where files cannot be locked or cannot be without a name. PARE_EIO, PARE_ENOSPC, PARE_ENOMEM.
 * A file system that cannot lock is told of; the process that the file names is looked for then,
 * and one of another host is taken to run until somebody removes the file. */
PARE_CHECKED pare_status pare_lock_take(pare_ctx *cx, pare_arena *a, const char *output,
                                        const char *command, const pare_teller *teller,
                                        pare_lock *out);

/* Whether something that is no file of pare lies in the place of the lock: PARE_EEXISTS in the
 * words of pare_lock_take. Takes nothing. PARE_EIO, PARE_ENOMEM. */
PARE_CHECKED pare_status pare_lock_check(pare_ctx *cx, pare_arena *a, const char *output);

/* Removes the file, and the directories that were made for it if nothing else came into them. All
 * zero is fine. */
void pare_lock_release(pare_lock *l);

#endif
