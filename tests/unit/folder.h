/* tests/unit/folder.h - a temporary folder of small files, and a fuzz corpus as a unit test. */
#ifndef PARE_TESTS_FOLDER_H
#define PARE_TESTS_FOLDER_H

#include <dirent.h>
#include <stdint.h>
#include <string.h>
#include <sys/stat.h>

#include "tests/unit/unit.h"

typedef struct folder {
    char path[64];
    char file[384]; /* of the last folder_file */
} folder;

static inline void folder_make(folder *f)
{
    *f = (folder){.path = "/tmp/pare-unit-XXXXXX"};
    ck_assert_ptr_nonnull(mkdtemp(f->path));
}

/* Path of a file in the folder, until the next call. */
static inline const char *folder_file(folder *f, const char *name)
{
    (void)snprintf(f->file, sizeof f->file, "%s/%s", f->path, name);
    return f->file;
}

static inline void folder_put(folder *f, const char *name, const void *bytes, size_t len)
{
    FILE *const out = fopen(folder_file(f, name), "wb");
    ck_assert_ptr_nonnull(out);
    ck_assert_uint_eq(fwrite(bytes, 1, len, out), len);
    ck_assert_int_eq(fclose(out), 0);
}

static inline void folder_put_text(folder *f, const char *name, const char *text)
{
    folder_put(f, name, text, strlen(text));
}

/* Bytes of a file, to be freed. */
static inline char *folder_get(const char *path, size_t *len)
{
    FILE *const in = fopen(path, "rb");
    ck_assert_ptr_nonnull(in);
    ck_assert_int_eq(fseek(in, 0, SEEK_END), 0);
    *len = (size_t)ftell(in);
    rewind(in);
    char *const bytes = malloc(*len + 1);
    ck_assert_ptr_nonnull(bytes);
    ck_assert_uint_eq(fread(bytes, 1, *len, in), *len);
    bytes[*len] = '\0';
    (void)fclose(in);
    return bytes;
}

/* Removes the folder and the files in it (no folders inside). */
static inline void folder_remove(folder *f)
{
    DIR *const d = opendir(f->path);
    ck_assert_ptr_nonnull(d);
    const struct dirent *e;
    while ((e = readdir(d)) != NULL) {
        if (strcmp(e->d_name, ".") != 0 && strcmp(e->d_name, "..") != 0)
            (void)unlink(folder_file(f, e->d_name));
    }
    (void)closedir(d);
    ck_assert_int_eq(rmdir(f->path), 0);
}

/* A context and an arena with the folder, and their end, which finds leaks. */
static inline void folder_begin(folder *f, pare_ctx *cx, pare_arena *a)
{
    pare_ctx_init(cx);
    ck_assert_int_eq(pare_arena_init(cx, a, 0), PARE_OK);
    folder_make(f);
}

static inline void folder_end(folder *f, pare_arena *a)
{
    pare_ctx *const cx = a->cx;
    folder_remove(f);
    pare_arena_release(a);
    ck_assert_uint_eq(cx->live_bytes, 0);
}

/* Every file of the corpus is accepted, or refused with a message that holds one of the fragments;
 * every fragment occurs. So corpus and list of messages stay complete together. */
typedef pare_status corpus_parse(pare_ctx *cx, const void *bytes, size_t len);
static inline void corpus_reaches(const char *corpus, corpus_parse *parse,
                                  const char *const *fragment, size_t fragments)
{
    char path[4096];
    bool seen[192] = {false};
    size_t files = 0;
    ck_assert_uint_le(fragments, 192);
    (void)snprintf(path, sizeof path, "%s/tests/fuzz/corpus/%s", PARE_SOURCE_DIR, corpus);
    DIR *const d = opendir(path);
    ck_assert_ptr_nonnull(d);
    const struct dirent *e;
    while ((e = readdir(d)) != NULL) {
        if (e->d_name[0] == '.')
            continue;
        files++;
        (void)snprintf(path, sizeof path, "%s/tests/fuzz/corpus/%s/%s", PARE_SOURCE_DIR, corpus,
                       e->d_name);
        size_t len;
        char *const bytes = folder_get(path, &len);
        pare_ctx cx;
        pare_ctx_init(&cx);
        const pare_status s = parse(&cx, bytes, len);
        free(bytes);
        bool known = s == PARE_OK;
        for (size_t i = 0; s != PARE_OK && i < fragments; i++) {
            if (strstr(cx.what, fragment[i]))
                known = seen[i] = true;
        }
        ck_assert_msg(known, "%s gives a message that is not listed: %s", path, cx.what);
        ck_assert_uint_eq(cx.live_bytes, 0);
    }
    (void)closedir(d);
    ck_assert_uint_ge(files, 30);
    for (size_t i = 0; i < fragments; i++)
        ck_assert_msg(seen[i], "no file of the corpus reaches \"%s\"", fragment[i]);
}

/* Runs `read` with every allocation refused in turn, until it passes: each time it says
 * PARE_ENOMEM with a message, and nothing leaks. The arena is empty each time. */
static inline void folder_refuse_memory(pare_ctx *cx,
                                        pare_status (*read)(pare_ctx *cx, pare_arena *a,
                                                            const void *self),
                                        const void *self)
{
    const pare_alloc plain = cx->alloc;
    pare_status s = PARE_ENOMEM;
    for (long n = 0; s != PARE_OK; n++) {
        unit_failing f = {.left = n};
        pare_arena a = {.cx = cx};
        pare_ctx_clear(cx);
        cx->alloc = (pare_alloc){unit_failing_resize, &f};
        s = read(cx, &a, self);
        ck_assert(s == PARE_OK || (s == PARE_ENOMEM && cx->what[0]));
        pare_arena_release(&a);
        ck_assert_int_eq(f.live, 0);
        ck_assert_int_lt(n, 1000);
    }
    cx->alloc = plain;
}

#endif
