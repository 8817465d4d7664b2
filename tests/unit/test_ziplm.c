/* ZipLM: costs and weights against the least squares that they stand for, set by set in double. */
#include "prune/ziplm.h"

#include "tests/unit/quant_case.h"

enum { N = 9, K = 26, KEPT = 7 };

/* x = a^-1 b of a symmetric positive matrix [n, n], by elimination; both overwritten. */
static void solve(double *a, double *b, size_t n)
{
    for (size_t p = 0; p < n; p++)
        for (size_t i = p + 1; i < n; i++) {
            const double f = a[i * n + p] / a[p * n + p];
            for (size_t j = p; j < n; j++)
                a[i * n + j] -= f * a[p * n + j];
            b[i] -= f * b[p];
        }
    for (size_t p = n; p-- > 0;) {
        for (size_t j = p + 1; j < n; j++)
            b[p] -= a[p * n + j] * b[j];
        b[p] /= a[p * n + p];
    }
}

/* H with the damping of the method. */
static double *damped(const float *h, size_t k)
{
    double *const d = take(k * k, sizeof *d), mean = 0;
    for (size_t j = 0; j < k; j++)
        mean += (double)h[j * (k + 1)] / (double)k;
    for (size_t i = 0; i < k * k; i++)
        d[i] = (double)h[i] + (i % (k + 1) == 0 ? 0.01 * mean : 0.0);
    return d;
}

/* The row that is best on the inputs with keep[j], and what it misses: H_KK x = H_K: w. */
static double best_row(const double *h, const float *w, const uint8_t *keep, double *out)
{
    double a[K * K], b[K], error = 0;
    size_t of[K], n = 0;
    for (size_t j = 0; j < K; j++)
        if (keep[j])
            of[n++] = j;
    for (size_t i = 0; i < n; i++) {
        b[i] = 0;
        for (size_t j = 0; j < K; j++)
            b[i] += h[of[i] * K + j] * (double)w[j];
        for (size_t j = 0; j < n; j++)
            a[i * n + j] = h[of[i] * K + of[j]];
    }
    solve(a, b, n);
    memset(out, 0, K * sizeof *out);
    for (size_t i = 0; i < n; i++)
        out[of[i]] = b[i];
    for (size_t i = 0; i < K; i++)
        for (size_t j = 0; j < K; j++)
            error += ((double)w[i] - out[i]) * h[i * K + j] * ((double)w[j] - out[j]);
    return error;
}

static double best_error(const double *h, const float *w, const uint8_t *keep, double *out)
{
    double sum = 0;
    for (size_t i = 0; i < N; i++)
        sum += best_row(h, w + i * K, keep, out + i * K);
    return sum;
}

START_TEST(each_that_goes_costs_least_of_all_that_could)
{
    float *const h = hessian(K), *const w = weights(N, K), *const got = copy(w, (size_t)N * K);
    double *const d = damped(h, K), lost[K - KEPT + 1], want[N * K];
    uint8_t keep[K], left[K];
    ck_assert_int_eq(pare_ziplm_prune(&cx, &arena, got, copy(h, K * K), N, K, KEPT, keep, lost),
                     PARE_OK);
    memset(left, 1, sizeof left);
    ck_assert_double_eq(lost[0], 0);
    for (size_t gone = 1; gone <= K - KEPT; gone++) {
        size_t least = 0;
        double cost = INFINITY;
        for (size_t j = 0; j < K; j++) {
            if (!left[j])
                continue;
            left[j] = 0;
            const double c = best_error(d, w, left, want);
            left[j] = 1;
            if (c < cost) {
                cost = c;
                least = j;
            }
        }
        left[least] = 0;
        ck_assert_double_le(fabs(lost[gone] - cost), 1e-4 * cost);
    }
    ck_assert_mem_eq(keep, left, K);
    const double error = best_error(d, w, left, want);
    ck_assert_double_le(fabs(lost[K - KEPT] - error), 1e-4 * error);
    for (size_t i = 0; i < (size_t)N * K; i++) {
        ck_assert_double_le(fabs((double)got[i] - want[i]), 1e-4);
        if (!keep[i % K])
            ck_assert(got[i] == 0 && !signbit(got[i]));
    }
}
END_TEST

/* Of two inputs that are one, the first goes and the other takes its weights; an input that nobody
 * saw goes before any. */
