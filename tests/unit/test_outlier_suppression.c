#include <math.h>
#include <string.h>

#include "quant/awq.h"
#include "quant/gptq.h"
#include "quant/outlier_suppression.h"
#include "quant/rtn.h"
#include "runtime/linalg.h"
#include "runtime/random.h"
#include "runtime/threads.h"
#include "tests/unit/unit.h"

enum { K = 160, N = 33, TOKENS = 512 };

static pare_ctx cx;
static pare_arena arena;
static float x[TOKENS * K], h[K * K], low[K], high[K], absmax[K], w[N * K];
static const pare_grid grid = {.bits = 8, .symmetric = true, .f16_scales = true};
static pare_suppress_linear linear[2];
static pare_suppress_site site;

/* absmax and H of (x - z) / s, in double. */
static void gather(const float *z, const float *s)
{
    static double y[TOKENS * K];
    for (size_t t = 0; t < TOKENS; t++)
        for (size_t j = 0; j < K; j++)
            y[t * K + j] = ((double)x[t * K + j] - (z ? (double)z[j] : 0)) / (s ? (double)s[j] : 1);
    for (size_t i = 0; i < K; i++) {
        double most = 0;
        for (size_t t = 0; t < TOKENS; t++)
            most = fmax(most, fabs(y[t * K + i]));
        absmax[i] = (float)most;
        for (size_t j = 0; j < K; j++) {
            double sum = 0;
            for (size_t t = 0; t < TOKENS; t++)
                sum += y[t * K + i] * y[t * K + j];
            h[i * K + j] = j <= i ? (float)sum : NAN; /* the upper half is nobody's */
        }
    }
}

/* Inputs of which a few channels are wide and some lie off centre. */
static void setup(void)
{
    pare_ctx_init(&cx);
    ck_assert_int_eq(pare_arena_init(&cx, &arena, 0), PARE_OK);
    for (size_t j = 0; j < K; j++) {
        low[j] = INFINITY;
        high[j] = -INFINITY;
    }
    for (size_t t = 0; t < TOKENS; t++)
        for (size_t j = 0; j < K; j++) {
            const double v = pare_random_normal(1, t, j) * (j % 40 == 3 ? 30 : 1);
            x[t * K + j] = (float)(v + (j % 32 == 5 ? 40 : 0));
            low[j] = fminf(low[j], x[t * K + j]);
            high[j] = fmaxf(high[j], x[t * K + j]);
        }
    for (size_t i = 0; i < N * K; i++)
        w[i] = (float)pare_random_normal(3, 1, i) * 0.05F;
    gather(NULL, NULL);
    linear[0] = (pare_suppress_linear){
        .w = w, .n = 20, .grid = &grid, .activation = {PARE_ACTIVATION_TENSOR, 8, 0}};
    linear[1] = (pare_suppress_linear){
        .w = w + 20 * K, .n = N - 20, .grid = &grid, .activation = {PARE_ACTIVATION_TENSOR, 8, 0}};
    site = (pare_suppress_site){.k = K,
                                .tokens = TOKENS,
                                .h = h,
                                .absmax = absmax,
                                .channels = K,
                                .linear = linear,
                                .linears = 2};
}

static void teardown(void)
{
    pare_arena_release(&arena);
    pare_pool_free(&cx, cx.pool);
    ck_assert_uint_eq(cx.live_bytes, 0);
}

START_TEST(shifted_channels_lie_around_zero)
{
    float z[K];
    ck_assert_int_eq(pare_suppress_shift(&cx, low, high, K, NULL, K, z), PARE_OK);
    for (size_t j = 0; j < K; j++)
        ck_assert_float_eq_tol(high[j] - z[j], z[j] - low[j], 1e-4F);
    ck_assert_float_gt(z[5], 30);
    gather(z, NULL);
    for (size_t j = 0; j < K; j++)
        ck_assert_float_eq_tol(absmax[j], (high[j] - low[j]) / 2, 1e-4F);
    low[9] = NAN;
    ck_assert_int_eq(pare_suppress_shift(&cx, low, high, K, NULL, K, z), PARE_ENUMERIC);
    ck_assert_ptr_nonnull(strstr(cx.what, "input channel 9 lies between nan and"));
}
END_TEST

