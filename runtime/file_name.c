#define _GNU_SOURCE /* renameat2 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>

#include "runtime/file.h"

pare_status pare_file_name(pare_ctx *cx, const char *from, const char *to)
{
    struct stat st;
    int rc = renameat2(AT_FDCWD, from, AT_FDCWD, to, RENAME_NOREPLACE);
    if (rc != 0 && (errno == EINVAL || errno == ENOSYS || errno == EOPNOTSUPP)) {
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
