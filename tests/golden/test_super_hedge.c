/* K-quants of the small English model, with the plain rule of the engine (rtn, byte for byte what
 * its own program writes) and with scales and codes by the Hessian (gptq), as GGUF files: same
 * types and bytes per tensor, Q8_0 where 256 does not divide a row. KL divergence from the float
 * model on the first windows of the demo's evaluation text. Too slow for a sanitizer. */
#include <inttypes.h>

#include "compress/export/export.h"
#include "tests/golden/demo.h"

/* Every linear goes over code for code; the file has `bytes`. */
static void export_file(pare_ctx *cx, const char *artifact, const char *format, const char *to,
                        uint64_t *bytes)
{
    pare_arena a;
    pare_export_result r;
    ck_assert_int_eq(pare_arena_init(cx, &a, 0), PARE_OK);
    const pare_export_job job = {
        .artifact = artifact, .output = to, .target = pare_export_find(format), .restart = true};
    ck_assert_ptr_nonnull(job.target);
    ck_assert_msg(pare_export_run(cx, &a, &job, &r) == PARE_OK, "%s", cx->what);
    ck_assert_uint_eq(r.count[PARE_EXPORT_LOSSLESS], 42);
    ck_assert_uint_eq(r.count[PARE_EXPORT_REQUANTIZED] + r.count[PARE_EXPORT_ROUNDED], 0);
    ck_assert(r.error == 0);
    *bytes = r.bytes;
    pare_arena_release(&a);
}

/* KL of the GGUF file, which is that of the artifact with floats as inputs. */
static double divergence(pare_ctx *cx, const job_place *p, const char *pass, const char *grid,
                         uint64_t *bytes)
{
    char recipe[2048], format[16], file[256];
    (void)snprintf(recipe, sizeof recipe,
                   "pare: 1\nmodel: " HEDGE "\n"
                   "calibration: {text: [" DEMO "/calibration.txt], samples: %d, window: 256}\n"
                   "passes:\n"
                   "  - %s: {grid: %s, skip: [\"*.down_proj\"]}\n"
                   "  - %s: {bits: 8, group: 32, targets: [\"*.down_proj\"]}\n",
                   SAMPLES, pass, grid, pass);
    golden_compress(cx, p, recipe);
    const char *const artifact = job_path(p, "out");
    (void)snprintf(format, sizeof format, "gguf:%s", grid);
    (void)snprintf(file, sizeof file, "%s.gguf", artifact);
    const pare_eval_result packed = judge(cx, artifact);
    export_file(cx, artifact, format, file, bytes);
    const pare_eval_result r = judge(cx, file);
    printf("%-5s %s  ppl %8.4f  KL %.6f  %9" PRIu64 " bytes\n", pass, grid, r.ppl, r.kl_mean,
           *bytes);
    ck_assert_double_eq(packed.ppl, r.ppl);
    ck_assert_double_eq(packed.kl_mean, r.kl_mean);
    return r.kl_mean;
}

START_TEST(the_hessian_helps_where_the_engine_knows_only_the_weights)
{
    static const char *const grids[] = {"q4_k", "q6_k"};
    const tiny_model m = tiny_model_default();
    const job_place p = job_make(&m);
    uint64_t bytes[2];
    pare_ctx cx;
    pare_ctx_init(&cx);
    ck_assert_int_eq(pare_pool_new(&cx, 0, &cx.pool), PARE_OK);
    const double plain = divergence(&cx, &p, "rtn", grids[_i], &bytes[0]);
    const double hessian = divergence(&cx, &p, "gptq", grids[_i], &bytes[1]);
    pare_pool_free(&cx, cx.pool);
    job_remove_directory(p.root);
    ck_assert_uint_eq(bytes[0], bytes[1]);
    ck_assert_double_lt(hessian, 0.6 * plain);
}
END_TEST

int main(void)
{
#ifdef UNIT_SANITIZED
    return unit_skip("it takes minutes with sanitizers; PARE_GOLDEN names a build without");
#endif
    Suite *const s = suite_create("super");
    TCase *const tc = tcase_create("hedge");
    tcase_set_timeout(tc, 900);
    tcase_add_loop_test(tc, the_hessian_helps_where_the_engine_knows_only_the_weights, 0, 2);
    suite_add_tcase(s, tc);
    return unit_main(s);
}
