#include "tests/fault/disk.h"

#include "runtime/random.h"

static size_t new_inode(disk *d, bool directory)
{
    d->inode = tree_grow(d->inode, d->inodes + 1, sizeof *d->inode);
    d->inode[d->inodes] = (disk_inode){.directory = directory};
    return d->inodes++;
}

/* The entry of a name, made if there is none yet. */
static size_t entry_of(disk *d, size_t directory, const char *name, size_t len)
{
    for (size_t i = 0; i < d->entries; i++)
        if (d->entry[i].directory == directory && strncmp(d->entry[i].name, name, len) == 0 &&
            d->entry[i].name[len] == '\0')
            return i;
    d->entry = tree_grow(d->entry, d->entries + 1, sizeof *d->entry);
    char *const copy = tree_grow(NULL, len, 1);
    memcpy(copy, name, len);
    copy[len] = '\0';
    d->entry[d->entries] = (disk_entry){directory, copy, -1, -1};
    return d->entries++;
}

/* The entry that a path names, SIZE_MAX for the root. False when a directory on the way is not
 * there. */
static bool find_path(disk *d, const char *path, size_t *entry)
{
    const char *at = path + strlen(d->root);
    size_t directory = 0;
    *entry = SIZE_MAX;
    while (*at == '/')
        at++;
    while (*at) {
        const size_t len = strcspn(at, "/");
        *entry = entry_of(d, directory, at, len);
        at += len;
        while (*at == '/')
            at++;
        const int inode = d->entry[*entry].now;
        if (*at && (inode < 0 || !d->inode[inode].directory))
            return false;
        directory = inode < 0 ? 0 : (size_t)inode;
    }
    return true;
}

static void set_durable(disk *d, const disk_change *c)
{
    for (size_t i = 0; i < c->count; i++)
        d->entry[c->entry[i]].durable = c->value[i];
}

static bool change(disk *d, disk_change c)
{
    for (size_t i = 0; i < c.count; i++)
        d->entry[c.entry[i]].now = c.value[i];
    d->change = tree_grow(d->change, d->changes + 1, sizeof c);
    d->change[d->changes++] = c;
    return true;
}

static void pend(disk_inode *f, disk_data data)
{
    f->pending = tree_grow(f->pending, f->pendings + 1, sizeof data);
    f->pending[f->pendings++] = data;
    if (data.size)
        f->size = data.offset;
    else if (data.offset + data.len > f->size)
        f->size = data.offset + data.len;
}

/* The bytes of a file when some of its pending sectors, and one of its sizes, are there. */
typedef struct image {
    unsigned char *bytes;
    size_t len;
} image;

static size_t largest_size(const disk_inode *f)
{
    size_t most = f->len;
    for (size_t i = 0; i < f->pendings; i++) {
        const disk_data *const p = &f->pending[i];
        const size_t end = (size_t)(p->offset + (p->size ? 0 : p->len));
        most = end > most ? end : most;
    }
    return most;
}

typedef struct choice {
    disk_kept kept;
    uint64_t seed, drawn;
} choice;

static uint64_t draw(choice *c)
{
    return pare_random_u64(c->seed, 7, c->drawn++);
}

/* Writes those sectors of a pending write that are kept. `torn`: the first half of them. */
static void put_sectors(unsigned char *bytes, const disk_data *p, choice *c, bool torn)
{
    const size_t end = (size_t)(p->offset + (torn ? p->len / 2 : p->len));
    for (size_t at = (size_t)p->offset; at < end;) {
        const size_t next = (at / DISK_SECTOR + 1) * DISK_SECTOR, stop = next < end ? next : end;
        if (c->kept != KEPT_RANDOM || draw(c) % 2)
            memcpy(bytes + at, p->bytes + (at - p->offset), stop - at);
        at = stop;
    }
}

/* Size after the first `count` pending changes. */
static size_t size_after(const disk_inode *f, size_t count)
{
    size_t size = f->len;
    for (size_t i = 0; i < count; i++) {
        const disk_data *const p = &f->pending[i];
        const size_t end = (size_t)(p->offset + p->len);
        size = p->size ? (size_t)p->offset : end > size ? end : size;
    }
    return size;
}

