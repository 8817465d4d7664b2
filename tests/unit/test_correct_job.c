/* Jobs with what gptq and exl3 know beside H: the float model next to the compressed one (correct),
 * windows held out (tune). */
#include "tests/unit/job_tiny.h"

#define HEAD                                                                                       \
    "pare: 1\nmodel: model\ncalibration: {tokens: tokens.i32, samples: 12, window: 64}\npasses:\n"

static void recipe(const char *passes)
{
    char text[2048];
    (void)snprintf(text, sizeof text, HEAD "%s", passes);
    job_recipe(&place, text);
}

/* Matrices that tiles of 16 divide. */
#define EXL3(settings) "  - exl3: {bits: 3, targets: \"*.mlp.*\"" settings "}\n"
#define AWQ_OF_NORMS   "  - awq: {skip: [\"*.o_proj\", \"*.down_proj\"]}\n"

/* Passes without a correction, and with one. */
static const struct {
    const char *plain, *corrected;
} pairs[] = {
    {"  - gptq: {bits: 3, group: 32, correct: none}\n", "  - gptq: {bits: 3, group: 32}\n"},
    {"  - gptq: {bits: 3, group: 32, correct: none}\n",
     "  - gptq: {bits: 3, group: 32, correct: qronos}\n"},
    {"  - gptq: {bits: 3, group: 32, symmetric: false, refine: 0, act_order: false, correct: "
     "none}\n",
     "  - gptq: {bits: 3, group: 32, symmetric: false, refine: 0, act_order: false, "
     "correct: qronos, alpha: 0.5}\n"},
    {"  - gptq: {bits: 3, group: 32, true_sequential: true, correct: none}\n",
     "  - gptq: {bits: 3, group: 32, true_sequential: true, correct: gptaq}\n"},
    {AWQ_OF_NORMS "  - gptq: {bits: 4, group: 32}\n",
     AWQ_OF_NORMS "  - gptq: {bits: 4, group: 32, correct: gptaq}\n"},
    {AWQ_OF_NORMS "  - gptq: {bits: 8, group: 32}\n",
     AWQ_OF_NORMS "  - gptq: {bits: 8, group: 32, correct: qronos}\n"},
    {"  - gptq: {bits: 3, group: 32, correct: none}\n",
     "  - gptq: {bits: 3, group: 32, tune: true}\n"},
    {"  - awq: {}\n  - gptq: {bits: 4, group: 32}\n",
     "  - awq: {}\n  - gptq: {bits: 4, group: 32, tune: true}\n"},
    {"  - rotate: {online: true}\n  - gptq: {bits: 4, group: 32}\n",
     "  - rotate: {online: true}\n  - gptq: {bits: 4, group: 32, correct: qronos}\n"},
    {EXL3(", correct: none"), EXL3("")},
    {EXL3(""), EXL3(", alpha: 0.5, correct: gptaq")},
};
enum { PAIRS = sizeof pairs / sizeof *pairs };

START_TEST(corrections_change_what_comes_out_and_survive_threads_and_breaks)
{
    recipe(pairs[_i].plain);
    ck_assert_int_eq(job_run(&place, (job_opts){.output = "plain"}, NULL), PARE_OK);
    recipe(pairs[_i].corrected);
    ck_assert_int_eq(job_run(&place, (job_opts){.output = "one"}, NULL), PARE_OK);
    ck_assert(!job_same_weights(&place, "plain", "one"));
    check_survives();
}
END_TEST

/* Both models read the same in front of the first site. */
START_TEST(the_first_site_has_nothing_to_make_up_for)
{
    static const char *const text[] = {
        "  - gptq: {bits: 4, group: 32, targets: \"model.layers.0.self_attn.q_proj\", correct: "
        "none}\n",
        "  - gptq: {bits: 4, group: 32, targets: \"model.layers.0.self_attn.q_proj\", correct: "
        "gptaq}\n"};
    for (size_t i = 0; i < 2; i++) {
        recipe(text[i]);
        ck_assert_int_eq(job_run(&place, (job_opts){.output = i ? "one" : "plain"}, NULL), PARE_OK);
    }
    job_check_same_weights(&place, "plain", "one");
}
END_TEST

/* One step, and the same as several. */
static const struct {
    const char *one, *several;
} apart[] = {
    {"  - gptq: {bits: 3, group: 32, correct: gptaq}\n",
     "  - gptq: {bits: 3, group: 32, correct: gptaq, targets: \"*.q_proj\"}\n"
     "  - gptq: {bits: 3, group: 32, correct: gptaq, targets: [\"*.k_proj\", \"*.up_proj\"]}\n"
     "  - gptq: {bits: 3, group: 32, correct: gptaq, skip: [\"*.q_proj\", \"*.k_proj\", "
     "\"*.up_proj\"]}\n"},
    {EXL3(", correct: gptaq"), EXL3(", correct: gptaq, skip: \"*.up_proj\"") EXL3(
                                   ", correct: gptaq, skip: [\"*.gate_proj\", \"*.down_proj\"]")},
};
enum { APART = sizeof apart / sizeof *apart };

