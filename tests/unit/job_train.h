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

/* Stops a job when it tells `at`, and remembers whether it told `wanted`. */
typedef struct listener {
    const char *at, *wanted;
    volatile int stop;
    bool heard;
} listener;

static inline void hear(void *self, const pare_event *e)
{
    listener *const l = self;
    const char *const text = e->text ? e->text : "";
    l->stop |= l->at && strstr(text, l->at);
    l->heard |= l->wanted && strstr(text, l->wanted);
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

#endif
