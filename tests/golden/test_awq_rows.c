/* AWQ on the small English model at 3 bits, by recipes: better than rounding to nearest, and before
 * GPTQ, which it helps, better than alone. KL divergence from the float model on the first windows
 * of the demo's evaluation text. Figures next to those of the original program: golden.reference.
 * Too slow for a sanitizer. */
#include "tests/golden/demo.h"

/* KL after the passes. */
static double divergence(pare_ctx *cx, const job_place *p, const char *passes)
{
    char recipe[2048];
    (void)snprintf(recipe, sizeof recipe,
                   "pare: 1\nmodel: " HEDGE "\n"
                   "calibration: {text: [" DEMO "/calibration.txt], samples: %d, window: 256, "
                   "token_weights: even}\n"
                   "passes:\n  - %s\n",
                   SAMPLES, passes);
    golden_compress(cx, p, recipe);
    const pare_eval_result r = judge(cx, job_path(p, "out"));
    printf("%-78s ppl %8.4f  KL %.6f\n", passes, r.ppl, r.kl_mean);
    return r.kl_mean;
}

#define GRID "{bits: 3, group: 64, symmetric: false}"
#define PLAIN                                                                                      \
    "{bits: 3, group: 64, symmetric: false, act_order: false, refine: 0, correct: none, clip: "    \
    "none}"

START_TEST(scales_help_rounding_and_gptq_at_three_bits)
{
    const tiny_model m = tiny_model_default();
    const job_place p = job_make(&m);
    pare_ctx cx;
    pare_ctx_init(&cx);
    ck_assert_int_eq(pare_pool_new(&cx, 0, &cx.pool), PARE_OK);
    const double rtn = divergence(&cx, &p, "rtn: " GRID);
    const double awq = divergence(&cx, &p, "awq: {}\n  - rtn: " GRID);
    const double gptq = divergence(&cx, &p, "gptq: " PLAIN);
    const double both = divergence(&cx, &p, "awq: {clip: false}\n  - gptq: " PLAIN);
    pare_pool_free(&cx, cx.pool);
    job_remove_directory(p.root);
    ck_assert_double_lt(awq, 0.92 * rtn);
    ck_assert_double_lt(both, 0.75 * awq);
    ck_assert_double_lt(both, gptq);
}
END_TEST

int main(void)
{
#ifdef UNIT_SANITIZED
    return unit_skip("it takes minutes with sanitizers; PARE_GOLDEN names a build without");
#endif
    Suite *const s = suite_create("awq");
    TCase *const tc = tcase_create("hedge");
    tcase_set_timeout(tc, 900);
    tcase_add_test(tc, scales_help_rounding_and_gptq_at_three_bits);
    suite_add_tcase(s, tc);
    return unit_main(s);
}
