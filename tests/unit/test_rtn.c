#include <math.h>
#include <string.h>

#include "quant/rtn.h"
#include "runtime/random.h"
#include "runtime/threads.h"
#include "tests/unit/counted.h"
#include "tests/unit/unit.h"

enum { N = 45, K = 172 };

static pare_ctx cx;
static pare_arena arena;
static float w[N * K];

static void setup(void)
{
    pare_ctx_init(&cx);
    ck_assert_int_eq(pare_arena_init(&cx, &arena, 0), PARE_OK);
    for (size_t i = 0; i < N * K; i++)
        w[i] = (float)pare_random_normal(1, 2, i) * 0.05F;
}

static void teardown(void)
{
    pare_arena_release(&arena);
    pare_pool_free(&cx, cx.pool);
    ck_assert_uint_eq(cx.live_bytes, 0);
}

START_TEST(each_group_is_rounded_to_its_own_grid)
{
    const pare_grid g = {.bits = 4, .group = 64, .f16_scales = true};
    pare_codes out;
    ck_assert_int_eq(pare_codes_take(&arena, &g, N, K, &out), PARE_OK);
    ck_assert_int_eq(pare_rtn_quantize(&cx, &g, w, NULL, N, K, &out), PARE_OK);
    ck_assert_uint_eq(out.groups, 3);
    for (size_t i = 0; i < N; i++)
        for (size_t b = 0; b < 3; b++) {
            const size_t count = b == 2 ? K - 128 : 64;
            const float *const x = &w[i * K + b * 64];
            float s;
            uint8_t z;
            ck_assert_int_eq(pare_grid_fit(&cx.kernels, &g, x, count, &s, &z), PARE_GRID_OK);
            ck_assert_float_eq(out.scales[i * 3 + b], s);
            ck_assert_uint_eq(out.zeros[i * 3 + b], z);
            for (size_t j = 0; j < count; j++)
                ck_assert_uint_eq(out.codes[i * K + b * 64 + j], pare_grid_code(4, x[j], s, z));
        }
}
END_TEST

START_TEST(threads_do_not_change_a_byte)
{
    const pare_grid g = {.bits = 3, .group = 32, .clip = PARE_CLIP_MSE, .f16_scales = true};
    pare_codes first, other;
    ck_assert_int_eq(pare_codes_take(&arena, &g, N, K, &first), PARE_OK);
    ck_assert_int_eq(pare_codes_take(&arena, &g, N, K, &other), PARE_OK);
    ck_assert_int_eq(pare_rtn_quantize(&cx, &g, w, NULL, N, K, &first), PARE_OK);
    for (size_t threads = 2; threads <= 5; threads += 3) {
        ck_assert_int_eq(pare_pool_new(&cx, threads, &cx.pool), PARE_OK);
        ck_assert_int_eq(pare_rtn_quantize(&cx, &g, w, NULL, N, K, &other), PARE_OK);
        ck_assert_mem_eq(first.codes, other.codes, N * K);
        ck_assert_mem_eq(first.zeros, other.zeros, N * first.groups);
        ck_assert_mem_eq(first.scales, other.scales, N * first.groups * sizeof(float));
        pare_pool_free(&cx, cx.pool);
        cx.pool = NULL;
    }
}
END_TEST

START_TEST(first_faulty_group_is_named_for_any_number_of_threads)
{
    const pare_grid g = {.bits = 4, .group = 32, .f16_scales = true};
    pare_codes out;
    ck_assert_int_eq(pare_codes_take(&arena, &g, N, K, &out), PARE_OK);
    w[31 * K + 165] = NAN;
    w[40 * K] = INFINITY;
    for (size_t threads = 1; threads <= 5; threads++) {
        ck_assert_int_eq(pare_pool_new(&cx, threads, &cx.pool), PARE_OK);
        ck_assert_int_eq(pare_rtn_quantize(&cx, &g, w, NULL, N, K, &out), PARE_ENUMERIC);
        ck_assert_ptr_nonnull(strstr(cx.what, "row 31, group 5: weight nan is not finite"));
        pare_ctx_clear(&cx);
        pare_pool_free(&cx, cx.pool);
        cx.pool = NULL;
    }
}
END_TEST

START_TEST(a_scale_beyond_f16_is_refused_and_a_small_one_is_kept)
{
    const pare_grid g = {.bits = 4, .group = 32, .f16_scales = true};
    pare_codes out;
    ck_assert_int_eq(pare_codes_take(&arena, &g, N, K, &out), PARE_OK);
    for (size_t j = 32; j < 64; j++)
        w[2 * K + j] = j == 40 ? 15 * 0x1p-20F : j == 41 ? 0x1p-22F : 0;
    ck_assert_int_eq(pare_rtn_quantize(&cx, &g, w, NULL, N, K, &out), PARE_OK);
    ck_assert_float_eq(out.scales[2 * out.groups + 1], 0x1p-20F);
    ck_assert_uint_eq(out.codes[2 * K + 40], 15);
    ck_assert_uint_eq(out.codes[2 * K + 41], 0);
    w[2 * K + 40] = 15e6F;
    ck_assert_int_eq(pare_rtn_quantize(&cx, &g, w, NULL, N, K, &out), PARE_ENUMERIC);
    ck_assert_ptr_nonnull(
        strstr(cx.what, "row 2, group 1: scale 1e+06 is above what the scales of this"));
}
END_TEST

