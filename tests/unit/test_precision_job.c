/* Jobs whose waves multiply in BF16. */
#include "tests/unit/job_tiny.h"

static const char *const passes[] = {
    "  - gptq: {bits: 3, group: 32}\n",
    "  - awq: {}\n  - gptq: {bits: 4, group: 32, correct: none}\n",
    "  - rotate: {}\n  - gptq: {bits: 4, group: 32}\n",
    "  - sparsegpt: {sparsity: 0.5}\n",
};
enum { PASSES = sizeof passes / sizeof *passes };

static void recipe(const char *more, const char *steps)
{
    char text[2048];
    (void)snprintf(text, sizeof text,
                   "pare: 1\nmodel: model\ncalibration: {tokens: tokens.i32, samples: 12, window: "
                   "64%s}\npasses:\n%s",
                   more, steps);
    job_recipe(&place, text);
}

/* That the manifest of an output has this text in it. */
static void check_told(const char *output, const char *text)
{
    char name[64], all[1 << 16];
    (void)snprintf(name, sizeof name, "%s/manifest.json", output);
    FILE *const f = fopen(job_path(&place, name), "rb");
    ck_assert_ptr_nonnull(f);
    all[fread(all, 1, sizeof all - 1, f)] = '\0';
    ck_assert_int_eq(fclose(f), 0);
    ck_assert_msg(strstr(all, text), "%s does not have %s", name, text);
}

START_TEST(it_changes_what_comes_out_and_survives_threads_and_breaks)
{
    recipe(", precision: f32", passes[_i]);
    ck_assert_int_eq(job_run(&place, (job_opts){.output = "f32"}, NULL), PARE_OK);
    check_told("f32", "\"precision\": \"f32\"");
    recipe(", precision: bf16", passes[_i]);
    ck_assert_int_eq(job_run(&place, (job_opts){.output = "bf16"}, NULL), PARE_OK);
    recipe("", passes[_i]);
    ck_assert_int_eq(job_run(&place, (job_opts){.output = "one"}, NULL), PARE_OK);
    check_told("one", "\"precision\": \"bf16\"");
    job_check_same_weights(&place, "bf16", "one");
    ck_assert(!job_same_weights(&place, "f32", "one"));
    check_survives();
}
END_TEST

/* Weights of tokens come from gradients, which round as well. */
START_TEST(gradients_and_hessians_round_too)
{
    recipe(", token_weights: even", passes[0]);
    ck_assert_int_eq(job_run(&place, (job_opts){.output = "even"}, NULL), PARE_OK);
    recipe(", token_weights: loss, precision: bf16", passes[0]);
    ck_assert_int_eq(job_run(&place, (job_opts){.output = "one"}, NULL), PARE_OK);
    ck_assert(!job_same_weights(&place, "even", "one"));
    check_survives();
}
END_TEST

/* Where no more than 8 bits of weights are lost. */
START_TEST(fine_weights_stay_in_floats_unless_told)
{
    static const char *const steps[] = {
        "  - gptq: {bits: 8, group: 32}\n",
        "  - gptq: {bits: 8, group: 32, targets: [\"*.q_proj\"]}\n  - gptq: {bits: 4, group: 32, "
        "skip: [\"*.q_proj\"]}\n",
        "  - smoothquant: {}\n  - rtn: {bits: 8, group: row, activations: int8_token}\n"};
    for (size_t i = 0; i < sizeof steps / sizeof *steps; i++) {
        recipe("", steps[i]);
        ck_assert_int_eq(job_run(&place, (job_opts){.output = "out", .restart = true}, NULL),
                         PARE_OK);
        check_told("out", i ? "\"precision\": \"bf16\"" : "\"precision\": \"f32\"");
    }
    recipe(", precision: bf16", steps[0]);
    ck_assert_int_eq(job_run(&place, (job_opts){.output = "told"}, NULL), PARE_OK);
    check_told("told", "\"precision\": \"bf16\"");
}
END_TEST

/* Training is in F32; what gathers in front of it or behind it is not. */
START_TEST(training_alone_stays_in_floats)
{
    static const char *const steps[] = {
        "  - rtn: {bits: 3, group: 32}\n  - distill: {tokens: 128, aware: true}\n",
        "  - magnitude: {sparsity: 0.5}\n  - distill: {tokens: 128}\n  - gptq: {bits: 4, group: "
        "32}\n",
        "  - wanda: {sparsity: 0.5}\n  - distill: {tokens: 128}\n"};
    for (size_t i = 0; i < sizeof steps / sizeof *steps; i++) {
        recipe(", precision: bf16", steps[i]);
        ck_assert_int_eq(job_run(&place, (job_opts){.output = "out", .restart = true}, NULL),
                         PARE_OK);
        check_told("out", i ? "\"precision\": \"bf16\"" : "\"precision\": \"f32\"");
    }
}
END_TEST

START_TEST(an_unfinished_job_goes_on_in_its_precision)
{
    char what[1024];
    recipe(", precision: f32", passes[0]);
    job_break(&place, "out");
    recipe(", precision: bf16", passes[0]);
    ck_assert_int_eq(job_run(&place, (job_opts){.output = "out"}, what), PARE_EEXISTS);
    ck_assert_msg(strstr(what, "precision"), "%s", what);
}
END_TEST

/* A default that is written out is the same recipe. */
START_TEST(a_job_goes_on_when_its_default_is_written_out)
{
    recipe("", passes[0]);
    job_break(&place, "out");
    recipe(", precision: auto", passes[0]);
    ck_assert_int_eq(job_run(&place, (job_opts){.output = "out"}, NULL), PARE_OK);
}
END_TEST

START_TEST(another_word_is_refused_with_its_place)
{
    char what[1024];
    recipe(", precision: f16", passes[0]);
    ck_assert_int_eq(job_run(&place, (job_opts){.output = "out"}, what), PARE_EUSAGE);
    ck_assert_msg(strstr(what, "auto, f32, bf16") && strstr(what, "recipe.yaml:3:"), "%s", what);
}
END_TEST

int main(void)
{
    Suite *const s = suite_create("precision_job");
    TCase *const t = tcase_create("precision_job");
    tcase_set_timeout(t, 120);
    tcase_add_checked_fixture(t, setup, teardown);
    tcase_add_loop_test(t, it_changes_what_comes_out_and_survives_threads_and_breaks, 0, PASSES);
    tcase_add_test(t, gradients_and_hessians_round_too);
    tcase_add_test(t, fine_weights_stay_in_floats_unless_told);
    tcase_add_test(t, training_alone_stays_in_floats);
    tcase_add_test(t, an_unfinished_job_goes_on_in_its_precision);
    tcase_add_test(t, a_job_goes_on_when_its_default_is_written_out);
    tcase_add_test(t, another_word_is_refused_with_its_place);
    suite_add_tcase(s, t);
    return unit_main(s);
}
