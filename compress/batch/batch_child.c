/* Children: this program again, with other arguments. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#if defined(__linux__)
#include <sys/prctl.h>
#endif

#include "compress/batch/batch_internal.h"
#include "runtime/file.h"

/* Of the signals that stop a command in order, the one that no other makes a second: who stops a
 * service or a job of a cluster sends SIGTERM to every process, and a child that got it saves its
 * work when the parent passes it on, too. */
enum { STOP = SIGHUP };

/* In the child: nothing that another thread of the parent might hold. A signal that the parent
 * passes on ends it from here on, whatever the parent does with signals. */
static _Noreturn void become(const pare__child *c, const int fd[3], pid_t parent,
                             const sigset_t *mask)
{
    static const char failed[] = "pare: error: the job could not be started\n";
    (void)setpgid(0, 0);
    (void)signal(SIGINT, SIG_DFL);
    (void)signal(SIGTERM, SIG_DFL);
    (void)signal(STOP, SIG_DFL); /* nohup ignores it; no terminal sends it to a group of its own */
    (void)sigprocmask(SIG_SETMASK, mask, NULL);
#if defined(__linux__)
    (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
#endif
    if (getppid() == parent && dup2(fd[0], STDIN_FILENO) >= 0 && dup2(fd[1], STDOUT_FILENO) >= 0 &&
        dup2(fd[2], STDERR_FILENO) >= 0)
        (void)execv("/proc/self/exe", (char *const *)(uintptr_t)c->argv);
    (void)!write(STDERR_FILENO, failed, sizeof failed - 1);
    _exit(1);
}

/* Signals wait while there are two of this program. */
static pare_status split(pare_ctx *cx, const pare__child *c, const int fd[3], pid_t *pid)
{
    const pid_t parent = getpid();
    sigset_t held, mask;
    (void)sigemptyset(&held);
    (void)sigaddset(&held, SIGINT);
    (void)sigaddset(&held, SIGTERM);
    (void)sigaddset(&held, STOP);
    (void)sigprocmask(SIG_BLOCK, &held, &mask);
    *pid = fork();
    if (*pid == 0)
        become(c, fd, parent, &mask);
    const int code = errno;
    (void)sigprocmask(SIG_SETMASK, &mask, NULL);
    return *pid > 0 ? PARE_OK : pare_fail(cx, PARE_EIO, "no process for a job: %s", strerror(code));
}

static int open_log(const char *path, int how)
{
    return open(path, O_WRONLY | O_CREAT | O_NOFOLLOW | O_CLOEXEC | how, 0666);
}

pare_status pare__batch_start(pare_ctx *cx, const pare__child *c, pid_t *pid)
{
    const int fd[3] = {open("/dev/null", O_RDONLY | O_CLOEXEC),
                       open_log(c->out ? c->out : c->log, c->out ? O_TRUNC : O_APPEND),
                       open_log(c->log, O_APPEND)};
    const char *const path[3] = {"/dev/null", c->out ? c->out : c->log, c->log};
    pare_status s = PARE_OK;
    *pid = -1;
    for (size_t i = 0; s == PARE_OK && i < 3; i++)
        if (fd[i] < 0)
            s = pare_file_fail(cx, path[i], "open");
    if (s == PARE_OK)
        s = split(cx, c, fd, pid);
    for (size_t i = 0; i < 3; i++)
        if (fd[i] >= 0)
            (void)close(fd[i]);
    return s;
}

void pare__batch_stop(pid_t pid)
{
    (void)kill(pid, STOP);
}

void pare__batch_wait(pare_ctx *cx, bool told, pid_t *pid, int *status)
{
    static const struct timespec pause = {.tv_nsec = 20000000};
    for (;;) {
        *pid = waitpid(-1, status, WNOHANG);
        if (*pid > 0 || (*pid < 0 && errno != EINTR))
            break;
        *pid = 0;
        if (!told && cx->interrupt && *cx->interrupt)
            break;
        (void)nanosleep(&pause, NULL);
    }
}

void pare__batch_said(const char *log, const char *mark, char said[PARE_BATCH_WHY])
{
    char text[8192];
    const int fd = open(log, O_RDONLY | O_CLOEXEC);
    const off_t end = fd >= 0 ? lseek(fd, 0, SEEK_END) : -1;
    const off_t from = end > (off_t)sizeof text - 1 ? end - (off_t)sizeof text + 1 : 0;
    const ssize_t got = end > 0 ? pread(fd, text, sizeof text - 1, from) : 0;
    if (fd >= 0)
        (void)close(fd);
    text[got > 0 ? got : 0] = '\0';
    const char *last = NULL;
    for (const char *p = text; (p = strstr(p, mark)) != NULL; p += strlen(mark))
        last = p + strlen(mark);
    if (!last)
        return;
    last += strspn(last, " ");
    (void)snprintf(said, PARE_BATCH_WHY, "%.*s", (int)strcspn(last, "\n"), last);
    (void)pare_text_printable(said);
}
