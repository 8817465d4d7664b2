#include "kernels/half.h"
#include "quant/kmeans.h"
#include "quant/squeezellm.h"
#include "tests/unit/quant_case.h"

/* Least cost over all ways to cut sorted points into at most `left` runs. */
static double exhaustive(const pare_kmeans_point *p, size_t count, size_t left)
{
    if (count == 0)
        return 0;
    if (left == 0)
        return INFINITY;
    double best = INFINITY;
    for (size_t first = 1; first <= count; first++) {
        double w = 0, x = 0, c = 0;
        for (size_t i = 0; i < first; i++) {
            w += p[i].weight;
            x += p[i].weight * (double)p[i].value;
        }
        for (size_t i = 0; i < first; i++)
            c += p[i].weight * ((double)p[i].value - x / w) * ((double)p[i].value - x / w);
        const double rest = exhaustive(p + first, count - first, left - 1);
        best = fmin(best, c + rest);
    }
    return best;
}

static double cost_of(const pare_kmeans_point *p, size_t count, const float *center, size_t centers)
{
    double sum = 0;
    for (size_t i = 0; i < count; i++) {
        double least = INFINITY;
        for (size_t c = 0; c < centers; c++)
            least = fmin(least, fabs((double)p[i].value - (double)center[c]));
        sum += p[i].weight * least * least;
    }
    return sum;
}

START_TEST(codebook_is_the_best_of_all_partitions)
{
    pare_kmeans s;
    ck_assert_int_eq(pare_kmeans_take(&arena, 16, &s), PARE_OK);
    for (uint64_t round = 0; round < 200; round++) {
        const size_t count = 1 + round % 12, centers = 1 + round % 5;
        for (size_t i = 0; i < count; i++) {
            float v = (float)pare_random_normal(1, round, i);
            v = round % 4 ? v : roundf(v); /* equal values */
            s.point[i] =
                (pare_kmeans_point){v, (uint32_t)i, 0.01 + pare_random_unit(2, round, i) * 5};
        }
        float center[PARE_KMEANS_CENTERS];
        const double mine = pare_kmeans_solve(&s, count, centers, center);
        const double want = exhaustive(s.point, count, centers); /* now sorted */
        ck_assert_double_eq_tol(mine, want, 1e-9);
        ck_assert_double_eq_tol(cost_of(s.point, count, center, centers), want, 1e-5);
        for (size_t c = 1; c < centers; c++)
            ck_assert_float_ge(center[c], center[c - 1]);
    }
}
END_TEST

/* Lloyd's iteration from quantiles, as usually done, cannot be better. */
START_TEST(weights_far_apart_give_centers_among_the_values)
{
    pare_kmeans s;
    float center[8];
    ck_assert_int_eq(pare_kmeans_take(&arena, 8, &s), PARE_OK);
    for (size_t i = 0; i < 8; i++)
        s.point[i] = (pare_kmeans_point){(float)i + 1, (uint32_t)i, i < 2 ? 1e20 : 1e-3};
    (void)pare_kmeans_solve(&s, 8, 8, center);
    for (size_t c = 0; c < 8; c++)
        ck_assert_float_eq(center[c], (float)c + 1);
}
END_TEST

START_TEST(codebook_of_a_long_row_beats_lloyd)
{
    enum { COUNT = 1000, CENTERS = 16 };
    pare_kmeans s;
    ck_assert_int_eq(pare_kmeans_take(&arena, COUNT, &s), PARE_OK);
    for (size_t i = 0; i < COUNT; i++)
        s.point[i] = (pare_kmeans_point){(float)pare_random_normal(3, 3, i), (uint32_t)i,
                                         0.1 + pare_random_unit(4, 4, i)};
    float center[CENTERS], lloyd[CENTERS];
    const double mine = pare_kmeans_solve(&s, COUNT, CENTERS, center);
    for (size_t c = 0; c < CENTERS; c++)
        lloyd[c] = s.point[(2 * c + 1) * COUNT / (2 * CENTERS)].value;
    for (int round = 0; round < 200; round++) {
        double w[CENTERS] = {0}, x[CENTERS] = {0};
        for (size_t i = 0; i < COUNT; i++) {
            size_t at = 0;
            for (size_t c = 1; c < CENTERS; c++)
                if (fabsf(s.point[i].value - lloyd[c]) < fabsf(s.point[i].value - lloyd[at]))
                    at = c;
            w[at] += s.point[i].weight;
            x[at] += s.point[i].weight * (double)s.point[i].value;
        }
        for (size_t c = 0; c < CENTERS; c++)
            lloyd[c] = w[c] > 0 ? (float)(x[c] / w[c]) : lloyd[c];
    }
    const double theirs = cost_of(s.point, COUNT, lloyd, CENTERS);
    ck_assert_double_le(mine, theirs * 1.0000001);
    ck_assert_double_gt(mine, 0.7 * theirs);
    ck_assert_double_eq_tol(mine, cost_of(s.point, COUNT, center, CENTERS), 1e-6 * mine);
}
END_TEST

