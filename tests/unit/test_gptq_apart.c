/* GPTQ with columns kept apart at the end of the order. */
#include "kernels/half.h"
#include "quant/outliers.h"
#include "tests/unit/quant_case.h"

static const pare_grid g32 = {.bits = 4, .group = 32, .symmetric = true, .f16_scales = true},
                       row = {.bits = 4, .symmetric = true, .clip = PARE_CLIP_MSE};

static pare_codes apart(const pare_factor_opts *opts, const pare_gptq_opts *blocks,
                        const pare_grid *g, const float *w, const float *h, size_t n, size_t k)
{
    pare_factor f;
    pare_codes c;
    ck_assert_int_eq(pare_factorize(&cx, &arena, opts, copy(h, k * k), k, &f), PARE_OK);
    ck_assert_uint_eq(f.apart, opts->apart);
    ck_assert_int_eq(pare_outliers_gptq(&cx, &arena, blocks, g, &f, copy(w, n * k), n, k, &c),
                     PARE_OK);
    return c;
}

/* Columns before those of the largest diagonal, then these; both ascend. */
static void textbook_order(const float *h, size_t k, size_t last, uint32_t *order)
{
    size_t inner = 0, outer = k - last;
    for (size_t j = 0; j < k; j++) {
        size_t larger = 0;
        for (size_t l = 0; l < k; l++)
            larger +=
                h[l * (k + 1)] > h[j * (k + 1)] || (h[l * (k + 1)] == h[j * (k + 1)] && l < j);
        order[larger < last ? outer++ : inner++] = (uint32_t)j;
    }
}

/* H^-1 of the damped and reordered matrix, by Gauss-Jordan. */
static double *textbook_inverse(const float *h, const uint32_t *order, size_t k)
{
    double *const a = take(k * k, sizeof *a), *const x = take(k * k, sizeof *x), mean = 0;
    for (size_t j = 0; j < k; j++)
        mean += (double)h[j * (k + 1)] / (double)k;
    for (size_t i = 0; i < k * k; i++) {
        const size_t r = i / k, c = i % k;
        a[i] = (double)h[order[r] * k + order[c]] + (r == c ? 0.01 * mean : 0);
        x[i] = r == c;
    }
    for (size_t p = 0; p < k; p++) {
        const double pivot = a[p * (k + 1)];
        for (size_t j = 0; j < k; j++) {
            a[p * k + j] /= pivot;
            x[p * k + j] /= pivot;
        }
        for (size_t i = 0; i < k; i++) {
            const double f = a[i * k + p];
            for (size_t j = 0; i != p && j < k; j++) {
                a[i * k + j] -= f * a[p * k + j];
                x[i * k + j] -= f * x[p * k + j];
            }
        }
    }
    return x;
}

/* One row while it is swept, columns in their own places. */
typedef struct sweep {
    const pare_grid *g;
    size_t k, last, block, i;
    const uint32_t *order;
    double *w;    /* by position */
    bool *zero;   /* by position: stays 0 */
    float *scale; /* by group */
    float outer;
} sweep;

/* Grids of the groups whose first inner column stands at positions [p, p + block). */
static void textbook_fit(sweep *s, size_t p)
{
    const size_t k = s->k, inner = k - s->last, group = s->g->group ? s->g->group : k;
    float *const now = take(k, sizeof *now);
    for (size_t q = 0; q < inner; q++)
        now[s->order[q]] = (float)s->w[q]; /* columns kept apart are 0 */
    for (size_t c = 0; c < k; c += group) {
        size_t first = 0;
        while (first < inner && s->order[first] < c)
            first++;
        uint8_t zero;
        if (first >= p && first < p + s->block)
            ck_assert_int_eq(pare_grid_fit(&cx.kernels, s->g, now + c,
                                           k - c < group ? k - c : group, &s->scale[c / group],
                                           &zero),
                             PARE_GRID_OK);
    }
}

static void textbook_outer(sweep *s)
{
    float most = 0;
    for (size_t q = s->k - s->last; q < s->k; q++)
        most = fmaxf(most, fabsf((float)s->w[q]));
    s->outer = pare_f16_to_f32(pare_f32_to_f16(most / 127));
}

