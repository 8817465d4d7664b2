/* Put in front of libc with LD_PRELOAD: the n-th call of a kind fails (call_kinds.h), or finds that
 * the disk got full just now. Calls are told apart by the name of the function, so what libc does
 * inside another function belongs to that one.
 *
 * Calls that come from OpenBLAS, the compiler's runtimes and sanitizers are passed on uncounted:
 * those libraries end the process, or worse, when they get no memory, and no caller can help it. */
#define _GNU_SOURCE
#include "tests/fault/call_kinds.h"

#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <link.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { RANGES = 64 };

static call_counts *counts;
static atomic_int state; /* 0: not set up, 1: somebody is at it, 2: set up */
static uint64_t fail_at;
static int fail_kind = -1, fail_errno;
static bool stays, dies;
static const char *eat;
static struct {
    uintptr_t first, end;
} passed_on[RANGES];
static size_t ranges;

static const char *const kind_name[] = {
#define X(name, errors, space) #name,
    CALL_KINDS(X)
#undef X
};
static const bool takes_space[] = {
#define X(name, errors, space) space,
    CALL_KINDS(X)
#undef X
};

/* What libc has of a name. ISO C has no conversion from the one kind of pointer to the other. */
#define NEXT(function, name)                                                                       \
    do {                                                                                           \
        void *const found_ = dlsym(RTLD_NEXT, name);                                               \
        memcpy(&(function), &found_, sizeof found_);                                               \
    } while (0)
#define ALIAS(name) __attribute__((alias(#name)))
#define CALLER      __builtin_return_address(0)

static int note_library(struct dl_phdr_info *info, size_t size, void *data)
{
    static const char *const names[] = {"openblas", "blas",        "lapack",
                                        "libgomp",  "libgfortran", "libasan",
                                        "libubsan", "ld-linux",    "shim_fail"};
    (void)size;
    (void)data;
    bool found = false;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        found |= info->dlpi_name && strstr(info->dlpi_name, names[i]);
    for (int i = 0; found && i < info->dlpi_phnum && ranges < RANGES; i++) {
        const ElfW(Phdr) *const p = &info->dlpi_phdr[i];
        if (p->p_type != PT_LOAD || !(p->p_flags & PF_X))
            continue;
        passed_on[ranges].first = info->dlpi_addr + p->p_vaddr;
        passed_on[ranges++].end = info->dlpi_addr + p->p_vaddr + p->p_memsz;
    }
    return 0;
}

