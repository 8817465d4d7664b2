/* Jobs whose waves multiply in BF16. */
#include "tests/unit/job_tiny.h"

static const char *const passes[] = {
    "  - gptq: {bits: 3, group: 32}\n",
    "  - awq: {}\n  - gptq: {bits: 4, group: 32, correct: none}\n",
    "  - rotate: {}\n  - gptq: {bits: 4, group: 32}\n",
    "  - sparsegpt: {sparsity: 0.5}\n",
};
enum { PASSES = sizeof passes / sizeof *passes };

static void recipe(const char *precision, const char *steps)
{
    char text[2048];
    (void)snprintf(text, sizeof text,
                   "pare: 1\nmodel: model\ncalibration: {tokens: tokens.i32, samples: 12, window: "
                   "64, token_weights: even%s}\npasses:\n%s",
                   precision, steps);
    job_recipe(&place, text);
}

START_TEST(it_changes_what_comes_out_and_survives_threads_and_breaks)
{
    recipe(", precision: f32", passes[_i]);
    ck_assert_int_eq(job_run(&place, (job_opts){.output = "f32"}, NULL), PARE_OK);
    recipe("", passes[_i]);
    ck_assert_int_eq(job_run(&place, (job_opts){.output = "none"}, NULL), PARE_OK);
    job_check_same_weights(&place, "f32", "none");
    recipe(", precision: bf16", passes[_i]);
    ck_assert_int_eq(job_run(&place, (job_opts){.output = "one"}, NULL), PARE_OK);
    ck_assert(!job_same_weights(&place, "f32", "one"));
    check_survives();
}
END_TEST

START_TEST(another_word_is_refused_with_its_place)
{
    char what[1024];
    recipe(", precision: f16", passes[0]);
    ck_assert_int_eq(job_run(&place, (job_opts){.output = "out"}, what), PARE_EUSAGE);
    ck_assert_msg(strstr(what, "f32, bf16") && strstr(what, "recipe.yaml:3:"), "%s", what);
}
END_TEST

int main(void)
{
    Suite *const s = suite_create("precision_job");
    TCase *const t = tcase_create("precision_job");
    tcase_set_timeout(t, 120);
    tcase_add_checked_fixture(t, setup, teardown);
    tcase_add_loop_test(t, it_changes_what_comes_out_and_survives_threads_and_breaks, 0, PASSES);
    tcase_add_test(t, another_word_is_refused_with_its_place);
    suite_add_tcase(s, t);
    return unit_main(s);
}