/* Compares the codes of one row, column by column. */
static void check_row(sweep *s, const double *inverse, const pare_codes *c)
{
    const size_t k = s->k, inner = k - s->last, group = s->g->group ? s->g->group : k;
    double *const hinv = take(k * k, sizeof *hinv);
    memcpy(hinv, inverse, k * k * sizeof *hinv);
    for (size_t p = 0; p < k; p++) {
        const size_t col = s->order[p];
        float q;
        if (p < inner && p % s->block == 0)
            textbook_fit(s, p);
        if (p == inner)
            textbook_outer(s);
        if (p < inner) {
            const float scale = s->scale[col / group];
            const uint8_t code = pare_grid_code(4, (float)s->w[p], scale, 8);
            ck_assert_uint_eq(c->codes[s->i * k + col], code);
            q = pare_grid_value(code, scale, 8);
        } else {
            const float t = fmaxf(fminf(rintf((float)s->w[p] / s->outer), 127), -127);
            ck_assert_int_eq(c->outlier_code[s->i * s->last + p - inner], (int)t);
            ck_assert_uint_eq(c->outlier_column[p - inner], col);
            ck_assert_uint_eq(c->codes[s->i * k + col], 8);
            q = t * s->outer;
        }
        const double d = hinv[p * (k + 1)], e = (s->w[p] - (double)q) / d;
        for (size_t j = 0; j < k; j++)
            s->w[j] = s->zero[j] ? 0 : s->w[j] - e * hinv[p * k + j];
        for (size_t r = p + 1; r < k; r++)
            for (size_t l = p + 1; l < k; l++)
                hinv[r * k + l] -= hinv[r * k + p] * hinv[p * k + l] / d;
    }
}

static const struct {
    size_t n, k, last, block;
    const pare_grid *grid;
    bool keep_zeros;
} cases[] = {
    {70, 70, 5, 32, &g32, false},  {3, 100, 33, 64, &g32, false}, {5, 96, 64, 32, &g32, false},
    {9, 40, 3, 128, &row, false},  {4, 33, 32, 32, &g32, false},  {9, 40, 3, 128, &row, true},
    {131, 70, 20, 32, &g32, true}, {5, 96, 64, 32, &g32, true},
};

/* Weights, a third of them 0 when zeros are kept. */
static float *case_weights(size_t n, size_t k, bool zeros)
{
    float *const w = weights(n, k);
    for (size_t i = 0; zeros && i < n * k; i++)
        w[i] = pare_random_u64(6, 1, i) % 3 ? w[i] : 0;
    return w;
}

START_TEST(equals_the_textbook_in_that_order)
{
    const size_t n = cases[_i].n, k = cases[_i].k, last = cases[_i].last;
    const pare_factor_opts opts = {.damp = 0.01F, .apart = last};
    const pare_gptq_opts blocks = {.block = cases[_i].block, .keep_zeros = cases[_i].keep_zeros};
    const float *const w = case_weights(n, k, blocks.keep_zeros), *const h = hessian(k);
    const pare_codes c = apart(&opts, &blocks, cases[_i].grid, w, h, n, k);
    uint32_t *const order = take(k, sizeof *order);
    textbook_order(h, k, last, order);
    const double *const inverse = textbook_inverse(h, order, k);
    for (size_t i = 0; i < n; i++) {
        sweep s = {.g = cases[_i].grid,
                   .k = k,
                   .last = last,
                   .block = cases[_i].block,
                   .i = i,
                   .order = order,
                   .w = take(k, sizeof *s.w),
                   .zero = take(k, sizeof *s.zero),
                   .scale = take(k, sizeof *s.scale)};
        for (size_t p = 0; p < k; p++) {
            s.w[p] = (double)w[i * k + order[p]];
            s.zero[p] = blocks.keep_zeros && s.w[p] == 0;
        }
        check_row(&s, inverse, &c);
        for (size_t g = 0; g < c.groups; g++)
            ck_assert_float_le(fabsf(c.scales[i * c.groups + g] - s.scale[g]),
                               fabsf(s.scale[g]) * 1e-3F);
    }
}
END_TEST

START_TEST(zeros_stay_when_they_are_kept_and_only_then)
{
    enum { N = 130, K = 96 };
    const float *const w = case_weights(N, K, true), *const h = hessian(K);
    for (size_t columns = 0; columns <= K; columns += 32)
        for (int keep = 0; keep < 2; keep++) {
            const pare_factor_opts opts = {.damp = 0.01F, .apart = columns};
            const pare_gptq_opts blocks = {.block = 32, .keep_zeros = keep};
            const pare_codes c = apart(&opts, &blocks, &g32, w, h, N, K);
            const float *const q = values(&g32, &c);
            size_t back = 0; /* zeros that are none any more, of columns kept apart */
            for (size_t i = 0; i < N * K; i++)
                ck_assert(!keep || w[i] != 0 || q[i] == 0);
            for (size_t i = 0; i < N * columns; i++) {
                const size_t at = i / columns * K + c.outlier_column[i % columns];
                back += w[at] == 0 && q[at] != 0;
            }
            ck_assert((back > 0) == (columns > 0 && !keep));
        }
}
END_TEST