START_TEST(wrong_bits_and_groups_are_refused)
{
    pare_grid g = {.bits = 4, .group = 32};
    pare_codes out;
    ck_assert_int_eq(pare_codes_take(&arena, &g, N, K, &out), PARE_OK);
    g.bits = 6;
    ck_assert_int_eq(pare_rtn_quantize(&cx, &g, w, NULL, N, K, &out), PARE_EINVAL);
    pare_ctx_clear(&cx);
    g = (pare_grid){.bits = 4, .group = 33};
    ck_assert_int_eq(pare_rtn_quantize(&cx, &g, w, NULL, N, K, &out), PARE_ESHAPE);
}
END_TEST

START_TEST(a_group_wider_than_the_row_is_the_row)
{
    const pare_grid wide = {.bits = 4, .group = 1024}, row = {.bits = 4};
    pare_codes a, b;
    ck_assert_int_eq(pare_codes_take(&arena, &wide, N, K, &a), PARE_OK);
    ck_assert_int_eq(pare_codes_take(&arena, &row, N, K, &b), PARE_OK);
    ck_assert_int_eq(pare_rtn_quantize(&cx, &wide, w, NULL, N, K, &a), PARE_OK);
    ck_assert_int_eq(pare_rtn_quantize(&cx, &row, w, NULL, N, K, &b), PARE_OK);
    ck_assert_mem_eq(a.codes, b.codes, N * K);
    ck_assert_mem_eq(a.scales, b.scales, N * sizeof(float));
}
END_TEST

START_TEST(every_weight_goes_through_the_kernels_of_the_context)
{
    const pare_grid g = {.bits = 4, .group = 64, .f16_scales = true};
    pare_codes out;
    ck_assert_int_eq(pare_codes_take(&arena, &g, N, K, &out), PARE_OK);
    real = cx.kernels;
    ranged = rounded = 0;
    cx.kernels.range_f32 = count_range;
    cx.kernels.round_codes = count_codes;
    ck_assert_int_eq(pare_rtn_quantize(&cx, &g, w, NULL, N, K, &out), PARE_OK);
    ck_assert_uint_eq(ranged, N * K);
    ck_assert_uint_eq(rounded, N * K);
}
END_TEST

/* Errors of the codes, each times what its column costs. */
static double weighed_error(const pare_grid *g, const float *x, const float *cost, size_t k)
{
    static float q[N * 256];
    pare_codes c;
    double sum = 0;
    ck_assert_int_eq(pare_codes_take(&arena, g, N, k, &c), PARE_OK);
    ck_assert_int_eq(pare_rtn_quantize(&cx, g, x, cost, N, k, &c), PARE_OK);
    pare_codes_values(g, &c, q);
    for (size_t i = 0; i < N * k; i++)
        sum += (double)cost[i % k] * ((double)x[i] - (double)q[i]) * ((double)x[i] - (double)q[i]);
    return sum;
}

/* Against the same grids that look at the weights alone. */
START_TEST(costs_of_columns_lower_the_error_that_they_weigh)
{
    static float x[N * 256], cost[256], even[256];
    for (size_t i = 0; i < N * 256; i++)
        x[i] = (float)pare_random_normal(3, 4, i) * 0.05F;
    for (size_t j = 0; j < 256; j++) {
        cost[j] = j % 16 == 3 ? 100 : 1;
        even[j] = 1;
    }
    pare_grid uniform = {.bits = 3, .group = 64, .clip = PARE_CLIP_WEIGHTED, .f16_scales = true};
    const double weighted = weighed_error(&uniform, x, cost, 256);
    uniform.clip = PARE_CLIP_MSE;
    ck_assert_double_lt(weighted, 0.8 * weighed_error(&uniform, x, cost, 256));
    const pare_grid super = {.bits = 4,
                             .group = 256,
                             .symmetric = true,
                             .f16_scales = true,
                             .encoding = PARE_ENCODING_Q4_K};
    pare_codes by, alike;
    ck_assert_int_eq(pare_codes_take(&arena, &super, N, 256, &by), PARE_OK);
    ck_assert_int_eq(pare_codes_take(&arena, &super, N, 256, &alike), PARE_OK);
    ck_assert_int_eq(pare_rtn_quantize(&cx, &super, x, even, N, 256, &by), PARE_OK);
    ck_assert_int_eq(pare_rtn_quantize(&cx, &super, x, NULL, N, 256, &alike), PARE_OK);
    ck_assert_mem_eq(by.codes, alike.codes, N * 256);
    const double found = weighed_error(&super, x, cost, 256);
    static float q[N * 256];
    double plain = 0;
    pare_codes_values(&super, &alike, q);
    for (size_t i = 0; i < N * 256; i++)
        plain +=
            (double)cost[i % 256] * ((double)x[i] - (double)q[i]) * ((double)x[i] - (double)q[i]);
    ck_assert_double_lt(found, 0.9 * plain);
}
END_TEST

int main(void)
{
    Suite *const s = suite_create("rtn");
    TCase *const t = tcase_create("rtn");
    tcase_add_checked_fixture(t, setup, teardown);
    tcase_add_test(t, each_group_is_rounded_to_its_own_grid);
    tcase_add_test(t, threads_do_not_change_a_byte);
    tcase_add_test(t, costs_of_columns_lower_the_error_that_they_weigh);
    tcase_add_test(t, every_weight_goes_through_the_kernels_of_the_context);
    tcase_add_test(t, first_faulty_group_is_named_for_any_number_of_threads);
    tcase_add_test(t, a_scale_beyond_f16_is_refused_and_a_small_one_is_kept);
    tcase_add_test(t, wrong_bits_and_groups_are_refused);
    tcase_add_test(t, a_group_wider_than_the_row_is_the_row);
    suite_add_tcase(s, t);
    return unit_main(s);
}
