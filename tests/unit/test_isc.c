/* ISC: costs against elimination in double, ranks against what they must not depend on. */
#include "prune/isc.h"

#include "tests/unit/quant_case.h"

enum { K = 45, DEAD = 7 };

/* The diagonal of H [K, K] in double, each entry as it is once all later positions are eliminated:
 * what a change costs when the later weights are adjusted. */
static void eliminate(double *h, double *left)
{
    for (size_t p = K; p-- > 0;) {
        left[p] = h[p * (K + 1)];
        for (size_t i = 0; i < p; i++)
            for (size_t j = 0; j < p; j++)
                h[i * K + j] -= h[i * K + p] * h[p * K + j] / left[p];
    }
}

START_TEST(a_weight_costs_what_it_costs_alone_and_adjusted)
{
    uint32_t order[K];
    float *const h = hessian(K), *const diagonal = take(K, sizeof *diagonal);
    float cost[K];
    double *const damped = take(K * K, sizeof *damped), left[K], mean = 0;
    for (uint32_t j = 0; j < K; j++) {
        order[j] = _i ? (j * 7 + 3) % K : j;
        diagonal[j] = h[j * (K + 1)];
        mean += (double)diagonal[j] / K;
    }
    const pare_factor_opts opts = {.damp = 0.05F, .order = _i ? order : NULL};
    pare_factor f;
    ck_assert_int_eq(pare_factorize(&cx, &arena, &opts, copy(h, K * K), K, &f), PARE_OK);
    pare_isc_costs(&f, diagonal, cost);
    for (size_t i = 0; i < K; i++)
        for (size_t j = 0; j < K; j++)
            damped[i * K + j] = (double)h[order[i] * K + order[j]] + (i == j ? 0.05 * mean : 0);
    double alone[K];
    for (size_t j = 0; j < K; j++)
        alone[j] = damped[j * (K + 1)];
    eliminate(damped, left);
    for (size_t j = 0; j < K; j++) {
        const double want = sqrt(alone[j] + left[j]);
        ck_assert_double_le(fabs((double)cost[j] - want), 1e-5 * want);
    }
    ck_assert_double_lt(left[0], 0.9 * alone[0]); /* so that leaving one out would be seen */
}
END_TEST

START_TEST(costs_scale_with_the_hessian_and_are_finite_where_inputs_are_dead)
{
    float *const h = hessian(K), *const diagonal = take(K, sizeof *diagonal);
    float cost[2][K];
    for (size_t j = 0; j < K; j++)
        h[DEAD * K + j] = h[j * K + DEAD] = 0;
    for (int turn = 0; turn < 2; turn++) {
        const pare_factor f = factorize(h, K, false);
        for (size_t j = 0; j < K; j++)
            diagonal[j] = h[j * (K + 1)];
        pare_isc_costs(&f, diagonal, cost[turn]);
        for (size_t i = 0; i < K * K; i++)
            h[i] *= 1024;
    }
    for (size_t j = 0; j < K; j++) {
        ck_assert(isfinite(cost[0][j]) && cost[0][j] > 0);
        ck_assert_float_le(fabsf(cost[1][j] - 32 * cost[0][j]), 1e-4F * cost[1][j]);
    }
}
END_TEST

START_TEST(sensitivity_is_the_mean_of_the_diagonal)
{
    float *const h = hessian(K);
    double want = 0, got;
    for (size_t j = 0; j < K; j++)
        want += (double)h[j * (K + 1)];
    ck_assert_int_eq(pare_isc_sensitivity(&cx, h, K, &got), PARE_OK);
    ck_assert_double_le(fabs(got - want / K), 1e-12 * want);
    static const float wrong[] = {NAN, INFINITY, -1};
    for (size_t i = 0; i < 3; i++) {
        h[9 * (K + 1)] = wrong[i];
        pare_ctx_clear(&cx);
        ck_assert_int_eq(pare_isc_sensitivity(&cx, h, K, &got), PARE_ENUMERIC);
        ck_assert_ptr_nonnull(strstr(cx.what, "input 9 has a sum of squares of"));
    }
}
END_TEST

