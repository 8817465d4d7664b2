/* Files of an artifact, filled at fixed offsets. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "formats/dense.h"
#include "formats/packed_map.h"
#include "runtime/file.h"

typedef struct shard_file {
    char *path;
    int fd;       /* -1: not open */
    bool created; /* by this writer: it was empty */
    bool dirty;
    uint64_t bytes;
    pare_file map; /* of the whole file, or without data */
} shard_file;

struct pare_packed_writer {
    pare_arena arena; /* paths and the table */
    shard_file *file;
    uint32_t files;
};

/* Reserves the file's full size; where the file system cannot, the size alone is set. */
static pare_status reserve(pare_ctx *cx, const shard_file *f, uint64_t bytes)
{
    int rc;
    do {
        rc = posix_fallocate(f->fd, 0, (off_t)bytes);
    } while (rc == EINTR);
    if (rc != 0 && rc != EOPNOTSUPP && rc != EINVAL) {
        char doing[64];
        (void)snprintf(doing, sizeof doing, "reserve its %llu bytes", (unsigned long long)bytes);
        errno = rc;
        return pare_file_fail(cx, f->path, doing);
    }
    if (ftruncate(f->fd, (off_t)bytes) != 0)
        return pare_file_fail(cx, f->path, "set the size of");
    return PARE_OK;
}

static pare_status open_shard(pare_ctx *cx, shard_file *f, const char *header, size_t header_bytes,
                              uint64_t bytes)
{
    struct stat st;
    f->fd = open(f->path, O_RDWR | O_CREAT | O_CLOEXEC, 0666);
    if (f->fd < 0)
        return pare_file_fail(cx, f->path, "create");
    if (fstat(f->fd, &st) != 0)
        return pare_file_fail(cx, f->path, "look at");
    f->created = st.st_size == 0;
    f->dirty = true;
    f->bytes = bytes;
    PARE_TRY(reserve(cx, f, bytes));
    return pare_file_put(cx, f->fd, f->path, header, header_bytes, 0);
}

static pare_status open_all(pare_ctx *cx, pare_packed_writer *w, const char *directory,
                            const pare_packed_layout *l)
{
    w->file = PARE_NEW(&w->arena, shard_file, l->shards);
    if (!w->file)
        return PARE_ENOMEM;
    for (uint32_t i = 0; i < l->shards; i++) {
        shard_file *const f = &w->file[i];
        f->fd = -1;
        w->files = i + 1;
        f->path = pare_path_join(&w->arena, directory, l->shard_name[i]);
        if (!f->path)
            return PARE_ENOMEM;
        PARE_TRY(open_shard(cx, f, l->header[i], l->header_bytes[i], l->file_bytes[i]));
    }
    const char *const name = pare_packed_index_name(l);
    PARE_TRY(pare_packed_sync(cx, w));
    if (!name) /* writing an index makes the names of the files durable; here nobody else does */
        return l->shards ? pare_file_sync_parent(cx, w->file[0].path) : PARE_OK;
    char *const index = pare_path_join(&w->arena, directory, name);
    if (!index)
        return PARE_ENOMEM;
    return pare_file_write(cx, index, l->index, l->index_bytes);
}

pare_status pare_packed_create(pare_ctx *cx, const char *directory, const pare_packed_layout *l,
                               pare_packed_writer **out)
{
    *out = NULL;
    pare_packed_writer *const w = cx->alloc.resize(cx->alloc.self, NULL, 0, sizeof *w);
    if (!w)
        return pare_fail(cx, PARE_ENOMEM, "out of memory: the writer of %s", directory);
    *w = (pare_packed_writer){0};
    pare_status s = pare_arena_init(cx, &w->arena, 0);
    if (s == PARE_OK)
        s = open_all(cx, w, directory, l);
    if (s == PARE_OK) {
        *out = w;
        return PARE_OK;
    }
    for (uint32_t i = 0; i < w->files; i++)
        if (w->file[i].created)
            (void)unlink(w->file[i].path);
    pare_packed_close(cx, w);
    return s;
}

pare_status pare_packed_put(pare_ctx *cx, pare_packed_writer *w, const pare_packed_entry *e,
                            const void *bytes)
{
    shard_file *const f = &w->file[e->shard];
    f->dirty = true;
    PARE_TRY(pare_file_put(cx, f->fd, f->path, bytes, (size_t)e->tensor.bytes, e->offset));
    pare_file_start_writing(f->fd, e->offset, e->tensor.bytes);
    return PARE_OK;
}

pare_status pare_packed_get(pare_ctx *cx, pare_packed_writer *w, const pare_packed_entry *e,
                            void *bytes)
{
    const shard_file *const f = &w->file[e->shard];
    return pare_file_get(cx, f->fd, f->path, bytes, (size_t)e->tensor.bytes, e->offset);
}

pare_status pare_packed_map_file(pare_ctx *cx, pare_packed_writer *w, uint32_t shard,
                                 pare_file *out)
{
    shard_file *const f = &w->file[shard];
    if (!f->map.data)
        PARE_TRY(pare_file_map_shared(cx, f->fd, f->path, f->bytes, &f->map));
    *out = f->map;
    return PARE_OK;
}

pare_status pare_packed_map(pare_ctx *cx, pare_packed_writer *w, const pare_packed_entry *e,
                            void **bytes)
{
    pare_file file;
    PARE_TRY(pare_packed_map_file(cx, w, e->shard, &file));
    *bytes = (unsigned char *)file.data + e->offset;
    return PARE_OK;
}

pare_status pare_packed_map_linear(pare_ctx *cx, pare_arena *a, pare_packed_writer *w,
                                   const pare_packed_layout *layout, const pare_packed_linear *l,
                                   pare_linear *out)
{
    void *plane[PARE_PLANES] = {NULL};
    for (pare_plane p = 0; p < PARE_PLANES; p++) {
        char name[1024];
        pare_tensor t;
        if (!pare_packed_plane_shape(l, p, &t))
            continue;
        (void)snprintf(name, sizeof name, "%s.%s", l->name, pare_packed_plane_name(p));
        const pare_packed_entry *const e = pare_packed_find(layout, name);
        if (!e)
            return pare_fail(cx, PARE_EFORMAT, "%s: the layout has no such tensor", name);
        PARE_TRY(pare_packed_map(cx, w, e, &plane[p]));
    }
    return pare_packed_view(cx, a, l, plane, out);
}

pare_status pare_packed_sync(pare_ctx *cx, pare_packed_writer *w)
{
    for (uint32_t i = 0; i < w->files; i++) {
        if (!w->file[i].dirty)
            continue;
        PARE_TRY(pare_file_sync(cx, w->file[i].fd, w->file[i].path));
        w->file[i].dirty = false;
    }
    return PARE_OK;
}

void pare_packed_close(pare_ctx *cx, pare_packed_writer *w)
{
    if (!w)
        return;
    for (uint32_t i = 0; i < w->files; i++) {
        pare_file_unmap(&w->file[i].map);
        if (w->file[i].fd >= 0)
            (void)close(w->file[i].fd);
    }
    pare_arena_release(&w->arena);
    (void)cx->alloc.resize(cx->alloc.self, w, sizeof *w, 0);
}