enum { N = 37, K = 172 };

static pare_codes squeeze(unsigned bits, double fraction, const float *s, const float *w)
{
    pare_codes c;
    const pare_squeezellm_opts opts = {.bits = bits, .fraction = fraction};
    ck_assert_int_eq(pare_squeezellm_quantize(&cx, &arena, &opts, s, w, N, K, &c), PARE_OK);
    return c;
}

static float *heavy_weights(void)
{
    float *const w = weights(N, K);
    for (size_t i = 0; i < N * K; i += 97)
        w[i] *= 9;
    return w;
}

static double weighted_error(const float *s, const float *w, const float *q)
{
    double sum = 0;
    for (size_t i = 0; i < N * K; i++)
        sum += (double)s[i % K] * ((double)w[i] - (double)q[i]) * ((double)w[i] - (double)q[i]);
    return sum;
}

static const pare_grid codebook3 = {.bits = 3, .encoding = PARE_ENCODING_CODEBOOK};

START_TEST(sensitivity_and_sparse_weights_lower_the_loss)
{
    const float *const w = heavy_weights();
    float *const s = take(K, sizeof *s);
    for (size_t j = 0; j < K; j++)
        s[j] = j % 10 ? 0.01F : 30;
    const pare_codes flat = squeeze(3, 0, NULL, w), aware = squeeze(3, 0, s, w),
                     apart = squeeze(3, 0.0045, s, w);
    const pare_grid uniform = {.bits = 3, .f16_scales = true};
    pare_codes rtn;
    ck_assert_int_eq(pare_codes_take(&arena, &uniform, N, K, &rtn), PARE_OK);
    ck_assert_int_eq(pare_rtn_quantize(&cx, &uniform, w, NULL, N, K, &rtn), PARE_OK);
    const double e_rtn = weighted_error(s, w, values(&uniform, &rtn)),
                 e_flat = weighted_error(s, w, values(&codebook3, &flat)),
                 e_aware = weighted_error(s, w, values(&codebook3, &aware)),
                 e_apart = weighted_error(s, w, values(&codebook3, &apart));
    ck_assert_double_lt(e_flat, 0.6 * e_rtn);
    ck_assert_double_lt(e_aware, 0.6 * e_flat);
    ck_assert_double_lt(e_apart, 0.95 * e_aware);
    ck_assert_double_lt(square_error(w, values(&codebook3, &flat), N * K),
                        square_error(w, values(&codebook3, &aware), N * K));
}
END_TEST

START_TEST(fixed_number_of_the_largest_is_kept_apart)
{
    const float *const w = heavy_weights();
    const pare_codes c = squeeze(4, 0.0045, NULL, w);
    const size_t want = (size_t)ceil(0.0045 * N * K), sensitive = want / 9;
    ck_assert_uint_eq(c.sparse, want);
    ck_assert_uint_eq(c.sparse_start[0], 0);
    ck_assert_uint_eq(c.sparse_start[N], want);
    const pare_grid g = {.bits = 4, .encoding = PARE_ENCODING_CODEBOOK};
    const float *const q = values(&g, &c);
    size_t larger = 0;
    for (size_t i = 0; i < N; i++)
        for (size_t e = c.sparse_start[i]; e < c.sparse_start[i + 1]; e++) {
            const size_t j = c.sparse_column[e], at = i * K + j;
            ck_assert(e == c.sparse_start[i] || c.sparse_column[e - 1] < j);
            ck_assert_float_eq_tol(q[at], w[at], 2e-3F * fabsf(w[at]));
            size_t before = 0;
            for (size_t o = 0; o < N * K; o++)
                before += fabsf(w[o]) > fabsf(w[at]);
            larger += before < want - sensitive;
        }
    ck_assert_uint_eq(larger, want - sensitive);
}
END_TEST

START_TEST(equal_weights_still_give_the_fixed_number)
{
    float *const w = take(N * K, sizeof *w);
    for (size_t i = 0; i < N * K; i++)
        w[i] = i % 3 ? 0.5F : -0.5F;
    const pare_codes c = squeeze(3, 0.01, NULL, w);
    ck_assert_uint_eq(c.sparse_start[N], pare_squeezellm_count(0.01, N, K));
    ck_assert_uint_eq(c.sparse_start[N], (size_t)ceil(0.01 * N * K));
    const float *const q = values(&codebook3, &c);
    ck_assert_mem_eq(q, w, N * K * sizeof *q);
}
END_TEST

