#include "formats/scratch.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "runtime/file.h"

/* GRAIN is a multiple of every page size; small requests share a piece. */
enum { GRAIN = 64 * 1024, PIECE_MIN = 1024 * 1024, PIECE_MAX = 64 * 1024 * 1024 };

/* Stands at the start of what it describes. */
typedef struct pare_scratch_piece {
    struct pare_scratch_piece *older;
    size_t bytes, used; /* of the mapping, this head included */
} piece;

static_assert(sizeof(piece) <= PARE_ALIGN, "the head fits in front of the first object");

const char *pare_scratch_directory(void)
{
    const char *const given = getenv("TMPDIR");
    return given && given[0] ? given : "/tmp";
}

static pare_status fail_directory(pare_ctx *cx)
{
    const int code = errno;
    const bool cannot_be = code == ENOENT || code == ENOTDIR || code == EACCES || code == EPERM ||
                           code == EROFS || code == ENAMETOOLONG;
    const pare_status is =
        pare_file_fail(cx, pare_scratch_directory(),
                       "hold temporary data (let TMPDIR name a folder that can be written)");
    return cannot_be ? PARE_EUSAGE : is; /* as any other place that cannot be written to */
}

static pare_status open_file(pare_scratch *s)
{
    char path[4096];
    const int n = snprintf(path, sizeof path, "%s/pare-scratch-XXXXXX", pare_scratch_directory());
    if (n < 0 || (size_t)n >= sizeof path)
        return pare_fail(s->cx, PARE_EINVAL, "TMPDIR: a path of more than %zu bytes", sizeof path);
    s->fd = mkstemp(path);
    if (s->fd < 0)
        return fail_directory(s->cx);
    s->open = true;
    (void)fcntl(s->fd, F_SETFD, FD_CLOEXEC);
    if (unlink(path) != 0)
        return pare_file_fail(s->cx, path, "remove the name of");
    return PARE_OK;
}

static pare_status fail_space(const pare_scratch *s, size_t bytes, int code)
{
    char doing[160];
    (void)snprintf(doing, sizeof doing,
                   "reserve %zu bytes for temporary data beside %llu (TMPDIR names another place)",
                   bytes, (unsigned long long)s->reserved);
    errno = code;
    return pare_file_fail(s->cx, pare_scratch_directory(), doing);
}

/* Where the file system reserves nothing, zeros that are written take the space. */
static int write_zeros(const pare_scratch *s, size_t bytes)
{
    static const unsigned char zeros[GRAIN];
    for (size_t at = 0; at < bytes;) {
        const ssize_t n = pwrite(s->fd, zeros, sizeof zeros, (off_t)(s->reserved + at));
        if (n < 0 && errno != EINTR)
            return errno;
        at += n > 0 ? (size_t)n : 0;
    }
    return 0;
}

/* `bytes` is a multiple of GRAIN. */
static pare_status reserve(const pare_scratch *s, size_t bytes)
{
    int code;
    do {
        code = posix_fallocate(s->fd, (off_t)s->reserved, (off_t)bytes);
    } while (code == EINTR);
    if (code == EOPNOTSUPP || code == EINVAL)
        code = write_zeros(s, bytes);
    return code == 0 ? PARE_OK : fail_space(s, bytes, code);
}

static pare_status add_piece(pare_scratch *s, size_t bytes)
{
    if (!s->open)
        PARE_TRY(open_file(s));
    PARE_TRY(reserve(s, bytes));
    void *const base =
        mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, s->fd, (off_t)s->reserved);
    if (base == MAP_FAILED)
        return pare_file_fail(s->cx, pare_scratch_directory(), "map a temporary file in it");
    piece *const p = base;
    *p = (piece){s->newest, bytes, PARE_ALIGN};
    s->newest = p;
    s->reserved += bytes;
    return PARE_OK;
}

void pare_scratch_init(pare_ctx *cx, pare_scratch *s)
{
    *s = (pare_scratch){.cx = cx, .fd = -1};
}

void pare_scratch_close(pare_scratch *s)
{
    while (s->newest) {
        piece *const p = s->newest;
        s->newest = p->older;
        (void)munmap(p, p->bytes);
    }
    if (s->open)
        (void)close(s->fd);
    pare_scratch_init(s->cx, s);
}

/* What a request takes of a piece; none for more than can be mapped. */
static bool fits(uint64_t bytes, uint64_t beside, size_t *need)
{
    if (bytes > SIZE_MAX / 4 || beside > SIZE_MAX / 4 - bytes)
        return false;
    *need = ((size_t)bytes + PARE_ALIGN - 1) & ~(size_t)(PARE_ALIGN - 1);
    return true;
}

/* Bytes of a new piece that holds `need`: as many as there are, so that pieces stay few. */
static size_t piece_size(uint64_t reserved, size_t need)
{
    size_t size = reserved < PIECE_MIN ? PIECE_MIN : (size_t)reserved;
    size = size < PIECE_MAX ? size : PIECE_MAX;
    size = need + PARE_ALIGN < size ? size : need + PARE_ALIGN;
    return (size + GRAIN - 1) & ~(size_t)(GRAIN - 1);
}

void pare_scratch_count(pare_scratch *s, uint64_t bytes)
{
    size_t need;
    if (!fits(bytes, s->counted, &need)) {
        s->counted = UINT64_MAX;
        return;
    }
    if (s->counted == 0 || s->counted_left < need) {
        const size_t size = piece_size(s->counted, need);
        s->counted += size;
        s->counted_left = size - PARE_ALIGN;
    }
    s->counted_left -= need;
}

pare_status pare_scratch_check_free(pare_ctx *cx, uint64_t bytes)
{
    const char *const directory = pare_scratch_directory();
    struct statvfs fs;
    if (bytes == 0)
        return PARE_OK;
    if (statvfs(directory, &fs) != 0)
        return fail_directory(cx);
    const uint64_t left = (uint64_t)fs.f_bavail * fs.f_frsize;
    return bytes <= left
               ? PARE_OK
               : pare_fail(cx, PARE_ENOSPC,
                           "%s: the weights, decoded, take %llu bytes of temporary data and %llu "
                           "are free there; let TMPDIR name a folder with more room",
                           directory, (unsigned long long)bytes, (unsigned long long)left);
}

pare_status pare_scratch_take(pare_scratch *s, uint64_t bytes, void **out)
{
    size_t need;
    if (!fits(bytes, s->reserved, &need))
        return pare_fail(s->cx, PARE_ENOMEM, "%llu bytes of temporary data cannot be mapped",
                         (unsigned long long)bytes);
    if (!s->newest || s->newest->bytes - s->newest->used < need)
        PARE_TRY(add_piece(s, piece_size(s->reserved, need)));
    piece *const p = s->newest;
    *out = (unsigned char *)p + p->used;
    p->used += need;
    return PARE_OK;
}
