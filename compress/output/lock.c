#define _GNU_SOURCE /* flock, gethostname, O_TMPFILE */
#include "compress/output/lock.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "compress/output/output.h"
#include "runtime/file.h"

enum { LINE = 512, HOST = 65, TRIES = 200 };
static const char mark[] = "pare lock: ", process[] = " (process ", on[] = " on ";

void pare_teller_say(const pare_teller *t, const char *fmt, ...)
{
    if (!t->tell)
        return;
    char text[512];
    va_list ap;
    va_start(ap, fmt);
    (void)vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    t->tell(t->self, text);
}

static void nap(void)
{
    (void)nanosleep(&(struct timespec){0, 2000000}, NULL);
}

static void find_host(char host[HOST])
{
    if (gethostname(host, HOST - 1) != 0)
        (void)snprintf(host, HOST, "an unknown host");
    host[HOST - 1] = '\0';
}

/* The file's one line, "pare lock: pare export (process 12 on HOST, since TIME)", without its end.
 */
static pare_status read_line(pare_ctx *cx, const pare_lock *l, char line[LINE])
{
    ssize_t n;
    do {
        n = pread(l->fd, line, LINE - 1, 0);
    } while (n < 0 && errno == EINTR);
    if (n < 0)
        return pare_file_fail(cx, l->path, "read");
    line[n] = '\0';
    line[strcspn(line, "\n")] = '\0';
    return PARE_OK;
}

static bool is_ours(const char *line)
{
    return strncmp(line, mark, sizeof mark - 1) == 0;
}

static pare_status write_line(pare_ctx *cx, const pare_lock *l, const char *command)
{
    char line[LINE], host[HOST], since[32];
    const time_t now = time(NULL);
    struct tm utc;
    find_host(host);
    if (!gmtime_r(&now, &utc) || !strftime(since, sizeof since, "%Y-%m-%dT%H:%M:%SZ", &utc))
        (void)snprintf(since, sizeof since, "an unknown time");
    const int n = snprintf(line, sizeof line, "%spare %s%s%ld%s%s, since %s)\n", mark, command,
                           process, (long)getpid(), on, host, since);
    PARE_TRY(pare_file_put(cx, l->fd, l->path, line, (size_t)n, 0));
    return ftruncate(l->fd, n) == 0 ? pare_file_sync(cx, l->fd, l->path)
                                    : pare_file_fail(cx, l->path, "write");
}

static void drop(pare_lock *l)
{
    if (l->fd >= 0)
        (void)close(l->fd);
    l->fd = -1;
}

/* A new file that has its line, and is locked, before it has its name. *made stays false where
 * somebody else was first, or the file system has no unnamed files. */
static pare_status make_whole(pare_ctx *cx, pare_lock *l, const char *directory,
                              const char *command, bool *made)
{
    char unnamed[64];
    *made = false;
    l->fd = open(directory, O_RDWR | O_TMPFILE | O_CLOEXEC, 0666);
    if (l->fd < 0)
        return PARE_OK; /* what is wrong with the directory shows when a name is made in it */
    (void)snprintf(unnamed, sizeof unnamed, "/proc/self/fd/%d", l->fd);
    PARE_TRY(write_line(cx, l, command));
    *made = flock(l->fd, LOCK_EX | LOCK_NB) == 0 &&
            linkat(AT_FDCWD, unnamed, AT_FDCWD, l->path, AT_SYMLINK_FOLLOW) == 0;
    return PARE_OK;
}

static pare_status refuse_foreign(pare_ctx *cx, const pare_lock *l)
{
    return pare_fail(cx, PARE_EEXISTS,
                     "%s: is where the lock of the output goes, and no file of pare; move it away "
                     "or choose another output",
                     l->path);
}

/* Its line is not one of pare. Where files cannot be without a name, a run that begins writes its
 * own into an empty file. */