/* Each step makes up for the same drift: that of a site is left for the last. */
START_TEST(steps_that_share_a_site_do_as_one)
{
    recipe(apart[_i].one);
    ck_assert_int_eq(job_run(&place, (job_opts){.output = "one"}, NULL), PARE_OK);
    recipe(apart[_i].several);
    ck_assert_int_eq(job_run(&place, (job_opts){.output = "several"}, NULL), PARE_OK);
    job_check_same_weights(&place, "one", "several");
}
END_TEST

START_TEST(what_cannot_be_is_refused_with_its_place)
{
    static const struct {
        const char *passes, *says;
    } cases[] = {
        {"  - gptq: {correct: both}\n", "none, gptaq"},
        {"  - gptq: {grid: nf4, correct: gptaq}\n", "correct"},
        {"  - gptq: {alpha: 0.5}\n", "alpha"},
        {"  - gptq: {correct: gptaq, alpha: 2}\n", "alpha"},
        {"  - outlier_suppression: {skip: [\"*.o_proj\", \"*.down_proj\"]}\n"
         "  - gptq: {correct: gptaq}\n",
         "outlier_suppression shifts inputs"},
        {"  - wanda: {sparsity: 0.5}\n  - gptq: {group: 32, correct: gptaq}\n",
         "correct moves weights that were pruned"},
        {"  - awq: {}\n  - gptq: {correct: gptaq}\n", "true_sequential, which correct implies"},
        {EXL3(", correct: qronos"), "none, gptaq"},
        {EXL3(", alpha: 0.5, correct: none"), "alpha"},
        {"  - gptq: {correct: gptaq, tune: true}\n", "tune and correct do not go together"},
        {"  - outlier_suppression: {}\n  - gptq: {tune: true}\n", "shifts inputs"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char what[1024];
        recipe(cases[i].passes);
        ck_assert_int_eq(job_run(&place, (job_opts){.output = "out"}, what), PARE_EUSAGE);
        ck_assert_msg(strstr(what, cases[i].says) && strstr(what, "recipe.yaml:"), "%s", what);
    }
}
END_TEST

/* Windows are counted once the data is read. */
START_TEST(tune_refuses_too_few_of_all_windows)
{
    char what[1024];
    const tiny_model m = tiny_model_default();
    ck_assert(tiny_tokens_write(job_path(&place, "few.i32"), m.vocab, 64 * 3, 3));
    job_recipe(&place, "pare: 1\nmodel: model\ncalibration: {tokens: few.i32, samples: all, "
                       "window: 64}\npasses:\n  - gptq: {group: 32, tune: true}\n");
    ck_assert_int_eq(job_run(&place, (job_opts){.output = "out"}, what), PARE_EUSAGE);
    ck_assert_msg(strstr(what, "recipe.yaml:5") && strstr(what, "and there are 3"), "%s", what);
}
END_TEST

/* What "auto" comes to: passes, of which %s is `, correct: ...` or nothing. */
static const struct {
    const char *passes, *word;
} autos[] = {
    {"  - gptq: {bits: 3, group: 32%s}\n", ", correct: gptaq"},
    {"  - rtn: {bits: 4, group: 32, targets: \"*.down_proj\"}\n"
     "  - gptq: {bits: 3, group: 32, skip: \"*.down_proj\"%s}\n",
     ", correct: gptaq"},
    {AWQ_OF_NORMS "  - gptq: {bits: 3, group: 32%s}\n", ", correct: none"},
    {"  - rotate: {}\n  - gptq: {bits: 3, group: 32%s}\n", ", correct: none"},
    {"  - wanda: {sparsity: 0.5}\n  - gptq: {bits: 4, group: 32%s}\n", ", correct: none"},
    {"  - gptq: {bits: 3, group: 32, tune: true%s}\n", ", correct: none"},
    {EXL3("%s"), ", correct: gptaq"},
    {"  - rotate: {}\n" EXL3("%s"), ", correct: none"},
};
enum { AUTOS = sizeof autos / sizeof *autos };

START_TEST(auto_corrects_where_nothing_else_changes_the_model)
{
    for (size_t said = 0; said < 2; said++) {
        char passes[512];
        (void)snprintf(passes, sizeof passes, autos[_i].passes, said ? autos[_i].word : "");
        recipe(passes);
        ck_assert_int_eq(job_run(&place, (job_opts){.output = said ? "said" : "auto"}, NULL),
                         PARE_OK);
    }
    job_check_same_weights(&place, "auto", "said");
}
END_TEST

int main(void)
{
    Suite *const s = suite_create("correct_job");
    TCase *const t = tcase_create("correct_job");
    tcase_set_timeout(t, 120);
    tcase_add_checked_fixture(t, setup, teardown);
    tcase_add_loop_test(t, corrections_change_what_comes_out_and_survive_threads_and_breaks, 0,
                        PAIRS);
    tcase_add_test(t, tune_refuses_too_few_of_all_windows);
    tcase_add_loop_test(t, auto_corrects_where_nothing_else_changes_the_model, 0, AUTOS);
    tcase_add_test(t, the_first_site_has_nothing_to_make_up_for);
    tcase_add_loop_test(t, steps_that_share_a_site_do_as_one, 0, APART);
    tcase_add_test(t, what_cannot_be_is_refused_with_its_place);
    suite_add_tcase(s, t);
    return unit_main(s);
}
