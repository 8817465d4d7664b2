/* RIA against its formula, entry by entry, and what its scores choose. */
#include "prune/ria.h"

#include "tests/unit/quant_case.h"

enum { N = 37, K = 300 }; /* more columns than one chunk sums */

static float *squares(void)
{
    float *const x = take(K, sizeof *x);
    for (size_t j = 0; j < K; j++)
        x[j] = j == 5 ? 0 : (float)(j % 9 + 1) * 0.3F;
    return x;
}

/* A row and a column of zeros; columns of different size. */
static float *sample(void)
{
    float *const w = weights(N, K);
    for (size_t i = 0; i < N; i++)
        for (size_t j = 0; j < K; j++)
            w[i * K + j] *= i == 3 || j == 8 ? 0 : (float)(j % 4 + 1);
    return w;
}

static double expected(const float *w, const float *square, double power, size_t i, size_t j)
{
    double row = 0, column = 0;
    for (size_t c = 0; c < K; c++)
        row += fabs((double)w[i * K + c]);
    for (size_t r = 0; r < N; r++)
        column += fabs((double)w[r * K + j]);
    const double size = fabs((double)w[i * K + j]);
    return size > 0 ? (size / row + size / column) * pow(sqrt((double)square[j]), power) : 0;
}

START_TEST(scores_follow_the_formula)
{
    static const double powers[] = {0, 0.5, 0.8, 1, 2};
    const double power = powers[_i];
    float *const w = sample(), *const square = squares();
    float *const score = take((size_t)N * K, sizeof *score);
    ck_assert_int_eq(pare_ria_score(&cx, &arena, power, square, w, N, K, score), PARE_OK);
    for (size_t i = 0; i < N; i++)
        for (size_t j = 0; j < K; j++) {
            const double want = expected(w, square, power, i, j);
            ck_assert_double_le(fabs((double)score[i * K + j] - want), 3e-7 * want);
        }
}
END_TEST

START_TEST(the_lowest_scores_go_whatever_the_threads)
{
    static const pare_sparsity rules[] = {
        {.ratio = 0.4}, {.ratio = 0.6, .by_row = true}, {.keep = 2, .of = 4}};
    const pare_sparsity *const s = &rules[_i];
    const float *const w = sample(), *const square = squares();
    float *const score = take((size_t)N * K, sizeof *score);
    uint8_t *const keep = take((size_t)N * K, 1);
    ck_assert_int_eq(pare_ria_score(&cx, &arena, 0.5, square, w, N, K, score), PARE_OK);
    ck_assert_int_eq(pare_sparsity_choose(&cx, &arena, s, score, N, K, keep), PARE_OK);
    for (size_t threads = 1; threads <= 5; threads += 2) {
        float *const q = copy(w, (size_t)N * K);
        pare_pool_free(&cx, cx.pool);
        cx.pool = NULL;
        ck_assert_int_eq(pare_pool_new(&cx, threads, &cx.pool), PARE_OK);
        ck_assert_int_eq(pare_ria_prune(&cx, &arena, s, 0.5, square, q, N, K), PARE_OK);
        for (size_t i = 0; i < (size_t)N * K; i++) {
            const float want = keep[i] ? w[i] : 0.0F;
            ck_assert(memcmp(&q[i], &want, sizeof want) == 0);
        }
    }
}
END_TEST

/* Alone in its column, the smallest weight of the matrix stays; Wanda's would go. */
START_TEST(a_channel_of_small_weights_is_not_emptied)
{
    float *const w = take((size_t)N * K, sizeof *w), *const square = take(K, sizeof *square);
    const pare_sparsity s = {.ratio = 0.9};
    for (size_t i = 0; i < (size_t)N * K; i++)
        w[i] = 1 + (float)(i % 7) * 0.1F;
    for (size_t j = 0; j < K; j++)
        square[j] = 1;
    for (size_t i = 0; i < N; i++)
        w[i * K + 4] = i == 9 ? 0.01F : 0;
    ck_assert_int_eq(pare_ria_prune(&cx, &arena, &s, 0.5, square, w, N, K), PARE_OK);
    ck_assert_float_eq(w[9 * K + 4], 0.01F);
}
END_TEST

START_TEST(what_is_not_finite_is_refused_by_its_place)
{
    const pare_sparsity s = {.ratio = 0.5};
    float *const w = sample(), *const square = squares();
    square[4] = INFINITY;
    ck_assert_int_eq(pare_ria_prune(&cx, &arena, &s, 0.5, square, w, N, K), PARE_ENUMERIC);
    ck_assert_ptr_nonnull(strstr(cx.what, "input 4 has a sum of squares of inf"));
    pare_ctx_clear(&cx);
    square[4] = 1;
    w[7 * K + 2] = NAN;
    ck_assert_int_eq(pare_ria_prune(&cx, &arena, &s, 0.5, square, w, N, K), PARE_ENUMERIC);
    ck_assert_ptr_nonnull(strstr(cx.what, "score nan"));
}
END_TEST

START_TEST(every_failed_allocation_is_reported_and_leaks_nothing)
{
    const pare_sparsity s = {.keep = 2, .of = 4};
    const float *const w = sample(), *const square = squares();
    long n = 0;
    for (bool done = false; !done; n++) {
        pare_ctx failing;
        pare_ctx_init(&failing);
        unit_failing left = {.left = n};
        failing.alloc = (pare_alloc){unit_failing_resize, &left};
        pare_arena a;
        ck_assert_int_eq(pare_arena_init(&failing, &a, 0), PARE_OK);
        const pare_status status =
            pare_ria_prune(&failing, &a, &s, 0.5, square, copy(w, (size_t)N * K), N, K);
        done = status == PARE_OK;
        ck_assert(done || status == PARE_ENOMEM);
        pare_arena_release(&a);
        ck_assert_int_eq(left.live, 0);
    }
    ck_assert_int_gt(n, 1);
}
END_TEST

int main(void)
{
    Suite *const s = suite_create("ria");
    TCase *const t = tcase_create("ria");
    tcase_add_checked_fixture(t, quant_setup, quant_teardown);
    tcase_add_loop_test(t, scores_follow_the_formula, 0, 5);
    tcase_add_loop_test(t, the_lowest_scores_go_whatever_the_threads, 0, 3);
    tcase_add_test(t, a_channel_of_small_weights_is_not_emptied);
    tcase_add_test(t, what_is_not_finite_is_refused_by_its_place);
    tcase_add_test(t, every_failed_allocation_is_reported_and_leaks_nothing);
    suite_add_tcase(s, t);
    return unit_main(s);
}
