#include "formats/hdf5.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "formats/hdf5_internal.h"
#include "formats/hdf5_protocol.h"
#include "runtime/file.h"

/* How long the process may be silent, how often an interrupt is looked for meanwhile, and how long
 * its end may take when it said all. In all it is waited for WAIT_MS and as long as reading the
 * file takes at BYTES_PER_MS. */
enum { SILENCE_MS = 60 * 1000, SLICE_MS = 200, END_MS = 2000, END_STEP_MS = 10 };
enum { WAIT_MS = 10 * SILENCE_MS, BYTES_PER_MS = 1000 };

typedef struct child {
    pare_ctx *cx;
    const char *path;
    pid_t pid;
    int fd; /* reading end of the pipe */
    pare__hdf5_limits limits;
    uint64_t waited_ms; /* in all */
    bool ended;         /* the pipe came to its end */
} child;

static uint64_t now_ms(void)
{
    struct timespec t;
    (void)clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000 + (uint64_t)t.tv_nsec / 1000000;
}

/* Waits until there is something to read, or the end. */
static pare_status wait_for_bytes(child *c)
{
    struct pollfd p = {.fd = c->fd, .events = POLLIN};
    for (int waited = 0; waited < c->limits.silence_ms; waited += SLICE_MS) {
        PARE_TRY(pare_ctx_interrupted(c->cx));
        const int slice = c->limits.silence_ms - waited < SLICE_MS ? c->limits.silence_ms - waited
                                                                   : (int)SLICE_MS;
        const uint64_t start = now_ms();
        const int n = poll(&p, 1, slice);
        c->waited_ms += now_ms() - start;
        if (c->waited_ms > c->limits.total_ms)
            return pare_fail(c->cx, PARE_EFORMAT,
                             "%s: the HDF5 reader took more than %llu seconds and was ended",
                             c->path, (unsigned long long)(c->limits.total_ms / 1000));
        if (n > 0)
            return PARE_OK;
        if (n < 0 && errno != EINTR)
            return pare_file_fail(c->cx, c->path, "wait for the HDF5 reader of");
    }
    return pare_fail(c->cx, PARE_EFORMAT,
                     "%s: the HDF5 reader was silent for %d seconds and was ended", c->path,
                     c->limits.silence_ms / 1000);
}

/* An early end leaves no message: the way in which the process ended says more. */
static pare_status read_pipe(void *self, void *bytes, size_t len)
{
    child *const c = self;
    unsigned char *p = bytes;
    while (len > 0) {
        PARE_TRY(wait_for_bytes(c));
        const ssize_t n = read(c->fd, p, len < INT_MAX ? len : INT_MAX);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return pare_file_fail(c->cx, c->path, "read what the HDF5 reader says of");
        if (n == 0) {
            c->ended = true;
            return PARE_EFORMAT;
        }
        p += n;
        len -= (size_t)n;
    }
    return PARE_OK;
}

/* In an environment of its own: no variable changes how libhdf5 works. In a process group of its
 * own: an interrupt from the keyboard is dealt with here. */
int pare__hdf5_spawn(const char *helper, const char *const ask[PARE__HDF5_ASK], int in, int out,
                     int file, pid_t *pid)
{
    static const char key[] = "LD_LIBRARY_PATH=";
    const char *const libraries = getenv("LD_LIBRARY_PATH");
    char name[] = "pare-hdf5", locking[] = "HDF5_USE_FILE_LOCKING=FALSE", search[PATH_MAX];
    char *argv[PARE__HDF5_ASK + 2] = {name};
    for (size_t i = 0; i < PARE__HDF5_ASK; i++)
        argv[i + 1] = (char *)(uintptr_t)ask[i]; /* exec does not write to its arguments */
    char *environment[] = {locking, NULL, NULL};
    if (libraries && strlen(libraries) + sizeof key <= sizeof search) {
        (void)snprintf(search, sizeof search, "%s%s", key, libraries);
        environment[1] = search;
    }
    posix_spawn_file_actions_t actions;
    posix_spawnattr_t group;
    int e = posix_spawnattr_init(&group);
    if (e != 0)
        return e;
    e = posix_spawn_file_actions_init(&actions);
    if (e != 0) {
        (void)posix_spawnattr_destroy(&group);
        return e;
    }
    e = posix_spawnattr_setflags(&group, POSIX_SPAWN_SETPGROUP);
    if (e == 0)
        e = posix_spawn_file_actions_adddup2(&actions, out, STDOUT_FILENO);
    if (e == 0 && in >= 0)
        e = posix_spawn_file_actions_adddup2(&actions, in, STDIN_FILENO);
    else if (e == 0)
        e = posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
    if (e == 0 && file >= 0) /* behind the pipes, one of which may have that number here */
        e = posix_spawn_file_actions_adddup2(&actions, file, PARE_HDF5_FILE);
    if (e == 0)
        e = posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, "/dev/null", O_WRONLY, 0);
    if (e == 0)
        e = posix_spawn(pid, helper, &actions, &group, argv, environment);
    (void)posix_spawnattr_destroy(&group);
    (void)posix_spawn_file_actions_destroy(&actions);
    return e;
}

