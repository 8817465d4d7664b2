#include "quant/matrix_error.h"
#include "runtime/random.h"
#include "runtime/threads.h"
#include "tests/unit/unit.h"

enum { N = 23, K = 173, COUNT = N * K };

static pare_ctx cx;
static float w[COUNT], q[COUNT], reference[COUNT];

static void setup(void)
{
    pare_ctx_init(&cx);
    for (size_t i = 0; i < COUNT; i++) {
        w[i] = (float)pare_random_normal(1, 2, i);
        reference[i] = (float)pare_random_normal(1, 3, i);
        q[i] = i % 3 ? w[i] + 0.01F * reference[i] : 0;
    }
    w[COUNT - 1] = 100; /* what is left over by parts of one size counts */
}

static void teardown(void)
{
    pare_pool_free(&cx, cx.pool);
    ck_assert_uint_eq(cx.live_bytes, 0);
}

static double of_rows(const float *from, const float *of)
{
    double wrong = 0, all = 0;
    for (size_t i = 0; i < COUNT; i++) {
        wrong += ((double)from[i] - (double)q[i]) * ((double)from[i] - (double)q[i]);
        all += (double)of[i] * (double)of[i];
    }
    return wrong / all;
}

START_TEST(errors_are_held_against_the_whole)
{
    double own[2], all[2];
    pare_matrix_errors(&cx, w, q, w, NULL, N, K, own);
    pare_matrix_errors(&cx, w, q, reference, NULL, N, K, all);
    ck_assert_double_eq_tol(own[0], of_rows(w, w), 1e-12);
    ck_assert_double_eq_tol(all[0], of_rows(w, reference), 1e-12);
    ck_assert_double_eq(own[1], -1);
    ck_assert_int_eq(pare_pool_new(&cx, 3, &cx.pool), PARE_OK);
    double threads[2];
    pare_matrix_errors(&cx, w, q, reference, NULL, N, K, threads);
    ck_assert_mem_eq(threads, all, sizeof all);
}
END_TEST

START_TEST(zeros_of_all_parts_are_counted)
{
    pare_error_sums sums = {.kernels = &cx.kernels, .w = w, .q = q, .reference = w, .count = COUNT};
    for (size_t i = 0; i < PARE_ERROR_PARTS; i++)
        pare_error_sums_part(&sums, i);
    ck_assert_double_eq_tol(pare_error_sums_zeros(&sums), (COUNT + 2) / 3 / (double)COUNT, 1e-12);
    ck_assert_double_eq_tol(pare_error_sums_relative(&sums), of_rows(w, w), 1e-12);
}
END_TEST

int main(void)
{
    Suite *const s = suite_create("matrix_error");
    TCase *const t = tcase_create("matrix_error");
    tcase_add_checked_fixture(t, setup, teardown);
    tcase_add_test(t, errors_are_held_against_the_whole);
    tcase_add_test(t, zeros_of_all_parts_are_counted);
    suite_add_tcase(s, t);
    return unit_main(s);
}