enum { COUNT = 23 };

/* Some of equal importance. */
static void some(pare_ratio *r)
{
    for (size_t i = 0; i < COUNT; i++)
        r[i] = (pare_ratio){.n = 3 + i * 7 % 29, .k = 5 + i, .importance = (double)(i * 5 % 11)};
}

/* How many matter more than i, the first of equals least. */
static size_t above(const double *importance, size_t i)
{
    size_t count = 0;
    for (size_t j = 0; j < COUNT; j++)
        count += importance[j] > importance[i] || (importance[j] == importance[i] && j > i);
    return count;
}

START_TEST(what_goes_rises_by_the_same_with_each_that_matters_more)
{
    pare_ratio r[COUNT], bent[COUNT];
    double importance[COUNT], gone = 0, all = 0, most = 0, least = 1, range = 0;
    some(r);
    memcpy(bent, r, sizeof r);
    for (size_t i = 0; i < COUNT; i++) {
        importance[i] = r[i].importance;
        bent[i].importance = exp(3 * importance[i]) - 1e6;
    }
    ck_assert_int_eq(pare_isc_rank(&arena, r, COUNT), PARE_OK);
    ck_assert_int_eq(pare_isc_rank(&arena, bent, COUNT), PARE_OK);
    pare_ratios_spread(r, COUNT, 0.6, 0.1);
    pare_ratios_spread(bent, COUNT, 0.6, 0.1);
    for (size_t i = 0; i < COUNT; i++) {
        ck_assert_mem_eq(&r[i].ratio, &bent[i].ratio, sizeof r->ratio);
        const double weights = (double)(r[i].n * r[i].k);
        gone += r[i].ratio * weights;
        all += weights;
        most = fmax(most, fabs(r[i].ratio - 0.6));
        least = fmin(least, r[i].ratio);
    }
    ck_assert_double_eq_tol(gone / all, 0.6, 1e-12);
    ck_assert_double_eq_tol(most, 0.1, 1e-12);
    for (size_t i = 0; i < COUNT; i++)
        range = fmax(range, r[i].ratio - least);
    ck_assert_double_gt(range, 0.1);
    for (size_t i = 0; i < COUNT; i++)
        ck_assert_double_eq_tol(r[i].ratio - least,
                                range * (double)above(importance, i) / (COUNT - 1), 1e-12);
}
END_TEST

START_TEST(every_failed_allocation_is_reported_and_leaks_nothing)
{
    long n = 0;
    for (bool done = false; !done; n++) {
        pare_ctx failing;
        pare_ratio r[COUNT];
        pare_ctx_init(&failing);
        unit_failing left = {.left = n};
        failing.alloc = (pare_alloc){unit_failing_resize, &left};
        pare_arena a;
        some(r);
        ck_assert_int_eq(pare_arena_init(&failing, &a, 0), PARE_OK);
        const pare_status s = pare_isc_rank(&a, r, COUNT);
        done = s == PARE_OK;
        ck_assert(done || s == PARE_ENOMEM);
        pare_arena_release(&a);
        ck_assert_int_eq(left.live, 0);
    }
    ck_assert_int_gt(n, 1);
}
END_TEST

int main(void)
{
    Suite *const s = suite_create("isc");
    TCase *const t = tcase_create("isc");
    tcase_add_checked_fixture(t, quant_setup, quant_teardown);
    tcase_add_loop_test(t, a_weight_costs_what_it_costs_alone_and_adjusted, 0, 2);
    tcase_add_test(t, costs_scale_with_the_hessian_and_are_finite_where_inputs_are_dead);
    tcase_add_test(t, sensitivity_is_the_mean_of_the_diagonal);
    tcase_add_test(t, what_goes_rises_by_the_same_with_each_that_matters_more);
    tcase_add_test(t, every_failed_allocation_is_reported_and_leaks_nothing);
    suite_add_tcase(s, t);
    return unit_main(s);
}