static pare_status refuse_line(pare_ctx *cx, const pare_lock *l, const char *line)
{
    return line[0] ? refuse_foreign(cx, l)
                   : pare_fail(cx, PARE_EEXISTS,
                               "%s: is where the lock of the output goes, and is empty: a run that "
                               "begins there may be about to write who it is; give the command "
                               "again, or remove the file if no run uses this output",
                               l->path);
}

static pare_status refuse_used(pare_ctx *cx, const char *output, const char *line)
{
    return pare_fail(cx, PARE_EEXISTS, "%s: in use by %s; wait for it or give another path", output,
                     line + sizeof mark - 1);
}

/* Another process has it: who, once it has written so. */
static pare_status refuse_locked(pare_ctx *cx, const pare_lock *l, const char *output)
{
    char line[LINE];
    PARE_TRY(read_line(cx, l, line));
    for (int i = 0; i < TRIES && !line[0]; i++) {
        nap();
        PARE_TRY(read_line(cx, l, line));
    }
    return is_ours(line) ? refuse_used(cx, output, line) : refuse_line(cx, l, line);
}

/* Nobody can tell whether that process still runs. */
static pare_status refuse_named(pare_ctx *cx, const pare_lock *l, const char *output,
                                const char *line)
{
    return pare_fail(cx, PARE_EEXISTS,
                     "%s: in use by %s; wait for it or give another path; remove %s when that "
                     "process is gone",
                     output, line + sizeof mark - 1, l->path);
}

/* Whether the process that the line names may still run: on another host nobody knows. */
static bool may_run(const char *line)
{
    char host[HOST], *end;
    const char *at = strstr(line, process);
    if (!at)
        return false;
    const long pid = strtol(at + sizeof process - 1, &end, 10);
    if (pid <= 0 || strncmp(end, on, sizeof on - 1) != 0)
        return false;
    end += sizeof on - 1;
    find_host(host);
    const size_t len = strlen(host);
    if (strncmp(end, host, len) != 0 || end[len] != ',')
        return true;
    return pid != (long)getpid() && (kill((pid_t)pid, 0) == 0 || errno == EPERM);
}

/* The file: one that is there, or a new one, which is *whole, or only *created, and empty. */
static pare_status open_file(pare_ctx *cx, pare_arena *a, const char *command, pare_lock *l,
                             bool *whole, bool *created)
{
    const int flags = O_RDWR | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK;
    *whole = *created = false;
    l->fd = open(l->path, flags);
    if (l->fd >= 0 || errno != ENOENT)
        return PARE_OK;
    char *const directory = pare_path_directory(a, l->path);
    if (!directory)
        return PARE_ENOMEM;
    PARE_TRY(make_whole(cx, l, directory, command, whole));
    if (*whole)
        return PARE_OK;
    drop(l);
    l->fd = open(l->path, flags | O_CREAT | O_EXCL, 0666);
    *created = l->fd >= 0;
    return PARE_OK;
}

/* One look at the file. *again: it went away, or changed hands, or is empty yet, while we looked;
 * not with `last`. */