START_TEST(output_error_is_below_that_of_nearest_codes)
{
    enum { N = 45, K = 172 };
    const float *const w = weights(N, K), *const h = hessian(K);
    float score[K];
    for (size_t j = 0; j < K; j++)
        score[j] = h[j * (K + 1)];
    for (size_t columns = 0; columns <= 48; columns += 16) {
        const pare_factor_opts opts = {.damp = 0.01F, .apart = columns};
        const pare_gptq_opts blocks = {.block = 128};
        const pare_outlier_opts nearest = {.columns = columns, .int8 = true};
        const pare_codes swept = apart(&opts, &blocks, &g32, w, h, N, K);
        pare_codes rounded;
        ck_assert_int_eq(pare_outliers_quantize(&cx, &arena, &nearest, &g32, score, copy(w, N * K),
                                                N, K, &rounded),
                         PARE_OK);
        for (size_t o = 0; o < columns; o++)
            ck_assert_uint_eq(swept.outlier_column[o], rounded.outlier_column[o]);
        ck_assert_double_lt(pare_gptq_error(&cx, w, values(&g32, &swept), h, N, K),
                            0.7 * pare_gptq_error(&cx, w, values(&g32, &rounded), h, N, K));
    }
}
END_TEST

START_TEST(any_number_of_columns_and_threads)
{
    enum { N = 300, K = 96 };
    const float *const w = weights(N, K), *const h = hessian(K);
    for (size_t columns = 0; columns <= K; columns += 32) {
        const pare_factor_opts opts = {.damp = 0.01F, .apart = columns};
        const pare_gptq_opts blocks = {.block = 32};
        const pare_codes one = apart(&opts, &blocks, &g32, w, h, N, K);
        ck_assert_int_eq(pare_pool_new(&cx, 3, &cx.pool), PARE_OK);
        const pare_codes three = apart(&opts, &blocks, &g32, w, h, N, K);
        pare_pool_free(&cx, cx.pool);
        cx.pool = NULL;
        ck_assert_mem_eq(one.codes, three.codes, N * K);
        if (columns)
            ck_assert_mem_eq(one.outlier_code, three.outlier_code, N * columns);
        ck_assert_double_lt(square_error(w, values(&g32, &one), N * K), 0.02 * 0.01 * N * K);
        ck_assert_uint_eq(one.zeros[0], 8);
    }
}
END_TEST

START_TEST(rows_of_zeros_and_dead_columns_stay_zero)
{
    enum { N = 3, K = 64 };
    float *const w = weights(N, K), *const h = hessian(K);
    memset(w + K, 0, K * sizeof *w);
    for (size_t j = 0; j < K; j++)
        h[5 * K + j] = h[j * K + 5] = 0;
    for (size_t columns = 60; columns <= K; columns += 4) {
        const pare_factor_opts opts = {.damp = 0.01F, .apart = columns};
        const pare_gptq_opts blocks = {.block = 32};
        const pare_codes c = apart(&opts, &blocks, &g32, w, h, N, K);
        const float *const q = values(&g32, &c);
        for (size_t j = 0; j < K; j++)
            ck_assert(q[K + j] == 0 && (j != 5 || q[j] == 0));
    }
}
END_TEST

/* What is wrong with a factor or the codes for it. */
static pare_status with(const pare_grid *g, size_t columns, size_t claimed, float weight)
{
    enum { N = 4, K = 64 };
    float *const w = weights(N, K), *const h = hessian(K);
    const pare_factor_opts opts = {.damp = 0.01F, .apart = columns};
    const pare_gptq_opts blocks = {.block = 32};
    pare_factor f;
    pare_codes c;
    ck_assert_int_eq(pare_factorize(&cx, &arena, &opts, h, K, &f), PARE_OK);
    ck_assert_int_eq(pare_codes_take(&arena, g, N, K, &c), PARE_OK);
    c.outliers = claimed;
    c.outlier_code = take(N, K);
    c.outlier_scale = take(N, sizeof(float));
    w[2 * K + f.order[K - 1]] = weight;
    return pare_gptq_quantize(&cx, &arena, &blocks, g, &f, w, &c, NULL);
}

