/* A recipe that calibrates the key/value cache, interrupted and continued. */
#include "tests/unit/job.h"

static const char recipe[] = "pare: 1\nmodel: model\nseed: 5\n"
                             "calibration: {tokens: tokens.i32, samples: 8, window: 48}\n"
                             "passes:\n  - rtn: {bits: 4, group: 32}\n"
                             "kv_cache: {method: kvquant, sink: 2}\n"
                             "evaluate:\n  - perplexity: {tokens: tokens.i32, window: 48}\n";

/* Stops at the event number `left` of those that matter. */
typedef struct stopper {
    int left;
    volatile int stop;
} stopper;

static void hear(void *self, const pare_event *e)
{
    stopper *const s = self;
    if ((e->kind == PARE_EVENT_BLOCK || e->kind == PARE_EVENT_EVALUATE) && s->left-- == 0)
        s->stop = 1;
}

START_TEST(an_interrupted_run_finds_the_same_levels)
{
    const tiny_model m = tiny_model_default();
    const job_place place = job_make(&m);
    char first[PARE_SHA256_HEX], other[PARE_SHA256_HEX];
    job_recipe(&place, recipe);
    ck_assert_int_eq(job_run(&place, (job_opts){.output = "first"}, NULL), PARE_OK);
    job_hash(&place, "first", first);
    for (int at = 0; at <= (int)m.blocks; at++) { /* behind each block, then with all of them */
        stopper s = {.left = at};
        const pare_events events = {hear, &s};
        const job_opts o = {.output = "other", .events = &events, .interrupt = &s.stop};
        ck_assert_int_eq(job_run(&place, o, NULL), PARE_EINTERRUPTED);
        ck_assert_int_eq(job_run(&place, (job_opts){.output = "other", .threads = 2}, NULL),
                         PARE_OK);
        job_hash(&place, "other", other);
        ck_assert_str_eq(first, other);
        job_remove_directory(job_path(&place, "other"));
    }
    job_remove_directory(place.root);
}
END_TEST

int main(void)
{
    Suite *const s = suite_create("kv_recipe");
    TCase *const t = tcase_create("kv_recipe");
    tcase_set_timeout(t, 240);
    tcase_add_test(t, an_interrupted_run_finds_the_same_levels);
    suite_add_tcase(s, t);
    return unit_main(s);
}
