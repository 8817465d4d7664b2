/* tests/fault/faults.h - writes, syncs, renames and reservations that fail by a plan. The linker
 * puts these wrappers between the library and libc, so one source of a program includes them. */
#ifndef PARE_TESTS_FAULTS_H
#define PARE_TESTS_FAULTS_H

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <sys/types.h>

typedef enum fault_kind { NO_SPACE, BROKEN, INTERRUPTED, SHORT, NO_RESERVATION, KINDS } fault_kind;

/* The plan of failures. The n-th wrapped call fails, and with `sticky` every one behind it too. */
static struct {
    fault_kind kind;
    long left, calls;
    unsigned seen; /* bit per wrapper that was called */
    bool active, sticky;
    bool owed; /* a sync was interrupted and has not been tried again */
} fault;

static inline void fault_start(fault_kind kind, bool sticky, long n)
{
    fault.kind = kind;
    fault.left = n;
    fault.sticky = sticky;
    fault.active = true;
}

/* Whether there was an n-th call. */
static inline bool fault_stop(void)
{
    fault.active = false;
    return fault.left < 0;
}

static bool strikes(unsigned wrapper)
{
    fault.calls++;
    fault.seen |= 1u << wrapper;
    if (!fault.active)
        return false;
    const long left = fault.left--;
    return left == 0 || (left < 0 && fault.sticky);
}

/* errno of the failure, 0 when this kind does not concern the call. */
static int fault_errno(bool interruptible)
{
    switch (fault.kind) {
    case NO_SPACE: return ENOSPC;
    case BROKEN: return EIO;
    case INTERRUPTED: return interruptible && !fault.sticky ? EINTR : 0;
    default: return 0;
    }
}

ssize_t __real_pwrite64(int fd, const void *bytes, size_t len, off_t offset);
ssize_t __wrap_pwrite64(int fd, const void *bytes, size_t len, off_t offset);
int __wrap_fsync(int fd);
int __real_rename(const char *from, const char *to);
int __wrap_rename(const char *from, const char *to);
int __real_ftruncate64(int fd, off_t len);
int __wrap_ftruncate64(int fd, off_t len);
int __real_posix_fallocate64(int fd, off_t offset, off_t len);
int __wrap_posix_fallocate64(int fd, off_t offset, off_t len);

ssize_t __wrap_pwrite64(int fd, const void *bytes, size_t len, off_t offset)
{
    if (strikes(0)) {
        const int code = fault_errno(true);
        if (code || fault.kind == SHORT) {
            /* a full disk takes what still fits */
            const ssize_t n = code == EIO || code == EINTR || len < 2
                                  ? 0
                                  : __real_pwrite64(fd, bytes, len / 2, offset);
            errno = code;
            return fault.kind == SHORT && n > 0 ? n
                   : code                       ? -1
                                                : __real_pwrite64(fd, bytes, len, offset);
        }
    }
    return __real_pwrite64(fd, bytes, len, offset);
}

/* Nothing is really synced: the test kills no machine. */
int __wrap_fsync(int fd)
{
    (void)fd;
    const int code = strikes(1) ? fault_errno(true) : 0;
    errno = code ? code : errno;
    fault.owed = code == EINTR;
    return code ? -1 : 0;
}

int __wrap_rename(const char *from, const char *to)
{
    const int code = strikes(2) ? fault_errno(false) : 0;
    errno = code ? code : errno;
    return code ? -1 : __real_rename(from, to);
}

int __wrap_ftruncate64(int fd, off_t len)
{
    const int code = strikes(3) ? fault_errno(false) : 0;
    errno = code ? code : errno;
    return code ? -1 : __real_ftruncate64(fd, len);
}

int __wrap_posix_fallocate64(int fd, off_t offset, off_t len)
{
    if (strikes(4)) {
        const int code = fault.kind == NO_RESERVATION ? EOPNOTSUPP : fault_errno(true);
        if (code)
            return code;
    }
    return __real_posix_fallocate64(fd, offset, len);
}

#endif
