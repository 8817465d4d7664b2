/* tests/unit/job.h - a scratch directory with a tiny random model and recipes, and a way to run
 * jobs on it inside the test. */
#ifndef PARE_TESTS_JOB_H
#define PARE_TESTS_JOB_H

#include <dirent.h>
#include <fcntl.h>
#include <string.h>

#include "compress/compress.h"
#include "formats/hash.h"
#include "runtime/file.h"
#include "runtime/threads.h"
#include "tests/data/tiny_model.h"
#include "tests/unit/unit.h"

typedef struct job_place {
    char root[256]; /* holds model/, tokens.i32, recipe.yaml */
} job_place;

static inline const char *job_path(const job_place *p, const char *name)
{
    static char path[4][512];
    static size_t turn;
    char *const at = path[turn++ % 4];
    (void)snprintf(at, sizeof path[0], "%s/%s", p->root, name);
    return at;
}

static inline void job_recipe(const job_place *p, const char *text)
{
    FILE *const f = fopen(job_path(p, "recipe.yaml"), "w");
    ck_assert_ptr_nonnull(f);
    ck_assert_int_ge(fputs(text, f), 0);
    ck_assert_int_eq(fclose(f), 0);
}

/* A fresh directory under the build's working directory with a model of `m`. */
static inline job_place job_make(const tiny_model *m)
{
    job_place p;
    (void)snprintf(p.root, sizeof p.root, "job.XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(p.root));
    ck_assert_int_eq(mkdir(job_path(&p, "model"), 0777), 0);
    ck_assert(tiny_model_write(m, job_path(&p, "model")));
    ck_assert(tiny_tokens_write(job_path(&p, "tokens.i32"), m->vocab, 64 * 24, 3));
    return p;
}

static inline void job_remove_directory(const char *path)
{
    DIR *const d = opendir(path);
    if (!d)
        return;
    for (struct dirent *e; (e = readdir(d));) {
        char inner[1024];
        if (strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0)
            continue;
        const int n = snprintf(inner, sizeof inner, "%s/%s", path, e->d_name);
        ck_assert(n > 0 && (size_t)n < sizeof inner);
        if (pare_path_is_directory(inner))
            job_remove_directory(inner);
        else
            (void)unlink(inner);
    }
    (void)closedir(d);
    (void)rmdir(path);
}

typedef struct job_opts {
    const char *output; /* inside the root */
    size_t threads;     /* 0: one */
    uint64_t ram_limit;
    bool restart;
    const char *sets[4];
    size_t set_count;
    const pare_events *events;
    const volatile int *interrupt;
} job_opts;

/* Runs one job; the message of a failure is copied to `what` (at least 1024 bytes) when given. */
static inline pare_status job_run(const job_place *p, job_opts o, char *what)
{
    pare_ctx cx;
    pare_ctx_init(&cx);
    pare_arena a;
    ck_assert_int_eq(pare_arena_init(&cx, &a, 0), PARE_OK);
    cx.interrupt = o.interrupt;
    ck_assert_int_eq(pare_pool_new(&cx, o.threads ? o.threads : 1, &cx.pool), PARE_OK);
    char recipe[512], output[512];
    (void)snprintf(recipe, sizeof recipe, "%s", job_path(p, "recipe.yaml"));
    (void)snprintf(output, sizeof output, "%s", job_path(p, o.output));
    const pare_job job = {.recipe = recipe,
                          .output = output,
                          .sets = o.sets,
                          .set_count = o.set_count,
                          .ram_limit = o.ram_limit,
                          .restart = o.restart};
    pare_compress_result result;
    const pare_status s = pare_compress(&cx, &a, &job, o.events, &result);
    if (what)
        (void)snprintf(what, sizeof cx.what, "%s", cx.what);
    else if (s != PARE_OK)
        (void)fprintf(stderr, "job: %s\n", cx.what);
    pare_arena_release(&a);
    pare_pool_free(&cx, cx.pool);
    ck_assert_uint_eq(cx.live_bytes, 0);
    return s;
}

/* One hash over the deterministic set of an artifact: names and bytes, in a fixed order. */
static inline void job_hash(const job_place *p, const char *output, char hex[PARE_SHA256_HEX])
{
    static const char *const name[] = {"config.json", "manifest.json", "packed.index.json",
                                       "packed-00001-of-00001.safetensors"};
    pare_ctx cx;
    pare_ctx_init(&cx);
    pare_arena a;
    ck_assert_int_eq(pare_arena_init(&cx, &a, 0), PARE_OK);
    char all[4 * PARE_SHA256_HEX] = "";
    for (size_t i = 0; i < sizeof name / sizeof *name; i++) {
        char path[1024], *text;
        size_t len;
        (void)snprintf(path, sizeof path, "%s/%s", job_path(p, output), name[i]);
        ck_assert_msg(pare_file_read(&cx, &a, path, 1 << 28, &text, &len) == PARE_OK, "%s",
                      cx.what);
        pare_sha256_hex(text, len, all + i * (PARE_SHA256_HEX - 1));
    }
    pare_sha256_hex(all, strlen(all), hex);
    pare_arena_release(&a);
}

#endif
