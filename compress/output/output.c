#include "compress/output/output.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "compress/output/owned_files.h"
#include "formats/checksums.h"
#include "runtime/file.h"

/* The text becomes DIRECTORY/name; without one, none may stay there that an earlier run found. */
static pare_status put_text(pare_ctx *cx, pare_arena *a, const char *directory, const char *name,
                            const char *text, size_t len)
{
    char *const path = pare_path_join(a, directory, name);
    if (!path)
        return PARE_ENOMEM;
    if (text)
        return pare_file_write(cx, path, text, len);
    return unlink(path) == 0 || errno == ENOENT ? PARE_OK : pare_file_fail(cx, path, "remove");
}

/* *text is NULL where there is none to copy. */
static pare_status read_companion(pare_arena *a, const pare_checkpoint *from, const char *name,
                                  char **text, size_t *len)
{
    const pare_status s = pare_checkpoint_companion(from, a, name, text, len);
    if (s != PARE_ENOTSUP)
        return s;
    pare_ctx_clear(from->cx);
    *text = NULL;
    return PARE_OK;
}

pare_status pare_output_copy(pare_arena *a, const pare_checkpoint *from, const char *to,
                             const char *name, bool *copied)
{
    const pare_mark mark = pare_arena_mark(a);
    char *text;
    size_t len;
    pare_status s = read_companion(a, from, name, &text, &len);
    *copied = s == PARE_OK && text;
    if (s == PARE_OK)
        s = put_text(from->cx, a, to, name, text, len);
    pare_arena_rewind(a, mark);
    return s;
}

static pare_status compare_copy(pare_arena *a, const pare_checkpoint *from, const char *to,
                                const char *name, bool *same)
{
    char *text, *there, *const path = pare_path_join(a, to, name);
    size_t len, size;
    uint64_t bytes;
    if (!path)
        return PARE_ENOMEM;
    PARE_TRY(read_companion(a, from, name, &text, &len));
    const bool is_there = pare_path_bytes(path, &bytes);
    *same = text ? is_there && bytes == len : !is_there;
    if (!*same || !text)
        return PARE_OK;
    PARE_TRY(pare_file_read(from->cx, a, path, len, &there, &size));
    *same = size == len && memcmp(there, text, len) == 0;
    return PARE_OK;
}

pare_status pare_output_has_copy(pare_arena *a, const pare_checkpoint *from, const char *to,
                                 const char *name, bool *same)
{
    const pare_mark mark = pare_arena_mark(a);
    const pare_status s = compare_copy(a, from, to, name, same);
    pare_arena_rewind(a, mark);
    return s;
}

static pare_status copy_license(pare_arena *a, const pare_checkpoint *from, const char *to,
                                const char *name, bool *copied)
{
    enum { LICENSE_CAP = 16 * 1024 * 1024 };
    pare_ctx *const cx = from->cx;
    const pare_mark mark = pare_arena_mark(a);
    char *const path = pare_path_join(a, from->directory, name), *text = NULL;
    pare_path_kind is = PARE_PATH_ABSENT;
    size_t len = 0;
    pare_status s = path ? pare_path_look(cx, path, &is) : PARE_ENOMEM;
    *copied = is == PARE_PATH_FILE;
    if (*copied)
        s = pare_file_read(cx, a, path, LICENSE_CAP, &text, &len);
    if (s == PARE_OK)
        s = put_text(cx, a, to, name, text, len);
    pare_arena_rewind(a, mark);
    return s;
}

