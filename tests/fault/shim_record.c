/* Put in front of libc with LD_PRELOAD: writes down every call that changes what lies below a
 * directory, with its data, in the order in which they happened (disk_log.h). One lock is held
 * around a call and its record, so the order is that of the calls of all threads. Calls that failed
 * are left out.
 *
 * What libc does inside itself (stdio) is not seen; who plays the log back compares the end of it
 * with the real files. */
#define _GNU_SOURCE
#include "tests/fault/disk_log.h"

#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

enum { FDS = 1024 };

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static int log_fd = -2;
static char root[PATH_MAX];
static bool watched[FDS]; /* descriptors of files below the root */

/* The system itself: what libc has of the same name is what this file stands in front of. */
#define real_open(...)            ((int)syscall(SYS_openat, AT_FDCWD, __VA_ARGS__))
#define real_openat(...)          ((int)syscall(SYS_openat, __VA_ARGS__))
#define real_close(fd)            ((int)syscall(SYS_close, fd))
#define real_write(...)           ((ssize_t)syscall(SYS_write, __VA_ARGS__))
#define real_writev(...)          ((ssize_t)syscall(SYS_writev, __VA_ARGS__))
#define real_pwrite(...)          ((ssize_t)syscall(SYS_pwrite64, __VA_ARGS__))
#define real_copy_file_range(...) ((ssize_t)syscall(SYS_copy_file_range, __VA_ARGS__))
#define real_ftruncate(...)       ((int)syscall(SYS_ftruncate, __VA_ARGS__))
#define real_fsync(fd)            ((int)syscall(SYS_fsync, fd))
#define real_renameat2(...)       ((int)syscall(SYS_renameat2, __VA_ARGS__))
#define real_link(from, to)       ((int)syscall(SYS_linkat, AT_FDCWD, from, AT_FDCWD, to, 0))
#define real_unlinkat(...)        ((int)syscall(SYS_unlinkat, __VA_ARGS__))
#define real_mkdir(...)           ((int)syscall(SYS_mkdirat, AT_FDCWD, __VA_ARGS__))
#define real_mmap(...)            ((void *)syscall(SYS_mmap, __VA_ARGS__))
#define ALIAS(name)               __attribute__((alias(#name)))

static void begin(void)
{
    (void)pthread_mutex_lock(&lock);
    if (log_fd != -2 || !environ) /* a sanitizer calls before there is an environment */
        return;
    const char *const path = getenv(DISK_LOG_VARIABLE), *const top = getenv(DISK_ROOT_VARIABLE);
    log_fd = -1;
    if (!path || !top)
        return;
    (void)snprintf(root, sizeof root, "%s", top);
    log_fd = real_open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
}

static void end(void)
{
    const int code = errno;
    (void)pthread_mutex_unlock(&lock);
    errno = code;
}

/* The path as the log has it: absolute, below the root; false for what lies elsewhere. */
static bool place_of(int directory, const char *path, char out[PATH_MAX])
{
    char base[PATH_MAX] = "", link[64];
    if (path[0] != '/') {
        (void)snprintf(link, sizeof link, "/proc/self/fd/%d", directory);
        const ssize_t n =
            readlink(directory == AT_FDCWD ? "/proc/self/cwd" : link, base, PATH_MAX - 1);
        if (n <= 0)
            return false;
        base[n] = '\0';
    }
    if (snprintf(out, PATH_MAX, "%s%s%s", base, *base ? "/" : "", path) >= PATH_MAX)
        return false;
    const size_t len = strlen(root);
    return strncmp(out, root, len) == 0 && (out[len] == '/' || out[len] == '\0');
}

static void put(const void *bytes, size_t len)
{
    const char *p = bytes;
    while (len > 0) {
        const ssize_t n = real_write(log_fd, p, len);
        if (n <= 0)
            abort(); /* a log with a hole would prove nothing */
        p += n;
        len -= (size_t)n;
    }
}

static void record(disk_call call, int fd, int flags, const char *path, const char *to,
                   uint64_t offset, const void *data, uint64_t len)
{
    const disk_record r = {.call = call,
                           .fd = fd,
                           .flags = flags,
                           .path = path ? (uint32_t)strlen(path) + 1 : 0,
                           .to = to ? (uint32_t)strlen(to) + 1 : 0,
                           .offset = offset,
                           .len = data ? len : 0};
    if (log_fd < 0)
        return;
    put(&r, sizeof r);
    put(path, r.path);
    put(to, r.to);
    put(data, r.len);
}

static bool is_watched(int fd)
{
    return log_fd >= 0 && fd >= 0 && fd < FDS && watched[fd];
}

