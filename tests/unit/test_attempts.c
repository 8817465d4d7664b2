/* Attempts of a recipe with fallbacks: one lock over all of them, one output at the end. */
#include "compress/output/lock.h"
#include "tests/unit/job.h"

#define RECIPE(bound, more)                                                                        \
    "pare: 1\nmodel: model\npasses: [rtn: {bits: 2, group: 32}]\n"                                 \
    "evaluate: [kl: {tokens: tokens.i32, window: 64, limit: 4}]\n"                                 \
    "require: {kl: \"<= " bound "\"}\n" more

#define TWO "fallback: [{passes.0.rtn.bits: 3}, {passes.0.rtn.bits: 8}]\n"

static job_place place;

static void setup(void)
{
    tiny_model m = tiny_model_default();
    place = job_make(&m);
}

static void teardown(void)
{
    job_remove_directory(place.root);
}

/* What was heard, and what another process would have found between the attempts. */
typedef struct heard {
    size_t fallbacks; /* that were told */
    size_t taken;     /* locks that another one got */
    size_t outputs;   /* that were there before the last attempt */
    bool hint;        /* that --restart tries them */
} heard;

static void hear(void *self, const pare_event *e)
{
    heard *const h = self;
    const bool fallback = strstr(e->text, "; fallback ") != NULL;
    pare_ctx cx;
    pare_arena a;
    pare_lock lock;
    h->fallbacks += fallback;
    h->hint |= strstr(e->text, "--restart tries") != NULL;
    if (!fallback)
        return;
    pare_ctx_init(&cx);
    ck_assert_int_eq(pare_arena_init(&cx, &a, 0), PARE_OK);
    h->outputs += pare_path_is_directory(job_path(&place, "out"));
    const pare_teller none = {0};
    h->taken += pare_lock_take(&cx, &a, job_path(&place, "out"), "test", &none, &lock) == PARE_OK;
    pare_lock_release(&lock);
    pare_arena_release(&a);
}

static heard run(const char *recipe, bool restart)
{
    heard h = {0};
    const pare_events events = {hear, &h};
    job_recipe(&place, recipe);
    ck_assert_int_eq(
        job_run(&place, (job_opts){.output = "out", .events = &events, .restart = restart}, NULL),
        PARE_OK);
    return h;
}

static bool holds(const char *file, const char *text)
{
    pare_ctx cx;
    pare_arena a;
    char *is;
    size_t len;
    pare_ctx_init(&cx);
    ck_assert_int_eq(pare_arena_init(&cx, &a, 0), PARE_OK);
    ck_assert_int_eq(pare_file_read(&cx, &a, job_path(&place, file), 1 << 24, &is, &len), PARE_OK);
    const bool found = strstr(is, text) != NULL;
    pare_arena_release(&a);
    return found;
}

START_TEST(one_lock_holds_over_all_attempts)
{
    const heard h = run(RECIPE("1e-9", TWO), false);
    ck_assert_uint_eq(h.fallbacks, 2);
    ck_assert_uint_eq(h.taken, 0);
    ck_assert(!pare_path_is_file(job_path(&place, "out.lock")));
}
END_TEST

/* An output has its name once it is the last attempt's: an old one stays until then. */
START_TEST(an_output_is_that_of_the_last_attempt)
{
    heard h = run(RECIPE("1e-9", TWO), false);
    ck_assert_uint_eq(h.outputs, 0);
    ck_assert(holds("out/manifest.json", "bits: 8"));
    h = run(RECIPE("1e-9", "fallback: [{passes.0.rtn.bits: 4}]\n"), true);
    ck_assert_uint_eq(h.fallbacks, 1);
    ck_assert_uint_eq(h.outputs, 1);
    ck_assert(holds("out/manifest.json", "bits: 4"));
}
END_TEST

/* A tighter bound replaces nothing: what is there is judged, and --restart tries all of them. */
START_TEST(a_finished_output_stays)
{
    heard h = run(RECIPE("1e9", "fallback: [{passes.0.rtn.bits: 3}]\n"), false);
    ck_assert_uint_eq(h.fallbacks, 0);
    h = run(RECIPE("1e-9", "fallback: [{passes.0.rtn.bits: 3}]\n"), false);
    ck_assert_uint_eq(h.fallbacks, 0);
    ck_assert(h.hint);
    ck_assert(holds("out/manifest.json", "bits: 2"));
    h = run(RECIPE("1e-9", "fallback: [{passes.0.rtn.bits: 3}]\n"), true);
    ck_assert_uint_eq(h.fallbacks, 1);
    ck_assert(holds("out/manifest.json", "bits: 3"));
    h = run(RECIPE("1e-9", "fallback: [{passes.0.rtn.bits: 3}]\n"), false);
    ck_assert_uint_eq(h.fallbacks, 0);
    ck_assert(!h.hint);
}
END_TEST

/* Killed in an attempt, the same command goes on in it. */
START_TEST(a_broken_attempt_goes_on)
{
    volatile int stop = 0;
    char what[1024];
    const pare_events events = {job_stop_behind_a_block, (void *)&stop};
    const heard whole = run(RECIPE("1e-9", TWO), false);
    ck_assert_uint_eq(whole.fallbacks, 2);
    for (size_t attempt = 0; attempt < 3; attempt++) {
        static const char *const sets[] = {"seed=0", "passes.0.rtn.bits=3", "passes.0.rtn.bits=8"};
        job_opts o = {.output = "again", .events = &events, .interrupt = &stop};
        job_recipe(&place, RECIPE("1e-9", TWO));
        stop = 0;
        /* the partial work of that attempt, as a kill leaves it */
        if (attempt) {
            o.sets[0] = sets[attempt];
            o.set_count = 1;
        }
        ck_assert_int_eq(job_run(&place, o, what), PARE_EINTERRUPTED);
        ck_assert(!pare_path_is_directory(job_path(&place, "again")));
        ck_assert_int_eq(job_run(&place, (job_opts){.output = "again"}, NULL), PARE_OK);
        job_check_same(&place, "out", "again");
        job_remove_directory(job_path(&place, "again"));
    }
}
END_TEST

int main(void)
{
    Suite *const s = suite_create("attempts");
    TCase *const t = tcase_create("attempts");
    tcase_add_checked_fixture(t, setup, teardown);
    tcase_set_timeout(t, 120);
    tcase_add_test(t, one_lock_holds_over_all_attempts);
    tcase_add_test(t, an_output_is_that_of_the_last_attempt);
    tcase_add_test(t, a_finished_output_stays);
    tcase_add_test(t, a_broken_attempt_goes_on);
    suite_add_tcase(s, t);
    return unit_main(s);
}
