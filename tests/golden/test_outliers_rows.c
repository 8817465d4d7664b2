/* Methods against outlier channels, on the small English model: 5 channels of every normed input
 * are 50 times larger and the float model computes what it did. */
#include "tests/data/outlier_model.h"
#include "tests/unit/job.h"

#ifdef UNIT_SANITIZED
enum { TEXT_BYTES = 1500, CALIBRATION_BYTES = 3000, SAMPLES = 3 };
static const bool enough_for_perplexity = false;
#else
enum { TEXT_BYTES = 6000, CALIBRATION_BYTES = 15000, SAMPLES = 16 };
static const bool enough_for_perplexity = true;
#endif
enum { WINDOW = 128 };

#define DEMO PARE_SOURCE_DIR "/recipes/demo"

/* Not an unpacked job_place: the model is a real one. */
static char root[] = "outliers.XXXXXX";

static void cut(pare_arena *a, const char *from, const char *to, size_t bytes)
{
    char *text;
    size_t len;
    ck_assert_int_eq(pare_file_read(a->cx, a, from, 1 << 24, &text, &len), PARE_OK);
    ck_assert_uint_ge(len, bytes);
    ck_assert_int_eq(pare_file_write(a->cx, pare_path_join(a, root, to), text, bytes), PARE_OK);
}

static void setup(void)
{
    pare_ctx cx;
    pare_arena a;
    pare_ctx_init(&cx);
    ck_assert_int_eq(pare_arena_init(&cx, &a, 0), PARE_OK);
    ck_assert_ptr_nonnull(mkdtemp(root));
    const char *const injected = pare_path_join(&a, root, "injected"), *const plain =
                                                                           pare_path_join(&a, root,
                                                                                          "plain");
    ck_assert_int_eq(mkdir(injected, 0777), 0);
    ck_assert_int_eq(mkdir(plain, 0777), 0);
    ck_assert_msg(outlier_model(&cx, &a, DEMO "/hedge", injected, 5, 50.0f) == PARE_OK, "%s",
                  cx.what);
    ck_assert_msg(outlier_model(&cx, &a, DEMO "/hedge", plain, 0, 1.0f) == PARE_OK, "%s", cx.what);
    cut(&a, DEMO "/evaluation.txt", "text.txt", TEXT_BYTES);
    cut(&a, DEMO "/calibration.txt", "calibration.txt", CALIBRATION_BYTES);
    pare_arena_release(&a);
}

static void teardown(void)
{
    job_remove_directory(root);
}

/* What the passes make of a model. */
static pare_report_eval judge(const char *model, const char *passes)
{
    pare_ctx cx;
    pare_arena a;
    pare_compress_result result;
    char recipe[2048];
    pare_ctx_init(&cx);
    ck_assert_int_eq(pare_arena_init(&cx, &a, 0), PARE_OK);
    ck_assert_int_eq(pare_pool_new(&cx, 2, &cx.pool), PARE_OK);
    const int len = snprintf(recipe, sizeof recipe,
                             "pare: 1\nmodel: %s\n"
                             "calibration: {text: calibration.txt, samples: %d, window: %d}\n"
                             "passes: %s\nevaluate: [{kl: {text: text.txt, window: %d}}]\n",
                             model, SAMPLES, WINDOW, passes, WINDOW);
    const pare_job job = {.recipe = pare_path_join(&a, root, "recipe.yaml"),
                          .output = pare_path_join(&a, root, "out"),
                          .restart = true};
    ck_assert_int_eq(pare_file_write(&cx, job.recipe, recipe, (size_t)len), PARE_OK);
    ck_assert_msg(pare_compress(&cx, &a, &job, NULL, &result) == PARE_OK, "%s: %s", passes,
                  cx.what);
    const pare_report_eval e = result.report.evaluation[0];
    printf("%-9s %-90s perplexity %8.4f -> %8.4f (x %.4f)  KL %.6f\n", model, passes, e.before.ppl,
           e.after.ppl, e.after.ppl / e.before.ppl, e.after.kl_mean);
    (void)fflush(stdout);
    pare_arena_release(&a);
    pare_pool_free(&cx, cx.pool);
    return e;
}

