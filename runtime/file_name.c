#define _GNU_SOURCE /* renameat2 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>

#include "runtime/file.h"

/* Whether a file system lacks a way of renaming. */
static bool is_missing_way(int code)
{
    return code == EINVAL || code == ENOSYS || code == EOPNOTSUPP;
}

pare_status pare_file_exchange(pare_ctx *cx, const char *one, const char *other, bool *done)
{
    *done = renameat2(AT_FDCWD, one, AT_FDCWD, other, RENAME_EXCHANGE) == 0;
    if (*done)
        return pare_file_sync_parent(cx, other);
    return is_missing_way(errno) ? PARE_OK
                                 : pare_file_fail(cx, other, "put the finished files in place");
}

pare_status pare_file_name(pare_ctx *cx, const char *from, const char *to)
{
    struct stat st;
    int rc = renameat2(AT_FDCWD, from, AT_FDCWD, to, RENAME_NOREPLACE);
    if (rc != 0 && is_missing_way(errno)) {
        const bool taken = lstat(to, &st) == 0;
        errno = EEXIST;
        rc = taken ? -1 : rename(from, to);
    }
    if (rc == 0)
        return PARE_OK;
    return errno == EEXIST
               ? pare_fail(cx, PARE_EEXISTS, "%s: something was put there meanwhile, and stays", to)
               : pare_file_fail(cx, to, "put the finished file in place");
}
