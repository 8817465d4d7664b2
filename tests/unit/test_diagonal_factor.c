/* A diagonal H: what is made with its diagonal alone equals what its whole factor makes. */
#include "prune/sparsegpt.h"
#include "quant/billm.h"
#include "tests/unit/quant_case.h"

enum { N = 150, K = 300 };

typedef struct factors {
    pare_factor whole, diagonal;
} factors;

/* H_jj of different sizes, and a dead column; what is not on the diagonal of `alone` is never read.
 */
static factors both(bool act_order)
{
    float *const h = take((size_t)K * K, sizeof *h), *const alone = take((size_t)K * K, sizeof *h);
    pare_factor_opts opts = {.damp = 0.01F, .act_order = act_order};
    factors f;
    for (size_t i = 0; i < (size_t)K * K; i++)
        alone[i] = NAN;
    for (size_t j = 0; j < K; j++)
        alone[j * (K + 1)] = h[j * (K + 1)] = j == 41 ? 0 : 0.3F + (float)(j * 7 % 11);
    ck_assert_int_eq(pare_factorize(&cx, &arena, &opts, h, K, &f.whole), PARE_OK);
    opts.diagonal = true;
    ck_assert_int_eq(pare_factorize(&cx, &arena, &opts, alone, K, &f.diagonal), PARE_OK);
    return f;
}

START_TEST(the_factors_are_equal)
{
    const factors f = both(_i);
    const pare_damping *const a = &f.whole.damping, *const b = &f.diagonal.damping;
    ck_assert_ptr_nonnull(f.whole.u);
    ck_assert_ptr_null(f.diagonal.u);
    ck_assert_mem_eq(f.whole.pivot, f.diagonal.pivot, K * sizeof *f.whole.pivot);
    ck_assert_mem_eq(f.whole.diagonal, f.diagonal.diagonal, K * sizeof *f.whole.diagonal);
    ck_assert_mem_eq(f.whole.dead, f.diagonal.dead, K);
    ck_assert(_i == (f.whole.order != NULL) && _i == (f.diagonal.order != NULL));
    if (_i)
        ck_assert_mem_eq(f.whole.order, f.diagonal.order, K * sizeof *f.whole.order);
    ck_assert(a->damp == b->damp && a->lambda == b->lambda && a->dead == 1 && b->dead == 1);
    ck_assert(!a->failed && !b->failed && !b->raises && !b->f64);
}
END_TEST

static pare_codes swept(const pare_factor *f, const pare_grid *g, double *loss)
{
    const pare_gptq_opts opts = {.block = 64};
    pare_codes c;
    ck_assert_int_eq(pare_codes_take(&arena, g, N, K, &c), PARE_OK);
    ck_assert_int_eq(pare_gptq_quantize(&cx, &arena, &opts, g, f, weights(N, K), &c, loss),
                     PARE_OK);
    return c;
}

START_TEST(gptq_rounds_alike)
{
    const factors f = both(_i);
    const pare_grid g = {.bits = 4, .group = 32, .symmetric = true, .clip = PARE_CLIP_WEIGHTED};
    double whole, diagonal;
    const pare_codes a = swept(&f.whole, &g, &whole), b = swept(&f.diagonal, &g, &diagonal);
    ck_assert_mem_eq(a.codes, b.codes, (size_t)N * K);
    ck_assert_mem_eq(a.scales, b.scales, N * a.groups * sizeof *a.scales);
    ck_assert_double_eq(whole, diagonal);
}
END_TEST

START_TEST(sparsegpt_prunes_alike)
{
    const factors f = both(false);
    const pare_sparsity half = {.ratio = 0.5};
    const pare_sparsegpt_opts opts = {.block = 128, .sparsity = &half};
    float *const a = weights(N, K), *const b = weights(N, K);
    ck_assert_int_eq(pare_sparsegpt_prune(&cx, &arena, &opts, &f.whole, a, N, K, NULL, NULL),
                     PARE_OK);
    ck_assert_int_eq(pare_sparsegpt_prune(&cx, &arena, &opts, &f.diagonal, b, N, K, NULL, NULL),
                     PARE_OK);
    ck_assert_mem_eq(a, b, (size_t)N * K * sizeof *a);
}
END_TEST

START_TEST(billm_chooses_alike)
{
    const factors f = both(false);
    const pare_grid g = pare_billm_grid();
    pare_codes a, b;
    ck_assert_int_eq(pare_codes_take(&arena, &g, N, K, &a), PARE_OK);
    ck_assert_int_eq(pare_codes_take(&arena, &g, N, K, &b), PARE_OK);
    ck_assert_int_eq(pare_billm_quantize(&cx, &arena, &f.whole, weights(N, K), &a), PARE_OK);
    ck_assert_int_eq(pare_billm_quantize(&cx, &arena, &f.diagonal, weights(N, K), &b), PARE_OK);
    ck_assert_mem_eq(a.codes, b.codes, (size_t)N * K);
    ck_assert_mem_eq(a.salient, b.salient, K);
    ck_assert_mem_eq(a.book, b.book, N * a.groups * 4 * sizeof *a.book);
}
END_TEST

START_TEST(what_reads_more_than_the_diagonal_is_refused)
{
    const factors f = both(true);
    const pare_grid g = {.bits = 4, .group = 32, .symmetric = true};
    const pare_upper spread = {f.whole.u, K, 128};
    const pare_gptq_opts opts = {.block = 128, .spread = &spread};
    pare_codes c;
    float *const h = take(K, sizeof *h);
    pare_factor none;
    ck_assert_int_eq(pare_codes_take(&arena, &g, N, K, &c), PARE_OK);
    ck_assert_int_eq(
        pare_gptq_quantize(&cx, &arena, &opts, &g, &f.diagonal, weights(N, K), &c, NULL),
        PARE_EINVAL);
    h[0] = INFINITY;
    ck_assert_int_eq(pare_factorize(&cx, &arena,
                                    &(pare_factor_opts){.damp = 0.01F, .diagonal = true}, h, 1,
                                    &none),
                     PARE_ENUMERIC);
}
END_TEST

int main(void)
{
    Suite *const s = suite_create("diagonal_factor");
    TCase *const t = tcase_create("diagonal_factor");
    tcase_add_checked_fixture(t, quant_setup, quant_teardown);
    tcase_add_loop_test(t, the_factors_are_equal, 0, 2);
    tcase_add_loop_test(t, gptq_rounds_alike, 0, 2);
    tcase_add_test(t, sparsegpt_prunes_alike);
    tcase_add_test(t, billm_chooses_alike);
    tcase_add_test(t, what_reads_more_than_the_diagonal_is_refused);
    suite_add_tcase(s, t);
    return unit_main(s);
}
