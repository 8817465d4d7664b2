/* What lies in a directory from which no weights can be read, in words that say what to do; and
 * what lies beside weights that other programs would take as well. */
#include <dirent.h>
#include <errno.h>
#include <fnmatch.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "formats/checkpoint_internal.h"

enum { NAME = 256 };

/* Names of a pattern: how many, and the first of them by the alphabet. */
typedef struct matches {
    const char *pattern;
    size_t count;
    char name[NAME];
} matches;

static pare_status find_names(const pare_checkpoint *ck, const char *directory, matches *m)
{
    DIR *const d = opendir(directory);
    if (!d)
        return pare_file_fail_input(ck->cx, directory, "list");
    const struct dirent *e;
    while ((e = readdir(d)) != NULL) {
        if (fnmatch(m->pattern, e->d_name, 0) != 0 || strlen(e->d_name) >= sizeof m->name)
            continue;
        if (m->count == 0 || strcmp(e->d_name, m->name) < 0)
            (void)snprintf(m->name, sizeof m->name, "%s", e->d_name);
        m->count++;
    }
    (void)closedir(d);
    return PARE_OK;
}

pare_status pare__checkpoint_refuse_two(const pare_checkpoint *ck, const pare__container *kind)
{
    matches shards = {.pattern = kind->shards};
    PARE_TRY(find_names(ck, ck->directory, &shards));
    if (shards.count == 0)
        return PARE_OK;
    return pare_fail(ck->cx, PARE_EFORMAT,
                     "%s: two sets of weights: %s, and the files of %s such as %s; programs differ "
                     "in which they take, so move one away, or give the path of %s itself",
                     ck->directory, kind->single, kind->index, shards.name, kind->single);
}

pare_status pare__checkpoint_refuse_adapter(const pare_checkpoint *ck, pare_arena *a, bool alone)
{
    pare_path_kind is;
    char *const path = pare_path_join(a, ck->directory, "adapter_config.json");
    if (!path)
        return PARE_ENOMEM;
    PARE_TRY(pare_path_look(ck->cx, path, &is));
    if (is == PARE_PATH_ABSENT)
        return PARE_OK;
    return pare_fail(ck->cx, PARE_ENOTSUP,
                     alone ? "%s: this directory holds an adapter (LoRA), and no model; merge it "
                             "into its model, save that, and give its directory"
                           : "%s: an adapter (LoRA) lies beside the weights, and is no part of "
                             "them yet; merge it into them and save the result, or move it away",
                     path);
}

/* A name that is there, but leads to no file. */
static pare_status refuse_no_file(const pare_checkpoint *ck, pare_arena *a, const char *name)
{
    struct stat link, st;
    char *const path = name ? pare_path_join(a, ck->directory, name) : NULL;
    if (name && !path)
        return PARE_ENOMEM;
    if (!path || lstat(path, &link) != 0)
        return PARE_OK;
    if (S_ISLNK(link.st_mode) && stat(path, &st) != 0 && errno == ENOENT)
        return pare_fail(ck->cx, PARE_ENOTFOUND,
                         "%s: is a link to a file that is not there; was its download broken off, "
                         "or the directory moved without what its links lead to?",
                         path);
    if (stat(path, &st) == 0 && S_ISREG(st.st_mode))
        return PARE_OK;
    return pare_fail(ck->cx, PARE_EFORMAT, "%s: is %s, expected a file", path,
                     S_ISDIR(st.st_mode) ? "a directory" : "not a regular file");
}

/* A cache of the hub: models--ORG--NAME/snapshots/COMMIT is the model. */
static pare_status refuse_cache(const pare_checkpoint *ck, pare_arena *a)
{
    matches snapshot = {.pattern = "[!.]*"};
    char *const snapshots = pare_path_join(a, ck->directory, "snapshots");
    if (!snapshots)
        return PARE_ENOMEM;
    if (!pare_path_is_directory(snapshots))
        return PARE_OK;
    PARE_TRY(find_names(ck, snapshots, &snapshot));
    return pare_fail(ck->cx, PARE_ENOTFOUND,
                     "%s: this is a cache of downloads; the model lies in %s/%s, so give that "
                     "directory",
                     ck->directory, snapshots, snapshot.count ? snapshot.name : "...");
}

/* Shards whose index was not downloaded. */
static pare_status refuse_shards(const pare_checkpoint *ck, const pare__container *kind)
{
    matches shards = {.pattern = kind->shards};
    if (!kind->shards)
        return PARE_OK;
    PARE_TRY(find_names(ck, ck->directory, &shards));
    if (shards.count == 0)
        return PARE_OK;
    return pare_fail(ck->cx, PARE_ENOTFOUND,
                     "%s: %zu file%s such as %s %s there, but not %s, which says what lies in "
                     "them; download it, too",
                     ck->directory, shards.count, pare_plural(shards.count), shards.name,
                     shards.count == 1 ? "is" : "are", kind->index);
}

pare_status pare__checkpoint_refuse_absent(const pare_checkpoint *ck, pare_arena *a)
{
    const pare__container *kind;
    PARE_TRY(refuse_no_file(ck, a, "config.json"));
    for (size_t i = 0; (kind = pare__container_at(i)) != NULL; i++) {
        PARE_TRY(refuse_no_file(ck, a, kind->single));
        PARE_TRY(refuse_no_file(ck, a, kind->index));
    }
    PARE_TRY(pare__checkpoint_refuse_adapter(ck, a, true));
    for (size_t i = 0; (kind = pare__container_at(i)) != NULL; i++)
        PARE_TRY(refuse_shards(ck, kind));
    return refuse_cache(ck, a);
}

pare_status pare_checkpoint_check_companions(const pare_checkpoint *ck, pare_arena *a)
{
    for (size_t i = 0; pare_companions[i] && !(ck->kind && ck->kind->companion); i++) {
        const pare_mark mark = pare_arena_mark(a);
        char *const path = pare_path_join(a, ck->directory, pare_companions[i]);
        pare_path_kind is;
        pare_file f;
        if (!path)
            return PARE_ENOMEM;
        PARE_TRY(refuse_no_file(ck, a, pare_companions[i]));
        PARE_TRY(pare_path_look(ck->cx, path, &is));
        if (is == PARE_PATH_FILE) {
            PARE_TRY(pare_file_map(ck->cx, a, path, &f));
            pare_file_unmap(&f);
        }
        pare_arena_rewind(a, mark);
    }
    return PARE_OK;
}