static image image_of(const disk_inode *f, choice c)
{
    const size_t room = largest_size(f);
    const bool random = c.kept == KEPT_RANDOM;
    const bool stale = c.kept == KEPT_SIZES_STALE || (random && draw(&c) % 2);
    const size_t half = (f->pendings + 1) / 2;
    image m = {tree_grow(NULL, room, 1), f->len};
    memset(m.bytes, stale ? DISK_STALE : 0, room);
    if (f->len)
        memcpy(m.bytes, f->bytes, f->len);
    switch (c.kept) {
    case KEPT_ALL:
    case KEPT_SIZES:
    case KEPT_SIZES_STALE: m.len = size_after(f, f->pendings); break;
    case KEPT_HALF: m.len = size_after(f, half); break;
    case KEPT_RANDOM: m.len = size_after(f, draw(&c) % (f->pendings + 1)); break;
    case KEPT_NONE:
    case KEPT_DATA: break;
    }
    const bool data = c.kept == KEPT_ALL || c.kept == KEPT_DATA || c.kept == KEPT_HALF || random;
    const size_t count = c.kept == KEPT_HALF ? half : f->pendings;
    for (size_t i = 0; data && i < count; i++) {
        const disk_data *const p = &f->pending[i];
        if (!p->size)
            put_sectors(m.bytes, p, &c, c.kept == KEPT_HALF && i + 1 == half);
        else if (c.kept == KEPT_ALL && p->offset < room) /* what is cut off is gone */
            memset(m.bytes + p->offset, 0, room - (size_t)p->offset);
    }
    return m;
}

static void sync_file(disk_inode *f)
{
    const image m = image_of(f, (choice){.kept = KEPT_ALL});
    free(f->bytes);
    free(f->pending);
    f->bytes = m.bytes;
    f->len = m.len;
    f->pending = NULL;
    f->pendings = 0;
}

/* Whether a change is of the directory, or of a name that the change `later`, if any, is of. */
static bool touches(const disk *d, const disk_change *c, size_t directory, const disk_change *later)
{
    for (size_t i = 0; i < c->count; i++) {
        if (!later && d->entry[c->entry[i]].directory == directory)
            return true;
        for (size_t j = 0; later && j < later->count; j++)
            if (c->entry[i] == later->entry[j])
                return true;
    }
    return false;
}

static void sync_directory(disk *d, size_t directory)
{
    bool *const synced = tree_grow(NULL, d->changes, sizeof *synced);
    size_t left = 0;
    for (size_t i = d->changes; i-- > 0;) {
        synced[i] = touches(d, &d->change[i], directory, NULL);
        for (size_t j = i + 1; !synced[i] && j < d->changes; j++)
            synced[i] = synced[j] && touches(d, &d->change[i], directory, &d->change[j]);
    }
    for (size_t i = 0; i < d->changes; i++) {
        if (synced[i])
            set_durable(d, &d->change[i]);
        else
            d->change[left++] = d->change[i];
    }
    d->changes = left;
    free(synced);
}

static bool open_file(disk *d, const disk_record *r, size_t entry)
{
    int inode = entry == SIZE_MAX ? 0 : d->entry[entry].now;
    if (r->call == DISK_UNNAMED) {
        inode = (int)new_inode(d, false);
    } else if (inode < 0) {
        if (!(r->flags & O_CREAT))
            return (void)snprintf(d->what, sizeof d->what, "opened, but never made"), false;
        inode = (int)new_inode(d, false);
        if (!change(d, (disk_change){{entry, 0}, {inode, 0}, 1}))
            return false;
    }
    if (r->flags & O_TRUNC && d->inode[inode].size > 0)
        pend(&d->inode[inode], (disk_data){.size = true});
    d->fd[r->fd] = inode;
    return true;
}

static bool play_name(disk *d, const disk_record *r, const char *path, const char *to)
{
    size_t from, other = 0;
    if (!find_path(d, path, &from) || (to && !find_path(d, to, &other)))
        return (void)snprintf(d->what, sizeof d->what, "%.200s: lies in no directory", path), false;
    if (r->call == DISK_OPEN || r->call == DISK_UNNAMED)
        return open_file(d, r, from);
    if (from == SIZE_MAX || other == SIZE_MAX)
        return (void)snprintf(d->what, sizeof d->what, "the root itself was changed"), false;
    const int it = d->entry[from].now;
    switch (r->call) {
    case DISK_RENAME: return change(d, (disk_change){{from, other}, {-1, it}, 2});
    case DISK_EXCHANGE:
        return change(d, (disk_change){{from, other}, {d->entry[other].now, it}, 2});
    case DISK_LINK: return change(d, (disk_change){{other, 0}, {it, 0}, 1});
    case DISK_NAME: return change(d, (disk_change){{from, 0}, {d->fd[r->fd], 0}, 1});
    case DISK_MKDIR: return change(d, (disk_change){{from, 0}, {(int)new_inode(d, true), 0}, 1});
    default: return change(d, (disk_change){{from, 0}, {-1, 0}, 1}); /* unlink, rmdir */
    }
}

