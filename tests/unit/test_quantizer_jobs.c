/* Every quantizing pass from the recipe to a checked artifact. */
#include "compress/artifact/verify.h"
#include "compress/plan/plan.h"
#include "tests/unit/job_tiny.h"

static const struct {
    const char *pass, *note, *report; /* in layers.csv and README.md */
} jobs[] = {
    {"nf4: {group: 32}", "nf4 g32", NULL},
    {"fp8: {}", "fp8_e4m3", NULL},
    {"mxfp4: {}", "mxfp4 g32", NULL},
    {"ternary: {group: tensor}", "ternary", "Note on ternary: plain post-training quantization"},
    {"squeezellm: {bits: 3}", "codebook", NULL},
    {"billm: {}", "binary", "Note on billm: plain post-training quantization"},
    {"llm_int8: {columns: 0.05, threshold: 0}", "3 columns in F16", NULL},
    {"llm_int8: {columns: 0.05, threshold: 1e4}", "0 columns in F16", NULL},
    {"atom: {outliers: 8, group: 32}", "8 columns int8", NULL},
    {"gptq: {grid: nf4, bits: 4, group: 64}", "nf4 g64", NULL},
    {"gptq: {grid: codebook, bits: 4, group: row, true_sequential: true}", "codebook", NULL},
};
enum { JOBS = sizeof jobs / sizeof *jobs };

static void say(void *self, const char *what)
{
    (void)self;
    (void)fprintf(stderr, "%s\n", what);
}

static void check_artifact(const char *output)
{
    pare_ctx cx;
    pare_verify_result r;
    pare_ctx_init(&cx);
    ck_assert_int_eq(pare_verify(&cx, job_path(&place, output), say, NULL, &r), PARE_OK);
    ck_assert_uint_eq(r.findings, 0);
    ck_assert_uint_eq(cx.live_bytes, 0);
}

/* The plan of the recipe, made without running it, says what the packed files take; at most, where
 * calibration decides which columns are kept apart. */
static void check_size(const char *output)
{
    pare_ctx cx;
    pare_arena a;
    pare_plan plan;
    struct stat files, list;
    char recipe[512], elsewhere[512];
    pare_ctx_init(&cx);
    ck_assert_int_eq(pare_arena_init(&cx, &a, 0), PARE_OK);
    (void)snprintf(recipe, sizeof recipe, "%s", job_path(&place, "recipe.yaml"));
    (void)snprintf(elsewhere, sizeof elsewhere, "%s", job_path(&place, "elsewhere"));
    const pare_job job = {.recipe = recipe, .output = elsewhere};
    ck_assert_int_eq(pare_plan_make(&cx, &a, &job, &plan), PARE_OK);
    char path[100];
    (void)snprintf(path, sizeof path, "%s/%s", output, "packed-00001-of-00001.safetensors");
    ck_assert_int_eq(stat(job_path(&place, path), &files), 0);
    (void)snprintf(path, sizeof path, "%s/packed.index.json", output);
    ck_assert_int_eq(stat(job_path(&place, path), &list), 0);
    const uint64_t bytes = (uint64_t)(files.st_size + list.st_size);
    ck_assert(plan.ratios ? bytes <= plan.settled.packed_bytes
                          : bytes == plan.settled.packed_bytes);
    pare_plan_close(&plan);
    pare_arena_release(&a);
    ck_assert_uint_eq(cx.live_bytes, 0);
}

static void check_text(const char *file, const char *present)
{
    pare_ctx cx;
    pare_arena a;
    char *text;
    size_t len;
    pare_ctx_init(&cx);
    ck_assert_int_eq(pare_arena_init(&cx, &a, 0), PARE_OK);
    ck_assert_int_eq(pare_file_read(&cx, &a, job_path(&place, file), 1 << 24, &text, &len),
                     PARE_OK);
    ck_assert_msg(strstr(text, present) != NULL, "%s lacks \"%s\":\n%s", file, present, text);
    pare_arena_release(&a);
}

