/* Jobs that are short of memory: one linear in floats at a time, drift in a file. */
#include "tests/unit/job_plan.h"

static job_place place;

static const char *const recipes[] = {
    "token_weights: even}\npasses:\n  - gptq: {bits: 3, group: 32}\n",
    "token_weights: even, precision: f32}\npasses:\n  - gptq: {bits: 4, group: 32, correct: "
    "qronos, act_order: false}\n",
    "token_weights: even}\npasses:\n  - gptq: {bits: 3, group: 32, correct: none, block: 96}\n",
    "token_weights: even}\npasses:\n  - exl3: {bits: 8, targets: \"*.mlp.*\"}\n"
    "  - gptq: {bits: 3, group: 32, skip: \"*.mlp.*\"}\n",
    "token_weights: even, precision: f32}\npasses:\n  - exl3: {bits: 8, targets: \"*.mlp.*\"}\n"
    "  - gptq: {bits: 3, group: 32, correct: none, skip: \"*.mlp.*\"}\n",
};
enum { RECIPES = sizeof recipes / sizeof *recipes };

/* What is allocated at most; *sparing tells how. 0: more than the limit. */
static uint64_t plan_of(uint64_t limit, bool *sparing)
{
    const job_plan p = job_plan_of(&place, limit);
    *sparing = p.memory.sparing;
    return p.memory.anonymous_bytes;
}

/* The first limit that makes the job sparing, as it falls. */
static uint64_t sparing_limit(void)
{
    bool sparing;
    uint64_t limit = 0, need = plan_of(0, &sparing);
    ck_assert(!sparing);
    while (need && !sparing) {
        limit = need - 1024;
        need = plan_of(limit, &sparing);
    }
    ck_assert_msg(sparing, "no limit makes this job sparing");
    return limit;
}

static void teardown(void)
{
    job_remove_directory(place.root);
}

static void setup(void)
{
    tiny_model m = tiny_model_default();
    m.intermediate = 512;
    place = job_make(&m);
}

START_TEST(a_sparing_job_gives_the_same_bytes)
{
    char text[1024];
    (void)snprintf(text, sizeof text,
                   "pare: 1\nmodel: model\ncalibration: {tokens: tokens.i32, samples: 12, window: "
                   "64, %s",
                   recipes[_i]);
    job_recipe(&place, text);
    ck_assert_int_eq(job_run(&place, (job_opts){.output = "one"}, NULL), PARE_OK);
    const uint64_t limit = sparing_limit();
    ck_assert_int_eq(job_run(&place, (job_opts){.output = "two", .ram_limit = limit}, NULL),
                     PARE_OK);
    job_check_same(&place, "one", "two");
    job_break(&place, "three"); /* and goes on with what is stored */
    ck_assert_int_eq(job_run(&place, (job_opts){.output = "three", .ram_limit = limit}, NULL),
                     PARE_OK);
    job_check_same(&place, "one", "three");
}
END_TEST

int main(void)
{
    Suite *const s = suite_create("sparing jobs");
    TCase *const t = tcase_create("same bytes");
    tcase_set_timeout(t, 120);
    tcase_add_checked_fixture(t, setup, teardown);
    tcase_add_loop_test(t, a_sparing_job_gives_the_same_bytes, 0, RECIPES);
    suite_add_tcase(s, t);
    return unit_main(s);
}