START_TEST(what_nobody_needs_goes_for_nothing)
{
    enum { TWIN = 4, OTHER = 11, DEAD = 8 };
    float *const h = hessian(K), *const w = weights(N, K), *const got = copy(w, (size_t)N * K);
    double lost[3];
    uint8_t keep[K];
    for (size_t j = 0; j < K; j++)
        h[OTHER * K + j] = h[TWIN * K + j];
    for (size_t j = 0; j < K; j++)
        h[j * K + OTHER] = h[j * K + TWIN];
    for (size_t j = 0; j < K; j++)
        h[DEAD * K + j] = h[j * K + DEAD] = 0;
    ck_assert_int_eq(pare_ziplm_prune(&cx, &arena, got, h, N, K, K - 2, keep, lost), PARE_OK);
    ck_assert(!keep[DEAD] && keep[TWIN] != keep[OTHER]);
    ck_assert_double_eq(lost[1], 0);
    const size_t went = keep[TWIN] ? OTHER : TWIN, stays = keep[TWIN] ? TWIN : OTHER;
    for (size_t i = 0; i < N; i++) {
        const double sum = (double)w[i * K + went] + (double)w[i * K + stays];
        ck_assert_double_le(fabs((double)got[i * K + stays] - sum), 0.02 * fabs(sum) + 2e-3);
    }
}
END_TEST

START_TEST(bytes_are_the_same_for_any_number_of_threads)
{
    enum { WIDE = 150 };
    float *const h = hessian(WIDE), *const w = weights(N, WIDE);
    float *const one = copy(w, (size_t)N * WIDE);
    double lost[2][WIDE];
    uint8_t keep[2][WIDE];
    ck_assert_int_eq(pare_ziplm_prune(&cx, &arena, one, h, N, WIDE, 40, keep[0], lost[0]), PARE_OK);
    ck_assert_int_eq(pare_pool_new(&cx, 5, &cx.pool), PARE_OK);
    ck_assert_int_eq(pare_ziplm_prune(&cx, &arena, w, h, N, WIDE, 40, keep[1], lost[1]), PARE_OK);
    ck_assert_mem_eq(one, w, (size_t)N * WIDE * sizeof *w);
    ck_assert_mem_eq(keep[0], keep[1], WIDE);
    ck_assert_mem_eq(lost[0], lost[1], (WIDE - 40 + 1) * sizeof **lost);
}
END_TEST

START_TEST(a_hessian_that_is_no_number_is_told)
{
    float *const h = hessian(K), *const w = weights(N, K);
    double lost[K];
    h[3 * K + 2] = NAN;
    ck_assert_int_eq(pare_ziplm_prune(&cx, &arena, w, h, N, K, 1, NULL, lost), PARE_ENUMERIC);
    pare_ctx_clear(&cx);
}
END_TEST

/* The triangle that H is factored in comes from the allocator, all else from the arena. */
START_TEST(scratch_is_what_was_said)
{
    enum { WIDE = 150 };
    const float *const h = hessian(WIDE), *const w = weights(N, WIDE);
    double lost[WIDE];
    pare_ctx own;
    pare_arena a;
    pare_ctx_init(&own);
    const uint64_t bytes = pare_ziplm_bytes(N, WIDE);
    ck_assert_int_eq(pare_arena_init(&own, &a, bytes - pare_factor_bytes(WIDE)), PARE_OK);
    own.limit_bytes = own.live_bytes + pare_factor_bytes(WIDE);
    const pare_status s = pare_ziplm_prune(&own, &a, copy(w, (size_t)N * WIDE),
                                           copy(h, (size_t)WIDE * WIDE), N, WIDE, 1, NULL, lost);
    ck_assert_msg(s == PARE_OK, "%s", own.what);
    pare_arena_release(&a);
    ck_assert_uint_eq(own.live_bytes, 0);
}
END_TEST

START_TEST(of_equal_costs_the_lower_input_goes)
{
    float *const h = take((size_t)K * K, sizeof *h), *const w = take(K, sizeof *w);
    double lost[4];
    uint8_t keep[K];
    for (size_t j = 0; j < K; j++) {
        h[j * (K + 1)] = 2;
        w[j] = j % 2 ? -1.0F : 1.0F;
    }
    ck_assert_int_eq(pare_ziplm_prune(&cx, &arena, w, h, 1, K, K - 3, keep, lost), PARE_OK);
    for (size_t j = 0; j < K; j++)
        ck_assert_int_eq(keep[j], j >= 3);
}
END_TEST

int main(void)
{
    Suite *const s = suite_create("ziplm");
    TCase *const t = tcase_create("ziplm");
    tcase_add_checked_fixture(t, quant_setup, quant_teardown);
    tcase_add_test(t, each_that_goes_costs_least_of_all_that_could);
    tcase_add_test(t, what_nobody_needs_goes_for_nothing);
    tcase_add_test(t, bytes_are_the_same_for_any_number_of_threads);
    tcase_add_test(t, of_equal_costs_the_lower_input_goes);
    tcase_add_test(t, a_hessian_that_is_no_number_is_told);
    tcase_add_test(t, scratch_is_what_was_said);
    suite_add_tcase(s, t);
    return unit_main(s);
}
