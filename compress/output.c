#define _GNU_SOURCE /* renameat2 */
#include "compress/output.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

#include "runtime/file.h"

enum { COPY_CAP = 256 << 20 };

const char *const pare_companions[] = {"tokenizer.json",      "tokenizer_config.json",
                                       "tokenizer.model",     "special_tokens_map.json",
                                       "added_tokens.json",   "generation_config.json",
                                       "vocab.json",          "merges.txt",
                                       "chat_template.jinja", NULL};

pare_status pare_output_copy(pare_ctx *cx, pare_arena *a, const char *from, const char *to,
                             const char *name, bool *copied)
{
    char *const source = pare_path_join(a, from, name), *const copy = pare_path_join(a, to, name);
    *copied = source && pare_path_is_file(source);
    if (!source || !copy)
        return PARE_ENOMEM;
    if (!*copied) /* nor may one stay that an earlier run found */
        return unlink(copy) == 0 || errno == ENOENT ? PARE_OK : pare_file_fail(cx, copy, "remove");
    const pare_mark mark = pare_arena_mark(a);
    char *text;
    size_t len;
    pare_status s = pare_file_read(cx, a, source, COPY_CAP, &text, &len);
    if (s == PARE_OK)
        s = pare_file_write(cx, copy, text, len);
    pare_arena_rewind(a, mark);
    return s;
}

static int put_in_place(const char *from, const char *to, bool replace)
{
    if (renameat2(AT_FDCWD, from, AT_FDCWD, to, replace ? RENAME_EXCHANGE : RENAME_NOREPLACE) == 0)
        return 0;
    /* a file system without these flags still renames onto nothing */
    return !replace && (errno == EINVAL || errno == ENOSYS) ? rename(from, to) : -1;
}

pare_status pare_output_publish(pare_ctx *cx, const char *from, const char *to, bool replace)
{
    if (put_in_place(from, to, replace) != 0)
        return errno == EEXIST || errno == ENOTEMPTY
                   ? pare_fail(cx, PARE_EEXISTS, "%s: something was put there meanwhile", to)
                   : pare_file_fail(cx, to, "put the finished files in place");
    return pare_file_sync_parent(cx, to);
}

bool pare_output_remove(const char *path)
{
    DIR *const d = opendir(path);
    if (!d)
        return errno == ENOENT;
    for (struct dirent *e; (e = readdir(d));)
        (void)unlinkat(dirfd(d), e->d_name, 0);
    (void)closedir(d);
    return rmdir(path) == 0;
}
