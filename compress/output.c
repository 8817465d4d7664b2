#include "compress/output.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "runtime/file.h"

pare_status pare_output_copy(pare_arena *a, const pare_checkpoint *from, const char *to,
                             const char *name, bool *copied)
{
    pare_ctx *const cx = from->cx;
    char *const copy = pare_path_join(a, to, name);
    const pare_mark mark = pare_arena_mark(a);
    char *text;
    size_t len;
    if (!copy)
        return PARE_ENOMEM;
    pare_status s = pare_checkpoint_companion(from, a, name, &text, &len);
    if (s == PARE_ENOTSUP) {
        pare_ctx_clear(cx);
        s = PARE_OK;
    }
    *copied = s == PARE_OK && text;
    if (*copied)
        s = pare_file_write(cx, copy, text, len);
    else if (s == PARE_OK && unlink(copy) != 0 && errno != ENOENT)
        s = pare_file_fail(cx, copy, "remove"); /* nor may one stay that an earlier run found */
    pare_arena_rewind(a, mark);
    return s;
}

pare_status pare_output_make(pare_ctx *cx, pare_arena *a, const char *path)
{
    for (size_t i = 1; path[i]; i++) {
        if (path[i] != '/')
            continue;
        char *const parent = pare_arena_text(a, path, i);
        if (!parent)
            return PARE_ENOMEM;
        if (mkdir(parent, 0777) == 0)
            PARE_TRY(pare_file_sync_parent(cx, parent));
        else if (errno != EEXIST)
            return pare_file_fail(cx, parent, "create the directory");
    }
    if (mkdir(path, 0777) != 0 && errno != EEXIST)
        return pare_file_fail(cx, path, "create the directory");
    return pare_file_sync_parent(cx, path);
}

bool pare_output_fits(const char *path)
{
    const char *end = path + strlen(path);
    while (end > path && end[-1] == '/')
        end--;
    if (end - path > PARE_OUTPUT_PATH_MOST)
        return false;
    for (const char *at = path; at < end; at++) {
        const size_t len = strcspn(at, "/");
        if (len > (at + len == end ? (size_t)PARE_OUTPUT_NAME_MOST : NAME_MAX))
            return false;
        at += len;
    }
    return true;
}

pare_status pare_output_check_length(pare_ctx *cx, const char *path)
{
    if (pare_output_fits(path))
        return PARE_OK;
    return pare_fail(cx, PARE_EUSAGE,
                     "%.60s...: the path of the output is too long: %zu bytes; %d are possible, %d "
                     "for its name, and %d for a directory in it",
                     path, strlen(path), PARE_OUTPUT_PATH_MOST, PARE_OUTPUT_NAME_MOST, NAME_MAX);
}

bool pare_output_lies_in(const char *path, const char *directory)
{
    char p[PATH_MAX], d[PATH_MAX], at[PATH_MAX];
    if (!realpath(directory, d) || strlen(path) >= sizeof at)
        return false;
    (void)snprintf(at, sizeof at, "%s", path);
    while (!realpath(at, p)) { /* what is not there yet goes into what is */
        char *const slash = strrchr(at, '/');
        if (!slash && strcmp(at, ".") == 0)
            return false;
        if (!slash)
            (void)snprintf(at, sizeof at, ".");
        else
            slash[slash == at] = '\0';
    }
    const size_t len = strlen(d);
    return strncmp(p, d, len) == 0 && (p[len] == '\0' || p[len] == '/');
}
