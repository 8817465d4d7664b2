/* The choice of settings: what is tried, on which statistics, and what wins. */
#include "compress/passes/gptq_tune.h"
#include "compress/passes/quantize.h"
#include "tests/unit/quant_case.h"

enum { N = 3, K = 64, ORDER = PARE_QUANTIZE_PARAMS, DAMP, COUNT };

/* Calls of a stand-in for gptq, which rounds in steps of step[call]. */
static struct {
    size_t calls, sites;
    float step[6];
    double order[6], clip[6], damp[6];
    float h[6];
    bool fails[6];
} seen;

static const pare_grid eight = {.bits = 8, .symmetric = true, .f16_scales = true};

static pare_grid grid(const double *value)
{
    (void)value;
    return eight;
}

static pare_status site(pare_ctx *c, const double *value, const pare_site_stats *stats,
                        pare_arena *scratch, void **state)
{
    (void)c, (void)value, (void)scratch;
    *state = (void *)(uintptr_t)stats->h;
    seen.sites++;
    return PARE_OK;
}

static pare_status run(pare_ctx *c, const double *value, pare_pass_linear *l, pare_arena *scratch)
{
    const size_t at = seen.calls++;
    ck_assert_uint_lt(at, 6);
    ck_assert_ptr_eq(l->site_state, l->h);
    seen.order[at] = value[ORDER];
    seen.clip[at] = value[PARE_QUANTIZE_CLIP];
    seen.damp[at] = value[DAMP];
    seen.h[at] = l->h[0];
    l->result->fallback = seen.fails[at];
    PARE_TRY(pare_codes_take(scratch, &eight, l->n, l->k, l->codes));
    for (size_t i = 0; i < l->n; i++) {
        l->codes->scales[i] = seen.step[at];
        l->codes->zeros[i] = 128;
        for (size_t j = 0; j < l->k; j++) {
            l->codes->codes[i * l->k + j] =
                (uint8_t)(128 + (int)rintf(l->w[i * l->k + j] / seen.step[at]));
            l->w[i * l->k + j] = NAN; /* as a sweep destroys them */
        }
    }
    (void)c;
    return PARE_OK;
}

static const pare_gptq_tuned how = {site, run, grid, COUNT, ORDER, DAMP};

/* Settings given: order 1, clip weighted, damp 0.01. */
static void tune(pare_pass_linear *linear)
{
    static pare_site_stats stats;
    static pare_codes codes;
    static pare_linear_result result;
    double value[COUNT] = {[PARE_QUANTIZE_CLIP] = PARE_CLIP_WEIGHTED, [ORDER] = 1, [DAMP] = 0.01};
    float *const h = hessian(K), *const held = hessian(K);
    for (size_t i = 0; i < K * K; i++)
        h[i] *= 4;
    stats = (pare_site_stats){.k = K, .h = h, .held = held};
    codes = (pare_codes){0};
    result = (pare_linear_result){0};
    *linear = (pare_pass_linear){.w = weights(N, K),
                                 .n = N,
                                 .k = K,
                                 .stats = &stats,
                                 .h = h,
                                 .codes = &codes,
                                 .result = &result};
    seen.calls = seen.sites = 0;
    ck_assert_int_eq(pare_gptq_tune(&cx, &how, value, linear, &arena), PARE_OK);
    ck_assert_uint_eq(seen.calls, 6);
    ck_assert_uint_eq(seen.sites, 6);
    for (size_t i = 0; i < 6; i++) /* 3 of 4 parts in front, all in the end */
        ck_assert_float_eq_tol(seen.h[i], (i < 5 ? 3.0F : 4.0F) * held[0], 1e-5F * h[0]);
}

START_TEST(each_better_setting_is_kept)
{
    static const float step[6] = {0.064F, 0.032F, 0.016F, 0.008F, 0.004F, 0.003F};
    static const double damp[] = {0.01, 0.01, 0.01, 0.1, 0.001, 0.001};
    pare_pass_linear linear;
    memcpy(seen.step, step, sizeof step);
    memset(seen.fails, 0, sizeof seen.fails);
    tune(&linear);
    for (size_t i = 0; i < 6; i++) {
        ck_assert_double_eq(seen.order[i], i == 0);
        ck_assert_double_eq(seen.clip[i], i < 2 ? PARE_CLIP_WEIGHTED : PARE_CLIP_MSE);
        ck_assert_double_eq_tol(seen.damp[i], damp[i], 1e-12);
    }
    ck_assert_str_eq(linear.note, "act_order false, clip mse, damp 0.001; held out 0.00");
    ck_assert_float_eq_tol(linear.codes->scales[0], 0.003F, 1e-9F);
}
END_TEST

START_TEST(worse_settings_and_those_without_a_factor_are_not)
{
    static const float step[6] = {0.008F, 0.004F, 0.03F, 0.016F, 0.03F, 0.008F};
    pare_pass_linear linear;
    memcpy(seen.step, step, sizeof step);
    seen.fails[1] = true;
    tune(&linear);
    ck_assert(seen.order[5] == 1 && seen.clip[5] == PARE_CLIP_WEIGHTED);
    ck_assert_double_eq_tol(seen.damp[5], 0.01, 1e-12);
    ck_assert_str_eq(linear.note, "act_order true, clip weighted, damp 0.01; held out 1.00");
}
END_TEST

int main(void)
{
    Suite *const s = suite_create("gptq_tune");
    TCase *const t = tcase_create("gptq_tune");
    tcase_add_checked_fixture(t, quant_setup, quant_teardown);
    tcase_add_test(t, each_better_setting_is_kept);
    tcase_add_test(t, worse_settings_and_those_without_a_factor_are_not);
    suite_add_tcase(s, t);
    return unit_main(s);
}
