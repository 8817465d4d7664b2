/* OpenBLAS in a process of its own: the program runs itself, the child writes the seconds as one
 * line of text, or why it has not enough memory, and ends. */
#include <errno.h>
#include <fcntl.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "compress/bench/bench_internal.h"
#include "runtime/linalg_baseline.h"

extern char **environ;

enum { ARGS_MAX = 8, TEXT_MAX = 512 };
enum { NO_MEMORY = EXIT_FAILURE + 1 }; /* exit code of the child, which wrote why */

static bool parse_size(const char *text, size_t *out)
{
    char *end = NULL;
    errno = 0;
    const unsigned long long v = strtoull(text, &end, 10);
    if (errno != 0 || end == text || *end != '\0' || v > UINT32_MAX)
        return false;
    *out = (size_t)v;
    return true;
}

static pare_status run_job(pare_ctx *cx, int argc, char **argv, double *seconds)
{
    size_t size[3] = {0};
    for (int i = 3; i < argc && i < 6; i++)
        if (!parse_size(argv[i], &size[i - 3]))
            return PARE_EUSAGE;
    if (argc == 6 && strcmp(argv[2], "sgemm") == 0)
        return pare_blas_sgemm_seconds(cx, size[0], size[1], size[2], seconds);
    if (argc == 4 && strcmp(argv[2], "solve") == 0)
        return pare_blas_solve_seconds(cx, size[0], seconds);
    return PARE_EUSAGE;
}

int pare_bench_child(int argc, char **argv)
{
    pare_ctx cx;
    pare_ctx_init(&cx);
    double seconds = 0.0;
    const pare_status s = run_job(&cx, argc, argv, &seconds);
    if (s == PARE_ENOMEM) {
        const size_t used = strlen(cx.what);
        return write(STDOUT_FILENO, cx.what, used) == (ssize_t)used ? NO_MEMORY : EXIT_FAILURE;
    }
    if (s != PARE_OK)
        return EXIT_FAILURE;
    char text[TEXT_MAX];
    const int len = snprintf(text, sizeof text, "%.9f\n", seconds);
    return write(STDOUT_FILENO, text, (size_t)len) == len ? EXIT_SUCCESS : EXIT_FAILURE;
}

/* Reads to the end of the pipe; what does not fit is dropped. */
static void read_all(int fd, char text[TEXT_MAX])
{
    size_t len = 0;
    for (;;) {
        char part[TEXT_MAX];
        const ssize_t n = read(fd, part, sizeof part);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            break;
        const size_t fits = TEXT_MAX - 1 - len < (size_t)n ? TEXT_MAX - 1 - len : (size_t)n;
        memcpy(text + len, part, fits);
        len += fits;
    }
    text[len] = '\0';
}

static int spawn(char **argv, int out, pid_t *child)
{
    posix_spawn_file_actions_t actions;
    int e = posix_spawn_file_actions_init(&actions);
    if (e != 0)
        return e;
    e = posix_spawn_file_actions_adddup2(&actions, out, STDOUT_FILENO);
    if (e == 0)
        e = posix_spawn(child, "/proc/self/exe", &actions, NULL, argv, environ);
    (void)posix_spawn_file_actions_destroy(&actions);
    return e;
}

pare_status pare__bench_baseline(pare_ctx *cx, const char *const *args, double *seconds)
{
    char name[] = "pare", job[] = PARE_BENCH_CHILD;
    char *argv[ARGS_MAX + 1] = {name, job};
    for (size_t i = 0; args[i] && i + 2 < ARGS_MAX; i++)
        argv[i + 2] = (char *)(uintptr_t)args[i]; /* exec does not write to its arguments */
    int fd[2];
    if (pipe(fd) != 0)
        return pare_fail(cx, PARE_EIO, "bench: no pipe to the OpenBLAS baseline: %s",
                         strerror(errno));
    (void)fcntl(fd[0], F_SETFD, FD_CLOEXEC);
    (void)fcntl(fd[1], F_SETFD, FD_CLOEXEC);
    pid_t child = 0;
    const int e = spawn(argv, fd[1], &child);
    (void)close(fd[1]);
    char text[TEXT_MAX] = "";
    int status = -1;
    if (e == 0) {
        read_all(fd[0], text);
        while (waitpid(child, &status, 0) < 0 && errno == EINTR)
            continue;
    }
    (void)close(fd[0]);
    if (e != 0)
        return pare_fail(cx, PARE_EIO, "bench: cannot start the OpenBLAS baseline: %s",
                         strerror(e));
    if (WIFEXITED(status) && WEXITSTATUS(status) == NO_MEMORY)
        return pare_fail(cx, PARE_ENOMEM, "bench: %s; --no-baseline runs without it", text);
    char *end = NULL;
    *seconds = strtod(text, &end);
    if (!WIFEXITED(status) || WEXITSTATUS(status) != 0 || end == text || !(*seconds > 0.0))
        return pare_fail(cx, PARE_EIO, "bench: the OpenBLAS baseline (%s) gave no time, status %d",
                         args[0], status);
    return PARE_OK;
}
