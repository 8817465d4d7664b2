/* runtime/file.h - files: mapped for reading, written whole and atomically, positioned writes.
 *
 * Reading maps; sizes are checked by the caller against file.bytes before any access. A page that
 * the disk cannot deliver, or a file cut while it is mapped, raises SIGBUS: pare_file_guard turns
 * it into a message that names the file and ends the process with the given exit code. */
#ifndef PARE_RUNTIME_FILE_H
#define PARE_RUNTIME_FILE_H

#include <stdbool.h>
#include <stdint.h>

#include "runtime/arena.h"

/* Which file it is and when it was last changed; all 0 where there is none. */
typedef struct pare_file_stamp {
    uint64_t device, inode, bytes;
    int64_t written[2], changed[2]; /* contents; contents or anything else: seconds, nanoseconds */
} pare_file_stamp;

typedef struct pare_file {
    const unsigned char *data; /* NULL for an empty file */
    uint64_t bytes;
    char *path;            /* owned by the arena given to pare_file_map */
    pare_file_stamp stamp; /* when it was opened */
} pare_file;

/* Maps a regular file read-only. PARE_ENOTFOUND, PARE_EIO (with the reason of the system),
 * PARE_EFORMAT for what is not a regular file, and for a pointer of Git LFS, PARE_ENOMEM. */
PARE_CHECKED pare_status pare_file_map(pare_ctx *cx, pare_arena *a, const char *path, pare_file *f);
void pare_file_unmap(pare_file *f);

/* Maps the first `bytes` bytes of an open file, so that what is written into them is seen. The path
 * is borrowed. PARE_EIO where the file system cannot do that, PARE_ENOMEM. */
PARE_CHECKED pare_status pare_file_map_shared(pare_ctx *cx, int fd, char *path, uint64_t bytes,
                                              pare_file *f);

/* The stamp of what lies at `path` now, links followed; all 0 when nothing can be seen there. */
pare_file_stamp pare_file_look(const char *path);

/* Tells the system that all of the file will be read soon, from its start. A hint. */
void pare_file_read_ahead(const pare_file *f);

/* Tells the system that bytes [first, first + count) will not be needed soon. A hint. */
void pare_file_forget(const pare_file *f, uint64_t first, uint64_t count);

/* Installs the SIGBUS handler described above. */
void pare_file_guard(int exit_code);

/* Reads a whole file of at most `cap` bytes into the arena, NUL behind. As pare_file_map, and
 * PARE_EFORMAT when it is larger than cap. */
PARE_CHECKED pare_status pare_file_read(pare_ctx *cx, pare_arena *a, const char *path, size_t cap,
                                        char **text, size_t *len);

/* Writes bytes to path + ".tmp", syncs, renames over path, syncs the directory.
 * PARE_ENOSPC on a full disk or quota, PARE_EIO otherwise; the old file then stays as it was, or,
 * when only the sync of the directory failed, the new one is there. A regular file of the name of
 * the temporary one is lost; PARE_EEXISTS when a link or anything else has that name. */
PARE_CHECKED pare_status pare_file_write(pare_ctx *cx, const char *path, const void *bytes,
                                         size_t len);

/* The same where nothing is: PARE_EEXISTS, too, when path or the temporary name is taken. */
PARE_CHECKED pare_status pare_file_write_new(pare_ctx *cx, const char *path, const void *bytes,
                                             size_t len);

/* Gives a file another name in its directory, which nothing has: PARE_EEXISTS when something has
 * it. In one step where the file system can do that, else after a look. PARE_EIO. */
PARE_CHECKED pare_status pare_file_name(pare_ctx *cx, const char *from, const char *to);

/* What lies at two paths of one directory changes places, in one step, durable; *done false, and
 * nothing changed, where the file system has none for that. PARE_EIO. */
PARE_CHECKED pare_status pare_file_exchange(pare_ctx *cx, const char *one, const char *other,
                                            bool *done);

/* Writes all of `len` bytes at `offset`; resumes short writes and EINTR. Status as above. */
PARE_CHECKED pare_status pare_file_put(pare_ctx *cx, int fd, const char *path, const void *bytes,
                                       size_t len, uint64_t offset);

/* Tells the system to bring what was put there to the disk from now on, so that the sync that comes
 * has less to wait for. A hint. */
void pare_file_start_writing(int fd, uint64_t offset, uint64_t len);

/* Reads exactly `len` bytes at `offset`; PARE_EIO, also at the end of the file. */
PARE_CHECKED pare_status pare_file_get(pare_ctx *cx, int fd, const char *path, void *bytes,
                                       size_t len, uint64_t offset);

/* fsync of a descriptor, and of the directory that holds `path`. */
PARE_CHECKED pare_status pare_file_sync(pare_ctx *cx, int fd, const char *path);
PARE_CHECKED pare_status pare_file_sync_parent(pare_ctx *cx, const char *path);

/* Records "path: reason of errno" with the matching status: PARE_ENOTFOUND for ENOENT, PARE_ENOSPC
 * for ENOSPC/EDQUOT/EFBIG, PARE_ENOMEM for ENOMEM, PARE_EIO for the rest. A full disk is told with
 * what is free on it, if the path is on one: a device is not. */
pare_status pare_file_fail(pare_ctx *cx, const char *path, const char *doing);

/* The same for what is read: PARE_EFORMAT for EACCES and EPERM. */
pare_status pare_file_fail_input(pare_ctx *cx, const char *path, const char *doing);

/* Paths, in the arena; NULL means PARE_ENOMEM, recorded. `join` of an absolute `name` is `name`. */
char *pare_path_join(pare_arena *a, const char *directory, const char *name);
char *pare_path_directory(pare_arena *a, const char *path);
char *pare_path_suffix(pare_arena *a, const char *path, const char *suffix); /* behind it */

/* What lies at a path, links followed. PARE_EIO, PARE_ENOMEM, or PARE_EFORMAT where the user may
 * not look: the system does not say. */
typedef enum pare_path_kind {
    PARE_PATH_ABSENT,
    PARE_PATH_FILE,
    PARE_PATH_DIRECTORY,
    PARE_PATH_OTHER
} pare_path_kind;
PARE_CHECKED pare_status pare_path_look(pare_ctx *cx, const char *path, pare_path_kind *out);

/* True for an existing directory / an existing regular file; false, too, where the system does not
 * say. */
bool pare_path_is_directory(const char *path);
bool pare_path_is_file(const char *path);
/* What to say of a path that is none: "there is no such file", "is a directory, and a file is
 * wanted". */
const char *pare_path_no_file(const char *path);
/* As pare_path_is_file, with its size. */
bool pare_path_bytes(const char *path, uint64_t *bytes);

#endif
