#include "runtime/file.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

/* Mapped files, for the SIGBUS handler: the only state of the process that changes. A slot belongs
 * to whoever moved its `begin` from FREE; the handler trusts `end` and `path` once `begin` is an
 * address. A full table costs the name in the message and nothing else. */
enum { SLOTS = 4096, FREE = 0, CLAIMED = 1 };
typedef struct map_slot {
    _Atomic uintptr_t begin;
    _Atomic uintptr_t end;
    _Atomic(const char *) path;
} map_slot;
static map_slot map_table[SLOTS];
static atomic_int guard_exit_code;

static void table_add(const pare_file *f)
{
    for (size_t i = 0; i < SLOTS; i++) {
        uintptr_t expected = FREE;
        if (!atomic_compare_exchange_strong(&map_table[i].begin, &expected, CLAIMED))
            continue;
        atomic_store(&map_table[i].end, (uintptr_t)f->data + (uintptr_t)f->bytes);
        atomic_store(&map_table[i].path, f->path);
        atomic_store(&map_table[i].begin, (uintptr_t)f->data);
        return;
    }
}

static void table_remove(const pare_file *f)
{
    for (size_t i = 0; i < SLOTS; i++) {
        if (atomic_load(&map_table[i].begin) == (uintptr_t)f->data) {
            atomic_store(&map_table[i].begin, FREE);
            return;
        }
    }
}

static void say(const char *text)
{
    size_t left = strlen(text);
    while (left > 0) {
        const ssize_t n = write(STDERR_FILENO, text, left);
        if (n <= 0)
            return;
        text += n;
        left -= (size_t)n;
    }
}

/* Only calls that are safe in a handler. */
static void on_sigbus(int sig, siginfo_t *info, void *ucontext)
{
    (void)ucontext;
    const uintptr_t at = (uintptr_t)info->si_addr;
    for (size_t i = 0; i < SLOTS; i++) {
        const uintptr_t begin = atomic_load(&map_table[i].begin);
        if (begin <= CLAIMED || at < begin || at >= atomic_load(&map_table[i].end))
            continue;
        say("pare: ");
        say(atomic_load(&map_table[i].path));
        say(": a mapped page cannot be read: the file was cut while in use, or the disk failed\n");
        _exit(atomic_load(&guard_exit_code));
    }
    (void)signal(sig, SIG_DFL); /* not ours: the instruction faults again and ends the process */
}

void pare_file_guard(int exit_code)
{
    atomic_store(&guard_exit_code, exit_code);
    struct sigaction action = {.sa_sigaction = on_sigbus, .sa_flags = SA_SIGINFO};
    (void)sigemptyset(&action.sa_mask);
    (void)sigaction(SIGBUS, &action, NULL);
}

enum { PLACE = 4096, REASON = 192 };

/* What is free on the disk of a file in words behind `text`, or of the directory of one that is not
 * there. A device has no such disk. */
static void tell_free(const char *path, char text[REASON])
{
    char place[PLACE];
    struct stat st;
    struct statvfs fs;
    const bool there = stat(path, &st) == 0;
    const char *const slash = strrchr(path, '/');
    const int len = there ? (int)strnlen(path, PLACE) : slash ? (int)(slash - path) + 1 : 1;
    const size_t used = strlen(text);
    if (there && !S_ISREG(st.st_mode) && !S_ISDIR(st.st_mode))
        return;
    if (len < PLACE &&
        snprintf(place, sizeof place, "%.*s", len, there || slash ? path : ".") == len &&
        statvfs(place, &fs) == 0)
        (void)snprintf(text + used, REASON - used, " (%llu bytes free)",
                       (unsigned long long)fs.f_bavail * fs.f_frsize);
}

pare_status pare_file_fail(pare_ctx *cx, const char *path, const char *doing)
{
    const int code = errno;
    char reason[REASON] = "unknown error";
    (void)strerror_r(code, reason, sizeof reason);
    if (code == ENOSPC)
        tell_free(path, reason);
    pare_status s = PARE_EIO;
    if (code == ENOENT || code == ENAMETOOLONG)
        s = PARE_ENOTFOUND;
    else if (code == ENOSPC || code == EDQUOT || code == EFBIG)
        s = PARE_ENOSPC;
    else if (code == ENOMEM)
        s = PARE_ENOMEM;
    const size_t len = strlen(path);
    const bool all = len < sizeof cx->what / 2; /* else its ends: the reason must have room */
    return pare_fail(cx, s, "%.*s%s%s: cannot %s: %s", all ? (int)len : 200, path, all ? "" : "...",
                     all ? "" : path + len - 100, doing, reason);
}

