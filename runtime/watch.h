/* runtime/watch.h - input files: whether each is still what it was when work on it began.
 *
 * A run of hours notes its inputs when it opens them and looks again before what it made gets its
 * name. A file that was replaced, cut, written to or touched in between has another stamp: a write
 * always moves the time of the last change, which no program can set back. Writes through a mapping
 * may escape this on some file systems; digests are for those. */
#ifndef PARE_RUNTIME_WATCH_H
#define PARE_RUNTIME_WATCH_H

#include "runtime/file.h"

/* One file; the path is borrowed from the arena. */
typedef struct pare_watched {
    const char *path;
    pare_file_stamp was;
    struct pare_watched *before;
} pare_watched;

/* All zero: nothing is watched. */
typedef struct pare_watch {
    pare_watched *last;
} pare_watch;

/* Notes what lies at `path` now, also that nothing does; call it before the file is read.
 * PARE_ENOMEM. */
PARE_CHECKED pare_status pare_watch_path(pare_arena *a, pare_watch *w, const char *path);

/* Notes a mapped file as it was when it was opened. PARE_ENOMEM. */
PARE_CHECKED pare_status pare_watch_mapped(pare_arena *a, pare_watch *w, const pare_file *f);

/* PARE_EFORMAT for the first noted file that is another one now: its path, and what changed. */
PARE_CHECKED pare_status pare_watch_check(pare_ctx *cx, const pare_watch *w);

#endif
