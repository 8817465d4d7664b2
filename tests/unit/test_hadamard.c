#include "runtime/hadamard.h"

#include <math.h>
#include <string.h>

#include "runtime/random.h"
#include "runtime/threads.h"
#include "tests/unit/unit.h"

static const size_t sizes[] = {1, 2, 3, 5, 8, 64, 96, 172, 504, 640};
enum { SIZES = sizeof sizes / sizeof *sizes, MOST = 640 };

/* The formula of the header, entry by entry, with the cosine of the library. */
static double entry(size_t k, size_t i, size_t j)
{
    size_t power = 1;
    while (k % (2 * power) == 0)
        power *= 2;
    const size_t m = k / power, b = i / power, d = j / power;
    const double angle = acos(-1.0) * (double)b * (double)(2 * d + 1) / (2.0 * (double)m);
    const double c = sqrt((b ? 2.0 : 1.0) / (double)m) * cos(angle);
    size_t common = i % power & j % power, ones = 0;
    for (; common; common &= common - 1)
        ones++;
    return c * (ones % 2 ? -1.0 : 1.0) / sqrt((double)power);
}

static float *filled(size_t count, uint64_t stream)
{
    float *const x = malloc((count ? count : 1) * sizeof *x);
    ck_assert_ptr_nonnull(x);
    for (size_t i = 0; i < count; i++)
        x[i] = (float)pare_random_normal(7, stream, i);
    return x;
}

START_TEST(a_row_is_multiplied_by_the_matrix_of_the_formula)
{
    const size_t k = sizes[_i];
    pare_ctx cx;
    pare_hadamard h;
    pare_ctx_init(&cx);
    ck_assert_int_eq(pare_hadamard_make(&cx, k, &h), PARE_OK);
    float *const x = filled(k, 1), *const y = filled(k, 1);
    pare_hadamard_apply(&cx, &h, y, k, 1);
    for (size_t i = 0; i < k; i++) {
        double sum = 0.0;
        for (size_t j = 0; j < k; j++)
            sum += entry(k, i, j) * (double)x[j];
        /* at most 10 + 43 roundings of sums below 4 */
        ck_assert_double_eq_tol((double)y[i], sum, 5e-6);
    }
    free(x);
    free(y);
}
END_TEST

START_TEST(the_matrix_is_orthogonal)
{
    const size_t k = sizes[_i];
    pare_ctx cx;
    pare_hadamard h;
    pare_ctx_init(&cx);
    ck_assert_int_eq(pare_hadamard_make(&cx, k, &h), PARE_OK);
    float *const q = calloc(k * k, sizeof *q); /* row j: Q e_j */
    ck_assert_ptr_nonnull(q);
    for (size_t j = 0; j < k; j++)
        q[j * k + j] = 1.0f;
    pare_hadamard_apply(&cx, &h, q, k, k);
    for (size_t i = 0; i < k; i += 1 + k / 64)
        for (size_t j = 0; j < k; j++) {
            double dot = 0.0;
            for (size_t l = 0; l < k; l++)
                dot += (double)q[i * k + l] * (double)q[j * k + l];
            ck_assert_double_eq_tol(dot, i == j ? 1.0 : 0.0, 1e-6);
        }
    if (k == 64) /* a power of two: flat */
        for (size_t i = 0; i < k * k; i++)
            ck_assert_float_eq(fabsf(q[i]), 0.125f);
    free(q);
}
END_TEST

START_TEST(inverting_gives_the_row_back_with_and_without_signs)
{
    const size_t k = sizes[_i], ldx = k + 3;
    float sign[MOST];
    pare_ctx cx;
    pare_hadamard h;
    pare_ctx_init(&cx);
    ck_assert_int_eq(pare_hadamard_make(&cx, k, &h), PARE_OK);
    pare_hadamard_signs(5, 6, k, sign);
    for (int signs = 0; signs < 2; signs++) {
        float *const x = filled(3 * ldx, 2), *const y = filled(3 * ldx, 2);
        h.sign = signs ? sign : NULL;
        pare_hadamard_apply(&cx, &h, y, ldx, 3);
        ck_assert(k == 1 || memcmp(x, y, k * sizeof *x) != 0);
        pare_hadamard_invert(&cx, &h, y, ldx, 3);
        for (size_t i = 0; i < 3 * ldx; i++)
            if (i % ldx < k)
                ck_assert_double_eq_tol((double)x[i], (double)y[i], 5e-6);
            else
                ck_assert_float_eq(x[i], y[i]); /* between the rows: untouched */
        free(x);
        free(y);
    }
}
END_TEST