pare_status pare_file_fail_input(pare_ctx *cx, const char *path, const char *doing)
{
    const bool refused = errno == EACCES || errno == EPERM;
    const pare_status s = pare_file_fail(cx, path, doing);
    return refused ? PARE_EFORMAT : s;
}

static int open_retry(const char *path, int flags, mode_t mode)
{
    int fd;
    do
        fd = open(path, flags | O_CLOEXEC, mode);
    while (fd < 0 && errno == EINTR);
    return fd;
}

static pare_file_stamp stamp_of(const struct stat *st)
{
    return (pare_file_stamp){.device = (uint64_t)st->st_dev,
                             .inode = (uint64_t)st->st_ino,
                             .bytes = (uint64_t)st->st_size,
                             .written = {st->st_mtim.tv_sec, st->st_mtim.tv_nsec},
                             .changed = {st->st_ctim.tv_sec, st->st_ctim.tv_nsec}};
}

pare_file_stamp pare_file_look(const char *path)
{
    struct stat st;
    return stat(path, &st) == 0 ? stamp_of(&st) : (pare_file_stamp){0};
}

/* Git leaves a few lines in place of a file that Git LFS keeps, where that was not installed. */
static pare_status refuse_pointer(pare_ctx *cx, const char *path, int fd, uint64_t bytes)
{
    static const char first[] = "version https://git-lfs.github.com/spec/";
    enum { LEN = sizeof first - 1, POINTER_MAX = 1024 };
    char begin[LEN];
    if (bytes < LEN || bytes > POINTER_MAX || pread(fd, begin, LEN, 0) != LEN ||
        memcmp(begin, first, LEN) != 0)
        return PARE_OK;
    return pare_fail(
        cx, PARE_EFORMAT,
        "%s: is a pointer of Git LFS, not the file that it stands for; install git-lfs "
        "and run git lfs pull, or download the file",
        path);
}

/* O_NONBLOCK: a named pipe must not hold up the program before it is refused. */
static pare_status open_regular(pare_ctx *cx, const char *path, int *fd, pare_file_stamp *stamp)
{
    *fd = open_retry(path, O_RDONLY | O_NONBLOCK, 0);
    if (*fd < 0)
        return pare_file_fail_input(cx, path, "open");
    struct stat st;
    pare_status s = PARE_OK;
    if (fstat(*fd, &st) != 0)
        s = pare_file_fail(cx, path, "stat");
    else if (S_ISDIR(st.st_mode))
        s = pare_fail(cx, PARE_EFORMAT, "%s: is a directory, expected a file", path);
    else if (!S_ISREG(st.st_mode))
        s = pare_fail(cx, PARE_EFORMAT, "%s: is not a regular file", path);
    else
        s = refuse_pointer(cx, path, *fd, (uint64_t)st.st_size);
    *stamp = stamp_of(&st);
    if (s != PARE_OK)
        (void)close(*fd);
    return s;
}

pare_status pare_file_map(pare_ctx *cx, pare_arena *a, const char *path, pare_file *f)
{
    *f = (pare_file){0};
    char *const copy = pare_arena_text(a, path, strlen(path));
    if (!copy)
        return PARE_ENOMEM;
    int fd = -1;
    pare_file_stamp stamp;
    PARE_TRY(open_regular(cx, path, &fd, &stamp));
    const uint64_t bytes = stamp.bytes;
    pare_status s = PARE_OK;
    if (bytes > SIZE_MAX / 2) {
        s = pare_fail(cx, PARE_ENOMEM, "%s: %llu bytes cannot be mapped", path,
                      (unsigned long long)bytes);
    } else if (bytes > 0) {
        void *const p = mmap(NULL, (size_t)bytes, PROT_READ, MAP_PRIVATE, fd, 0);
        if (p == MAP_FAILED)
            s = pare_file_fail(cx, path, "map");
        else
            f->data = p;
    }
    (void)close(fd);
    if (s != PARE_OK)
        return s;
    f->bytes = bytes;
    f->path = copy;
    f->stamp = stamp;
    if (f->data)
        table_add(f);
    return PARE_OK;
}

pare_status pare_file_map_shared(pare_ctx *cx, int fd, char *path, uint64_t bytes, pare_file *f)
{
    *f = (pare_file){.bytes = bytes, .path = path};
    void *const p = mmap(NULL, (size_t)bytes, PROT_READ, MAP_SHARED, fd, 0);
    if (p == MAP_FAILED)
        return pare_file_fail(cx, path, "map");
    f->data = p;
    table_add(f);
    return PARE_OK;
}

void pare_file_unmap(pare_file *f)
{
    if (f->data) {
        table_remove(f);
        (void)munmap((void *)f->data, (size_t)f->bytes);
    }
    f->data = NULL;
    f->bytes = 0;
}

