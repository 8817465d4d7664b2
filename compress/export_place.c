#include <dirent.h>
#include <errno.h>
#include <fnmatch.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "compress/export.h"
#include "compress/output.h"
#include "runtime/file.h"

enum { OTHER = 64 };

/* Files that exports leave, finished or not. */
static bool writes(const char *name)
{
    static const char *const ours[] = {"config.json",       "quantize_config.json",
                                       "model.safetensors", "model-*-of-*.safetensors",
                                       PARE_EXPORT_RECORD,  "model.safetensors.index.json"};
    char base[256];
    const size_t len = strlen(name), cut = len > 4 && strcmp(name + len - 4, ".tmp") == 0 ? 4 : 0;
    (void)snprintf(base, sizeof base, "%.*s", (int)(len - cut), name);
    bool found = false;
    for (size_t i = 0; i < sizeof ours / sizeof *ours; i++)
        found |= fnmatch(ours[i], base, 0) == 0;
    for (size_t i = 0; pare_companions[i]; i++)
        found |= strcmp(pare_companions[i], base) == 0;
    return found;
}

/* Something in a directory that no export would write; false when there is nothing such, or no
 * directory. */
static bool holds_other(const char *path, char other[OTHER])
{
    DIR *const d = opendir(path);
    other[0] = '\0';
    if (!d)
        return false;
    for (struct dirent *e; (e = readdir(d));)
        if (strcmp(e->d_name, ".") != 0 && strcmp(e->d_name, "..") != 0 && !writes(e->d_name))
            (void)snprintf(other, OTHER, "%.60s", e->d_name);
    (void)closedir(d);
    return other[0] != '\0';
}

/* True when `path` is `directory` or lies inside it; both must exist. */
static bool lies_in(const char *path, const char *directory)
{
    char p[PATH_MAX], d[PATH_MAX];
    if (!realpath(path, p) || !realpath(directory, d))
        return false;
    const size_t len = strlen(d);
    return strncmp(p, d, len) == 0 && (p[len] == '\0' || p[len] == '/');
}

/* What --restart may put another export in place of. */
static pare_status check_replaced(pare_ctx *cx, pare_arena *a, const char *artifact,
                                  const char *output, bool restart)
{
    char other[OTHER];
    char *const record = pare_path_join(a, output, PARE_EXPORT_RECORD);
    if (!record)
        return PARE_ENOMEM;
    if (lies_in(artifact, output))
        return pare_fail(cx, PARE_EEXISTS, "%s: the output would replace the model at %s", output,
                         artifact);
    if (!restart)
        return pare_fail(cx, PARE_EEXISTS, "%s: exists; --restart replaces it", output);
    if (!pare_path_is_file(record))
        return pare_fail(cx, PARE_EEXISTS,
                         "%s: is no export of pare (no " PARE_EXPORT_RECORD "), so --restart does "
                         "not replace it; choose another path",
                         output);
    if (holds_other(output, other))
        return pare_fail(cx, PARE_EEXISTS,
                         "%s: holds \"%s\" beside an export, which --restart would remove; move it "
                         "away or choose another path",
                         output, other);
    return PARE_OK;
}

pare_status pare_export_place(pare_ctx *cx, pare_arena *a, const char *artifact, const char *output,
                              bool restart, char **partial)
{
    static const char suffix[] = ".partial";
    char other[OTHER];
    struct stat st;
    const size_t len = strlen(output);
    if (len == 0)
        return pare_fail(cx, PARE_EUSAGE, "the path of the output is empty");
    *partial = pare_arena_take(a, len + sizeof suffix, 1);
    if (!*partial)
        return PARE_ENOMEM;
    (void)snprintf(*partial, len + sizeof suffix, "%s%s", output, suffix);
    if (lstat(output, &st) == 0) {
        if (S_ISLNK(st.st_mode))
            return pare_fail(cx, PARE_EEXISTS, "%s: is a symbolic link; give the directory itself",
                             output);
        PARE_TRY(check_replaced(cx, a, artifact, output, restart));
    }
    if (holds_other(*partial, other))
        return pare_fail(cx, PARE_EEXISTS,
                         "%s: is where the work would go, and holds \"%s\", which is not of an "
                         "unfinished export; move it away or choose another path",
                         *partial, other);
    return PARE_OK;
}
