/* Magnitude and Wanda: what goes is +0, what stays is untouched, inputs count in Wanda alone. */
#include "prune/magnitude.h"
#include "prune/sparsegpt.h"
#include "prune/wanda.h"
#include "tests/unit/quant_case.h"

enum { N = 30, K = 70 };

/* Weights of 3 sizes, so that ties are common; some are -0. */
static float *coarse(void)
{
    float *const w = take((size_t)N * K, sizeof *w);
    for (size_t i = 0; i < (size_t)N * K; i++)
        w[i] = ((float)(pare_random_u64(3, 1, i) % 5) - 2) * -0.5F;
    return w;
}

static float *squares(void)
{
    float *const x = take(K, sizeof *x);
    for (size_t j = 0; j < K; j++)
        x[j] = j == 5 ? 0 : (float)(j % 9 + 1) * 0.3F;
    return x;
}

static pare_status prune(const pare_sparsity *s, const float *square, float *w)
{
    return square ? pare_wanda_prune(&cx, &arena, s, square, w, N, K)
                  : pare_magnitude_prune(&cx, &arena, s, w, N, K);
}

START_TEST(the_lowest_scores_become_zero_and_nothing_else_changes)
{
    static const pare_sparsity rules[] = {{.ratio = 0.4},
                                          {.ratio = 0.4, .by_row = true},
                                          {.keep = 2, .of = 4},
                                          {.ratio = 0.4, .random_ties = true, .seed = 5}};
    for (size_t r = 0; r < 8; r++) {
        const pare_sparsity *const s = &rules[r / 2];
        const float *const square = r % 2 ? squares() : NULL, *const w = coarse();
        float *const score = take((size_t)N * K, sizeof *score);
        uint8_t *const keep = take((size_t)N * K, 1);
        for (size_t i = 0; i < (size_t)N * K; i++)
            score[i] = fabsf(w[i]) * (square ? sqrtf(square[i % K]) : 1);
        ck_assert_int_eq(pare_sparsity_choose(&cx, &arena, s, score, N, K, keep), PARE_OK);
        float *const q = copy(w, (size_t)N * K);
        ck_assert_int_eq(prune(s, square, q), PARE_OK);
        for (size_t i = 0; i < (size_t)N * K; i++) {
            const float want = keep[i] ? w[i] : 0.0F;
            ck_assert(memcmp(&q[i], &want, sizeof want) == 0);
        }
    }
}
END_TEST

START_TEST(wanda_spares_weights_of_large_inputs)
{
    float w[N * K], *const square = squares();
    const pare_sparsity s = {.keep = 1, .of = 2};
    for (size_t i = 0; i < (size_t)N * K; i++)
        w[i] = i % 2 ? -1 : 2;
    for (size_t j = 0; j < K; j++)
        square[j] = j % 2 ? 9 : 1; /* 3 * 1 against 1 * 2 */
    ck_assert_int_eq(prune(&s, square, w), PARE_OK);
    for (size_t i = 0; i < (size_t)N * K; i++)
        ck_assert_float_eq(w[i], i % 2 ? -1 : 0);
}
END_TEST

START_TEST(what_is_not_finite_is_refused_by_its_place)
{
    const pare_sparsity s = {.ratio = 0.5};
    float *const w = coarse(), *const square = squares();
    w[3 * K + 8] = NAN;
    ck_assert_int_eq(prune(&s, NULL, w), PARE_ENUMERIC);
    ck_assert_ptr_nonnull(strstr(cx.what, "row 3, input 8: score nan"));
    pare_ctx_clear(&cx);
    square[4] = INFINITY;
    ck_assert_int_eq(prune(&s, square, w), PARE_ENUMERIC);
    ck_assert_ptr_nonnull(strstr(cx.what, "input 4 has a sum of squares of inf"));
    pare_ctx_clear(&cx);
    square[4] = -1;
    ck_assert_int_eq(prune(&s, square, w), PARE_ENUMERIC);
    const pare_sparsegpt_opts none = {.block = 128};
    const pare_factor f = factorize(hessian(K), K, false);
    pare_ctx_clear(&cx);
    ck_assert_int_eq(pare_sparsegpt_prune(&cx, &arena, &none, &f, w, N, K, NULL, NULL),
                     PARE_EINVAL);
    ck_assert_str_eq(cx.what, "no sparsity is given");
}
END_TEST

START_TEST(every_failed_allocation_is_reported_and_leaks_nothing)
{
    const pare_sparsity s = {.ratio = 0.5};
    const float *const w = coarse(), *const square = squares();
    long n = 0;
    for (bool done = false; !done; n++) {
        pare_ctx failing;
        pare_ctx_init(&failing);
        unit_failing left = {.left = n};
        failing.alloc = (pare_alloc){unit_failing_resize, &left};
        pare_arena a;
        ck_assert_int_eq(pare_arena_init(&failing, &a, 0), PARE_OK);
        const pare_status status =
            pare_wanda_prune(&failing, &a, &s, square, copy(w, (size_t)N * K), N, K);
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
    Suite *const s = suite_create("prune");
    TCase *const t = tcase_create("prune");
    tcase_add_checked_fixture(t, quant_setup, quant_teardown);
    tcase_add_test(t, the_lowest_scores_become_zero_and_nothing_else_changes);
    tcase_add_test(t, wanda_spares_weights_of_large_inputs);
    tcase_add_test(t, what_is_not_finite_is_refused_by_its_place);
    tcase_add_test(t, every_failed_allocation_is_reported_and_leaks_nothing);
    suite_add_tcase(s, t);
    return unit_main(s);
}