pare_status pare_output_copy_all(pare_arena *a, const pare_checkpoint *from, const char *to,
                                 const char *const **names, size_t *count)
{
    size_t most = 0, n = 0;
    bool copied;
    for (size_t i = 0; pare_companions[i]; i++)
        most++;
    for (size_t i = 0; pare_licenses[i]; i++)
        most++;
    const char **const name = PARE_NEW(a, const char *, most);
    if (!name)
        return PARE_ENOMEM;
    for (size_t i = 0; pare_companions[i]; i++) {
        PARE_TRY(pare_output_copy(a, from, to, pare_companions[i], &copied));
        if (copied)
            name[n++] = pare_companions[i];
    }
    for (size_t i = 0; pare_licenses[i]; i++) {
        PARE_TRY(copy_license(a, from, to, pare_licenses[i], &copied));
        if (copied)
            name[n++] = pare_licenses[i];
    }
    *names = name;
    *count = n;
    return PARE_OK;
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

pare_status pare_output_make_parents(pare_ctx *cx, pare_arena *a, const char *path, char **made)
{
    struct stat st;
    char *const last = pare_path_directory(a, path);
    if (!last)
        return PARE_ENOMEM;
    if (!*last || lstat(last, &st) == 0)
        return PARE_OK;
    for (size_t i = 1; !*made && path[i]; i++) {
        if (path[i] != '/')
            continue;
        char *const parent = pare_arena_text(a, path, i);
        if (!parent)
            return PARE_ENOMEM;
        if (lstat(parent, &st) != 0)
            *made = parent;
    }
    return pare_output_make(cx, a, last);
}

void pare_output_remove_made(const char *path, const char *made)
{
    char at[4096];
    const size_t most = made ? strlen(made) : 0;
    (void)snprintf(at, sizeof at, "%s", path);
    for (char *slash; most && (slash = strrchr(at, '/')) && (size_t)(slash - at) >= most;) {
        *slash = '\0';
        if (rmdir(at) != 0)
            return;
    }
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

pare_status pare_output_make_work(pare_ctx *cx, pare_arena *a, const char *path, bool *made)
{
    *made = !pare_path_is_directory(path);
    return pare_output_make(cx, a, path);
}

void pare_output_drop_work(const char *path, bool made)
{
    if (made)
        (void)rmdir(path);
}

/* Appends a component to `real`, which is empty for "/". A link is followed, what is not there is
 * taken for a directory to come. */
static bool step(char real[PATH_MAX], const char *name, size_t len)
{
    char link[PATH_MAX];
    struct stat st;
    const size_t used = strlen(real);
    if (used + 1 + len >= PATH_MAX)
        return false;
    real[used] = '/';
    memcpy(real + used + 1, name, len);
    real[used + 1 + len] = '\0';
    if (lstat(real, &st) == 0 && S_ISLNK(st.st_mode) && realpath(real, link))
        (void)snprintf(real, PATH_MAX, "%s", strcmp(link, "/") == 0 ? "" : link);
    return true;
}

bool pare_output_real(const char *path, char real[PATH_MAX])
{
    real[0] = '\0';
    if (path[0] != '/' && !getcwd(real, PATH_MAX))
        return false;
    if (strcmp(real, "/") == 0)
        real[0] = '\0';
    for (const char *at = path; *at;) {
        const size_t len = strcspn(at, "/");
        if (len == 2 && memcmp(at, "..", 2) == 0)
            *(real[0] ? strrchr(real, '/') : real) = '\0';
        else if (len > 1 || (len == 1 && *at != '.'))
            if (!step(real, at, len))
                return false;
        at += len + (at[len] == '/');
    }
    if (!real[0])
        (void)snprintf(real, PATH_MAX, "/");
    return true;
}

/* Whether a path, which is cut shorter, ends in this directory or leads through it. */
static bool leads_through(char real[PATH_MAX], const struct stat *directory)
{
    struct stat st;
    for (char *slash = real; slash; *slash = '\0') {
        if (stat(real, &st) == 0 && st.st_dev == directory->st_dev &&
            st.st_ino == directory->st_ino)
            return true;
        slash = strrchr(real, '/');
        if (slash == real)
            return false;
    }
    return false;
}

bool pare_output_lies_in(const char *path, const char *directory)
{
    char p[PATH_MAX], d[PATH_MAX];
    struct stat st;
    if (!pare_output_real(path, p) || !pare_output_real(directory, d))
        return false;
    const size_t len = strcmp(d, "/") == 0 ? 0 : strlen(d);
    return (strncmp(p, d, len) == 0 && (p[len] == '\0' || p[len] == '/')) ||
           (stat(d, &st) == 0 && leads_through(p, &st));
}

pare_status pare_output_home(pare_ctx *cx, pare_arena *a, const char *path, const char **home)
{
    char real[PATH_MAX];
    *home = NULL;
    if (!pare_output_real(path, real))
        return pare_fail(cx, PARE_EUSAGE, "%.60s...: the path of the output is too long", path);
    for (char *slash = strrchr(real, '/'); slash && slash != real; slash = strrchr(real, '/')) {
        *slash = '\0';
        char *const manifest = pare_path_join(a, real, PARE_MANIFEST_NAME);
        char *const recipe = pare_path_join(a, real, "recipe.yaml");
        char *const record = pare_path_join(a, real, PARE_EXPORT_RECORD);
        if (!manifest || !recipe || !record)
            return PARE_ENOMEM;
        if ((pare_path_is_file(manifest) && pare_path_is_file(recipe)) ||
            pare_path_is_file(record)) {
            *home = pare_arena_text(a, real, strlen(real));
            return *home ? PARE_OK : PARE_ENOMEM;
        }
    }
    return PARE_OK;
}

pare_status pare_output_check_way_back(pare_ctx *cx, const char *path)
{
    char before[PATH_MAX];
    for (const char *up = strstr(path, "/../"); up; up = strstr(up + 1, "/../")) {
        (void)snprintf(before, sizeof before, "%.*s", (int)(up - path), path);
        if (before[0] && !pare_path_is_directory(before))
            return pare_fail(cx, PARE_EUSAGE, "%s: there is no directory %s for \"..\" to leave",
                             path, before);
    }
    return PARE_OK;
}

pare_status pare_output_check_room(pare_ctx *cx, const char *path)
{
    char real[PATH_MAX];
    struct stat st;
    if (!pare_output_real(path, real))
        return pare_fail(cx, PARE_EUSAGE, "%.60s...: the path of the output is too long", path);
    PARE_TRY(pare_output_check_way_back(cx, path));
    for (char *slash = strrchr(real, '/'); slash && slash != real; slash = strrchr(real, '/')) {
        *slash = '\0';
        if (lstat(real, &st) != 0)
            continue;
        if (!S_ISDIR(st.st_mode))
            return pare_fail(cx, PARE_EUSAGE,
                             "%s: the path leads through %s, which is no directory", path, real);
        return access(real, W_OK | X_OK) == 0
                   ? PARE_OK
                   : pare_fail(cx, PARE_EUSAGE, "%s: %s cannot be written to", path, real);
    }
    return PARE_OK;
}