#define W8    "rtn: {bits: 8, group: row}"
#define TOKEN "rtn: {bits: 8, group: row, activations: int8_token}"

typedef struct method {
    const char *passes;
    double kl;  /* at most this many times the divergence without outliers */
    double ppl; /* at most this many times the perplexity of the float model */
} method;

/* Outliers multiply the divergence of rounding to nearest by more than `broken_kl` and its
 * perplexity to more than `broken_ppl` of the float model; each method makes them harmless. */
static void compare(const char *baseline, double broken_kl, double broken_ppl,
                    const method *methods, size_t count)
{
    const pare_report_eval plain = judge("plain", baseline);
    const pare_report_eval broken = judge("injected", baseline);
    ck_assert_double_eq_tol(broken.before.ppl / plain.before.ppl, 1, 1e-3);
    ck_assert_double_gt(broken.after.kl_mean, broken_kl * plain.after.kl_mean);
    if (enough_for_perplexity)
        ck_assert_double_gt(broken.after.ppl, broken_ppl * broken.before.ppl);
    for (size_t i = 0; i < count; i++) {
        const method *const m = &methods[i];
        const pare_report_eval e = judge("injected", m->passes);
        ck_assert_msg(e.after.kl_mean < m->kl * plain.after.kl_mean,
                      "%s: KL %g, without outliers %g", m->passes, e.after.kl_mean,
                      plain.after.kl_mean);
        ck_assert_msg(!enough_for_perplexity || e.after.ppl < m->ppl * e.before.ppl,
                      "%s: perplexity %g, in floats %g", m->passes, e.after.ppl, e.before.ppl);
    }
}

#ifndef UNIT_SANITIZED
START_TEST(outliers_break_one_scale_per_token_and_methods_recover)
{
    static const method methods[] = {
        {"[smoothquant, {" TOKEN "}]", 1.25, 1.005},
        {"[{smoothquant: {alpha: 0.8}}, {" TOKEN "}]", 1.25, 1.005},
        {"[outlier_suppression, {" TOKEN "}]", 1.25, 1.005},
        {"[llm_int8]", 1.25, 1.005},
        {"[rotate, {" TOKEN "}]", 1.25, 1.005},
        {"[{awq: {clip: false}}, {" TOKEN "}]", 1.25, 1.005},
    };
    compare("[{" TOKEN "}]", 25, 1.008, methods, sizeof methods / sizeof *methods);
}
END_TEST
#endif

START_TEST(outliers_break_scales_per_group_and_methods_recover)
{
    static const method methods[] = {
        {"[rotate, {" W8 "}]", 1.5, 1.01},
        {"[{rotate: {online: true}}, {" W8 "}]", 1.0, 1.01},
        {"[awq, {" W8 "}]", 1.5, 1.01},
    };
    compare("[{" W8 "}]", 20, 1.006, methods, sizeof methods / sizeof *methods);
}
END_TEST

#define W4A4 "rtn: {bits: 4, group: 64, activations: int4}"

/* Four bits for weights and inputs: unusable with outliers, usual when the model is rotated. */
START_TEST(rotation_makes_four_bit_inputs_possible)
{
    const pare_report_eval broken = judge("injected", "[{" W4A4 "}]");
    const pare_report_eval rotated = judge("injected", "[{rotate: {online: true}}, {" W4A4 "}]");
    ck_assert_double_gt(broken.after.kl_mean, 0.5);
    ck_assert_double_lt(rotated.after.kl_mean, 0.04);
}
END_TEST

int main(void)
{
    Suite *const s = suite_create("outliers");
    TCase *const tc = tcase_create("hedge");
    tcase_add_checked_fixture(tc, setup, teardown);
    tcase_set_timeout(tc, 900);
#ifndef UNIT_SANITIZED
    tcase_add_test(tc, outliers_break_one_scale_per_token_and_methods_recover);
#endif
    tcase_add_test(tc, outliers_break_scales_per_group_and_methods_recover);
    tcase_add_test(tc, rotation_makes_four_bit_inputs_possible);
    suite_add_tcase(s, tc);
    return unit_main(s);
}
