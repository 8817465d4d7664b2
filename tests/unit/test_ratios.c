/* Sharing out what goes: means, bands and whole weights; outliers against counting them. */
#include "prune/owl.h"
#include "prune/ratio_search.h"
#include "solve/sparsity.h"
#include "tests/unit/quant_case.h"

enum { COUNT = 40 };

static void some_ratios(pare_ratio *r, bool by_row)
{
    for (size_t i = 0; i < COUNT; i++)
        r[i] = (pare_ratio){.n = 3 + i * 7 % 29,
                            .k = 5 + i * 11 % 61,
                            .by_row = by_row,
                            .importance = pare_random_normal(1, 2, i) + 4};
}

static double gone(const pare_ratio *r, size_t count, double *weights)
{
    double sum = 0;
    *weights = 0;
    for (size_t i = 0; i < count; i++) {
        sum += r[i].ratio * (double)(r[i].n * r[i].k);
        *weights += (double)(r[i].n * r[i].k);
    }
    return sum;
}

START_TEST(ratios_fall_with_importance_inside_the_band_around_their_mean)
{
    pare_ratio r[COUNT];
    double weights, most = 0;
    some_ratios(r, false);
    pare_ratios_spread(r, COUNT, 0.6, 0.1);
    const double sum = gone(r, COUNT, &weights);
    ck_assert_double_eq_tol(sum / weights, 0.6, 1e-12);
    for (size_t i = 0; i < COUNT; i++) {
        most = fmax(most, fabs(r[i].ratio - 0.6));
        for (size_t j = 0; j < COUNT; j++)
            ck_assert((r[i].importance < r[j].importance) == (r[i].ratio > r[j].ratio));
    }
    ck_assert_double_eq_tol(most, 0.1, 1e-12);
    for (size_t i = 0; i < COUNT; i++)
        r[i].importance = 0.1;
    pare_ratios_spread(r, COUNT, 0.6, 0.1);
    for (size_t i = 0; i < COUNT; i++)
        ck_assert_double_eq(r[i].ratio, 0.6);
}
END_TEST

START_TEST(whole_weights_go_and_what_rounding_leaves_is_passed_on)
{
    for (int by_row = 0; by_row < 2; by_row++) {
        pare_ratio r[COUNT];
        double weights;
        some_ratios(r, by_row);
        pare_ratios_spread(r, COUNT, 0.6, 0.1);
        const double want = gone(r, COUNT, &weights);
        pare_ratio old[COUNT];
        memcpy(old, r, sizeof old);
        pare_ratios_settle(r, COUNT);
        const size_t last = by_row ? r[COUNT - 1].n : 1;
        ck_assert_double_le(fabs(gone(r, COUNT, &weights) - want), (double)last / 2 + 1e-9);
        for (size_t i = 0; i < COUNT; i++) {
            const double set = (double)(by_row ? r[i].k : r[i].n * r[i].k);
            ck_assert_double_eq_tol(r[i].ratio * set, nearbyint(r[i].ratio * set), 1e-9);
            const double most = 0.5 + 0.5 * 31 / (double)(by_row ? r[i].n : 1);
            ck_assert_double_le(fabs(r[i].ratio - old[i].ratio) * set, most + 1e-9);
            const pare_sparsity s = {.ratio = r[i].ratio, .by_row = by_row};
            ck_assert_uint_eq(pare_sparsity_kept(&s, r[i].n, r[i].k),
                              r[i].n * r[i].k -
                                  (size_t)nearbyint(r[i].ratio * (double)(r[i].n * r[i].k)));
        }
    }
}
END_TEST

START_TEST(one_weight_goes_and_one_stays)
{
    pare_ratio r[] = {{.n = 4, .k = 3, .by_row = true, .ratio = 0.01},
                      {.n = 1, .k = 3, .by_row = true, .ratio = 0.99},
                      {.n = 9, .k = 1, .by_row = true, .ratio = 0.5}};
    pare_ratios_settle(r, 3);
    ck_assert_double_eq(r[0].ratio * 3, 1);
    ck_assert_double_eq(r[1].ratio * 3, 1); /* the matrix before it has lost too much */
    ck_assert_double_eq(r[2].ratio, 0.5);   /* a row of one stays */
}
END_TEST

enum { FEW = 4, STEPS = 20 };