START_TEST(signs_act_before_the_matrix)
{
    float sign[96], x[96], y[96];
    pare_ctx cx;
    pare_hadamard h;
    pare_ctx_init(&cx);
    ck_assert_int_eq(pare_hadamard_make(&cx, 96, &h), PARE_OK);
    pare_hadamard_signs(1, 2, 96, sign);
    size_t negative = 0;
    for (size_t i = 0; i < 96; i++) {
        ck_assert_float_eq(fabsf(sign[i]), 1.0f);
        negative += sign[i] < 0;
        x[i] = (float)i;
        y[i] = (float)i * sign[i];
    }
    ck_assert(negative > 24 && negative < 72); /* five standard deviations */
    pare_hadamard_apply(&cx, &h, y, 96, 1);
    h.sign = sign;
    pare_hadamard_apply(&cx, &h, x, 96, 1);
    ck_assert_mem_eq(x, y, sizeof x);
}
END_TEST

START_TEST(an_outlier_is_shared_by_all_values)
{
    float x[640] = {0};
    pare_ctx cx;
    pare_hadamard h;
    pare_ctx_init(&cx);
    ck_assert_int_eq(pare_hadamard_make(&cx, 640, &h), PARE_OK);
    x[333] = 1.0f;
    pare_hadamard_apply(&cx, &h, x, 640, 1);
    for (size_t i = 0; i < 640; i++) /* |H| = 128^-1/2, |C| <= (2/5)^1/2 */
        ck_assert_float_le(fabsf(x[i]), 0.0560f);
}
END_TEST

START_TEST(threads_and_processors_do_not_change_a_bit)
{
    enum { ROWS = 300, K = 172 };
    float *const want = filled((size_t)ROWS * K, 3);
    pare_ctx cx;
    pare_hadamard h;
    pare_ctx_init(&cx);
    ck_assert_int_eq(pare_hadamard_make(&cx, K, &h), PARE_OK);
    pare_hadamard_apply(&cx, &h, want, K, ROWS);
    for (size_t threads = 1; threads < 5; threads++) {
        float *const x = filled((size_t)ROWS * K, 3);
        ck_assert_int_eq(pare_pool_new(&cx, threads, &cx.pool), PARE_OK);
        pare_kernels_init(&cx.kernels, threads == 1 ? 0 : cx.cpu);
        pare_hadamard_apply(&cx, &h, x, K, ROWS);
        ck_assert_mem_eq(x, want, sizeof(float) * ROWS * K);
        pare_pool_free(&cx, cx.pool);
        cx.pool = NULL;
        free(x);
    }
    free(want);
}
END_TEST

START_TEST(a_large_odd_factor_is_refused_with_its_size)
{
    pare_ctx cx;
    pare_hadamard h;
    pare_ctx_init(&cx);
    ck_assert(pare_hadamard_fits(4032) && !pare_hadamard_fits(130) && !pare_hadamard_fits(0));
    ck_assert_int_eq(pare_hadamard_make(&cx, 130, &h), PARE_ENOTSUP);
    ck_assert_str_eq(cx.what, "no Hadamard rotation of 130 values: 130 = 2 x 65, and its odd "
                              "factor may be at most 63");
    pare_ctx_clear(&cx);
    ck_assert_int_eq(pare_hadamard_make(&cx, 0, &h), PARE_ENOTSUP);
}
END_TEST

int main(void)
{
    Suite *const s = suite_create("hadamard");
    TCase *const c = tcase_create("hadamard");
    tcase_set_timeout(c, 60);
    tcase_add_loop_test(c, a_row_is_multiplied_by_the_matrix_of_the_formula, 0, SIZES);
    tcase_add_loop_test(c, the_matrix_is_orthogonal, 0, SIZES);
    tcase_add_loop_test(c, inverting_gives_the_row_back_with_and_without_signs, 0, SIZES);
    tcase_add_test(c, signs_act_before_the_matrix);
    tcase_add_test(c, an_outlier_is_shared_by_all_values);
    tcase_add_test(c, threads_and_processors_do_not_change_a_bit);
    tcase_add_test(c, a_large_odd_factor_is_refused_with_its_size);
    suite_add_tcase(s, c);
    return unit_main(s);
}