static pare_status try_lock(pare_ctx *cx, pare_arena *a, const char *output, const char *command,
                            const pare_teller *teller, bool last, pare_lock *l, bool *again)
{
    struct stat mine, there;
    char line[LINE];
    bool whole, created;
    int rc;
    *again = false;
    PARE_TRY(open_file(cx, a, command, l, &whole, &created));
    if (whole)
        return PARE_OK;
    *again = l->fd < 0 && (errno == ENOENT || errno == EEXIST); /* or its directory went away */
    if (*again && last && errno == ENOENT)
        return pare_fail(
            cx, PARE_EUSAGE,
            "%s: cannot be created: its directory takes no files; choose another output", l->path);
    if (*again)
        return PARE_OK;
    if (l->fd < 0 && (errno == ELOOP || errno == EISDIR || errno == ENXIO))
        return refuse_foreign(cx, l);
    if (l->fd < 0) {
        const bool closed = errno == EACCES || errno == EPERM || errno == EROFS;
        const pare_status s = pare_file_fail(cx, l->path, "create");
        return closed ? PARE_EUSAGE : s; /* another place can be given */
    }
    if (fstat(l->fd, &mine) != 0)
        return pare_file_fail(cx, l->path, "look at");
    if (!S_ISREG(mine.st_mode))
        return refuse_foreign(cx, l);
    do { /* who looks at an empty file holds it for a moment only */
        rc = flock(l->fd, created ? LOCK_EX : LOCK_EX | LOCK_NB);
    } while (rc != 0 && errno == EINTR);
    if (rc != 0 && errno == EWOULDBLOCK)
        return refuse_locked(cx, l, output);
    const bool weak = rc != 0;
    if (weak && errno != ENOLCK && errno != EOPNOTSUPP && errno != ENOSYS && errno != EINVAL)
        return pare_file_fail(cx, l->path, "lock");
    *again =
        lstat(l->path, &there) != 0 || mine.st_ino != there.st_ino || mine.st_dev != there.st_dev;
    if (*again)
        return PARE_OK;
    PARE_TRY(read_line(cx, l, line));
    *again = !created && !last && !line[0];
    if (*again) {
        nap();
        return PARE_OK;
    }
    if (!created && !is_ours(line))
        return refuse_line(cx, l, line);
    if (weak && may_run(line))
        return refuse_named(cx, l, output, line);
    if (weak)
        pare_teller_say(teller,
                        "%s: the file system cannot lock files; two runs that start at the same "
                        "moment would not see each other",
                        l->path);
    const pare_status s = write_line(cx, l, command);
    if (s != PARE_OK)
        (void)unlink(l->path);
    return s;
}

pare_status pare_lock_take(pare_ctx *cx, pare_arena *a, const char *output, const char *command,
                           const pare_teller *teller, pare_lock *out)
{
    pare_lock l = {.fd = -1};
    bool again = true;
    *out = (pare_lock){0};
    l.path = pare_path_suffix(a, output, ".lock");
    if (!l.path)
        return PARE_ENOMEM;
    pare_status s = PARE_OK;
    for (int i = 0; s == PARE_OK && again && i < TRIES; i++) {
        s = pare_output_make_parents(cx, a, output, &l.made);
        if (s == PARE_OK)
            s = try_lock(cx, a, output, command, teller, i == TRIES - 1, &l, &again);
        if (s != PARE_OK || again)
            drop(&l);
    }
    if (s == PARE_OK && again)
        s = pare_fail(cx, PARE_EIO, "%s: cannot be locked: it keeps coming and going", l.path);
    l.held = s == PARE_OK;
    if (l.held)
        *out = l;
    else
        pare_output_remove_made(l.path, l.made);
    return s;
}

pare_status pare_lock_check(pare_ctx *cx, pare_arena *a, const char *output)
{
    pare_lock l = {.path = pare_path_suffix(a, output, ".lock")};
    char line[LINE];
    struct stat st;
    if (!l.path)
        return PARE_ENOMEM;
    if (lstat(l.path, &st) != 0)
        return PARE_OK;
    if (!S_ISREG(st.st_mode))
        return refuse_foreign(cx, &l);
    l.fd = open(l.path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    if (l.fd < 0) /* it went away, or says nothing to who only looks */
        return PARE_OK;
    const pare_status s = read_line(cx, &l, line);
    drop(&l);
    return s != PARE_OK || is_ours(line) ? s : refuse_line(cx, &l, line);
}

void pare_lock_release(pare_lock *l)
{
    struct stat mine, there;
    if (!l->held)
        return;
    if (fstat(l->fd, &mine) == 0 && lstat(l->path, &there) == 0 && mine.st_ino == there.st_ino &&
        mine.st_dev == there.st_dev)
        (void)unlink(l->path); /* before the lock goes: nobody else has begun to use the file */
    drop(l);
    pare_output_remove_made(l->path, l->made);
    *l = (pare_lock){0};
}
