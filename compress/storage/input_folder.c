#include "compress/storage/input_folder.h"

#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "formats/archive.h"
#include "runtime/small.h"

/* Counts the names, or takes those that were counted. */
static pare_status walk(pare_ctx *cx, pare_arena *a, pare_folder *f, size_t most)
{
    DIR *const d = opendir(f->path);
    size_t count = 0;
    pare_status s = PARE_OK;
    if (!d)
        return pare_file_fail_input(cx, f->path, "list");
    errno = 0;
    for (const struct dirent *e; s == PARE_OK && (e = readdir(d)); errno = 0) {
        if (strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0)
            continue;
        if (f->name && count < most) {
            f->name[count] = pare_arena_text(a, e->d_name, strlen(e->d_name));
            s = f->name[count] ? PARE_OK : PARE_ENOMEM;
        }
        count++;
    }
    if (s == PARE_OK && errno != 0)
        s = pare_file_fail(cx, f->path, "list");
    (void)closedir(d);
    f->files = f->name ? pare_smaller(count, most) : count;
    return s;
}

static pare_status list(pare_ctx *cx, pare_arena *a, pare_folder *f)
{
    PARE_TRY(walk(cx, a, f, 0));
    const size_t most = f->files;
    if (most > PARE_ARCHIVE_FILES_MOST)
        return pare_fail(cx, PARE_EFORMAT, "%s: holds %zu files; an archive holds %d at most",
                         f->path, most, PARE_ARCHIVE_FILES_MOST);
    f->name = PARE_NEW(a, const char *, most);
    if (!f->name)
        return PARE_ENOMEM;
    PARE_TRY(walk(cx, a, f, most));
    qsort(f->name, f->files, sizeof *f->name, pare_by_text);
    return PARE_OK;
}

static pare_status map_one(pare_ctx *cx, pare_arena *a, pare_folder *f, const char *path,
                           const char *name)
{
    if (!pare_archive_name_fits(name))
        return pare_fail(cx, PARE_EFORMAT, "%s: no archive holds a file of such a name; rename it",
                         path);
    if (pare_path_is_directory(path))
        return pare_fail(cx, PARE_EFORMAT,
                         "%s: is a folder, and only files are packed; move it away", path);
    PARE_TRY(pare_file_map(cx, a, path, &f->file[f->mapped]));
    f->bytes += f->file[f->mapped++].bytes;
    return PARE_OK;
}

pare_status pare_folder_open(pare_ctx *cx, pare_arena *a, const char *path, pare_folder *f)
{
    pare_path_kind kind;
    *f = (pare_folder){.path = path};
    PARE_TRY(pare_path_look(cx, path, &kind));
    if (kind == PARE_PATH_ABSENT)
        return pare_fail(cx, PARE_ENOTFOUND, "%s: there is no such file or folder", path);
    const bool folder = kind == PARE_PATH_DIRECTORY;
    if (folder) {
        PARE_TRY(list(cx, a, f));
    } else {
        const char *const slash = strrchr(path, '/');
        f->files = 1;
        f->name = PARE_NEW(a, const char *, 1);
        if (!f->name)
            return PARE_ENOMEM;
        f->name[0] = slash ? slash + 1 : path;
    }
    f->file = PARE_NEW(a, pare_file, f->files);
    if (!f->file)
        return PARE_ENOMEM;
    for (size_t i = 0; i < f->files; i++) {
        const char *const whole = folder ? pare_path_join(a, path, f->name[i]) : path;
        if (!whole)
            return PARE_ENOMEM;
        PARE_TRY(map_one(cx, a, f, whole, f->name[i]));
    }
    return PARE_OK;
}

void pare_folder_close(pare_folder *f)
{
    while (f->mapped)
        pare_file_unmap(&f->file[--f->mapped]);
}

const pare_file *pare_folder_find(const pare_folder *f, const char *name)
{
    const char **const at =
        f->files ? bsearch(&name, f->name, f->files, sizeof *f->name, pare_by_text) : NULL;
    return at ? &f->file[at - f->name] : NULL;
}
