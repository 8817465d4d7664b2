#include "compress/output/output_disk.h"

#include <dirent.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>

#include "runtime/file.h"

static uint64_t held_bytes(const char *partial)
{
    DIR *const d = opendir(partial);
    uint64_t held = 0;
    struct stat st;
    if (!d)
        return 0;
    for (const struct dirent *e = readdir(d); e; e = readdir(d))
        if (fstatat(dirfd(d), e->d_name, &st, AT_SYMLINK_NOFOLLOW) == 0 && S_ISREG(st.st_mode))
            held += (uint64_t)st.st_blocks * 512;
    (void)closedir(d);
    return held;
}

pare_status pare_output_disk_find(pare_ctx *cx, pare_arena *a, const pare_output_place *place,
                                  pare_output_disk *out)
{
    struct statvfs fs;
    char *directory = pare_path_directory(a, place->output);
    while (directory && !pare_path_is_directory(directory)) {
        char *const parent = pare_path_directory(a, directory);
        if (parent && strcmp(parent, directory) == 0) /* "." or "/" */
            return pare_file_fail(cx, directory, "look at");
        directory = parent;
    }
    if (!directory)
        return PARE_ENOMEM;
    if (statvfs(directory, &fs) != 0)
        return pare_file_fail(cx, directory, "tell the free space");
    if (fs.f_blocks == 0) /* as /proc */
        return pare_fail(cx, PARE_EIO, "%s: no file can be written there; give another folder",
                         directory);
    *out = (pare_output_disk){directory, (uint64_t)fs.f_bavail * fs.f_frsize,
                              held_bytes(place->partial)};
    return PARE_OK;
}
