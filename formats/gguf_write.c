#define _GNU_SOURCE /* O_TMPFILE */
#include "formats/gguf_write.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "runtime/file.h"

enum { ALIGNMENT = 32, VERSION = 3, ARRAY = 9 };

pare_status pare_gguf_begin(pare_ctx *cx, pare_arena *a, size_t most, pare_gguf_writer *w)
{
    *w = (pare_gguf_writer){.cx = cx, .arena = a, .most = most, .fd = -1};
    w->slot = PARE_NEW(a, pare_gguf_slot, most);
    return w->slot ? PARE_OK : PARE_ENOMEM;
}

static void put(pare_gguf_writer *w, const void *bytes, size_t len)
{
    if (w->failed)
        return;
    if (len > w->room - w->len) {
        const size_t room = 2 * w->room + len + 65536;
        unsigned char *const head = pare_arena_take_raw(w->arena, room, 1);
        w->failed = !head;
        if (!head)
            return;
        if (w->len)
            memcpy(head, w->head, w->len);
        w->head = head;
        w->room = room;
    }
    if (len)
        memcpy(w->head + w->len, bytes, len);
    w->len += len;
}

static void put_number(pare_gguf_writer *w, uint64_t value, size_t bytes)
{
    unsigned char le[8];
    for (size_t i = 0; i < bytes; i++)
        le[i] = (unsigned char)(value >> (8 * i));
    put(w, le, bytes);
}

static void put_string(pare_gguf_writer *w, const char *text, size_t len)
{
    put_number(w, len, 8);
    put(w, text, len);
}

static void put_key(pare_gguf_writer *w, const char *key, uint32_t kind)
{
    put_string(w, key, strlen(key));
    put_number(w, kind, 4);
    w->values++;
}

void pare_gguf_put_text(pare_gguf_writer *w, const char *key, const char *text, size_t len)
{
    put_key(w, key, PARE_GGUF_TEXT);
    put_string(w, text, len);
}

void pare_gguf_put_u32(pare_gguf_writer *w, const char *key, uint32_t value)
{
    put_key(w, key, PARE_GGUF_U32);
    put_number(w, value, 4);
}

void pare_gguf_put_f32(pare_gguf_writer *w, const char *key, float value)
{
    put_key(w, key, PARE_GGUF_F32);
    pare_gguf_add_f32(w, value);
}

void pare_gguf_put_bool(pare_gguf_writer *w, const char *key, bool value)
{
    put_key(w, key, PARE_GGUF_BOOL);
    put_number(w, value, 1);
}

void pare_gguf_put_array(pare_gguf_writer *w, const char *key, pare_gguf_kind kind, uint64_t count)
{
    put_key(w, key, ARRAY);
    put_number(w, kind, 4);
    put_number(w, count, 8);
}

void pare_gguf_add_text(pare_gguf_writer *w, const char *text, size_t len)
{
    put_string(w, text, len);
}

void pare_gguf_add_i32(pare_gguf_writer *w, int32_t value)
{
    put_number(w, (uint32_t)value, 4);
}

void pare_gguf_add_f32(pare_gguf_writer *w, float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    put_number(w, bits, 4);
}

size_t pare_gguf_add(pare_gguf_writer *w, const char *name, const pare_ggml_type *type,
                     uint32_t rank, const uint64_t *shape)
{
    const size_t i = w->slots;
    if (i == w->most) {
        w->failed = true;
        return 0;
    }
    w->slot[i] = (pare_gguf_slot){.name = name, .type = type, .rank = rank};
    memcpy(w->slot[i].shape, shape, rank * sizeof *shape);
    w->slots++;
    return i;
}

static bool round_up(uint64_t *x)
{
    const bool over = __builtin_add_overflow(*x, ALIGNMENT - 1, x);
    *x -= *x % ALIGNMENT;
    return !over;
}

/* Tensors lie in the order of their names in the head. */
static pare_status place(pare_gguf_writer *w)
{
    uint64_t at = 0;
    for (size_t i = 0; i < w->slots; i++) {
        pare_gguf_slot *const s = &w->slot[i];
        const uint64_t width = s->shape[s->rank - 1];
        uint64_t blocks = width / s->type->elements;
        bool over = false;
        for (uint32_t d = 0; d + 1 < s->rank; d++)
            over |= __builtin_mul_overflow(blocks, s->shape[d], &blocks);
        if (width % s->type->elements != 0 || over ||
            __builtin_mul_overflow(blocks, s->type->bytes, &s->bytes) ||
            __builtin_add_overflow(at, s->bytes, &w->bytes) || !round_up(&w->bytes))
            return pare_fail(w->cx, PARE_EFORMAT, "tensor %s: rows of %llu do not fit blocks of %s",
                             s->name, (unsigned long long)width, s->type->name);
        s->offset = at;
        at = w->bytes;
    }
    return PARE_OK;
}