/* Status of the process once it ended, by itself within a moment or by force. */
int pare__hdf5_end(pid_t pid, bool at_once)
{
    int status = 0;
    for (int waited = 0; !at_once && waited < END_MS; waited += END_STEP_MS) {
        const pid_t ended = waitpid(pid, &status, WNOHANG);
        if (ended == pid || (ended < 0 && errno == ECHILD))
            return status; /* ECHILD: a parent that ignores its children's ends; the pid is gone */
        (void)poll(NULL, 0, END_STEP_MS);
    }
    (void)kill(pid, SIGKILL);
    while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
        continue;
    return status;
}

static pare_status say_end(const child *c, int status)
{
    if (WIFSIGNALED(status) && (WTERMSIG(status) == SIGKILL || WTERMSIG(status) == SIGXCPU))
        return pare_fail(c->cx, PARE_EFORMAT,
                         "%s: the HDF5 reader needed more time than it may have for this file",
                         c->path);
    if (WIFSIGNALED(status))
        return pare_fail(c->cx, PARE_EFORMAT,
                         "%s: the HDF5 reader crashed on this file (signal %d): it is malformed",
                         c->path, WTERMSIG(status));
    return pare_fail(c->cx, PARE_EFORMAT,
                     "%s: the HDF5 reader ended early, with status %d and without a word", c->path,
                     WIFEXITED(status) ? WEXITSTATUS(status) : -1);
}

pare_status pare__hdf5_run(pare_ctx *cx, pare_arena *a, pare_scratch *scratch, const char *helper,
                           pare__hdf5_limits limits, const char *path, uint64_t bytes, bool bare,
                           const char *only, pare_hdf5 *out)
{
    const char *const ask[PARE__HDF5_ASK] = {path,
                                             bare   ? PARE_HDF5_BARE
                                             : only ? PARE_HDF5_ONLY
                                                    : NULL,
                                             only};
    int fd[2];
    *out = (pare_hdf5){0};
    if (pipe(fd) != 0)
        return pare_file_fail(cx, path, "make a pipe to the HDF5 reader of");
    (void)fcntl(fd[0], F_SETFD, FD_CLOEXEC);
    (void)fcntl(fd[1], F_SETFD, FD_CLOEXEC);
    child c = {.cx = cx, .path = path, .fd = fd[0], .limits = limits};
    const int e = pare__hdf5_spawn(helper, ask, -1, fd[1], -1, &c.pid);
    (void)close(fd[1]);
    if (e != 0) {
        (void)close(fd[0]);
        errno = e;
        return pare_file_fail(cx, helper, "start");
    }
    const pare__hdf5_source source = {read_pipe, &c, bare};
    pare_ctx_progress(cx, "reading HDF5", 0, 1);
    const pare_status s = pare__hdf5_records(cx, a, scratch, path, bytes, &source, out);
    pare_ctx_progress(cx, "reading HDF5", 1, 1);
    (void)close(fd[0]);
    const int status = pare__hdf5_end(c.pid, s != PARE_OK && !c.ended);
    return c.ended ? say_end(&c, status) : s;
}

/* Beside the program, or where it is installed. */
pare_status pare__hdf5_find(pare_ctx *cx, const char *path, char helper[PATH_MAX])
{
    static const char *const places[] = {"pare-hdf5", "../libexec/pare/pare-hdf5"};
    char program[PATH_MAX];
    const ssize_t n = readlink("/proc/self/exe", program, sizeof program - 1);
    program[n > 0 ? n : 0] = '\0';
    char *const slash = strrchr(program, '/');
    for (size_t i = 0; slash && i < 2; i++) {
        slash[1] = '\0';
        const int len = snprintf(helper, PATH_MAX, "%s%s", program, places[i]);
        if (len > 0 && len < PATH_MAX && access(helper, X_OK) == 0)
            return PARE_OK;
    }
    return pare_fail(
        cx, PARE_ENOTSUP,
        "%s: HDF5 files are read and written by the program pare-hdf5, which is neither beside "
        "pare nor in ../libexec/pare: this pare was built without libhdf5",
        path);
}

static pare_status read_file(pare_ctx *cx, pare_arena *a, pare_scratch *scratch, const char *path,
                             uint64_t bytes, bool bare, const char *only, pare_hdf5 *out)
{
    char helper[PATH_MAX];
    PARE_TRY(pare__hdf5_find(cx, path, helper));
    const pare__hdf5_limits limits = {SILENCE_MS, WAIT_MS + bytes / BYTES_PER_MS};
    return pare__hdf5_run(cx, a, scratch, helper, limits, path, bytes, bare, only, out);
}

pare_status pare_hdf5_read(pare_ctx *cx, pare_arena *a, pare_scratch *scratch, const char *path,
                           uint64_t bytes, bool bare, pare_hdf5 *out)
{
    return read_file(cx, a, scratch, path, bytes, bare, NULL, out);
}

pare_status pare_hdf5_read_only(pare_ctx *cx, pare_arena *a, pare_scratch *scratch,
                                const char *path, uint64_t bytes, const char *only, pare_hdf5 *out)
{
    return read_file(cx, a, scratch, path, bytes, false, only, out);
}
