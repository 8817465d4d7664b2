/* tests/unit/job_train.h - jobs that train on the tiny model: recipes, what they tell, how to stop
 * and to break them. */
#ifndef PARE_TESTS_JOB_TRAIN_H
#define PARE_TESTS_JOB_TRAIN_H

#include "formats/checkpoint.h"
#include "runtime/linear.h"
#include "tests/unit/job_tiny.h"

#define DATA  "calibration: {tokens: tokens.i32, samples: 12, window: 64}\n"
#define HEAD  "pare: 1\nmodel: model\n"
#define TRAIN "  - distill: {tokens: 3000, batch: 4, rate: 3e-3, "

static inline void recipe(const char *passes)
{
    char text[2048];
    (void)snprintf(text, sizeof text, HEAD DATA "passes:\n%s", passes);
    job_recipe(&place, text);
}

/* The number behind a key of a part of run.json. */
static inline double figure(const char *output, const char *part, const char *key)
{
    char name[64], text[1 << 16], wanted[64];
    const char *at;
    (void)snprintf(name, sizeof name, "%s/run.json", output);
    FILE *const f = fopen(job_path(&place, name), "r");
    ck_assert_ptr_nonnull(f);
    text[fread(text, 1, sizeof text - 1, f)] = '\0';
    ck_assert_int_eq(fclose(f), 0);
    (void)snprintf(wanted, sizeof wanted, "\"%s\"", part);
    at = strstr(text, wanted);
    ck_assert_msg(at != NULL, "%s has no %s", name, part);
    (void)snprintf(wanted, sizeof wanted, "\"%s\": ", key);
    at = strstr(at, wanted);
    ck_assert_msg(at != NULL, "%s has no %s", name, key);
    return strtod(at + strlen(wanted), NULL);
}

static inline void open_two(pare_ctx *cx, pare_arena *a, const char *first, const char *second,
                            pare_checkpoint ck[2], pare_model m[2])
{
    pare_ctx_init(cx);
    ck_assert_int_eq(pare_arena_init(cx, a, 0), PARE_OK);
    for (size_t i = 0; i < 2; i++) {
        ck_assert_int_eq(pare_checkpoint_open(cx, a, job_path(&place, i ? second : first), &ck[i]),
                         PARE_OK);
        ck_assert_int_eq(pare_model_load(cx, a, &ck[i], &m[i]), PARE_OK);
    }
}

static inline void close_two(pare_arena *a, pare_checkpoint ck[2])
{
    for (size_t i = 0; i < 2; i++)
        pare_checkpoint_close(&ck[i]);
    pare_arena_release(a);
}

/* Stops a job when it tells `at`, and remembers whether it told `wanted`, and `also`. */
typedef struct listener {
    const char *at, *wanted, *also;
    volatile int stop;
    bool heard, heard_also;
} listener;

static inline void hear(void *self, const pare_event *e)
{
    listener *const l = self;
    const char *const text = e->text ? e->text : "";
    l->stop |= l->at && strstr(text, l->at);
    l->heard |= l->wanted && strstr(text, l->wanted);
    l->heard_also |= l->also && strstr(text, l->also);
}

static inline pare_status run_listening(listener *l, const char *output)
{
    const pare_events events = {hear, l};
    return job_run(&place, (job_opts){.output = output, .events = &events, .interrupt = &l->stop},
                   NULL);
}

/* Turns the byte of a file around that has this share of it in front. */
static inline void damage_at(const char *name, double share)
{
    FILE *const f = fopen(job_path(&place, name), "r+");
    ck_assert_ptr_nonnull(f);
    ck_assert_int_eq(fseek(f, 0, SEEK_END), 0);
    const long size = ftell(f), wanted = (long)(share * (double)size);
    const long at = wanted < size ? wanted : size - 1;
    ck_assert_int_eq(fseek(f, at, SEEK_SET), 0);
    const int was = fgetc(f);
    ck_assert_int_eq(fseek(f, at, SEEK_SET), 0);
    ck_assert_int_eq(fputc(was ^ 0xff, f), was ^ 0xff);
    ck_assert_int_eq(fclose(f), 0);
}

static inline void damage(const char *name)
{
    damage_at(name, .5);
}

/* Where a job stops, what is damaged then, and what it tells as it goes on. */
typedef struct halt {
    const char *at, *broken, *told, *also;
} halt;

/* What training leaves in a run that stops nowhere in front of that. */
static inline void keep_trained(void)
{
    listener l = {.at = "after training"};
    if (access(job_path(&place, "trained.f32"), F_OK) == 0)
        return;
    ck_assert_int_eq(run_listening(&l, "alone"), PARE_EINTERRUPTED);
    ck_assert_int_eq(
        rename(job_path(&place, "alone.partial/trained.f32"), job_path(&place, "trained.f32")), 0);
    job_remove_directory(job_path(&place, "alone.partial"));
}

/* It is the same in each run that stops behind it: what becomes of it may be damaged then, and made
 * again. */
static inline void check_trained(void)
{
    const char *const name[] = {"two.partial/trained.f32", "trained.f32"};
    pare_ctx cx;
    pare_arena a;
    char *text[2];
    size_t len[2];
    pare_ctx_init(&cx);
    keep_trained();
    ck_assert_int_eq(pare_arena_init(&cx, &a, 0), PARE_OK);
    for (size_t i = 0; i < 2; i++)
        ck_assert_int_eq(
            pare_file_read(&cx, &a, job_path(&place, name[i]), 1 << 28, &text[i], &len[i]),
            PARE_OK);
    ck_assert_msg(len[0] == len[1] && memcmp(text[0], text[1], len[0]) == 0, "trained otherwise");
    pare_arena_release(&a);
}

/* The job of the recipe, which wrote "one", stops at each of the places and comes to the same bytes
 * in "two". */
static inline void check_halts(const halt *halts, size_t count)
{
    job_remove_directory(job_path(&place, "two"));
    for (size_t i = 0; i <= count; i++) {
        const bool last = i == count;
        listener l = {.at = last ? NULL : halts[i].at,
                      .wanted = i ? halts[i - 1].told : NULL,
                      .also = i ? halts[i - 1].also : NULL};
        ck_assert_int_eq(run_listening(&l, "two"), last ? PARE_OK : PARE_EINTERRUPTED);
        ck_assert_msg(l.heard == (l.wanted != NULL) && l.heard_also == (l.also != NULL),
                      "nothing says \"%s\" or \"%s\"", l.wanted, l.also ? l.also : "");
        if (!last && strcmp(l.at, "after training") == 0)
            check_trained();
        if (!last && halts[i].broken)
            damage(halts[i].broken);
    }
    job_check_same(&place, "one", "two");
}

#endif