pare_status pare_file_read(pare_ctx *cx, pare_arena *a, const char *path, size_t cap, char **text,
                           size_t *len)
{
    *text = NULL;
    *len = 0;
    int fd = -1;
    pare_file_stamp stamp;
    PARE_TRY(open_regular(cx, path, &fd, &stamp));
    const uint64_t bytes = stamp.bytes;
    pare_status s = PARE_ENOMEM;
    if (bytes > cap) {
        s = pare_fail(cx, PARE_EFORMAT, "%s: %llu bytes, at most %zu are accepted", path,
                      (unsigned long long)bytes, cap);
        goto done;
    }
    char *const p = pare_arena_take(a, (size_t)bytes + 1, 1);
    if (!p)
        goto done;
    s = pare_file_get(cx, fd, path, p, (size_t)bytes, 0);
    if (s == PARE_OK) {
        *text = p;
        *len = (size_t)bytes;
    }
done:
    (void)close(fd);
    return s;
}

pare_status pare_file_put(pare_ctx *cx, int fd, const char *path, const void *bytes, size_t len,
                          uint64_t offset)
{
    const unsigned char *p = bytes;
    if (offset > INT64_MAX || len > (uint64_t)INT64_MAX - offset)
        return pare_fail(cx, PARE_ENOSPC, "%s: offset %llu is beyond any file", path,
                         (unsigned long long)offset);
    while (len > 0) {
        const ssize_t n = pwrite(fd, p, len, (off_t)offset);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0) {
            errno = n == 0 ? ENOSPC : errno;
            return pare_file_fail(cx, path, "write");
        }
        p += n;
        len -= (size_t)n;
        offset += (uint64_t)n;
    }
    return PARE_OK;
}

pare_status pare_file_get(pare_ctx *cx, int fd, const char *path, void *bytes, size_t len,
                          uint64_t offset)
{
    unsigned char *p = bytes;
    if (offset > INT64_MAX || len > (uint64_t)INT64_MAX - offset)
        return pare_fail(cx, PARE_EIO, "%s: offset %llu is beyond any file", path,
                         (unsigned long long)offset);
    while (len > 0) {
        const ssize_t n = pread(fd, p, len, (off_t)offset);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return pare_file_fail(cx, path, "read");
        if (n == 0)
            return pare_fail(cx, PARE_EIO, "%s: ends at byte %llu, %zu more were expected", path,
                             (unsigned long long)offset, len);
        p += n;
        len -= (size_t)n;
        offset += (uint64_t)n;
    }
    return PARE_OK;
}

static int sync_retry(int fd)
{
    int rc;
    do
        rc = fsync(fd);
    while (rc != 0 && errno == EINTR);
    return rc;
}

pare_status pare_file_sync(pare_ctx *cx, int fd, const char *path)
{
    return sync_retry(fd) == 0 ? PARE_OK : pare_file_fail(cx, path, "sync");
}

/* Some file systems cannot sync a directory and say EINVAL: there is nothing more to be done. */
pare_status pare_file_sync_parent(pare_ctx *cx, const char *path)
{
    pare_arena a;
    pare_status s = pare_arena_init(cx, &a, 0);
    const char *const directory = s == PARE_OK ? pare_path_directory(&a, path) : NULL;
    if (!directory) {
        s = PARE_ENOMEM;
        goto done;
    }
    const int fd = open_retry(directory, O_RDONLY | O_DIRECTORY, 0);
    if (fd < 0) {
        s = pare_file_fail(cx, directory, "open");
        goto done;
    }
    if (sync_retry(fd) != 0 && errno != EINVAL)
        s = pare_file_fail(cx, directory, "sync");
    (void)close(fd);
done:
    pare_arena_release(&a);
    return s;
}

static pare_status write_and_close(pare_ctx *cx, int fd, const char *path, const void *bytes,
                                   size_t len)
{
    pare_status s = pare_file_put(cx, fd, path, bytes, len, 0);
    if (s == PARE_OK)
        s = pare_file_sync(cx, fd, path);
    if (close(fd) != 0 && s == PARE_OK && errno != EINTR)
        s = pare_file_fail(cx, path, "write");
    return s;
}