static int opened(int fd, int directory, const char *path, int flags)
{
    char full[PATH_MAX];
    if (fd < 0 || log_fd < 0 || !place_of(directory, path, full))
        return fd;
    if (fd >= FDS)
        abort();
    watched[fd] = true;
    record((flags & O_TMPFILE) == O_TMPFILE ? DISK_UNNAMED : DISK_OPEN, fd, flags, full, NULL, 0,
           NULL, 0);
    return fd;
}

int open(const char *path, int flags, ...)
{
    va_list ap;
    va_start(ap, flags);
    const mode_t mode =
        flags & O_CREAT || (flags & O_TMPFILE) == O_TMPFILE ? va_arg(ap, mode_t) : 0;
    va_end(ap);
    begin();
    const int fd = opened(real_open(path, flags, mode), AT_FDCWD, path, flags);
    end();
    return fd;
}

int openat(int directory, const char *path, int flags, ...)
{
    va_list ap;
    va_start(ap, flags);
    const mode_t mode =
        flags & O_CREAT || (flags & O_TMPFILE) == O_TMPFILE ? va_arg(ap, mode_t) : 0;
    va_end(ap);
    begin();
    const int fd = opened(real_openat(directory, path, flags, mode), directory, path, flags);
    end();
    return fd;
}

int creat(const char *path, mode_t mode)
{
    return open(path, O_WRONLY | O_CREAT | O_TRUNC, mode);
}

int open64(const char *path, int flags, ...) ALIAS(open);
int openat64(int directory, const char *path, int flags, ...) ALIAS(openat);
int creat64(const char *path, mode_t mode) ALIAS(creat);

static void forget(int fd)
{
    if (is_watched(fd)) {
        record(DISK_CLOSE, fd, 0, NULL, NULL, 0, NULL, 0);
        watched[fd] = false;
    }
}

int close(int fd)
{
    begin();
    forget(fd);
    const int rc = real_close(fd);
    end();
    return rc;
}

ssize_t write(int fd, const void *bytes, size_t len)
{
    begin();
    const ssize_t n = real_write(fd, bytes, len);
    if (n > 0 && is_watched(fd))
        record(DISK_WRITE, fd, 0, NULL, NULL, (uint64_t)(lseek(fd, 0, SEEK_CUR) - n), bytes,
               (uint64_t)n);
    end();
    return n;
}

ssize_t pwrite(int fd, const void *bytes, size_t len, off_t offset)
{
    begin();
    const ssize_t n = real_pwrite(fd, bytes, len, offset);
    if (n > 0 && is_watched(fd))
        record(DISK_WRITE, fd, 0, NULL, NULL, (uint64_t)offset, bytes, (uint64_t)n);
    end();
    return n;
}

ssize_t pwrite64(int fd, const void *bytes, size_t len, off_t offset) ALIAS(pwrite);

static void unknown(int fd, const char *what)
{
    if (is_watched(fd))
        record(DISK_UNKNOWN, fd, 0, what, NULL, 0, NULL, 0);
}

ssize_t writev(int fd, const struct iovec *v, int count)
{
    begin();
    unknown(fd, "writev");
    const ssize_t n = real_writev(fd, v, count);
    end();
    return n;
}

ssize_t copy_file_range(int in, off_t *from, int out, off_t *to, size_t len, unsigned flags)
{
    begin();
    unknown(out, "copy_file_range");
    const ssize_t n = real_copy_file_range(in, from, out, to, len, flags);
    end();
    return n;
}

int ftruncate(int fd, off_t size)
{
    begin();
    const int rc = real_ftruncate(fd, size);
    if (rc == 0 && is_watched(fd))
        record(DISK_SIZE, fd, 0, NULL, NULL, (uint64_t)size, NULL, 0);
    end();
    return rc;
}

int ftruncate64(int fd, off_t size) ALIAS(ftruncate);

int posix_fallocate(int fd, off_t offset, off_t len)
{
    begin();
    const int rc = syscall(SYS_fallocate, fd, 0, offset, len) == 0 ? 0 : errno;
    if (rc == 0 && is_watched(fd))
        record(DISK_GROW, fd, 0, NULL, NULL, (uint64_t)(offset + len), NULL, 0);
    end();
    return rc;
}

int posix_fallocate64(int fd, off_t offset, off_t len) ALIAS(posix_fallocate);

int fsync(int fd)
{
    begin();
    const int rc = real_fsync(fd);
    if (rc == 0 && is_watched(fd))
        record(DISK_SYNC, fd, 0, NULL, NULL, 0, NULL, 0);
    end();
    return rc;
}

/* Weaker than fsync for times alone. */
int fdatasync(int fd) ALIAS(fsync);