bool disk_play(disk *d, const disk_record *r, const char *path, const char *to,
               const unsigned char *data)
{
    if (r->call == DISK_UNKNOWN || r->call >= DISK_CALLS)
        return (void)snprintf(d->what, sizeof d->what, "%.200s", path ? path : "a strange call"),
               false;
    if (path)
        return play_name(d, r, path, to);
    if (r->fd < 0 || r->fd >= DISK_FDS || d->fd[r->fd] < 0)
        return (void)snprintf(d->what, sizeof d->what, "descriptor %d is not open", r->fd), false;
    const size_t i = (size_t)d->fd[r->fd];
    disk_inode *const f = &d->inode[i];
    switch (r->call) {
    case DISK_CLOSE: d->fd[r->fd] = -1; break;
    case DISK_WRITE: pend(f, (disk_data){false, r->offset, r->len, data}); break;
    case DISK_GROW:
        if (r->offset > f->size)
            pend(f, (disk_data){.size = true, .offset = r->offset});
        break;
    case DISK_SIZE:
        if (r->offset != f->size)
            pend(f, (disk_data){.size = true, .offset = r->offset});
        break;
    default: /* sync */
        if (f->directory)
            sync_directory(d, i);
        else if (f->pendings)
            sync_file(f);
        break;
    }
    return true;
}

void disk_init(disk *d, const char *root, const tree *t)
{
    *d = (disk){0};
    (void)snprintf(d->root, sizeof d->root, "%s", root);
    (void)new_inode(d, true);
    for (size_t i = 0; i < DISK_FDS; i++)
        d->fd[i] = -1;
    for (size_t i = 0; i < t->files; i++) {
        const tree_file *const f = &t->file[i];
        char path[TREE_PATH];
        size_t entry;
        tree_join(path, root, f->name);
        if (*f->name == '\0' || !find_path(d, path, &entry))
            continue;
        const size_t inode = new_inode(d, f->directory);
        disk_inode *const it = &d->inode[inode];
        it->bytes = tree_grow(NULL, f->len, 1);
        it->len = f->len;
        it->size = f->len;
        if (f->len)
            memcpy(it->bytes, f->bytes, f->len);
        d->entry[entry].now = d->entry[entry].durable = (int)inode;
    }
}

void disk_free(disk *d)
{
    for (size_t i = 0; i < d->inodes; i++) {
        free(d->inode[i].bytes);
        free(d->inode[i].pending);
    }
    for (size_t i = 0; i < d->entries; i++)
        free(d->entry[i].name);
    free(d->inode);
    free(d->entry);
    free(d->change);
    *d = (disk){0};
}

bool disk_has_pending_data(const disk *d)
{
    for (size_t i = 0; i < d->inodes; i++)
        if (d->inode[i].pendings)
            return true;
    return false;
}

static void add_directory(const disk *d, const int *value, size_t directory, const char *name,
                          choice c, tree *t)
{
    tree_add(t, name, true, NULL, 0);
    for (size_t i = 0; i < d->entries; i++) {
        char inner[TREE_PATH];
        if (d->entry[i].directory != directory || value[i] < 0)
            continue;
        if (*name)
            tree_join(inner, name, d->entry[i].name);
        else
            (void)snprintf(inner, sizeof inner, "%s", d->entry[i].name);
        const size_t inode = (size_t)value[i];
        if (d->inode[inode].directory) {
            add_directory(d, value, inode, inner, c, t);
        } else {
            const image m =
                image_of(&d->inode[inode], (choice){.kept = c.kept, .seed = c.seed + 977 * inode});
            tree_add(t, inner, false, m.bytes, m.len);
        }
    }
}

tree disk_after_crash(const disk *d, const bool *kept, disk_kept data, uint64_t seed)
{
    int *const value = tree_grow(NULL, d->entries, sizeof *value);
    for (size_t i = 0; i < d->entries; i++)
        value[i] = d->entry[i].durable;
    for (size_t i = 0; i < d->changes; i++)
        for (size_t j = 0; kept[i] && j < d->change[i].count; j++)
            value[d->change[i].entry[j]] = d->change[i].value[j];
    tree t = {0};
    add_directory(d, value, 0, "", (choice){.kept = data, .seed = seed}, &t);
    free(value);
    qsort(t.file, t.files, sizeof *t.file, tree_by_name);
    return t;
}
