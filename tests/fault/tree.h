/* tests/fault/tree.h - directories as values: what lies below a path, in memory, so that it can be
 * compared with what lies there later and be put back. Memory is the process's: programs that use
 * this are short. */
#ifndef PARE_TESTS_TREE_H
#define PARE_TESTS_TREE_H

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { TREE_PATH = 1024 };

typedef struct tree_file {
    char *name; /* below the root; "" is the root itself */
    unsigned char *bytes;
    size_t len;
    bool directory;
} tree_file;

typedef struct tree {
    tree_file *file; /* by name: a directory comes before what it holds */
    size_t files;
} tree;

static inline void tree_die(const char *what, const char *which)
{
    (void)fprintf(stderr, "%s: %s: %s\n", which, what, strerror(errno));
    exit(EXIT_FAILURE);
}

static inline void *tree_grow(void *old, size_t count, size_t size)
{
    void *const p = realloc(old, count * size + 1);
    if (!p)
        tree_die("no memory", "tree");
    return p;
}

static inline void tree_join(char path[TREE_PATH], const char *directory, const char *name)
{
    const int n = snprintf(path, TREE_PATH, "%s%s%s", directory, *name ? "/" : "", name);
    if (n < 0 || n >= TREE_PATH)
        tree_die("path too long", directory);
}

/* Adds a file; its bytes belong to the tree then. */
static inline void tree_add(tree *t, const char *name, bool directory, unsigned char *bytes,
                            size_t len)
{
    t->file = tree_grow(t->file, t->files + 1, sizeof *t->file);
    char *const copy = tree_grow(NULL, strlen(name), 1);
    memcpy(copy, name, strlen(name) + 1);
    t->file[t->files++] = (tree_file){copy, bytes, len, directory};
}

static inline unsigned char *tree_read(const char *path, size_t *len)
{
    FILE *const f = fopen(path, "rb");
    unsigned char *bytes = NULL;
    *len = 0;
    if (!f)
        tree_die("cannot open", path);
    for (size_t n = 1; n > 0; *len += n) {
        bytes = tree_grow(bytes, *len + 65536, 1);
        n = fread(bytes + *len, 1, 65536, f);
    }
    (void)fclose(f);
    return bytes;
}

static inline void tree_walk(tree *t, const char *root, const char *name)
{
    char path[TREE_PATH], inner[TREE_PATH];
    struct stat st;
    tree_join(path, root, name);
    if (lstat(path, &st) != 0)
        return; /* nothing there: an empty tree */
    size_t len = 0;
    unsigned char *const bytes = S_ISDIR(st.st_mode) ? NULL : tree_read(path, &len);
    tree_add(t, name, S_ISDIR(st.st_mode), bytes, len);
    DIR *const d = S_ISDIR(st.st_mode) ? opendir(path) : NULL;
    for (const struct dirent *e = d ? readdir(d) : NULL; e; e = readdir(d)) {
        if (strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0)
            continue;
        if (*name)
            tree_join(inner, name, e->d_name);
        else
            (void)snprintf(inner, sizeof inner, "%s", e->d_name);
        tree_walk(t, root, inner);
    }
    if (d)
        (void)closedir(d);
}

static inline int tree_by_name(const void *x, const void *y)
{
    return strcmp(((const tree_file *)x)->name, ((const tree_file *)y)->name);
}

static inline tree tree_load(const char *root)
{
    tree t = {0};
    tree_walk(&t, root, "");
    if (t.files)
        qsort(t.file, t.files, sizeof *t.file, tree_by_name);
    return t;
}

static inline void tree_free(tree *t)
{
    for (size_t i = 0; i < t->files; i++) {
        free(t->file[i].name);
        free(t->file[i].bytes);
    }
    free(t->file);
    *t = (tree){0};
}

static inline const tree_file *tree_find(const tree *t, const char *name)
{
    for (size_t i = 0; i < t->files; i++)
        if (strcmp(t->file[i].name, name) == 0)
            return &t->file[i];
    return NULL;
}

static inline bool tree_same_file(const tree_file *a, const tree_file *b)
{
    return a && b && a->directory == b->directory && a->len == b->len &&
           (a->len == 0 || memcmp(a->bytes, b->bytes, a->len) == 0);
}

/* What lies at and below a name of the tree, as a tree that borrows it: release .file alone. */
static inline tree tree_below(const tree *t, const char *name)
{
    const size_t len = strlen(name);
    tree below = {0};
    for (size_t i = 0; i < t->files; i++) {
        const tree_file *const f = &t->file[i];
        if (strncmp(f->name, name, len) != 0 || (f->name[len] != '/' && f->name[len] != '\0'))
            continue;
        below.file = tree_grow(below.file, below.files + 1, sizeof *f);
        below.file[below.files] = *f;
        below.file[below.files++].name = f->name + len + (f->name[len] == '/');
    }
    return below;
}

static inline void tree_write(const tree *t, const char *root)
{
    char path[TREE_PATH];
    for (size_t i = 0; i < t->files; i++) {
        tree_join(path, root, t->file[i].name);
        if (t->file[i].directory) {
            if (mkdir(path, 0777) != 0 && errno != EEXIST)
                tree_die("cannot make", path);
            continue;
        }
        FILE *const f = fopen(path, "wb");
        const size_t n = f ? fwrite(t->file[i].bytes, 1, t->file[i].len, f) : 0;
        if (!f || fclose(f) != 0 || n != t->file[i].len)
            tree_die("cannot write", path);
    }
}

static inline void tree_remove(const char *path);

/* Removes what is in a directory. */
static inline void tree_empty(const char *path)
{
    char inner[TREE_PATH];
    DIR *const d = opendir(path);
    for (const struct dirent *e = d ? readdir(d) : NULL; e; e = readdir(d)) {
        if (strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0)
            continue;
        tree_join(inner, path, e->d_name);
        tree_remove(inner);
    }
    if (d)
        (void)closedir(d);
}

/* Removes what lies at a path, with all that is in it. */
static inline void tree_remove(const char *path)
{
    struct stat st;
    if (lstat(path, &st) != 0)
        return;
    if (S_ISDIR(st.st_mode))
        tree_empty(path);
    (void)(S_ISDIR(st.st_mode) ? rmdir(path) : unlink(path));
}

#endif
