#include "calib/kept_weights.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "formats/hash.h"
#include "runtime/file.h"

enum { MAGIC = 8, SUM = 16, HEAD = MAGIC + 2 * SUM, PIECE = 1 << 20 };

static const char magic[MAGIC + 1] = "PAREKW01";

/* Bytes [count] from one file to another, and their XXH3; `from` is at `at` in its file. */
typedef struct copy {
    pare_ctx *cx;
    unsigned char *piece; /* [PIECE] */
    int from, to;
    const char *from_path, *to_path;
    uint64_t from_at, to_at, count;
} copy;

static pare_status copy_bytes(const copy *c, uint8_t sum[SUM])
{
    pare_xxh3_state hash;
    pare_xxh3_begin(&hash);
    for (uint64_t done = 0; done < c->count;) {
        const size_t n = c->count - done < PIECE ? (size_t)(c->count - done) : PIECE;
        PARE_TRY(pare_file_get(c->cx, c->from, c->from_path, c->piece, n, c->from_at + done));
        pare_xxh3_add(&hash, c->piece, n);
        PARE_TRY(pare_file_put(c->cx, c->to, c->to_path, c->piece, n, c->to_at + done));
        done += n;
    }
    pare_xxh3_end(&hash, sum);
    return PARE_OK;
}

/* What speaks against the head of an open file, or NULL. */
static const char *check_head(pare_ctx *cx, int fd, const char *path, uint64_t bytes,
                              const char *key, uint8_t sum[SUM])
{
    unsigned char head[HEAD];
    uint8_t of_key[SUM];
    struct stat st;
    if (fstat(fd, &st) != 0 || !S_ISREG(st.st_mode) || (uint64_t)st.st_size != HEAD + bytes ||
        pare_file_get(cx, fd, path, head, HEAD, 0) != PARE_OK)
        return "it has another length";
    pare_xxh3(key, strlen(key), of_key);
    if (memcmp(head, magic, MAGIC) != 0 || memcmp(head + MAGIC, of_key, SUM) != 0)
        return "it is of another job";
    memcpy(sum, head + MAGIC + SUM, SUM);
    return NULL;
}

/* Into the file of `out`, which is open. */
static pare_status take(pare_ctx *cx, pare_arena *scratch, int fd, const char *path, uint64_t bytes,
                        const uint8_t sum[SUM], const char **why, const pare_token_weights *out)
{
    uint8_t is[SUM];
    unsigned char *const piece = pare_arena_take_raw(scratch, PIECE, 1);
    const copy c = {cx, piece, fd, out->file.fd, path, out->file.path, HEAD, 0, bytes};
    if (!piece)
        return PARE_ENOMEM;
    PARE_TRY(copy_bytes(&c, is));
    if (memcmp(is, sum, SUM) != 0)
        *why = "its bytes are not those that were written";
    return PARE_OK;
}

static pare_status take_open(pare_ctx *cx, pare_arena *a, pare_arena *scratch, const pare_config *c,
                             size_t tokens, const char *directory, int fd, const char *path,
                             const char *key, const char **why, pare_token_weights *out)
{
    const uint64_t bytes = pare_token_weights_file(c, tokens);
    const pare_mark kept = pare_arena_mark(a), mark = pare_arena_mark(scratch);
    uint8_t sum[SUM];
    *why = check_head(cx, fd, path, bytes, key, sum);
    if (*why) {
        pare_ctx_clear(cx);
        return PARE_OK;
    }
    pare_status s = pare_token_weights_open(cx, a, c, tokens, directory, out);
    if (s == PARE_OK)
        s = take(cx, scratch, fd, path, bytes, sum, why, out);
    pare_arena_rewind(scratch, mark);
    if (s != PARE_OK || *why) {
        pare_token_weights_close(out);
        *out = (pare_token_weights){0};
        pare_arena_rewind(a, kept);
    }
    return s;
}

pare_status pare_kept_weights_take(pare_ctx *cx, pare_arena *a, pare_arena *scratch,
                                   const pare_config *c, size_t tokens, const char *directory,
                                   const char *path, const char *key, const char **why,
                                   pare_token_weights *out)
{
    *out = (pare_token_weights){0};
    const int fd = open(path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    *why = fd < 0 ? "it is not there" : NULL;
    if (fd < 0)
        return PARE_OK;
    const pare_status s = take_open(cx, a, scratch, c, tokens, directory, fd, path, key, why, out);
    (void)close(fd);
    return s;
}

/* Whether `fd` is the file that has the name now: whoever wrote it before may have given it
 * another. */
static bool has_name(int fd, const char *path)
{
    struct stat open_file, named;
    return fstat(fd, &open_file) == 0 && lstat(path, &named) == 0 &&
           open_file.st_dev == named.st_dev && open_file.st_ino == named.st_ino &&
           S_ISREG(named.st_mode);
}

static pare_status write_all(pare_ctx *cx, const copy *c, const char *key)
{
    unsigned char head[HEAD];
    if (ftruncate(c->to, 0) != 0)
        return pare_file_fail(cx, c->to_path, "truncate");
    memcpy(head, magic, MAGIC);
    pare_xxh3(key, strlen(key), head + MAGIC);
    PARE_TRY(copy_bytes(c, head + MAGIC + SUM));
    return pare_file_put(cx, c->to, c->to_path, head, HEAD, 0);
}

static pare_status put_named(pare_ctx *cx, const copy *c, const char *path, const char *key)
{
    if (flock(c->to, LOCK_EX | LOCK_NB) != 0 || !has_name(c->to, c->to_path))
        return PARE_OK;
    pare_status s = write_all(cx, c, key);
    if (s == PARE_OK && rename(c->to_path, path) != 0)
        s = pare_file_fail(cx, path, "rename");
    if (s != PARE_OK)
        (void)unlink(c->to_path);
    return s;
}

pare_status pare_kept_weights_put(pare_ctx *cx, pare_arena *scratch, const pare_config *c,
                                  const pare_token_weights *w, const char *path, const char *key)
{
    const pare_mark mark = pare_arena_mark(scratch);
    char *const temporary = pare_path_suffix(scratch, path, ".tmp");
    unsigned char *const piece = pare_arena_take_raw(scratch, PIECE, 1);
    if (!temporary || !piece)
        return PARE_ENOMEM;
    const int fd = open(temporary, O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0666);
    pare_status s = PARE_OK;
    if (fd < 0) {
        s = pare_file_fail(cx, temporary, "create");
    } else {
        const copy all = {cx, piece,        w->file.fd,
                          fd, w->file.path, temporary,
                          0,  HEAD,         pare_token_weights_file(c, w->tokens)};
        s = put_named(cx, &all, path, key);
        (void)close(fd);
    }
    pare_arena_rewind(scratch, mark);
    return s;
}
