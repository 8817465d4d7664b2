/* tests/fault/call_kinds.h - the kinds of calls that shim_fail.c can make fail, what tells it
 * which, and where it counts. */
#ifndef PARE_TESTS_CALL_KINDS_H
#define PARE_TESTS_CALL_KINDS_H

#include <stdatomic.h>
#include <stdint.h>

/* Name, errors that it may fail with (the first is the usual one), and whether it can take space on
 * a disk. */
#define CALL_KINDS(X)                                                                              \
    X(open, "EMFILE EACCES EIO EINTR", 1)                                                          \
    X(openat, "EMFILE EIO", 1)                                                                     \
    X(fopen, "EMFILE EIO", 0)                                                                      \
    X(mkstemp, "ENOSPC EACCES", 1)                                                                 \
    X(close, "EIO EINTR", 0)                                                                       \
    X(mmap, "ENOMEM ENODEV", 0)                                                                    \
    X(read, "EIO EINTR", 0)                                                                        \
    X(pread, "EIO EINTR", 0)                                                                       \
    X(fread, "EIO", 0)                                                                             \
    X(write, "EIO ENOSPC EINTR", 0)                                                                \
    X(pwrite, "ENOSPC EIO EDQUOT EINTR", 1)                                                        \
    X(fflush, "ENOSPC EIO", 0)                                                                     \
    X(fsync, "EIO ENOSPC EINTR", 0)                                                                \
    X(rename, "EIO ENOSPC", 1)                                                                     \
    X(renameat2, "EIO EINVAL ENOSYS", 1)                                                           \
    X(ftruncate, "EIO ENOSPC", 1)                                                                  \
    X(fallocate, "ENOSPC EOPNOTSUPP EINTR", 1)                                                     \
    X(mkdir, "ENOSPC EACCES", 1)                                                                   \
    X(unlink, "EIO EACCES", 0)                                                                     \
    X(rmdir, "EIO", 0)                                                                             \
    X(opendir, "EMFILE ENOMEM", 0)                                                                 \
    X(readdir, "EIO", 0)                                                                           \
    X(stat, "EIO ENOMEM", 0)                                                                       \
    X(fstat, "EIO", 0)                                                                             \
    X(access, "EACCES", 0)                                                                         \
    X(flock, "EINTR ENOLCK", 0)                                                                    \
    X(pthread_create, "EAGAIN", 0)                                                                 \
    X(malloc, "ENOMEM", 0)

typedef enum call_kind {
#define X(name, errors, space) CALL_##name,
    CALL_KINDS(X)
#undef X
        CALL_KIND_COUNT
} call_kind;

/* Lies in the file that FAIL_COUNTS names. */
typedef struct call_counts {
    _Atomic uint64_t calls[CALL_KIND_COUNT], all, struck;
} call_counts;

/* Environment: the kind, the first call that fails (from 1), the error as a number, "1" when all
 * later calls of the kind fail as well. With FAIL_EAT nothing fails by itself: in front of the n-th
 * call that takes space, of whatever kind, a file of that path takes all that the disk has left.
 * With FAIL_DIE the process is killed in front of the n-th call that changes or syncs a disk. */
#define FAIL_COUNTS "PARE_FAIL_COUNTS"
#define FAIL_KIND   "PARE_FAIL_KIND"
#define FAIL_AT     "PARE_FAIL_AT"
#define FAIL_ERRNO  "PARE_FAIL_ERRNO"
#define FAIL_STAY   "PARE_FAIL_STAY"
#define FAIL_EAT    "PARE_FAIL_EAT"
#define FAIL_DIE    "PARE_FAIL_DIE"

#endif