static void set_up(void)
{
    const char *const path = getenv(FAIL_COUNTS), *const kind = getenv(FAIL_KIND);
    const char *const at = getenv(FAIL_AT), *const code = getenv(FAIL_ERRNO);
    const int fd = path ? (int)syscall(SYS_openat, AT_FDCWD, path, O_RDWR | O_CLOEXEC) : -1;
    if (fd < 0)
        return;
    void *const p =
        (void *)syscall(SYS_mmap, NULL, sizeof *counts, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    (void)syscall(SYS_close, fd);
    if (p == MAP_FAILED)
        return;
    for (int i = 0; kind && i < CALL_KIND_COUNT; i++)
        if (strcmp(kind, kind_name[i]) == 0)
            fail_kind = i;
    fail_at = at ? strtoull(at, NULL, 10) : 0;
    fail_errno = code ? (int)strtol(code, NULL, 10) : 0;
    stays = getenv(FAIL_STAY) != NULL;
    eat = getenv(FAIL_EAT);
    dies = getenv(FAIL_DIE) != NULL;
    (void)dl_iterate_phdr(note_library, NULL);
    counts = p;
}

static bool is_passed_on(const void *caller)
{
    const uintptr_t at = (uintptr_t)caller;
    for (size_t i = 0; i < ranges; i++)
        if (at >= passed_on[i].first && at < passed_on[i].end)
            return true;
    return false;
}

/* Takes all that is left of a disk. */
static void fill_disk(void)
{
    const int code = errno, fd = (int)syscall(SYS_openat, AT_FDCWD, eat, O_RDWR | O_CREAT, 0666);
    off_t at = 0;
    for (off_t step = 1 << 30; fd >= 0 && step >= 4096;) {
        if (syscall(SYS_fallocate, fd, 0, at, step) == 0)
            at += step;
        else
            step /= 2;
    }
    (void)syscall(SYS_close, fd);
    errno = code;
}

/* Whether a call counts towards the one in front of which something happens to all of the process.
 */
static bool is_moment(call_kind kind)
{
    return takes_space[kind]
               ? eat || dies
               : dies && (kind == CALL_fsync || kind == CALL_unlink || kind == CALL_rmdir);
}

/* Whether this call fails; errno then says why. */
static bool strikes(call_kind kind, const void *caller)
{
    int expected = 0;
    if (environ && atomic_compare_exchange_strong(&state, &expected, 1)) {
        const int code = errno;
        set_up();
        errno = code;
        atomic_store(&state, 2);
    }
    if (atomic_load(&state) != 2 || !counts || is_passed_on(caller))
        return false;
    const uint64_t n = atomic_fetch_add(&counts->calls[kind], 1) + 1;
    if (is_moment(kind) && atomic_fetch_add(&counts->all, 1) + 1 == fail_at) {
        atomic_store(&counts->struck, 1);
        if (dies)
            (void)kill(getpid(), SIGKILL);
        fill_disk();
    }
    if ((int)kind != fail_kind || n < fail_at || (n > fail_at && !stays))
        return false;
    atomic_store(&counts->struck, 1);
    errno = fail_errno;
    return true;
}

int open(const char *path, int flags, ...)
{
    va_list ap;
    va_start(ap, flags);
    const mode_t mode =
        flags & O_CREAT || (flags & O_TMPFILE) == O_TMPFILE ? va_arg(ap, mode_t) : 0;
    va_end(ap);
    return strikes(CALL_open, CALLER) ? -1 : (int)syscall(SYS_openat, AT_FDCWD, path, flags, mode);
}

int openat(int directory, const char *path, int flags, ...)
{
    va_list ap;
    va_start(ap, flags);
    const mode_t mode =
        flags & O_CREAT || (flags & O_TMPFILE) == O_TMPFILE ? va_arg(ap, mode_t) : 0;
    va_end(ap);
    return strikes(CALL_openat, CALLER) ? -1
                                        : (int)syscall(SYS_openat, directory, path, flags, mode);
}

FILE *fopen(const char *path, const char *mode)
{
    FILE *(*next)(const char *, const char *);
    NEXT(next, "fopen");
    return strikes(CALL_fopen, CALLER) ? NULL : next(path, mode);
}

int mkstemp(char *path)
{
    int (*next)(char *);
    NEXT(next, "mkstemp");
    return strikes(CALL_mkstemp, CALLER) ? -1 : next(path);
}

/* Linux closes the descriptor in any case. */
int close(int fd)
{
    const int rc = (int)syscall(SYS_close, fd);
    return strikes(CALL_close, CALLER) ? -1 : rc;
}

void *mmap(void *at, size_t len, int protection, int flags, int fd, off_t offset)
{
    return strikes(CALL_mmap, CALLER)
               ? MAP_FAILED
               : (void *)syscall(SYS_mmap, at, len, protection, flags, fd, offset);
}

ssize_t read(int fd, void *bytes, size_t len)
{
    return strikes(CALL_read, CALLER) ? -1 : (ssize_t)syscall(SYS_read, fd, bytes, len);
}

ssize_t pread(int fd, void *bytes, size_t len, off_t offset)
{
    return strikes(CALL_pread, CALLER) ? -1 : (ssize_t)syscall(SYS_pread64, fd, bytes, len, offset);
}

size_t fread(void *bytes, size_t size, size_t count, FILE *f)
{
    size_t (*next)(void *, size_t, size_t, FILE *);
    NEXT(next, "fread");
    return strikes(CALL_fread, CALLER) ? 0 : next(bytes, size, count, f);
}

ssize_t write(int fd, const void *bytes, size_t len)
{
    return strikes(CALL_write, CALLER) ? -1 : (ssize_t)syscall(SYS_write, fd, bytes, len);
}

ssize_t pwrite(int fd, const void *bytes, size_t len, off_t offset)
{
    return strikes(CALL_pwrite, CALLER) ? -1
                                        : (ssize_t)syscall(SYS_pwrite64, fd, bytes, len, offset);
}

int fflush(FILE *f)
{
    int (*next)(FILE *);
    NEXT(next, "fflush");
    return strikes(CALL_fflush, CALLER) ? EOF : next(f);
}

int fsync(int fd)
{
    return strikes(CALL_fsync, CALLER) ? -1 : (int)syscall(SYS_fsync, fd);
}

int rename(const char *from, const char *to)
{
    return strikes(CALL_rename, CALLER)
               ? -1
               : (int)syscall(SYS_renameat2, AT_FDCWD, from, AT_FDCWD, to, 0);
}

int renameat2(int from_fd, const char *from, int to_fd, const char *to, unsigned flags)
{
    return strikes(CALL_renameat2, CALLER)
               ? -1
               : (int)syscall(SYS_renameat2, from_fd, from, to_fd, to, flags);
}

int ftruncate(int fd, off_t size)
{
    return strikes(CALL_ftruncate, CALLER) ? -1 : (int)syscall(SYS_ftruncate, fd, size);
}

/* Returns its error, and leaves errno alone. */
int posix_fallocate(int fd, off_t offset, off_t len)
{
    const int code = errno;
    const bool fails =
        strikes(CALL_fallocate, CALLER) || syscall(SYS_fallocate, fd, 0, offset, len) != 0;
    const int why = fails ? errno : 0;
    errno = code;
    return why;
}

int mkdir(const char *path, mode_t mode)
{
    return strikes(CALL_mkdir, CALLER) ? -1 : (int)syscall(SYS_mkdirat, AT_FDCWD, path, mode);
}

int unlink(const char *path)
{
    return strikes(CALL_unlink, CALLER) ? -1 : (int)syscall(SYS_unlinkat, AT_FDCWD, path, 0);
}

int unlinkat(int directory, const char *path, int flags)
{
    return strikes(CALL_unlink, CALLER) ? -1 : (int)syscall(SYS_unlinkat, directory, path, flags);
}

int rmdir(const char *path)
{
    return strikes(CALL_rmdir, CALLER) ? -1
                                       : (int)syscall(SYS_unlinkat, AT_FDCWD, path, AT_REMOVEDIR);
}

DIR *opendir(const char *path)
{
    DIR *(*next)(const char *);
    NEXT(next, "opendir");
    return strikes(CALL_opendir, CALLER) ? NULL : next(path);
}

struct dirent *readdir(DIR *d)
{
    struct dirent *(*next)(DIR *);
    NEXT(next, "readdir");
    return strikes(CALL_readdir, CALLER) ? NULL : next(d);
}

int stat(const char *path, struct stat *st)
{
    int (*next)(const char *, struct stat *);
    NEXT(next, "stat");
    return strikes(CALL_stat, CALLER) ? -1 : next(path, st);
}

int lstat(const char *path, struct stat *st)
{
    int (*next)(const char *, struct stat *);
    NEXT(next, "lstat");
    return strikes(CALL_stat, CALLER) ? -1 : next(path, st);
}

int fstat(int fd, struct stat *st)
{
    int (*next)(int, struct stat *);
    NEXT(next, "fstat");
    return strikes(CALL_fstat, CALLER) ? -1 : next(fd, st);
}

int access(const char *path, int mode)
{
    int (*next)(const char *, int);
    NEXT(next, "access");
    return strikes(CALL_access, CALLER) ? -1 : next(path, mode);
}

int flock(int fd, int operation)
{
    return strikes(CALL_flock, CALLER) ? -1 : (int)syscall(SYS_flock, fd, operation);
}

int pthread_create(pthread_t *thread, const pthread_attr_t *attributes, void *(*start)(void *),
                   void *argument)
{
    int (*next)(pthread_t *, const pthread_attr_t *, void *(*)(void *), void *);
    NEXT(next, "pthread_create");
    return strikes(CALL_pthread_create, CALLER) ? fail_errno
                                                : next(thread, attributes, start, argument);
}

/* Looking up a name may allocate: then there is nothing yet. */
static bool looking_up;

void *malloc(size_t size)
{
    static void *(*next)(size_t);
    if (!next && !looking_up) {
        looking_up = true;
        NEXT(next, "malloc");
        looking_up = false;
    }
    return !next || strikes(CALL_malloc, CALLER) ? NULL : next(size);
}

void *calloc(size_t count, size_t size)
{
    static void *(*next)(size_t, size_t);
    if (!next && !looking_up) {
        looking_up = true;
        NEXT(next, "calloc");
        looking_up = false;
    }
    return !next || strikes(CALL_malloc, CALLER) ? NULL : next(count, size);
}

void *realloc(void *old, size_t size)
{
    static void *(*next)(void *, size_t);
    if (!next && !looking_up) {
        looking_up = true;
        NEXT(next, "realloc");
        looking_up = false;
    }
    return !next || (size > 0 && strikes(CALL_malloc, CALLER)) ? NULL : next(old, size);
}

int open64(const char *path, int flags, ...) ALIAS(open);
int openat64(int directory, const char *path, int flags, ...) ALIAS(openat);
FILE *fopen64(const char *path, const char *mode) ALIAS(fopen);
int mkstemp64(char *path) ALIAS(mkstemp);
void *mmap64(void *at, size_t len, int protection, int flags, int fd, off_t offset) ALIAS(mmap);
ssize_t pread64(int fd, void *bytes, size_t len, off_t offset) ALIAS(pread);
ssize_t pwrite64(int fd, const void *bytes, size_t len, off_t offset) ALIAS(pwrite);
int ftruncate64(int fd, off_t size) ALIAS(ftruncate);
int posix_fallocate64(int fd, off_t offset, off_t len) ALIAS(posix_fallocate);
struct dirent64 *readdir64(DIR *d) ALIAS(readdir);
int stat64(const char *path, struct stat64 *st) ALIAS(stat);
int lstat64(const char *path, struct stat64 *st) ALIAS(lstat);
int fstat64(int fd, struct stat64 *st) ALIAS(fstat);
