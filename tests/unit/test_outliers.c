#include "kernels/half.h"
#include "quant/outliers.h"
#include "tests/unit/quant_case.h"

enum { N = 45, K = 172 };

static const pare_grid int8_row = {.bits = 8, .symmetric = true, .f16_scales = true},
                       int4_group = {.bits = 4, .group = 32, .symmetric = true, .f16_scales = true};

static float score[K];

static void setup(void)
{
    quant_setup();
    for (size_t j = 0; j < K; j++)
        score[j] = (float)(j * 31 % 57);
}

static pare_codes apart(const pare_grid *g, size_t columns, bool int8, const float *w)
{
    const pare_outlier_opts opts = {.columns = columns, .int8 = int8};
    pare_codes c;
    ck_assert_int_eq(pare_outliers_quantize(&cx, &arena, &opts, g, score, copy(w, N * K), N, K, &c),
                     PARE_OK);
    return c;
}

START_TEST(columns_count_from_the_threshold_on_up_to_a_share)
{
    static const float absmax[] = {1, 6, 5.9F, 100, 0, 7};
    ck_assert_uint_eq(pare_outliers_above(absmax, 6, 6, 1), 3);
    ck_assert_uint_eq(pare_outliers_above(absmax, 6, 6.01, 1), 2);
    ck_assert_uint_eq(pare_outliers_above(absmax, 6, 0, 1), 6);
    ck_assert_uint_eq(pare_outliers_above(absmax, 6, 101, 1), 0);
    ck_assert_uint_eq(pare_outliers_above(absmax, 6, 6, 0.5), 3);
    ck_assert_uint_eq(pare_outliers_above(absmax, 6, 6, 0.2), 2);
    ck_assert_uint_eq(pare_outliers_above(absmax, 6, 6, 0.001), 1);
    ck_assert_uint_eq(pare_outliers_above(absmax, 6, 6, 0), 0);
}
END_TEST

START_TEST(columns_of_the_largest_scores_are_kept_in_order)
{
    const float *const w = weights(N, K);
    for (size_t columns = 1; columns < 40; columns += 7) {
        const pare_codes c = apart(&int8_row, columns, false, w);
        for (size_t o = 0; o < columns; o++) {
            const size_t j = c.outlier_column[o];
            ck_assert(o == 0 || c.outlier_column[o - 1] < j);
            size_t before = 0;
            for (size_t l = 0; l < K; l++)
                before += score[l] > score[j] || (score[l] == score[j] && l < j);
            ck_assert_uint_lt(before, columns);
        }
    }
}
END_TEST

START_TEST(f16_columns_are_exact_and_the_rest_is_int8_without_them)
{
    float *const w = weights(N, K);
    for (size_t i = 0; i < N; i++)
        for (size_t j = 0; j < K; j++)
            w[i * K + j] *= score[j] > 54 ? 100 : 1;
    size_t large = 0;
    for (size_t j = 0; j < K; j++)
        large += score[j] > 54;
    const pare_codes c = apart(&int8_row, large, false, w);
    const float *const q = values(&int8_row, &c);
    for (size_t i = 0; i < N; i++) {
        float most = 0;
        for (size_t j = 0; j < K; j++)
            most = fmaxf(most, score[j] > 54 ? 0 : fabsf(w[i * K + j]));
        for (size_t j = 0; j < K; j++) {
            const float x = w[i * K + j];
            if (score[j] > 54)
                ck_assert_float_eq(q[i * K + j], pare_f16_to_f32(pare_f32_to_f16(x)));
            else
                ck_assert_float_le(fabsf(q[i * K + j] - x), most / 127 * 0.51F);
            if (score[j] > 54) /* the codes of the panel stand for 0 */
                ck_assert_uint_eq(c.codes[i * K + j], 128);
        }
    }
}
END_TEST

START_TEST(int8_columns_follow_their_formula)
{
    const float *const w = weights(N, K);
    const pare_codes c = apart(&int4_group, 16, true, w);
    for (size_t i = 0; i < N; i++) {
        float most = 0;
        for (size_t o = 0; o < 16; o++)
            most = fmaxf(most, fabsf(w[i * K + c.outlier_column[o]]));
        const float s = pare_f16_to_f32(pare_f32_to_f16(most / 127));
        ck_assert_float_eq(c.outlier_scale[i], s);
        for (size_t o = 0; o < 16; o++) {
            const float t = rintf(w[i * K + c.outlier_column[o]] / s);
            ck_assert_int_eq(c.outlier_code[i * 16 + o], (int)fmaxf(fminf(t, 127), -127));
            ck_assert_uint_eq(c.codes[i * K + c.outlier_column[o]], 8);
        }
    }
    const pare_codes none = apart(&int4_group, 0, true, w);
    ck_assert_ptr_null(none.outlier_column);
    ck_assert_double_lt(square_error(w, values(&int4_group, &c), N * K),
                        square_error(w, values(&int4_group, &none), N * K));
}
END_TEST