START_TEST(what_cannot_be_is_refused)
{
    const pare_grid asymmetric = {.bits = 4, .group = 32},
                    nf4 = {.bits = 4, .group = 32, .encoding = PARE_ENCODING_NF4};
    ck_assert_int_eq(with(&g32, 3, 3, 1), PARE_OK);
    ck_assert_int_eq(with(&g32, 3, 4, 1), PARE_ESHAPE);
    pare_ctx_clear(&cx);
    ck_assert_int_eq(with(&asymmetric, 3, 3, 1), PARE_EINVAL);
    pare_ctx_clear(&cx);
    ck_assert_int_eq(with(&nf4, 3, 3, 1), PARE_EINVAL);
    pare_ctx_clear(&cx);
    ck_assert_int_eq(with(&g32, 3, 3, 1e6F), PARE_ENUMERIC);
    ck_assert_ptr_nonnull(strstr(cx.what, "row 2: a weight of 1e+06 cannot be kept apart"));
    pare_ctx_clear(&cx);
    pare_factor_opts opts = {.damp = 0.01F, .apart = 65};
    pare_factor f;
    ck_assert_int_eq(pare_factorize(&cx, &arena, &opts, hessian(64), 64, &f), PARE_EINVAL);
    pare_ctx_clear(&cx);
    opts.apart = 1;
    opts.act_order = true;
    ck_assert_int_eq(pare_factorize(&cx, &arena, &opts, hessian(64), 64, &f), PARE_EINVAL);
}
END_TEST

START_TEST(weights_are_not_pruned_beside_them)
{
    enum { N = 4, K = 64 };
    const pare_sparsity half = {.ratio = 0.5};
    const pare_factor_opts opts = {.damp = 0.01F, .apart = 3};
    pare_factor f;
    pare_codes c;
    ck_assert_int_eq(pare_factorize(&cx, &arena, &opts, hessian(K), K, &f), PARE_OK);
    ck_assert_int_eq(pare_codes_take(&arena, &g32, N, K, &c), PARE_OK);
    c.outliers = opts.apart;
    c.outlier_code = take(N, opts.apart);
    c.outlier_scale = take(N, sizeof(float));
    for (int grid = 0; grid < 2; grid++) {
        const pare_compensate how = {
            .factor = &f, .block = 32, .grid = grid ? &g32 : NULL, .sparsity = &half};
        pare_ctx_clear(&cx);
        ck_assert_int_eq(
            pare_compensate_run(&cx, &arena, &how, weights(N, K), N, K, grid ? &c : NULL, NULL),
            PARE_EINVAL);
        ck_assert_ptr_nonnull(strstr(cx.what, "not kept apart while weights are pruned"));
    }
}
END_TEST

START_TEST(every_failed_allocation_is_survived)
{
    enum { N = 9, K = 64 };
    const float *const w = weights(N, K), *const h = hessian(K);
    for (long n = 0, done = 0; !done; n++) {
        pare_ctx x;
        pare_ctx_init(&x);
        unit_failing f = {.left = n};
        x.alloc = (pare_alloc){unit_failing_resize, &f};
        pare_arena a;
        pare_codes c;
        pare_factor factor;
        const pare_factor_opts opts = {.damp = 0.01F, .apart = 7};
        const pare_gptq_opts blocks = {.block = 32};
        pare_status s = pare_arena_init(&x, &a, 0);
        if (s == PARE_OK)
            s = pare_factorize(&x, &a, &opts, copy(h, K * K), K, &factor);
        if (s == PARE_OK)
            s = pare_outliers_gptq(&x, &a, &blocks, &g32, &factor, copy(w, N * K), N, K, &c);
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
    Suite *const s = suite_create("gptq_apart");
    TCase *const t = tcase_create("gptq_apart");
    tcase_set_timeout(t, 60);
    tcase_add_checked_fixture(t, quant_setup, quant_teardown);
    tcase_add_loop_test(t, equals_the_textbook_in_that_order, 0, sizeof cases / sizeof *cases);
    tcase_add_test(t, zeros_stay_when_they_are_kept_and_only_then);
    tcase_add_test(t, output_error_is_below_that_of_nearest_codes);
    tcase_add_test(t, any_number_of_columns_and_threads);
    tcase_add_test(t, rows_of_zeros_and_dead_columns_stay_zero);
    tcase_add_test(t, what_cannot_be_is_refused);
    tcase_add_test(t, weights_are_not_pruned_beside_them);
    tcase_add_test(t, every_failed_allocation_is_survived);
    suite_add_tcase(s, t);
    return unit_main(s);
}