START_TEST(threads_do_not_change_a_codebook)
{
    const float *const w = heavy_weights();
    const pare_codes one = squeeze(4, 0.01, NULL, w);
    ck_assert_int_eq(pare_pool_new(&cx, 3, &cx.pool), PARE_OK);
    const pare_codes many = squeeze(4, 0.01, NULL, w);
    ck_assert_mem_eq(one.book, many.book, N * 16 * sizeof *one.book);
    ck_assert_mem_eq(one.codes, many.codes, N * K);
    ck_assert_mem_eq(one.sparse_column, many.sparse_column, one.sparse * 4);
    for (size_t i = 0; i < N * 16; i++)
        ck_assert_float_eq(one.book[i], pare_f16_to_f32(pare_f32_to_f16(one.book[i])));
}
END_TEST

START_TEST(what_cannot_be_is_refused)
{
    float *const w = weights(N, K);
    pare_codes c;
    pare_squeezellm_opts opts = {.bits = 2};
    ck_assert_int_eq(pare_squeezellm_quantize(&cx, &arena, &opts, NULL, w, N, K, &c), PARE_EINVAL);
    ck_assert_ptr_nonnull(strstr(cx.what, "2 bits"));
    pare_ctx_clear(&cx);
    opts = (pare_squeezellm_opts){.bits = 3, .fraction = 0.6};
    ck_assert_int_eq(pare_squeezellm_quantize(&cx, &arena, &opts, NULL, w, N, K, &c), PARE_EINVAL);
    pare_ctx_clear(&cx);
    opts.fraction = 0.01;
    w[5 * K] = NAN;
    ck_assert_int_eq(pare_squeezellm_quantize(&cx, &arena, &opts, NULL, w, N, K, &c),
                     PARE_ENUMERIC);
    ck_assert_ptr_nonnull(strstr(cx.what, "row 5"));
    pare_ctx_clear(&cx);
    w[5 * K] = 70000;
    ck_assert_int_eq(pare_squeezellm_quantize(&cx, &arena, &opts, NULL, w, N, K, &c),
                     PARE_ENUMERIC);
    pare_ctx_clear(&cx);
    for (size_t j = 0; j < K; j++) /* a row whose centers are all below 0 */
        w[5 * K + j] = -6e4F + (float)j;
    w[5 * K + 7] = 65000;
    opts.fraction = 1.0 / (N * K);
    ck_assert_int_eq(pare_squeezellm_quantize(&cx, &arena, &opts, NULL, w, N, K, &c),
                     PARE_ENUMERIC);
    ck_assert_ptr_nonnull(strstr(cx.what, "row 5, column 7: of the weight 65000 its code leaves"));
}
END_TEST

START_TEST(every_failed_allocation_is_survived)
{
    const float *const w = weights(N, K);
    long n = 0;
    for (bool done = false; !done; n++) {
        pare_ctx x;
        pare_ctx_init(&x);
        unit_failing f = {.left = n};
        x.alloc = (pare_alloc){unit_failing_resize, &f};
        pare_arena a;
        pare_codes c;
        const pare_squeezellm_opts opts = {.bits = 4, .fraction = 0.02};
        pare_status s = pare_arena_init(&x, &a, 0);
        if (s == PARE_OK)
            s = pare_squeezellm_quantize(&x, &a, &opts, NULL, w, N, K, &c);
        done = s == PARE_OK;
        if (!done)
            ck_assert_int_eq(s, PARE_ENOMEM);
        pare_arena_release(&a);
        ck_assert_int_eq(f.live, 0);
    }
    ck_assert_int_gt(n, 2);
}
END_TEST

int main(void)
{
    Suite *const s = suite_create("squeezellm");
    TCase *const t = tcase_create("squeezellm");
    tcase_add_checked_fixture(t, quant_setup, quant_teardown);
    tcase_add_test(t, codebook_is_the_best_of_all_partitions);
    tcase_add_test(t, weights_far_apart_give_centers_among_the_values);
    tcase_add_test(t, codebook_of_a_long_row_beats_lloyd);
    tcase_add_test(t, sensitivity_and_sparse_weights_lower_the_loss);
    tcase_add_test(t, fixed_number_of_the_largest_is_kept_apart);
    tcase_add_test(t, equal_weights_still_give_the_fixed_number);
    tcase_add_test(t, threads_do_not_change_a_codebook);
    tcase_add_test(t, what_cannot_be_is_refused);
    tcase_add_test(t, every_failed_allocation_is_survived);
    suite_add_tcase(s, t);
    return unit_main(s);
}