/* Puts the head in front of the values that are there already. */
static pare_status finish_head(pare_gguf_writer *w)
{
    enum { IN_FRONT = 24 };
    const unsigned char *const values = w->head;
    const size_t len = w->len;
    static const unsigned char zeros[ALIGNMENT];
    w->head = NULL;
    w->len = w->room = 0;
    put(w, "GGUF", 4);
    put_number(w, VERSION, 4);
    put_number(w, w->slots, 8);
    put_number(w, w->values, 8);
    put(w, values, len);
    w->sealed_tensors += IN_FRONT;
    w->sealed_head += IN_FRONT;
    for (size_t i = 0; i < w->slots; i++) {
        const pare_gguf_slot *const s = &w->slot[i];
        put_string(w, s->name, strlen(s->name));
        put_number(w, s->rank, 4);
        for (uint32_t d = s->rank; d > 0; d--)
            put_number(w, s->shape[d - 1], 8);
        put_number(w, s->type->id, 4);
        put_number(w, s->offset, 8);
    }
    put(w, zeros, (ALIGNMENT - w->len % ALIGNMENT) % ALIGNMENT);
    w->data = w->len;
    if (w->failed)
        return PARE_ENOMEM;
    return __builtin_add_overflow(w->bytes, w->data, &w->bytes) || w->bytes > INT64_MAX
               ? pare_fail(w->cx, PARE_EFORMAT, "the file would be larger than files can be")
               : PARE_OK;
}

static pare_status reserve(const pare_gguf_writer *w)
{
    int rc;
    do {
        rc = posix_fallocate(w->fd, 0, (off_t)w->bytes);
    } while (rc == EINTR);
    if (rc != 0 && rc != EOPNOTSUPP && rc != EINVAL) {
        char doing[64];
        (void)snprintf(doing, sizeof doing, "reserve its %llu bytes", (unsigned long long)w->bytes);
        errno = rc;
        return pare_file_fail(w->cx, w->path, doing);
    }
    return ftruncate(w->fd, (off_t)w->bytes) == 0
               ? PARE_OK
               : pare_file_fail(w->cx, w->path, "set the size of");
}

pare_status pare_gguf_lay_out(pare_gguf_writer *w)
{
    if (w->failed)
        return pare_fail(w->cx, PARE_ENOMEM, "out of memory for the head of a GGUF file");
    PARE_TRY(place(w));
    return finish_head(w);
}

/* A file with the head, durable, that has no name yet. */
static pare_status write_unnamed(pare_gguf_writer *w, const char *directory, int *fd)
{
    *fd = open(directory, O_TMPFILE | O_RDWR | O_CLOEXEC, 0666);
    if (*fd < 0)
        return PARE_OK;
    const pare_status s = pare_file_put(w->cx, *fd, w->path, w->head, w->len, 0);
    return s == PARE_OK ? pare_file_sync(w->cx, *fd, w->path) : s;
}

/* False, with errno, when it did not get it. */
static bool give_name(int fd, const char *path)
{
    char link[64];
    (void)snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    return linkat(AT_FDCWD, link, AT_FDCWD, path, AT_SYMLINK_FOLLOW) == 0;
}

/* Where files without a name cannot be had: a power loss before the first sync may leave one that
 * says nothing. */
static pare_status write_named(pare_gguf_writer *w)
{
    w->fd = open(w->path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0666);
    if (w->fd < 0)
        return errno == EEXIST
                   ? pare_fail(w->cx, PARE_EEXISTS,
                               "%s: something was put there meanwhile; move it away", w->path)
                   : pare_file_fail(w->cx, w->path, "create");
    PARE_TRY(pare_file_put(w->cx, w->fd, w->path, w->head, w->len, 0));
    return pare_file_sync(w->cx, w->fd, w->path);
}

/* The head lies in the file, and on the disk, before the file gets its name and then its size:
 * whatever is left of it says what it is. */
pare_status pare_gguf_create(pare_gguf_writer *w, const char *path)
{
    const char *const directory = pare_path_directory(w->arena, path);
    w->path = path;
    if (!directory)
        return PARE_ENOMEM;
    PARE_TRY(write_unnamed(w, directory, &w->fd));
    if (w->fd < 0 || !give_name(w->fd, path)) {
        pare_gguf_close(w);
        PARE_TRY(write_named(w));
    }
    PARE_TRY(pare_file_sync_parent(w->cx, path));
    return reserve(w);
}

pare_status pare_gguf_fill(pare_gguf_writer *w, size_t i, uint64_t at, const void *bytes,
                           uint64_t count)
{
    const uint64_t to = w->data + w->slot[i].offset + at;
    return pare_file_put(w->cx, w->fd, w->path, bytes, (size_t)count, to);
}

pare_status pare_gguf_sync(pare_gguf_writer *w)
{
    return pare_file_sync(w->cx, w->fd, w->path);
}

void pare_gguf_close(pare_gguf_writer *w)
{
    if (w->fd >= 0)
        (void)close(w->fd);
    w->fd = -1;
}