START_TEST(columns_of_a_channel_share_shift_and_scale)
{
    uint32_t channel[K];
    float z[4], s[4];
    pare_suppress_found f;
    for (uint32_t j = 0; j < K; j++)
        channel[j] = j / 8 % 4;
    ck_assert_int_eq(pare_suppress_shift(&cx, low, high, K, channel, 4, z), PARE_OK);
    site.channel = channel;
    site.channels = 4;
    ck_assert_int_eq(pare_suppress_scale(&cx, &arena, 16, &site, s, &f), PARE_OK);
    for (size_t c = 0; c < 4; c++) {
        float lo = INFINITY, hi = -INFINITY, most = 0;
        for (size_t j = 0; j < K; j++) {
            lo = channel[j] == c ? fminf(lo, low[j]) : lo;
            hi = channel[j] == c ? fmaxf(hi, high[j]) : hi;
            most = channel[j] == c ? fmaxf(most, absmax[j]) : most;
        }
        ck_assert_float_eq(z[c], (lo + hi) / 2);
        ck_assert_double_eq_tol((double)s[c], fmax(1, (double)most / f.threshold), 1e-6);
    }
}
END_TEST

/* W x + b = (W s) ((x - z) / s) + (b + W z) */
START_TEST(shift_and_scale_leave_the_float_outputs_alone)
{
    float z[K], s[K];
    pare_suppress_found f;
    ck_assert_int_eq(pare_suppress_shift(&cx, low, high, K, NULL, K, z), PARE_OK);
    gather(z, NULL);
    ck_assert_int_eq(pare_suppress_scale(&cx, &arena, 32, &site, s, &f), PARE_OK);
    ck_assert_double_lt(f.error, 0.5 * f.unscaled);
    for (size_t i = 0; i < N; i++)
        for (size_t t = 0; t < TOKENS; t += 37) {
            double before = 0, after = 0, size = 0;
            for (size_t j = 0; j < K; j++) {
                const double a = (double)w[i * K + j];
                before += a * (double)x[t * K + j];
                after += (double)(w[i * K + j] * s[j]) * (double)((x[t * K + j] - z[j]) / s[j]) +
                         a * (double)z[j];
                size += fabs(a * (double)x[t * K + j]);
            }
            ck_assert_double_eq_tol(before, after, 1e-5 * size);
        }
}
END_TEST

static double error_by_hand(const float *s, bool group)
{
    const size_t width = group ? 32 : K; /* 160 inputs: 32 divides, 64 to 128 do not */
    double sum = 0;
    for (size_t i = 0; i < N; i++) {
        double most = 0, least = 0, e[K], q[K];
        for (size_t j = 0; j < K; j++) {
            most = fmax(most, (double)(w[i * K + j] * s[j]));
            least = fmin(least, (double)(w[i * K + j] * s[j]));
        }
        const double step =
            most > -least ? -fmax(most / 128, -least / 127) : fmax(most / 127, -least / 128);
        uint8_t z;
        float scale, row[K];
        for (size_t j = 0; j < K; j++)
            row[j] = w[i * K + j] * s[j];
        ck_assert_int_eq(pare_grid_fit(&cx.kernels, &grid, row, K, &scale, &z), PARE_GRID_OK);
        ck_assert_double_eq_tol((double)scale / step, 1, 1e-3); /* what F16 leaves of it */
        for (size_t j = 0; j < K; j++) {
            q[j] = fmin(127, fmax(-128, rint((double)(row[j] / scale)))) * (double)scale;
            e[j] = q[j] / (double)s[j] - (double)w[i * K + j];
        }
        for (size_t j = 0; j < K; j++)
            for (size_t l = 0; l < K; l++)
                sum += e[j] * e[l] * (double)(l <= j ? h[j * K + l] : h[l * K + j]);
        for (size_t j = 0; j < K; j++) {
            double d = 0;
            for (size_t l = j / width * width; l < K && l < (j / width + 1) * width; l++)
                d = fmax(d, (double)absmax[l] / (double)s[l] / 127);
            sum += q[j] * q[j] * d * d * TOKENS / 12;
        }
    }
    return sum;
}

