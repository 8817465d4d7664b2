/* Jobs whose Hessians count tokens by the loss. */
#include "compress/artifact/verify.h"
#include "tests/unit/job_weights.h"

START_TEST(weights_change_what_comes_out_and_survive_threads_and_breaks)
{
    static const char loss[] = DATA("samples: 12, window: 64, token_weights: loss");
    recipe(DATA("samples: 12, window: 64, token_weights: even"), passes[_i]);
    ck_assert_int_eq(job_run(&place, (job_opts){.output = "even"}, NULL), PARE_OK);
    recipe(loss, passes[_i]);
    ck_assert_int_eq(job_run(&place, (job_opts){.output = "one"}, NULL), PARE_OK);
    ck_assert(!job_same_weights(&place, "even", "one"));
    check_survives();
}
END_TEST

START_TEST(all_samples_and_files_for_activations_do)
{
    recipe(DATA("samples: all, window: 64, token_weights: loss"), passes[0]);
    ck_assert_int_eq(job_run(&place, (job_opts){.output = "one"}, NULL), PARE_OK);
    recipe(DATA("samples: 24, window: 64, token_weights: loss"), passes[0]);
    ck_assert_int_eq(job_run(&place, (job_opts){.output = "two"}, NULL), PARE_OK);
    job_check_same_weights(&place, "one", "two"); /* there are 24 windows */
}
END_TEST

static const struct {
    const char *data, *passes, *says;
} refused[] = {
    {DATA("samples: 4, window: 64, token_weights: loss"), "  - rtn: {}\n",
     "no step here uses it; say even"},
    {DATA("samples: 4, window: 64, token_weights: loss"), "  - smoothquant: {}\n  - rtn: {}\n",
     "no step here uses it; say even"},
    {DATA("samples: 4, window: 64, token_weights: loss"),
     "  - outlier_suppression: {}\n  - gptq: {}\n",
     "does not go together with outlier_suppression, which shifts inputs; say even"},
    {DATA("samples: 4, window: 64, token_weights: grad"), "  - gptq: {}\n", "even, loss"},
    {DATA("samples: 4, window: 64, token_weights: 2"), "  - gptq: {}\n", "even, loss"},
};

START_TEST(what_cannot_be_is_refused_with_its_place)
{
    char what[1024];
    recipe(refused[_i].data, refused[_i].passes);
    ck_assert_int_eq(job_run(&place, (job_opts){.output = "out"}, what), PARE_EUSAGE);
    ck_assert_msg(strstr(what, refused[_i].says) && strstr(what, "recipe.yaml:3:"), "%s", what);
}
END_TEST

int main(void)
{
    Suite *const s = suite_create("token_weights_job");
    TCase *const t = tcase_create("token_weights_job");
    tcase_set_timeout(t, 120);
    tcase_add_checked_fixture(t, setup, teardown);
    tcase_add_loop_test(t, weights_change_what_comes_out_and_survive_threads_and_breaks, 0, PASSES);
    tcase_add_test(t, all_samples_and_files_for_activations_do);
    tcase_add_loop_test(t, what_cannot_be_is_refused_with_its_place, 0,
                        sizeof refused / sizeof *refused);
    suite_add_tcase(s, t);
    return unit_main(s);
}