/* The error of a curve between its points. */
static double error_at(const pare_ratio_curve *c, double at)
{
    const double place = (at - 0.5) / 0.2 * (PARE_RATIO_POINTS - 1);
    const size_t left = place >= PARE_RATIO_POINTS - 1 ? PARE_RATIO_POINTS - 2 : (size_t)place;
    return c->error[left] + (place - (double)left) * (c->error[left + 1] - c->error[left]);
}

/* Least sum of errors over ratios in steps of a hundredth whose mean is 0.6, of equal matrices. */
static double best_of_all(const pare_ratio_curve *c)
{
    double best = INFINITY;
    for (int a = 0; a <= STEPS; a++)
        for (int b = 0; b <= STEPS; b++)
            for (int d = 0; d <= STEPS; d++) {
                const int e = STEPS / 2 * FEW - a - b - d;
                if (e < 0 || e > STEPS)
                    continue;
                const int at[FEW] = {a, b, d, e};
                double sum = 0;
                for (size_t i = 0; i < FEW; i++)
                    sum += error_at(&c[i], 0.5 + 0.01 * at[i]);
                best = fmin(best, sum);
            }
    return best;
}

START_TEST(no_other_ratios_have_a_smaller_error)
{
    for (uint64_t turn = 0; turn < 6; turn++) {
        pare_ratio r[FEW];
        pare_ratio_curve c[FEW];
        double weights, sum = 0;
        for (size_t i = 0; i < FEW; i++) {
            double slope = 0, error = 1;
            r[i] = (pare_ratio){.n = 10, .k = 30};
            for (size_t p = 0; p < PARE_RATIO_POINTS; p++) {
                c[i].error[p] = error;
                slope += fabs(pare_random_normal(turn, i, p));
                error += slope; /* convex */
            }
        }
        ck_assert_int_eq(pare_ratios_search(&arena, r, FEW, c, 0.6, 0.1), PARE_OK);
        ck_assert_double_eq_tol(gone(r, FEW, &weights) / weights, 0.6, 1e-12);
        for (size_t i = 0; i < FEW; i++) {
            ck_assert(r[i].ratio >= 0.5 - 1e-12 && r[i].ratio <= 0.7 + 1e-12);
            sum += error_at(&c[i], r[i].ratio);
        }
        ck_assert_double_le(sum, best_of_all(c) + 1e-9);
        ck_assert_double_ge(sum, best_of_all(c) - 1e-9); /* 0.05 is five hundredths */
    }
}
END_TEST

START_TEST(large_matrices_go_first_where_errors_are_equal)
{
    pare_ratio r[2] = {{.n = 1, .k = 10}, {.n = 1, .k = 30}};
    const pare_ratio_curve c[2] = {{{0, 1, 2, 3, 4}}, {{0, 1, 2, 3, 4}}};
    ck_assert_int_eq(pare_ratios_search(&arena, r, 2, c, 0.5, 0.2), PARE_OK);
    ck_assert_double_eq_tol(r[0].ratio, 0.3, 1e-12);
    ck_assert_double_eq_tol(r[1].ratio, 0.3 + 0.2 * 40 / 30, 1e-12);
}
END_TEST

START_TEST(a_bump_is_passed_over)
{
    pare_ratio r[2] = {{.n = 1, .k = 10}, {.n = 1, .k = 10}};
    const pare_ratio_curve c[2] = {{{0, 9, 9, 9, 2}}, {{0, 1, 2, 3, 4}}};
    ck_assert_int_eq(pare_ratios_search(&arena, r, 2, c, 0.5, 0.2), PARE_OK);
    ck_assert_double_eq_tol(r[0].ratio, 0.7, 1e-12);
    ck_assert_double_eq_tol(r[1].ratio, 0.3, 1e-12);
    for (size_t p = 0; p < PARE_RATIO_POINTS; p++)
        ck_assert_double_eq_tol(pare_ratio_point(p, 0.5, 0.2), 0.3 + 0.1 * (double)p, 1e-12);
}
END_TEST

enum { N = 37, K = 53 };

static float *weights_of(uint64_t seed, double scale)
{
    float *const w = take((size_t)N * K, sizeof *w);
    for (size_t i = 0; i < (size_t)N * K; i++)
        w[i] = (float)(pow(pare_random_normal(seed, 5, i), 3) * scale);
    return w;
}

