/* Methods against outlier channels, on the small English model: 5 channels of every normed input
 * are 50 times larger and the float model computes what it did. */
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define SLOW 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define SLOW 1
#endif
#endif

#include "tests/data/outlier_model.h"
#include "tests/unit/job.h"

#ifdef SLOW
enum { TEXT_BYTES = 1500, CALIBRATION_BYTES = 3000, SAMPLES = 3 };
#else
enum { TEXT_BYTES = 12000, CALIBRATION_BYTES = 30000, SAMPLES = 32 };
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

/* Mean KL divergence of what the passes make of a model. */
static double divergence(const char *model, const char *passes)
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
    ck_assert_msg(pare_compress(&cx, &a, &job, NULL, &result) == PARE_OK, "%s", cx.what);
    const double kl = result.report.evaluation[0].after.kl_mean;
    printf("%-10s %-70s KL %.6f\n", model, passes, kl);
    (void)fflush(stdout);
    pare_arena_release(&a);
    pare_pool_free(&cx, cx.pool);
    return kl;
}

#define W8 "rtn: {bits: 8, group: row}"

/* Against rounding to nearest of the model without outliers: with them rounding loses many times as
 * much, and each method in front of it makes the outliers harmless. */
START_TEST(outliers_break_rounding_and_methods_recover)
{
    static const struct {
        const char *passes;
        double most; /* of the divergence without outliers */
    } methods[] = {
        {"[rotate, {" W8 "}]", 1.5},
        {"[{rotate: {online: true}}, {" W8 "}]", 1.0},
        {"[awq, {" W8 "}]", 1.5},
        {"[{llm_int8: {columns: 0.03}}]", 4.0}, /* one scale for the 250 other inputs */
    };
    const double plain = divergence("plain", "[{" W8 "}]");
    const double broken = divergence("injected", "[{" W8 "}]");
    ck_assert_double_gt(broken, 20 * plain);
    for (size_t i = 0; i < sizeof methods / sizeof *methods; i++) {
        const double kl = divergence("injected", methods[i].passes);
        ck_assert_msg(kl < methods[i].most * plain, "%s: KL %g, without outliers %g",
                      methods[i].passes, kl, plain);
    }
}
END_TEST

int main(void)
{
    Suite *const s = suite_create("outliers");
    TCase *const tc = tcase_create("hedge");
    tcase_add_checked_fixture(tc, setup, teardown);
    tcase_set_timeout(tc, 600);
    tcase_add_test(tc, outliers_break_rounding_and_methods_recover);
    suite_add_tcase(s, tc);
    return unit_main(s);
}
