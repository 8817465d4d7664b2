#include "calib/spill.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "runtime/file.h"
#include "runtime/world.h"

static pare_status make(pare_ctx *cx, const pare_spill *spill, uint64_t bytes, const char *what)
{
    char doing[64];
    int reason;
    if (unlink(spill->path) != 0)
        return pare_file_fail(cx, spill->path, "unlink");
    do
        reason = posix_fallocate(spill->fd, 0, (off_t)bytes);
    while (reason == EINTR);
    if (reason == 0)
        return PARE_OK;
    (void)snprintf(doing, sizeof doing, "reserve space for %s", what);
    errno = reason;
    return pare_file_fail(cx, spill->path, doing);
}

pare_status pare_spill_open(pare_ctx *cx, pare_arena *a, const char *directory, const char *name,
                            uint64_t bytes, const char *what, pare_spill *out)
{
    *out = (pare_spill){0};
    if (bytes > INT64_MAX)
        return pare_fail(cx, PARE_ENOSPC, "%s: no file holds so many bytes", what);
    char own[64];
    (void)snprintf(own, sizeof own, pare_world_rank(cx) ? "%s.%zu" : "%s", name,
                   pare_world_rank(cx));
    char *const path = pare_path_join(a, directory, own);
    if (!path)
        return PARE_ENOMEM;
    const int fd = open(path, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    if (fd < 0)
        return pare_file_fail(cx, path, "create");
    *out = (pare_spill){fd, path};
    return make(cx, out, bytes, what);
}

void pare_spill_close(pare_spill *spill)
{
    if (spill->path)
        (void)close(spill->fd);
    *spill = (pare_spill){0};
}

pare_status pare_spill_put(pare_ctx *cx, const pare_spill *spill, const float *x, size_t count,
                           uint64_t at)
{
    return pare_file_put(cx, spill->fd, spill->path, x, count * sizeof *x, at * sizeof *x);
}

pare_status pare_spill_get(pare_ctx *cx, const pare_spill *spill, float *x, size_t count,
                           uint64_t at)
{
    return pare_file_get(cx, spill->fd, spill->path, x, count * sizeof *x, at * sizeof *x);
}

bool pare_spill_is_name(const char *name)
{
    static const char *const names[] = {PARE_SPILL_WAVE, PARE_SPILL_WEIGHTS, PARE_SPILL_STREAM,
                                        PARE_SPILL_DRIFT};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        const size_t len = strlen(names[i]);
        const char *const rank = name + len + 1;
        if (strcmp(name, names[i]) == 0 || (strncmp(name, names[i], len) == 0 && name[len] == '.' &&
                                            *rank && rank[strspn(rank, "0123456789")] == '\0'))
            return true;
    }
    return false;
}