static float *squares_of(uint64_t seed, double scale)
{
    float *const x = take(K, sizeof *x);
    for (size_t j = 0; j < K; j++)
        x[j] = (float)(pow(pare_random_normal(seed, 6, j), 4) * scale);
    return x;
}

static double count_above(const pare_owl_matrix *m, size_t count, double outlier)
{
    double sum = 0, all = 0, above = 0;
    for (int turn = 0; turn < 2; turn++)
        for (size_t i = 0; i < count; i++)
            for (size_t at = 0; at < m[i].n * m[i].k; at++) {
                const double s = fabs((double)m[i].w[at]) * sqrt((double)m[i].squares[at % m[i].k]);
                sum += turn == 0 ? s : 0;
                all += turn == 0;
                above += turn == 1 && s > outlier * sum / all;
            }
    return above / all;
}

START_TEST(outliers_are_those_above_the_mean_of_all_matrices)
{
    const pare_owl_matrix m[] = {{weights_of(1, 1), squares_of(1, 1), N, K},
                                 {weights_of(2, 9), squares_of(2, 4), N / 2, K},
                                 {weights_of(3, 0.1), squares_of(3, 1), N, K - 8}};
    double both, alone, again;
    ck_assert_int_eq(pare_owl_share(&cx, &arena, m, 3, 5, &both), PARE_OK);
    ck_assert_double_eq_tol(both, count_above(m, 3, 5), 1e-12);
    ck_assert_double_gt(both, 0.001);
    ck_assert_int_eq(pare_owl_share(&cx, &arena, m, 1, 5, &alone), PARE_OK);
    ck_assert_double_eq_tol(alone, count_above(m, 1, 5), 1e-12);
    ck_assert_double_ne(alone, both);
    ck_assert_int_eq(pare_pool_new(&cx, 4, &cx.pool), PARE_OK);
    ck_assert_int_eq(pare_owl_share(&cx, &arena, m, 3, 5, &again), PARE_OK);
    ck_assert_mem_eq(&both, &again, sizeof both);
    ck_assert_int_eq(pare_owl_share(&cx, &arena, m, 3, 8, &again), PARE_OK);
    ck_assert_double_lt(again, both);
}
END_TEST

START_TEST(squares_that_are_none_are_refused)
{
    float *const square = squares_of(1, 1);
    const pare_owl_matrix m = {weights_of(1, 1), square, N, K};
    double share;
    square[9] = -1;
    ck_assert_int_eq(pare_owl_share(&cx, &arena, &m, 1, 5, &share), PARE_ENUMERIC);
    ck_assert_ptr_nonnull(strstr(cx.what, "input 9 has a sum of squares of -1"));
}
END_TEST

START_TEST(every_failed_allocation_is_reported_and_leaks_nothing)
{
    const pare_owl_matrix m = {weights_of(1, 1), squares_of(1, 1), N, K};
    long n = 0;
    for (bool done = false; !done; n++) {
        pare_ctx failing;
        pare_ctx_init(&failing);
        unit_failing left = {.left = n};
        failing.alloc = (pare_alloc){unit_failing_resize, &left};
        pare_arena a;
        double share;
        ck_assert_int_eq(pare_arena_init(&failing, &a, 0), PARE_OK);
        const pare_status status = pare_owl_share(&failing, &a, &m, 1, 5, &share);
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
    Suite *const s = suite_create("ratios");
    TCase *const t = tcase_create("ratios");
    tcase_add_checked_fixture(t, quant_setup, quant_teardown);
    tcase_add_test(t, ratios_fall_with_importance_inside_the_band_around_their_mean);
    tcase_add_test(t, whole_weights_go_and_what_rounding_leaves_is_passed_on);
    tcase_add_test(t, one_weight_goes_and_one_stays);
    tcase_add_test(t, no_other_ratios_have_a_smaller_error);
    tcase_add_test(t, large_matrices_go_first_where_errors_are_equal);
    tcase_add_test(t, a_bump_is_passed_over);
    tcase_add_test(t, outliers_are_those_above_the_mean_of_all_matrices);
    tcase_add_test(t, squares_that_are_none_are_refused);
    tcase_add_test(t, every_failed_allocation_is_reported_and_leaks_nothing);
    suite_add_tcase(s, t);
    return unit_main(s);
}
