/* OmniQuant on stories260k at 3 bits, by recipes, on the token files of the reference table: plain
 * rounding gives that table's perplexity, learned ranges and scales a much lower one. Too slow for
 * a sanitizer. */
#include <math.h>

#include "tests/golden/golden.h"

#define MODEL PARE_SHARED_DIR "/models/stories260k"
#define DATA  PARE_SHARED_DIR "/reference"
#define GRID  "{bits: 3, group: 64, symmetric: false}"

static const double rtn_of_the_table = 10.706924; /* RTN,3,64,asym */

/* Perplexity after the passes; the losses that the report's rows note fall. */
static double compress(pare_ctx *cx, const job_place *p, const char *passes)
{
    char recipe[1024], path[512], output[512];
    (void)snprintf(recipe, sizeof recipe,
                   "pare: 1\nmodel: " MODEL "\ncalibration: {tokens: " DATA
                   "/calib_tokens.i32, samples: 48, window: 256}\npasses:\n  - %s\n",
                   passes);
    job_recipe(p, recipe);
    (void)snprintf(path, sizeof path, "%s", job_path(p, "recipe.yaml"));
    (void)snprintf(output, sizeof output, "%s", job_path(p, "out"));
    pare_arena a;
    pare_compress_result result;
    const pare_job job = {.recipe = path, .output = output, .restart = true};
    ck_assert_int_eq(pare_arena_init(cx, &a, 0), PARE_OK);
    ck_assert_msg(pare_compress(cx, &a, &job, NULL, &result) == PARE_OK, "%s", cx->what);
    for (size_t i = 0; i < result.report.rows; i++) {
        const pare_linear_result *const r = &result.report.row[i];
        double before, after;
        if (r->steps < 2)
            continue;
        ck_assert_int_eq(sscanf(r->step[0].note, "loss %lf -> %lf", &before, &after), 2);
        ck_assert_msg(after < 0.8 * before, "%s: %s", r->linear.name, r->step[0].note);
    }
    pare_arena_release(&a);
    const double ppl = golden_ppl(cx, output, true);
    printf("%-78s ppl %8.4f\n", passes, ppl);
    return ppl;
}

START_TEST(learning_takes_a_quarter_off_the_perplexity_of_plain_rounding)
{
    if (!unit_shared("reference/eval_tokens.i32"))
        return;
    const tiny_model m = tiny_model_default();
    const job_place p = job_make(&m);
    pare_ctx cx;
    pare_ctx_init(&cx);
    ck_assert_int_eq(pare_pool_new(&cx, 0, &cx.pool), PARE_OK);
    const double rtn = compress(&cx, &p, "rtn: " GRID);
    const double learned = compress(&cx, &p, "omniquant: {epochs: 6}\n  - rtn: " GRID);
    pare_pool_free(&cx, cx.pool);
    job_remove_directory(p.root);
    ck_assert_double_lt(fabs(rtn / rtn_of_the_table - 1), 6e-3);
    ck_assert_double_lt(learned, rtn / 1.4);
}
END_TEST

int main(void)
{
#ifdef UNIT_SANITIZED
    return unit_skip("it takes minutes with sanitizers; PARE_GOLDEN names a build without");
#endif
    Suite *const s = suite_create("omniquant");
    TCase *const tc = tcase_create("stories");
    tcase_set_timeout(tc, 900);
    tcase_add_test(tc, learning_takes_a_quarter_off_the_perplexity_of_plain_rounding);
    suite_add_tcase(s, tc);
    return unit_main(s);
}
