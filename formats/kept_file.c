#include "formats/kept_file.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "formats/hash.h"
#include "runtime/file.h"

enum { MAGIC = 8, SUM = 16, PIECE = 1 << 20 };

static const char magic[MAGIC + 1] = "PAREKF01";

/* A file in pieces: `to` below 0 reads alone. */
typedef struct pass {
    pare_ctx *cx;
    unsigned char *piece; /* [PIECE] */
    int from, to;
    const char *from_path, *to_path;
    uint64_t from_at, to_at, bytes;
} pass;

static pare_status run(const pass *p, uint8_t sum[SUM])
{
    pare_xxh3_state hash;
    pare_xxh3_begin(&hash);
    for (uint64_t done = 0; done < p->bytes;) {
        const size_t n = p->bytes - done < PIECE ? (size_t)(p->bytes - done) : PIECE;
        PARE_TRY(pare_file_get(p->cx, p->from, p->from_path, p->piece, n, p->from_at + done));
        pare_xxh3_add(&hash, p->piece, n);
        if (p->to >= 0)
            PARE_TRY(pare_file_put(p->cx, p->to, p->to_path, p->piece, n, p->to_at + done));
        done += n;
    }
    pare_xxh3_end(&hash, sum);
    return PARE_OK;
}

/* What speaks against an open file, or NULL. */
static const char *check(pare_ctx *cx, int fd, const char *path, uint64_t bytes, const char *key,
                         unsigned char *piece)
{
    unsigned char head[PARE_KEPT_HEAD];
    uint8_t sum[SUM];
    struct stat st;
    const pass all = {cx, piece, fd, -1, path, NULL, PARE_KEPT_HEAD, 0, bytes};
    if (fstat(fd, &st) != 0 || !S_ISREG(st.st_mode) ||
        (uint64_t)st.st_size != PARE_KEPT_HEAD + bytes ||
        pare_file_get(cx, fd, path, head, sizeof head, 0) != PARE_OK)
        return "it has another length";
    pare_xxh3(key, strlen(key), sum);
    if (memcmp(head, magic, MAGIC) != 0 || memcmp(head + MAGIC, sum, SUM) != 0)
        return "it is of another job";
    if (run(&all, sum) != PARE_OK || memcmp(head + MAGIC + SUM, sum, SUM) != 0)
        return "its bytes are not those that were written";
    return NULL;
}

/* Whether `fd` is the file that has the name now: whoever wrote it before may have given it
 * another. */
static bool has_name(int fd, const char *path)
{
    struct stat opened, named;
    return fstat(fd, &opened) == 0 && lstat(path, &named) == 0 && opened.st_dev == named.st_dev &&
           opened.st_ino == named.st_ino && S_ISREG(named.st_mode);
}

/* What a process that was killed left of writing a file that another one has written. */
static void remove_left(const char *temporary)
{
    const int fd = open(temporary, O_RDWR | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    if (fd < 0)
        return;
    if (flock(fd, LOCK_EX | LOCK_NB) == 0 && has_name(fd, temporary))
        (void)unlink(temporary);
    (void)close(fd);
}

pare_status pare_kept_open(pare_ctx *cx, pare_arena *scratch, const char *path, const char *key,
                           uint64_t bytes, int *fd, const char **why)
{
    const pare_mark mark = pare_arena_mark(scratch);
    unsigned char *const piece = pare_arena_take_raw(scratch, PIECE, 1);
    char *const temporary = pare_path_suffix(scratch, path, ".tmp");
    if (!piece || !temporary)
        return PARE_ENOMEM;
    *fd = open(path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    *why = *fd < 0 ? "there is no such file yet" : check(cx, *fd, path, bytes, key, piece);
    if (!*why)
        remove_left(temporary);
    pare_arena_rewind(scratch, mark);
    if (*why && *fd >= 0) {
        (void)close(*fd);
        *fd = -1;
        pare_ctx_clear(cx);
    }
    return PARE_OK;
}

static pare_status write_all(const pass *p, const char *key)
{
    unsigned char head[PARE_KEPT_HEAD];
    if (ftruncate(p->to, 0) != 0)
        return pare_file_fail(p->cx, p->to_path, "truncate");
    memcpy(head, magic, MAGIC);
    pare_xxh3(key, strlen(key), head + MAGIC);
    PARE_TRY(run(p, head + MAGIC + SUM));
    return pare_file_put(p->cx, p->to, p->to_path, head, sizeof head, 0);
}

static pare_status put_named(const pass *p, const char *path, const char *key, bool *kept)
{
    if (flock(p->to, LOCK_EX | LOCK_NB) != 0 || !has_name(p->to, p->to_path))
        return PARE_OK;
    pare_status s = write_all(p, key);
    if (s == PARE_OK && rename(p->to_path, path) != 0)
        s = pare_file_fail(p->cx, path, "rename");
    *kept = s == PARE_OK;
    if (s != PARE_OK)
        (void)unlink(p->to_path);
    return s;
}

pare_status pare_kept_put(pare_ctx *cx, pare_arena *scratch, int from, const char *from_path,
                          uint64_t bytes, const char *path, const char *key, bool *kept)
{
    const pare_mark mark = pare_arena_mark(scratch);
    *kept = false;
    char *const temporary = pare_path_suffix(scratch, path, ".tmp");
    unsigned char *const piece = pare_arena_take_raw(scratch, PIECE, 1);
    if (!temporary || !piece)
        return PARE_ENOMEM;
    const int fd = open(temporary, O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0666);
    const pass all = {cx, piece, from, fd, from_path, temporary, 0, PARE_KEPT_HEAD, bytes};
    const pare_status s =
        fd < 0 ? pare_file_fail(cx, temporary, "create") : put_named(&all, path, key, kept);
    if (fd >= 0)
        (void)close(fd);
    pare_arena_rewind(scratch, mark);
    return s;
}