START_TEST(search_finds_what_trying_every_threshold_finds)
{
    const bool group = _i == 1;
    float s[K];
    double least = INFINITY, threshold = 0, smallest = INFINITY, most = 0;
    pare_suppress_found f;
    for (size_t l = 0; l < 2; l++)
        linear[l].activation.mode = group ? PARE_ACTIVATION_GROUP : PARE_ACTIVATION_TOKEN;
    for (size_t j = 0; j < K; j++) {
        smallest = fmin(smallest, (double)absmax[j]);
        most = fmax(most, (double)absmax[j]);
    }
    for (int i = 0; i <= 8; i++) {
        const double t = most * pow(smallest / most, i / 8.0);
        for (size_t j = 0; j < K; j++)
            s[j] = (float)fmax(1, (double)absmax[j] / t);
        const double error = error_by_hand(s, group);
        double own;
        ck_assert_int_eq(pare_suppress_error(&cx, &arena, &site, s, &own), PARE_OK);
        ck_assert_double_eq_tol(own / error, 1, 1e-4);
        if (error < least) {
            least = error;
            threshold = t;
        }
    }
    ck_assert_int_eq(pare_suppress_scale(&cx, &arena, 8, &site, s, &f), PARE_OK);
    ck_assert_double_eq_tol(f.threshold / threshold, 1, 1e-6);
    ck_assert_double_eq_tol(f.error / least, 1, 1e-4);
    ck_assert_double_lt(threshold, most);
    for (size_t j = 0; j < K; j++)
        ck_assert_double_eq_tol((double)s[j], fmax(1, (double)absmax[j] / threshold), 1e-5);
}
END_TEST

/* The expectation against rounding the inputs for real, with one step for all of them. */
START_TEST(expected_error_is_that_of_rounding_the_inputs)
{
    static float q[N * K];
    double most = 0, sum = 0, expected;
    for (size_t j = 0; j < K; j++)
        most = fmax(most, (double)absmax[j]);
    ck_assert_int_eq(pare_awq_round(&cx, &arena, &grid, w, NULL, N, K, q), PARE_OK);
    for (size_t t = 0; t < TOKENS; t++)
        for (size_t i = 0; i < N; i++) {
            double y = 0;
            for (size_t j = 0; j < K; j++) {
                const double v = (double)x[t * K + j], step = most / 127;
                y += (double)q[i * K + j] * rint(v / step) * step - (double)w[i * K + j] * v;
            }
            sum += y * y;
        }
    ck_assert_int_eq(pare_suppress_error(&cx, &arena, &site, NULL, &expected), PARE_OK);
    ck_assert_double_eq_tol(expected / sum, 1, 0.05);
}
END_TEST

START_TEST(with_float_inputs_the_error_is_that_of_round_to_nearest)
{
    pare_codes codes;
    static float q[N * K];
    double error;
    for (size_t l = 0; l < 2; l++)
        linear[l].activation.mode = PARE_ACTIVATION_FLOAT;
    ck_assert_int_eq(pare_codes_take(&arena, &grid, N, K, &codes), PARE_OK);
    ck_assert_int_eq(pare_rtn_quantize(&cx, &grid, w, NULL, N, K, &codes), PARE_OK);
    pare_codes_values(&grid, &codes, q);
    ck_assert_int_eq(pare_suppress_error(&cx, &arena, &site, NULL, &error), PARE_OK);
    ck_assert_double_eq_tol(error / pare_gptq_error(&cx, w, q, h, N, K), 1, 1e-6);
}
END_TEST

START_TEST(equal_ranges_are_left_alone)
{
    float s[K];
    pare_suppress_found f;
    for (size_t j = 0; j < K; j++)
        absmax[j] = 3;
    ck_assert_int_eq(pare_suppress_scale(&cx, &arena, 8, &site, s, &f), PARE_OK);
    for (size_t j = 0; j < K; j++)
        ck_assert_float_eq(s[j], 1);
    ck_assert_double_eq(f.error, f.unscaled);
}
END_TEST

