#include "compress/cli/notify.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "runtime/machine.h"

extern char **environ;

enum { VARIABLES = 5 };
static const char *const name[VARIABLES] = {
    "PARE_STATUS=", "PARE_EXIT=", "PARE_OUTPUT=", "PARE_SECONDS=", "PARE_SUMMARY="};

static bool is_ours(const char *variable)
{
    for (size_t i = 0; i < VARIABLES; i++)
        if (strncmp(variable, name[i], strlen(name[i])) == 0)
            return true;
    return false;
}

/* "NAME=value" on one line. */
static char *join(pare_arena *a, const char *key, const char *value)
{
    const size_t k = strlen(key), v = strlen(value);
    char *const text = PARE_NEW(a, char, k + v + 1);
    if (!text)
        return NULL;
    memcpy(text, key, k);
    memcpy(text + k, value, v);
    for (char *c = pare_text_printable(text); *c; c++)
        if (*c == '\n' || *c == '\r')
            *c = ' ';
    return text;
}

/* The environment of this process and what there is to tell; NULL: no memory. */
static char **make_environment(pare_arena *a, const pare_notice *n)
{
    char code[16], seconds[32];
    const char *const value[VARIABLES] = {n->status, code, n->output, seconds, n->summary};
    size_t count = 0;
    (void)snprintf(code, sizeof code, "%d", n->code);
    (void)snprintf(seconds, sizeof seconds, "%.1f", n->seconds);
    while (environ && environ[count])
        count++;
    char **const all = PARE_NEW(a, char *, count + VARIABLES + 1);
    if (!all)
        return NULL;
    size_t used = 0;
    for (size_t i = 0; i < count; i++)
        if (!is_ours(environ[i]))
            all[used++] = environ[i];
    for (size_t i = 0; i < VARIABLES; i++, used++) {
        all[used] = join(a, name[i], value[i]);
        if (!all[used])
            return NULL;
    }
    return all;
}

/* Signals are what they are to any program; 0 or an errno. */
static int set_group(posix_spawnattr_t *attr)
{
    static const int number[] = {SIGINT, SIGTERM, SIGXCPU, SIGPIPE, SIGXFSZ};
    sigset_t standard, none;
    (void)sigemptyset(&none);
    (void)sigemptyset(&standard);
    for (size_t i = 0; i < sizeof number / sizeof *number; i++)
        (void)sigaddset(&standard, number[i]);
    int e = posix_spawnattr_setsigdefault(attr, &standard);
    e = e ? e : posix_spawnattr_setsigmask(attr, &none);
    return e ? e
             : posix_spawnattr_setflags(attr, POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGDEF |
                                                  POSIX_SPAWN_SETSIGMASK);
}

/* stdout is for the result of the job. */
static int set_files(posix_spawn_file_actions_t *files, bool quiet)
{
    int e = posix_spawn_file_actions_addopen(files, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
    if (!e && quiet)
        e = posix_spawn_file_actions_addopen(files, STDERR_FILENO, "/dev/null", O_WRONLY, 0);
    return e ? e : posix_spawn_file_actions_adddup2(files, STDERR_FILENO, STDOUT_FILENO);
}

static int start(const char *command, char **environment, bool quiet, pid_t *pid)
{
    char *const argv[] = {(char *)"sh", (char *)"-c", (char *)(uintptr_t)command, NULL};
    posix_spawnattr_t attr;
    posix_spawn_file_actions_t files;
    int e = posix_spawnattr_init(&attr);
    if (e)
        return e;
    e = posix_spawn_file_actions_init(&files);
    if (e) {
        (void)posix_spawnattr_destroy(&attr);
        return e;
    }
    e = set_group(&attr);
    e = e ? e : set_files(&files, quiet);
    e = e ? e : posix_spawn(pid, "/bin/sh", &files, &attr, argv, environment);
    (void)posix_spawn_file_actions_destroy(&files);
    (void)posix_spawnattr_destroy(&attr);
    return e;
}

/* False: it was killed. */
static bool wait_for(pid_t pid, double limit, int *status)
{
    static const struct timespec pause = {.tv_nsec = 10000000};
    const double end = pare_seconds() + limit;
    for (;;) {
        const pid_t got = waitpid(pid, status, WNOHANG);
        if (got == pid || (got < 0 && errno != EINTR))
            return true;
        if (pare_seconds() > end)
            break;
        (void)nanosleep(&pause, NULL);
    }
    (void)kill(-pid, SIGKILL);
    while (waitpid(pid, status, 0) < 0 && errno == EINTR)
        ;
    return false;
}

bool pare_notify(pare_arena *a, const char *command, const pare_notice *n, double limit,
                 char why[PARE_NOTIFY_WHY])
{
    pid_t pid;
    int status = 0;
    char **const environment = make_environment(a, n);
    const int e = environment ? start(command, environment, n->quiet, &pid) : ENOMEM;
    if (e) {
        (void)snprintf(why, PARE_NOTIFY_WHY, "could not be started: %s", strerror(e));
        return false;
    }
    if (!wait_for(pid, limit, &status))
        (void)snprintf(why, PARE_NOTIFY_WHY, "was killed after %.0f s", limit);
    else if (WIFSIGNALED(status))
        (void)snprintf(why, PARE_NOTIFY_WHY, "was ended by signal %d", WTERMSIG(status));
    else if (WEXITSTATUS(status))
        (void)snprintf(why, PARE_NOTIFY_WHY, "ended with exit code %d", WEXITSTATUS(status));
    else
        return true;
    return false;
}
