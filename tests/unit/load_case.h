/* tests/unit/load_case.h - what the tests of opening and loading share: a context, a folder with a
 * model in it, and one call that opens, loads and closes. */
#ifndef PARE_TESTS_LOAD_CASE_H
#define PARE_TESTS_LOAD_CASE_H

#include "tests/unit/artifact.h"

static pare_ctx cx;
static pare_arena arena;
static folder dir;

static inline void begin(void)
{
    pare_ctx_init(&cx);
    ck_assert_int_eq(pare_arena_init(&cx, &arena, 0), PARE_OK);
    folder_make(&dir);
}

static inline void end(void)
{
    folder_remove(&dir);
    pare_arena_release(&arena);
    ck_assert_uint_eq(cx.live_bytes, 0);
}

/* Opens, loads and closes. */
static inline pare_status load(const char *path, pare_model *model)
{
    pare_checkpoint ck;
    pare_ctx_clear(&cx);
    pare_status s = pare_checkpoint_open(&cx, &arena, path, &ck);
    if (s == PARE_OK)
        s = pare_model_load(&cx, &arena, &ck, model);
    pare_checkpoint_close(&ck);
    return s;
}

static inline void refuses(pare_status expected, const char *message)
{
    pare_model model;
    const pare_status s = load(dir.path, &model);
    ck_assert_msg(s == expected && strstr(cx.what, message), "%s: %s\nexpected: %s",
                  pare_strstatus(s), cx.what, message);
}

static inline void write_shards(size_t shards)
{
    tiny_model m = tiny_model_default();
    m.shards = shards;
    ck_assert(tiny_model_write(&m, dir.path));
}

/* Replaces the first `from` in a file by `to`. */
static inline void edit(const char *name, const char *from, const char *to)
{
    size_t len;
    char *const text = folder_get(folder_file(&dir, name), &len);
    char *const at = strstr(text, from);
    ck_assert_ptr_nonnull(at);
    const size_t head = (size_t)(at - text), skip = strlen(from), add = strlen(to);
    char *const edited = malloc(len - skip + add + 1);
    ck_assert_ptr_nonnull(edited);
    memcpy(edited, text, head);
    memcpy(edited + head, to, add);
    memcpy(edited + head + add, at + skip, len - head - skip);
    folder_put(&dir, name, edited, len - skip + add);
    free(edited);
    free(text);
}

#endif
