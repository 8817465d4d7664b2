#include <float.h>
#include <math.h>
#include <string.h>

#include "quant/gptq.h"
#include "runtime/linalg.h"
#include "tests/unit/unit.h"

static pare_ctx cx;
static pare_arena arena;
static const pare_factor_opts plain = {.damp = 0.01F};

static void setup(void)
{
    pare_ctx_init(&cx);
    ck_assert_int_eq(pare_arena_init(&cx, &arena, 0), PARE_OK);
}

static void teardown(void)
{
    pare_arena_release(&arena);
    ck_assert_uint_eq(cx.live_bytes, 0);
}

static void *take(size_t count, size_t size)
{
    void *const p = pare_arena_take(&arena, count, size);
    ck_assert_ptr_nonnull(p);
    return p;
}

static float *copy(const float *x, size_t count)
{
    return memcpy(take(count, sizeof *x), x, count * sizeof *x);
}

/* Positive definite: 2 on the diagonal, 1 beside it. */
static float *hessian(size_t k)
{
    float *const h = take(k * k, sizeof *h);
    for (size_t i = 0; i < k * k; i++)
        h[i] = i % (k + 1) == 0 ? 2 : 1;
    return h;
}

static pare_damping ladder(float damp, const float *h, size_t k)
{
    pare_factor f;
    const pare_factor_opts opts = {.damp = damp};
    ck_assert_int_eq(pare_factorize(&cx, &arena, &opts, copy(h, k * k), k, &f), PARE_OK);
    ck_assert(f.damping.failed == !f.u);
    for (size_t i = 0; f.u && i < k; i++)
        ck_assert(f.u[i * (k + 1)] > 0 && f.u[i * (k + 1)] <= FLT_MAX);
    return f.damping;
}

START_TEST(ladder_stays_on_the_first_rung_when_all_is_well)
{
    const pare_damping d = ladder(0.01F, hessian(40), 40);
    ck_assert_float_eq(d.damp, 0.01F);
    ck_assert_uint_eq(d.raises, 0);
    ck_assert(!d.f64 && !d.failed);
    ck_assert_uint_eq(d.dead, 0);
    ck_assert_uint_eq(d.pivot, 0);
}
END_TEST

START_TEST(ladder_damps_a_singular_hessian)
{
    enum { K = 300 };
    float *const h = take((size_t)K * K, sizeof *h);
    for (size_t i = 0; i < K; i++)
        for (size_t j = 0; j < K; j++) /* rank 1 */
            h[i * K + j] = (1 + (float)(i % 5)) * (1 + (float)(j % 5));
    const pare_damping none = ladder(0, h, K);
    ck_assert_float_eq(none.damp, 0.01F);
    ck_assert_uint_eq(none.raises, 1);
    ck_assert_uint_gt(none.pivot, 0);
    const pare_damping usual = ladder(0.01F, h, K);
    ck_assert_uint_eq(usual.raises, 0);
    const pare_damping tiny = ladder(1e-9F, h, K);
    ck_assert(!tiny.failed && !tiny.f64);
    ck_assert_uint_ge(tiny.raises, 1);
    ck_assert_float_lt(tiny.damp, 0.01F);
}
END_TEST

/* Eigenvalues 1 + c and 1 - c, in columns 0 and 2 of an identity. */
static float *indefinite(float c)
{
    float *const h = take(9, sizeof *h);
    h[0] = h[4] = h[8] = 1;
    h[2 * 3 + 0] = c;
    return h;
}

START_TEST(ladder_raises_damping_until_an_indefinite_hessian_factors)
{
    pare_damping d = ladder(0.01F, indefinite(1.05F), 3);
    ck_assert_float_eq_tol(d.damp, 0.1F, 1e-7F);
    ck_assert_uint_eq(d.raises, 1);
    ck_assert(!d.f64 && !d.failed);
    ck_assert_uint_eq(d.pivot, 1); /* processed last: the reversed order factors from the end */
    d = ladder(0.01F, indefinite(1.5F), 3);
    ck_assert_float_eq(d.damp, 1);
    ck_assert_uint_eq(d.raises, 2);
    ck_assert(!d.f64 && !d.failed);
    d = ladder(0.3F, indefinite(1.5F), 3);
    ck_assert_float_eq(d.damp, 1);
    ck_assert_uint_eq(d.raises, 1);
}
END_TEST

START_TEST(ladder_ends_in_double_precision_and_then_fails)
{
    pare_damping d = ladder(0.01F, indefinite(3), 3);
    ck_assert(d.failed && d.f64);
    ck_assert_float_eq(d.damp, 1);
    ck_assert_uint_eq(d.raises, 2);
    ck_assert_uint_eq(d.pivot, 1);
    const float huge[] = {3e38F}; /* 2 x 3e38 is no float: only double holds the damped pivot */
    d = ladder(1, huge, 1);
    ck_assert(d.f64 && !d.failed);
    ck_assert_float_eq(d.damp, 1);
    ck_assert_uint_eq(d.raises, 0);
    ck_assert_uint_eq(d.pivot, 1);
    const float negative[] = {-1};
    d = ladder(0.01F, negative, 1);
    ck_assert(d.failed && d.f64);
}
END_TEST

START_TEST(hessian_that_is_not_finite_is_refused_by_entry)
{
    enum { K = 200 };
    static const float bad[] = {NAN, INFINITY, -INFINITY};
    for (size_t v = 0; v < 3; v++) {
        float *const h = copy(hessian(K), (size_t)K * K);
        h[150 * K + 20] = bad[v];
        h[151 * K + 1] = NAN;
        pare_factor f;
        ck_assert_int_eq(pare_factorize(&cx, &arena, &plain, h, K, &f), PARE_ENUMERIC);
        ck_assert_ptr_nonnull(strstr(cx.what, "H[150, 20] is "));
        pare_ctx_clear(&cx);
    }
}
END_TEST

START_TEST(act_order_falls_with_ties_by_index_and_dead_columns_last)
{
    static const float diagonal[] = {1, 2, 0, 2, 1, 2, 0};
    static const uint32_t want[] = {1, 3, 5, 0, 4, 2, 6};
    enum { K = 7 };
    float *const h = take(K * K, sizeof *h);
    for (size_t j = 0; j < K; j++)
        h[j * (K + 1)] = diagonal[j];
    const pare_factor_opts opts = {.damp = 0.01F, .act_order = true};
    pare_factor f;
    ck_assert_int_eq(pare_factorize(&cx, &arena, &opts, h, K, &f), PARE_OK);
    ck_assert_mem_eq(f.order, want, sizeof want);
}
END_TEST

int main(void)
{
    Suite *const s = suite_create("gptq ladder");
    TCase *const t = tcase_create("gptq ladder");
    tcase_set_timeout(t, 60);
    tcase_add_checked_fixture(t, setup, teardown);
    tcase_add_test(t, ladder_stays_on_the_first_rung_when_all_is_well);
    tcase_add_test(t, ladder_damps_a_singular_hessian);
    tcase_add_test(t, ladder_raises_damping_until_an_indefinite_hessian_factors);
    tcase_add_test(t, ladder_ends_in_double_precision_and_then_fails);
    tcase_add_test(t, hessian_that_is_not_finite_is_refused_by_entry);
    tcase_add_test(t, act_order_falls_with_ties_by_index_and_dead_columns_last);
    suite_add_tcase(s, t);
    return unit_main(s);
}