/* A regular file of that name alone is emptied; what is anything else is of somebody, and stays. */
static pare_status open_temporary(pare_ctx *cx, const char *path, bool is_new, int *fd)
{
    struct stat st;
    *fd = open_retry(path, O_WRONLY | O_CREAT | O_NOFOLLOW | O_NONBLOCK | (is_new ? O_EXCL : 0),
                     0666);
    if (*fd < 0 && errno == EEXIST)
        return pare_fail(cx, PARE_EEXISTS,
                         "%s: is there; a file is written there for a moment: move it away", path);
    const bool odd = *fd < 0 && (errno == ELOOP || errno == EISDIR || errno == ENXIO);
    if (*fd < 0 && !odd)
        return pare_file_fail(cx, path, "create");
    pare_status s = PARE_OK;
    if (*fd >= 0 && fstat(*fd, &st) != 0)
        s = pare_file_fail(cx, path, "look at");
    else if (odd || !S_ISREG(st.st_mode) || st.st_nlink != 1)
        s = pare_fail(cx, PARE_EEXISTS,
                      "%s: is no regular file, or has a second name; a file is written there for a "
                      "moment: move it away",
                      path);
    else if (st.st_size > 0 && ftruncate(*fd, 0) != 0)
        s = pare_file_fail(cx, path, "cut");
    if (s != PARE_OK && *fd >= 0) {
        (void)close(*fd);
        if (is_new) /* made a moment ago */
            (void)unlink(path);
    }
    return s;
}

static pare_status write_whole(pare_ctx *cx, const char *path, const void *bytes, size_t len,
                               bool is_new)
{
    pare_arena a;
    pare_status s = pare_arena_init(cx, &a, 0);
    char *const temporary = s == PARE_OK ? pare_path_suffix(&a, path, ".tmp") : NULL;
    if (!temporary) {
        s = PARE_ENOMEM;
        goto done;
    }
    int fd;
    s = open_temporary(cx, temporary, is_new, &fd);
    if (s != PARE_OK)
        goto done;
    s = write_and_close(cx, fd, temporary, bytes, len);
    if (s == PARE_OK && is_new)
        s = pare_file_name(cx, temporary, path);
    else if (s == PARE_OK && rename(temporary, path) != 0)
        s = pare_file_fail(cx, path, "rename over");
    if (s != PARE_OK)
        (void)unlink(temporary);
    else
        s = pare_file_sync_parent(cx, path);
done:
    pare_arena_release(&a);
    return s;
}

pare_status pare_file_write(pare_ctx *cx, const char *path, const void *bytes, size_t len)
{
    return write_whole(cx, path, bytes, len, false);
}

pare_status pare_file_write_new(pare_ctx *cx, const char *path, const void *bytes, size_t len)
{
    return write_whole(cx, path, bytes, len, true);
}

char *pare_path_join(pare_arena *a, const char *directory, const char *name)
{
    const size_t d = strlen(directory), n = strlen(name);
    if (name[0] == '/' || d == 0)
        return pare_arena_text(a, name, n);
    const bool slash = directory[d - 1] != '/';
    const size_t size = d + slash + n + 1;
    char *const path = pare_arena_take(a, size, 1);
    if (path)
        (void)snprintf(path, size, "%s%s%s", directory, slash ? "/" : "", name);
    return path;
}

char *pare_path_suffix(pare_arena *a, const char *path, const char *suffix)
{
    const size_t len = strlen(path), more = strlen(suffix) + 1;
    char *const out = pare_arena_take(a, len + more, 1);
    if (out) {
        memcpy(out, path, len);
        memcpy(out + len, suffix, more);
    }
    return out;
}

char *pare_path_directory(pare_arena *a, const char *path)
{
    size_t len = strlen(path);
    while (len > 1 && path[len - 1] == '/')
        len--;
    while (len > 0 && path[len - 1] != '/')
        len--;
    while (len > 1 && path[len - 1] == '/')
        len--;
    return len == 0 ? pare_arena_text(a, ".", 1) : pare_arena_text(a, path, len);
}

pare_status pare_path_look(pare_ctx *cx, const char *path, pare_path_kind *out)
{
    struct stat st;
    *out = PARE_PATH_ABSENT;
    if (stat(path, &st) == 0)
        *out = S_ISREG(st.st_mode)   ? PARE_PATH_FILE
               : S_ISDIR(st.st_mode) ? PARE_PATH_DIRECTORY
                                     : PARE_PATH_OTHER;
    else if (errno != ENOENT && errno != ENOTDIR && errno != ENAMETOOLONG && errno != ELOOP)
        return pare_file_fail_input(cx, path, "look at");
    return PARE_OK;
}

bool pare_path_is_directory(const char *path)
{
    struct stat st;
    return stat(path, &st) == 0 && S_ISDIR(st.st_mode);
}

bool pare_path_is_file(const char *path)
{
    uint64_t bytes;
    return pare_path_bytes(path, &bytes);
}

const char *pare_path_no_file(const char *path)
{
    struct stat st;
    if (stat(path, &st) != 0)
        return "there is no such file";
    return S_ISDIR(st.st_mode) ? "is a directory, and a file is wanted" : "is no regular file";
}

bool pare_path_bytes(const char *path, uint64_t *bytes)
{
    struct stat st;
    if (stat(path, &st) != 0 || !S_ISREG(st.st_mode))
        return false;
    *bytes = (uint64_t)st.st_size;
    return true;
}
