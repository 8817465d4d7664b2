/* tests/unit/job.h - a scratch directory with a tiny random model and recipes, and a way to run
 * jobs on it inside the test. */
#ifndef PARE_TESTS_JOB_H
#define PARE_TESTS_JOB_H

#include <dirent.h>
#include <fcntl.h>
#include <string.h>

#include "compress/compress.h"
#include "formats/checkpoint.h"
#include "formats/sha256.h"
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

enum { JOB_ALL = -1 };

/* Weights of a tensor of the model (one file), each times `factor` plus `more`: of one row or of
 * one column, or JOB_ALL. A vector has one row. */
static inline void job_change(const job_place *p, const char *tensor, int row, int column,
                              float factor, float more)
{
    const char *const path = job_path(p, "model/model.safetensors");
    pare_ctx cx;
    pare_arena a;
    pare_checkpoint ck;
    pare_ctx_init(&cx);
    ck_assert_int_eq(pare_arena_init(&cx, &a, 0), PARE_OK);
    ck_assert_int_eq(pare_checkpoint_open(&cx, &a, path, &ck), PARE_OK);
    const pare_tensor *const t = pare_checkpoint_find(&ck, tensor);
    ck_assert_ptr_nonnull(t);
    const size_t k = (size_t)t->shape[t->rank - 1], count = k * (t->rank == 2 ? t->shape[0] : 1);
    float *const w = PARE_NEW(&a, float, count);
    void *const bytes = pare_arena_take(&a, (size_t)t->bytes, 1);
    ck_assert(w && bytes && pare_tensor_to_f32(&cx, t, 0, count, w) == PARE_OK);
    for (size_t i = 0; i < count; i++)
        if ((row == JOB_ALL || (size_t)row == i / k) &&
            (column == JOB_ALL || (size_t)column == i % k))
            w[i] = w[i] * factor + more;
    ck_assert_int_eq(pare_f32_to_dtype(&cx, t->dtype, w, count, bytes), PARE_OK);
    const int fd = open(path, O_RDWR);
    const off_t at = (off_t)((const unsigned char *)t->data - ck.file[0].data);
    ck_assert_int_eq(pwrite(fd, bytes, (size_t)t->bytes, at), (ssize_t)t->bytes);
    ck_assert_int_eq(close(fd), 0);
    pare_checkpoint_close(&ck);
    pare_arena_release(&a);
}

/* A linear of the model's block: all of a row or of a column times `factor`. */
static inline void job_scale(const job_place *p, size_t block, const char *linear, int row,
                             int column, float factor)
{
    char name[128];
    (void)snprintf(name, sizeof name, "model.layers.%zu.%s.weight", block, linear);
    job_change(p, name, row, column, factor, 0);
}

typedef struct job_opts {
    const char *output; /* inside the root */
    const char *share;  /* the same, or NULL */
    size_t threads;     /* 0: one */
    uint64_t ram_limit;
    bool restart, strict;
    const char *sets[4];
    size_t set_count;
    const pare_events *events;
    const volatile int *interrupt;
    struct pare_energy *energy;                                              /* counters, or NULL */
    void (*report)(void *self, const char *what, double done, double total); /* progress, or NULL */
    void *self;
    void (*step)(void *self, size_t phase, const char *what); /* with the same self, or NULL */
} job_opts;

/* Runs one job; the message of a failure is copied to `what` (at least 1024 bytes) when given. */
static inline pare_status job_run(const job_place *p, job_opts o, char *what)
{
    pare_ctx cx;
    pare_ctx_init(&cx);
    pare_arena a;
    ck_assert_int_eq(pare_arena_init(&cx, &a, 0), PARE_OK);
    cx.interrupt = o.interrupt;
    cx.energy = o.energy;
    cx.progress = (pare_progress){.report = o.report, .self = o.self, .step = o.step};
    ck_assert_int_eq(pare_pool_new(&cx, o.threads ? o.threads : 1, &cx.pool), PARE_OK);
    char recipe[512], output[512], share[512];
    (void)snprintf(share, sizeof share, "%s", job_path(p, o.share ? o.share : ""));
    (void)snprintf(recipe, sizeof recipe, "%s", job_path(p, "recipe.yaml"));
    (void)snprintf(output, sizeof output, "%s", job_path(p, o.output ? o.output : ""));
    const pare_job job = {.recipe = recipe,
                          .output = o.output ? output : NULL, /* else that of the recipe */
                          .share = o.share ? share : NULL,
                          .sets = o.sets,
                          .set_count = o.set_count,
                          .ram_limit = o.ram_limit,
                          .restart = o.restart,
                          .strict = o.strict};
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
        ck_assert_int_eq(pare_sha256_hex(&cx, text, len, all + i * (PARE_SHA256_HEX - 1)), PARE_OK);
    }
    ck_assert_int_eq(pare_sha256_hex(&cx, all, strlen(all), hex), PARE_OK);
    pare_arena_release(&a);
}

static inline void job_check_same(const job_place *p, const char *first, const char *second)
{
    char a[PARE_SHA256_HEX], b[PARE_SHA256_HEX];
    job_hash(p, first, a);
    job_hash(p, second, b);
    ck_assert_msg(strcmp(a, b) == 0, "%s and %s differ", first, second);
}

static inline void job_stop_behind_a_block(void *stop, const pare_event *e)
{
    if (e->kind == PARE_EVENT_BLOCK)
        *(volatile int *)stop = 1;
}

/* A job that is interrupted behind its first block. */
static inline void job_break_by(const job_place *p, const char *output, size_t threads)
{
    volatile int stop = 0;
    char what[1024];
    const pare_events events = {job_stop_behind_a_block, (void *)&stop};
    const job_opts opts = {
        .output = output, .threads = threads, .events = &events, .interrupt = &stop};
    ck_assert_int_eq(job_run(p, opts, what), PARE_EINTERRUPTED);
}

static inline void job_break(const job_place *p, const char *output)
{
    job_break_by(p, output, 1);
}

/* Whether two artifacts of one file each hold the same bytes. */
static inline bool job_same_weights(const job_place *p, const char *first, const char *second)
{
    pare_ctx cx;
    pare_arena a;
    char path[100], *text[2];
    size_t len[2];
    pare_ctx_init(&cx);
    ck_assert_int_eq(pare_arena_init(&cx, &a, 0), PARE_OK);
    for (size_t i = 0; i < 2; i++) {
        (void)snprintf(path, sizeof path, "%s/packed-00001-of-00001.safetensors",
                       i ? second : first);
        ck_assert_int_eq(pare_file_read(&cx, &a, job_path(p, path), 1 << 24, &text[i], &len[i]),
                         PARE_OK);
    }
    const bool same = len[0] == len[1] && memcmp(text[0], text[1], len[0]) == 0;
    pare_arena_release(&a);
    return same;
}

static inline void job_check_same_weights(const job_place *p, const char *first, const char *second)
{
    ck_assert_msg(job_same_weights(p, first, second), "%s and %s differ", first, second);
}

#endif