START_TEST(what_cannot_be_searched_is_refused)
{
    float s[K];
    pare_suppress_found f;
    ck_assert_int_eq(pare_suppress_scale(&cx, &arena, 0, &site, s, &f), PARE_EINVAL);
    pare_ctx_clear(&cx);
    absmax[3] = INFINITY;
    ck_assert_int_eq(pare_suppress_scale(&cx, &arena, 8, &site, s, &f), PARE_ENUMERIC);
    ck_assert_ptr_nonnull(strstr(cx.what, "input channel 3 is inf"));
    pare_ctx_clear(&cx);
    absmax[3] = 1;
    w[2] = NAN;
    ck_assert_int_eq(pare_suppress_scale(&cx, &arena, 8, &site, s, &f), PARE_ENUMERIC);
    ck_assert_ptr_nonnull(strstr(cx.what, "row 0, group 0: weight nan is not finite"));
    pare_ctx_clear(&cx);
    w[2] = 0;
    linear[0].grid = linear[1].grid = NULL;
    ck_assert_int_eq(pare_suppress_scale(&cx, &arena, 8, &site, s, &f), PARE_EINVAL);
    ck_assert_ptr_nonnull(strstr(cx.what, "no linear that is quantized"));
}
END_TEST

START_TEST(threads_do_not_change_a_byte)
{
    float s[2][K];
    pare_suppress_found f[2];
    for (size_t i = 0; i < 2; i++) {
        ck_assert_int_eq(pare_suppress_scale(&cx, &arena, 8, &site, s[i], &f[i]), PARE_OK);
        if (i == 0)
            ck_assert_int_eq(pare_pool_new(&cx, 5, &cx.pool), PARE_OK);
    }
    ck_assert_mem_eq(s[0], s[1], sizeof s[0]);
    ck_assert_mem_eq(&f[0], &f[1], sizeof f[0]);
}
END_TEST

START_TEST(every_refused_allocation_is_reported)
{
    for (long n = 0;; n++) {
        unit_failing f = {.left = n};
        pare_ctx c;
        pare_arena a;
        pare_ctx_init(&c);
        c.alloc = (pare_alloc){.self = &f, .resize = unit_failing_resize};
        ck_assert_int_eq(pare_arena_init(&c, &a, 0), PARE_OK);
        float s[K];
        pare_suppress_found found;
        const pare_status st = pare_suppress_scale(&c, &a, 2, &site, s, &found);
        pare_arena_release(&a);
        ck_assert_int_eq(f.live, 0);
        if (st == PARE_OK)
            break;
        ck_assert_int_eq(st, PARE_ENOMEM);
        ck_assert_int_lt(n, 64);
    }
}
END_TEST

int main(void)
{
    Suite *const s = suite_create("outlier_suppression");
    TCase *const tc = tcase_create("outlier_suppression");
    tcase_set_timeout(tc, 120);
    tcase_add_checked_fixture(tc, setup, teardown);
    tcase_add_test(tc, shifted_channels_lie_around_zero);
    tcase_add_test(tc, columns_of_a_channel_share_shift_and_scale);
    tcase_add_test(tc, shift_and_scale_leave_the_float_outputs_alone);
    tcase_add_loop_test(tc, search_finds_what_trying_every_threshold_finds, 0, 2);
    tcase_add_test(tc, expected_error_is_that_of_rounding_the_inputs);
    tcase_add_test(tc, with_float_inputs_the_error_is_that_of_round_to_nearest);
    tcase_add_test(tc, equal_ranges_are_left_alone);
    tcase_add_test(tc, what_cannot_be_searched_is_refused);
    tcase_add_test(tc, threads_do_not_change_a_byte);
    tcase_add_test(tc, every_refused_allocation_is_reported);
    suite_add_tcase(s, tc);
    return unit_main(s);
}
