/* What the helper can no longer do; each in a process of its own, which it must not outlive. */
#define _GNU_SOURCE /* madvise and the like, files without a name */
#include "formats/hdf5_sandbox.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/seccomp.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>

#include "tests/unit/unit.h"

static int at_most_one_file(void)
{
    return pare_hdf5_sandbox_enter(0) && open("/dev/zero", O_RDONLY) >= 0 &&
           open("/dev/zero", O_RDONLY) < 0;
}

static int none_after_it(void)
{
    const int fd = pare_hdf5_sandbox_enter(0) ? open("/dev/zero", O_RDONLY) : -1;
    char byte = 1;
    if (fd < 0 || !pare_hdf5_sandbox_close() || read(fd, &byte, 1) != 1 || byte != 0)
        return 0;
    (void)close(fd);
    return open("/dev/zero", O_RDONLY) < 0;
}

static int nothing_is_written(void)
{
    return pare_hdf5_sandbox_enter(0) &&
           open("/tmp/pare-unit-sandbox", O_WRONLY | O_CREAT, 0600) < 0 &&
           open("/dev/null", O_WRONLY) < 0 && open("/dev/null", O_RDWR) < 0;
}

/* The file that is open grows to its limit; none is opened beside it, and nothing else is done. */
static int one_file_is_written(void)
{
    char byte = 1;
    const int fd = open("/tmp", O_RDWR | O_TMPFILE, 0600);
    (void)signal(SIGXFSZ, SIG_IGN);
    return fd >= 0 && pare_hdf5_sandbox_write(8) && pwrite(fd, &byte, 1, 7) == 1 &&
           ftruncate(fd, 4) == 0 && pwrite(fd, &byte, 1, 8) < 0 && open("/dev/zero", O_RDONLY) < 0;
}

static int writing_is_all(void)
{
    if (!pare_hdf5_sandbox_write(8))
        return 0;
    return socket(AF_INET, SOCK_STREAM, 0) < 0 && errno == EPERM && kill(getppid(), 0) < 0;
}

static int no_network(void)
{
    return pare_hdf5_sandbox_enter(0) && socket(AF_INET, SOCK_STREAM, 0) < 0 && errno == EPERM;
}

static int no_process(void)
{
    if (!pare_hdf5_sandbox_enter(0))
        return 0;
    const pid_t pid = fork();
    if (pid == 0)
        _exit(0);
    char name[] = "true", *argv[] = {name, NULL};
    return pid < 0 && execv("/bin/true", argv) < 0 && kill(getppid(), 0) < 0;
}

static int no_code(void)
{
    if (!pare_hdf5_sandbox_enter(0))
        return 0;
    const int flags = MAP_PRIVATE | MAP_ANONYMOUS;
    void *const plain =
        mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    return plain != MAP_FAILED && mprotect(plain, 4096, PROT_READ) == 0 &&
           mprotect(plain, 4096, PROT_READ | PROT_EXEC) < 0 &&
           mmap(NULL, 4096, PROT_READ | PROT_EXEC, flags, -1, 0) == MAP_FAILED;
}

static int little_memory(void)
{
    return pare_hdf5_sandbox_enter(0) &&
           mmap(NULL, (size_t)2 << 30, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) ==
               MAP_FAILED &&
           errno == ENOMEM;
}

static int limits_stay(void)
{
    struct rlimit r = {0, 0};
    if (!pare_hdf5_sandbox_enter(50u * 1000 * 1000))
        return 0;
    r.rlim_cur = r.rlim_max = 65;
    return setrlimit(RLIMIT_CPU, &r) < 0 || setrlimit(RLIMIT_NOFILE, &r) < 0;
}

static int limits_are_set(void)
{
    struct rlimit cpu, size, core;
    /* limits cannot be asked for behind the filter: where it is missing they must be right */
    if (!pare_hdf5_sandbox_enter(50u * 1000 * 1000))
        return 0;
    if (getrlimit(RLIMIT_CPU, &cpu) < 0)
        return errno == EPERM;
    return cpu.rlim_max == 65 && getrlimit(RLIMIT_FSIZE, &size) == 0 && size.rlim_max == 0 &&
           getrlimit(RLIMIT_CORE, &core) == 0 && core.rlim_max == 0;
}

/* Whether the kernel, and what runs it, can filter system calls: then no filter is a bad address,
 * and not an unknown request. */
static int can_filter(void)
{
    return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
           prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, NULL) < 0 && errno == EFAULT;
}

/* Runs one of the above; what it returns. */
static int apart(int (*what)(void))
{
    int status = 0;
    const pid_t pid = fork();
    ck_assert_int_ge(pid, 0);
    if (pid == 0) {
        for (int fd = 3; fd < 64; fd++)
            (void)close(fd);
        _exit(what() ? 17 : 18);
    }
    ck_assert_int_eq(waitpid(pid, &status, 0), pid);
    ck_assert_msg(WIFEXITED(status), "ended by signal %d", WTERMSIG(status));
    ck_assert_msg(WEXITSTATUS(status) == 17 || WEXITSTATUS(status) == 18, "ended by itself");
    return WEXITSTATUS(status) == 17;
}

START_TEST(limits_hold_without_filters)
{
    ck_assert(apart(at_most_one_file));
    ck_assert(apart(little_memory));
    ck_assert(apart(limits_are_set));
    ck_assert(apart(one_file_is_written));
}
END_TEST

START_TEST(filters_leave_reading_and_nothing_else)
{
    if (!apart(can_filter)) {
        (void)fprintf(stderr, "skipped: system calls cannot be filtered here\n");
        return;
    }
    ck_assert(apart(none_after_it));
    ck_assert(apart(nothing_is_written));
    ck_assert(apart(writing_is_all));
    ck_assert(apart(no_network));
    ck_assert(apart(no_process));
    ck_assert(apart(no_code));
    ck_assert(apart(limits_stay));
}
END_TEST

int main(void)
{
    Suite *const s = suite_create("hdf5_sandbox");
    TCase *const t = tcase_create("hdf5_sandbox");
    tcase_add_test(t, limits_hold_without_filters);
    tcase_add_test(t, filters_leave_reading_and_nothing_else);
    suite_add_tcase(s, t);
    return unit_main(s);
}