/* ISO C has no conversion from the one kind of pointer to the other. */
#define NEXT(function, name)                                                                       \
    do {                                                                                           \
        void *const found_ = dlsym(RTLD_NEXT, name);                                               \
        memcpy(&(function), &found_, sizeof found_);                                               \
    } while (0)

/* Its descriptor may be synced. */
DIR *opendir(const char *path)
{
    DIR *(*next)(const char *);
    NEXT(next, "opendir");
    begin();
    DIR *const d = next(path);
    if (d)
        (void)opened(dirfd(d), AT_FDCWD, path, O_RDONLY | O_DIRECTORY);
    end();
    return d;
}

int closedir(DIR *d)
{
    int (*next)(DIR *);
    NEXT(next, "closedir");
    begin();
    forget(dirfd(d));
    const int rc = next(d);
    end();
    return rc;
}

static void named(disk_call call, int from_fd, const char *from, int to_fd, const char *to)
{
    char full[PATH_MAX], other[PATH_MAX];
    if (log_fd < 0)
        return;
    const bool in = place_of(from_fd, from, full), both = to && place_of(to_fd, to, other);
    if (in && (!to || both))
        record(call, -1, 0, full, to ? other : NULL, 0, NULL, 0);
    else if (in || both)
        record(DISK_UNKNOWN, -1, 0, "a file came from elsewhere, or went there", NULL, 0, NULL, 0);
}

int rename(const char *from, const char *to)
{
    begin();
    const int rc = real_renameat2(AT_FDCWD, from, AT_FDCWD, to, 0);
    if (rc == 0)
        named(DISK_RENAME, AT_FDCWD, from, AT_FDCWD, to);
    end();
    return rc;
}

int renameat2(int from_fd, const char *from, int to_fd, const char *to, unsigned flags)
{
    begin();
    const int rc = real_renameat2(from_fd, from, to_fd, to, flags);
    if (rc == 0)
        named(flags & RENAME_EXCHANGE ? DISK_EXCHANGE : DISK_RENAME, from_fd, from, to_fd, to);
    end();
    return rc;
}

int link(const char *from, const char *to)
{
    begin();
    const int rc = real_link(from, to);
    if (rc == 0)
        named(DISK_LINK, AT_FDCWD, from, AT_FDCWD, to);
    end();
    return rc;
}

/* Of a descriptor: what it gives a name to has none. */
int linkat(int from_fd, const char *from, int to_fd, const char *to, int flags)
{
    static const char open_files[] = "/proc/self/fd/";
    const size_t len = sizeof open_files - 1;
    char full[PATH_MAX];
    begin();
    const int rc = (int)syscall(SYS_linkat, from_fd, from, to_fd, to, flags);
    const bool unnamed = flags & AT_SYMLINK_FOLLOW && strncmp(from, open_files, len) == 0;
    if (rc == 0 && !unnamed)
        named(DISK_LINK, from_fd, from, to_fd, to);
    else if (rc == 0 && log_fd >= 0 && place_of(to_fd, to, full))
        record(DISK_NAME, (int)strtol(from + len, NULL, 10), 0, full, NULL, 0, NULL, 0);
    end();
    return rc;
}

int unlink(const char *path)
{
    begin();
    const int rc = real_unlinkat(AT_FDCWD, path, 0);
    if (rc == 0)
        named(DISK_UNLINK, AT_FDCWD, path, -1, NULL);
    end();
    return rc;
}

int unlinkat(int directory, const char *path, int flags)
{
    begin();
    const int rc = real_unlinkat(directory, path, flags);
    if (rc == 0)
        named(flags & AT_REMOVEDIR ? DISK_RMDIR : DISK_UNLINK, directory, path, -1, NULL);
    end();
    return rc;
}

int rmdir(const char *path)
{
    begin();
    const int rc = real_unlinkat(AT_FDCWD, path, AT_REMOVEDIR);
    if (rc == 0)
        named(DISK_RMDIR, AT_FDCWD, path, -1, NULL);
    end();
    return rc;
}

int mkdir(const char *path, mode_t mode)
{
    begin();
    const int rc = real_mkdir(path, mode);
    if (rc == 0)
        named(DISK_MKDIR, AT_FDCWD, path, -1, NULL);
    end();
    return rc;
}

void *mmap(void *at, size_t len, int protection, int flags, int fd, off_t offset)
{
    begin();
    if (flags & MAP_SHARED && protection & PROT_WRITE)
        unknown(fd, "a mapping that is written to");
    void *const p = real_mmap(at, len, protection, flags, fd, offset);
    end();
    return p;
}

void *mmap64(void *at, size_t len, int protection, int flags, int fd, off_t offset) ALIAS(mmap);