START_TEST(recipe_gives_a_good_artifact_of_the_planned_size)
{
    char recipe[1024], first[PARE_SHA256_HEX], other[PARE_SHA256_HEX];
    (void)snprintf(recipe, sizeof recipe,
                   "pare: 1\nmodel: model\n"
                   "calibration: {tokens: tokens.i32, samples: 12, window: 64}\n"
                   "passes:\n  - %s\n"
                   "evaluate:\n  - perplexity: {tokens: tokens.i32, window: 64}\n",
                   jobs[_i].pass);
    job_recipe(&place, recipe);
    ck_assert_int_eq(job_run(&place, (job_opts){.output = "one"}, NULL), PARE_OK);
    ck_assert_int_eq(job_run(&place, (job_opts){.output = "three", .threads = 3}, NULL), PARE_OK);
    job_hash(&place, "one", first);
    job_hash(&place, "three", other);
    ck_assert_str_eq(first, other);
    check_artifact("one");
    check_size("one");
    check_text("one/layers.csv", jobs[_i].note);
    if (jobs[_i].report) {
        check_text("one/README.md", jobs[_i].report);
        check_text("one/report.html", jobs[_i].report);
    }
}
END_TEST

START_TEST(grid_without_its_parameters_is_refused_with_its_place)
{
    char what[1024];
    job_recipe(&place, "pare: 1\nmodel: model\n"
                       "calibration: {tokens: tokens.i32, samples: 12, window: 64}\n"
                       "passes:\n  - gptq: {grid: fp8}\n");
    ck_assert_int_ne(job_run(&place, (job_opts){.output = "one"}, what), PARE_OK);
    ck_assert_ptr_nonnull(strstr(what, "recipe.yaml:5:"));
    ck_assert_ptr_nonnull(strstr(what, "4 bits"));
}
END_TEST

START_TEST(clipping_of_a_grid_that_is_not_uniform_is_refused_with_its_place)
{
    static const char *const pass[] = {"gptq: {grid: nf4, clip: mse}",
                                       "gptq: {grid: nf4, clip: weighted}",
                                       "rtn: {grid: q4_k, clip: mse}"};
    char what[1024], text[512];
    (void)snprintf(text, sizeof text,
                   "pare: 1\nmodel: model\n"
                   "calibration: {tokens: tokens.i32, samples: 12, window: 64}\npasses:\n  - %s\n",
                   pass[_i]);
    job_recipe(&place, text);
    ck_assert_int_eq(job_run(&place, (job_opts){.output = "one"}, what), PARE_EUSAGE);
    ck_assert_ptr_nonnull(strstr(what, "recipe.yaml:5:"));
    ck_assert_msg(strstr(what, _i < 2 ? "is for grid: uniform, mxfp4, nvfp4, not for grid: "
                                      : "clip: mse goes with the uniform grid only; q4_k takes "),
                  "%s", what);
}
END_TEST

/* Its default, too: nobody is to think that the inputs of NVFP4 are in 8 bits. */
START_TEST(rounding_of_inputs_goes_with_the_uniform_grid)
{
    char what[1024];
    job_recipe(&place, "pare: 1\nmodel: model\n"
                       "calibration: {tokens: tokens.i32, samples: 12, window: 64}\n"
                       "passes:\n  - gptq: {grid: nvfp4, activations: int8}\n");
    ck_assert_int_eq(job_run(&place, (job_opts){.output = "one"}, what), PARE_EUSAGE);
    ck_assert_msg(strstr(what, "gptq: activations int8 is for grid: uniform, not for grid: nvfp4"),
                  "%s", what);
}
END_TEST

START_TEST(columns_of_inputs_that_a_transform_changes_are_not_chosen)
{
    char what[1024];
    job_recipe(&place, "pare: 1\nmodel: model\n"
                       "calibration: {tokens: tokens.i32, samples: 12, window: 64}\n"
                       "passes:\n  - smoothquant\n  - llm_int8\n");
    ck_assert_int_eq(job_run(&place, (job_opts){.output = "one"}, what), PARE_EUSAGE);
    ck_assert_ptr_nonnull(strstr(what, "recipe.yaml:6:"));
    ck_assert_ptr_nonnull(strstr(what, "llm_int8: smoothquant in front changes the inputs of "));
}
END_TEST

int main(void)
{
    Suite *const s = suite_create("quantizer_jobs");
    TCase *const t = tcase_create("quantizer_jobs");
    tcase_add_checked_fixture(t, setup, teardown);
    tcase_set_timeout(t, 120);
    tcase_add_loop_test(t, recipe_gives_a_good_artifact_of_the_planned_size, 0, JOBS);
    tcase_add_test(t, rounding_of_inputs_goes_with_the_uniform_grid);
    tcase_add_test(t, columns_of_inputs_that_a_transform_changes_are_not_chosen);
    tcase_add_test(t, grid_without_its_parameters_is_refused_with_its_place);
    tcase_add_loop_test(t, clipping_of_a_grid_that_is_not_uniform_is_refused_with_its_place, 0, 3);
    suite_add_tcase(s, t);
    return unit_main(s);
}