/* The int8 scale of the columns kept apart, too, ends at 2^-24 and not at 0. */
START_TEST(a_row_that_is_small_as_a_whole_is_not_stored_as_zeros)
{
    float *const w = weights(N, K);
    for (size_t j = 0; j < K; j++)
        w[7 * K + j] *= 1e-6F;
    const pare_codes c = apart(&int4_group, 16, true, w);
    const float *const q = values(&int4_group, &c);
    ck_assert_float_eq(c.outlier_scale[7], 0x1p-24F);
    for (size_t j = 0; j < K; j++)
        ck_assert_float_le(fabsf(q[7 * K + j] - w[7 * K + j]), 0.02F * 1e-6F * 10);
    for (size_t o = 0; o < 16; o++)
        ck_assert_float_le(fabsf(q[7 * K + c.outlier_column[o]] - w[7 * K + c.outlier_column[o]]),
                           0x1p-25F);
}
END_TEST

START_TEST(all_columns_may_be_kept_apart)
{
    const float *const w = weights(N, K);
    const pare_codes c = apart(&int8_row, K, false, w);
    const float *const q = values(&int8_row, &c);
    for (size_t i = 0; i < N * K; i++)
        ck_assert_float_eq(q[i], pare_f16_to_f32(pare_f32_to_f16(w[i])));
}
END_TEST

START_TEST(what_cannot_be_is_refused)
{
    float *const w = weights(N, K);
    pare_codes c;
    pare_outlier_opts opts = {.columns = K + 1};
    ck_assert_int_eq(pare_outliers_quantize(&cx, &arena, &opts, &int8_row, score, w, N, K, &c),
                     PARE_EINVAL);
    pare_ctx_clear(&cx);
    opts.columns = K;
    w[7 * K + 11] = NAN;
    ck_assert_int_eq(
        pare_outliers_quantize(&cx, &arena, &opts, &int8_row, score, copy(w, N * K), N, K, &c),
        PARE_ENUMERIC);
    ck_assert_ptr_nonnull(strstr(cx.what, "row 7"));
    pare_ctx_clear(&cx);
    w[7 * K + 11] = 1e6F;
    ck_assert_int_eq(
        pare_outliers_quantize(&cx, &arena, &opts, &int8_row, score, copy(w, N * K), N, K, &c),
        PARE_ENUMERIC);
    pare_ctx_clear(&cx);
    score[3] = NAN;
    ck_assert_int_eq(pare_outliers_quantize(&cx, &arena, &opts, &int8_row, score, w, N, K, &c),
                     PARE_EINVAL);
}
END_TEST

START_TEST(every_failed_allocation_is_survived)
{
    const float *const w = weights(N, K);
    for (int int8 = 0; int8 < 2; int8++)
        for (long n = 0, done = 0; !done; n++) {
            pare_ctx x;
            pare_ctx_init(&x);
            unit_failing f = {.left = n};
            x.alloc = (pare_alloc){unit_failing_resize, &f};
            pare_arena a;
            pare_codes c;
            const pare_outlier_opts opts = {.columns = 9, .int8 = int8};
            float *const mine = copy(w, N * K);
            pare_status s = pare_arena_init(&x, &a, 0);
            if (s == PARE_OK)
                s = pare_outliers_quantize(&x, &a, &opts, &int8_row, score, mine, N, K, &c);
            done = s == PARE_OK;
            if (!done)
                ck_assert_int_eq(s, PARE_ENOMEM);
            pare_arena_release(&a);
            ck_assert_int_eq(f.live, 0);
        }
}
END_TEST

int main(void)
{
    Suite *const s = suite_create("outliers");
    TCase *const t = tcase_create("outliers");
    tcase_add_checked_fixture(t, setup, quant_teardown);
    tcase_add_test(t, columns_count_from_the_threshold_on_up_to_a_share);
    tcase_add_test(t, columns_of_the_largest_scores_are_kept_in_order);
    tcase_add_test(t, f16_columns_are_exact_and_the_rest_is_int8_without_them);
    tcase_add_test(t, int8_columns_follow_their_formula);
    tcase_add_test(t, a_row_that_is_small_as_a_whole_is_not_stored_as_zeros);
    tcase_add_test(t, all_columns_may_be_kept_apart);
    tcase_add_test(t, what_cannot_be_is_refused);
    tcase_add_test(t, every_failed_allocation_is_survived);
    suite_add_tcase(s, t);
    return unit_main(s);
}
