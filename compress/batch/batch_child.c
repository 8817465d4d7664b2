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

/* In the child: nothing that another thread of the parent might hold. */
static _Noreturn void become(const pare__child *c, int in, int out, pid_t parent)
{
    static const char failed[] = "pare: error: the job could not be started\n";
    (void)setpgid(0, 0);
#if defined(__linux__)
    (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
#endif
    if (getppid() == parent && dup2(in, STDIN_FILENO) >= 0 && dup2(out, STDOUT_FILENO) >= 0 &&
        dup2(out, STDERR_FILENO) >= 0)
        (void)execv("/proc/self/exe", (char *const *)(uintptr_t)c->argv);
    (void)!write(STDERR_FILENO, failed, sizeof failed - 1);
    _exit(1);
}

pare_status pare__batch_start(pare_ctx *cx, const pare__child *c, pid_t *pid)
{
    const int in = open("/dev/null", O_RDONLY | O_CLOEXEC);
    const int out = open(
        c->out, O_WRONLY | O_CREAT | O_NOFOLLOW | O_CLOEXEC | (c->anew ? O_TRUNC : O_APPEND), 0666);
    const pid_t parent = getpid();
    pare_status s = PARE_OK;
    *pid = -1;
    if (in < 0 || out < 0)
        s = pare_file_fail(cx, in < 0 ? "/dev/null" : c->out, "open");
    else if ((*pid = fork()) < 0)
        s = pare_fail(cx, PARE_EIO, "no process for a job: %s", strerror(errno));
    else if (*pid == 0)
        become(c, in, out, parent);
    if (in >= 0)
        (void)close(in);
    if (out >= 0)
        (void)close(out);
    return s;
}

void pare__batch_wait(pare_ctx *cx, pid_t *pid, int *status)
{
    static const struct timespec pause = {.tv_nsec = 20000000};
    const bool told = cx->interrupt && *cx->interrupt;
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

void pare__batch_why(const char *log, char why[PARE_BATCH_WHY])
{
    static const char mark[] = "error: ";
    char text[8192];
    const int fd = open(log, O_RDONLY | O_CLOEXEC);
    const off_t end = fd >= 0 ? lseek(fd, 0, SEEK_END) : -1;
    const off_t from = end > (off_t)sizeof text - 1 ? end - (off_t)sizeof text + 1 : 0;
    const ssize_t got = end > 0 ? pread(fd, text, sizeof text - 1, from) : 0;
    if (fd >= 0)
        (void)close(fd);
    text[got > 0 ? got : 0] = '\0';
    const char *last = NULL;
    for (const char *p = text; (p = strstr(p, mark)) != NULL; p += sizeof mark - 1)
        last = p + sizeof mark - 1;
    if (!last)
        return;
    (void)snprintf(why, PARE_BATCH_WHY, "%.*s", (int)strcspn(last, "\n"), last);
    (void)pare_text_printable(why);
}
