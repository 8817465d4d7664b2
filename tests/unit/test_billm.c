#include "kernels/half.h"
#include "quant/billm.h"
#include "tests/unit/quant_case.h"

enum { N = 150, K = 300, BLOCK = 128 };

static pare_codes billm(const pare_factor *f, const float *w, size_t n, size_t k)
{
    const pare_grid g = pare_billm_grid();
    pare_codes c;
    ck_assert_int_eq(pare_codes_take(&arena, &g, n, k, &c), PARE_OK);
    ck_assert_int_eq(pare_billm_quantize(&cx, &arena, f, copy(w, n * k), &c), PARE_OK);
    return c;
}

static float *billm_values(const pare_codes *c)
{
    const pare_grid g = pare_billm_grid();
    return values(&g, c);
}

/* sign(w) mean |w| per row and block of columns. */
static float *signs(const float *w, size_t n, size_t k)
{
    float *const q = take(n * k, sizeof *q);
    for (size_t i = 0; i < n; i++)
        for (size_t c = 0; c < k; c += BLOCK) {
            const size_t end = c + BLOCK < k ? c + BLOCK : k;
            float sum = 0;
            for (size_t j = c; j < end; j++)
                sum += fabsf(w[i * k + j]);
            for (size_t j = c; j < end; j++)
                q[i * k + j] = copysignf(sum / (float)(end - c), w[i * k + j]);
        }
    return q;
}

/* Some columns of much larger weights, as salient ones are. */
static float *striped(size_t n, size_t k)
{
    float *const w = weights(n, k);
    for (size_t i = 0; i < n; i++)
        for (size_t j = 5; j < k; j += 37)
            w[i * k + j] *= 8;
    return w;
}

static float *identity(size_t k)
{
    float *const h = take(k * k, sizeof *h);
    for (size_t j = 0; j < k; j++)
        h[j * (k + 1)] = 1;
    return h;
}

START_TEST(error_is_far_below_that_of_plain_signs)
{
    const float *const w = striped(N, K), *const h = hessian(K);
    const pare_factor f = factorize(h, K, false);
    const pare_codes c = billm(&f, w, N, K);
    const double mine = pare_gptq_error(&cx, w, billm_values(&c), h, N, K),
                 plain = pare_gptq_error(&cx, w, signs(w, N, K), h, N, K);
    ck_assert_double_lt(mine, 0.15 * plain);
    const pare_factor alone = factorize(identity(K), K, false);
    const pare_codes d = billm(&alone, w, N, K);
    ck_assert_double_lt(mine, 0.7 * pare_gptq_error(&cx, w, billm_values(&d), h, N, K));
    ck_assert_double_lt(square_error(w, billm_values(&d), N * K),
                        0.3 * square_error(w, signs(w, N, K), N * K));
}
END_TEST

/* Sum of squares that `count` salient columns leave, by the definition, in double. */
static double structure_error(const float *w, size_t n, size_t k, const size_t *rank, size_t count)
{
    double sum = 0;
    for (size_t i = 0; i < n; i++) {
        double first = 0, second = 0, other = 0;
        for (size_t s = 0; s < k; s++)
            *(s < count ? &first : &other) += fabs((double)w[i * k + rank[s]]);
        first /= count ? (double)count : 1;
        other /= (double)(k - count);
        for (size_t s = 0; s < count; s++)
            second += fabs(fabs((double)w[i * k + rank[s]]) - first) / (double)count;
        for (size_t s = 0; s < k; s++) {
            const double a = fabs((double)w[i * k + rank[s]]);
            const double e = s < count ? fabs(a - first) - second : a - other;
            sum += e * e;
        }
    }
    return sum;
}

START_TEST(salient_columns_are_those_of_the_definition)
{
    enum { COLS = 96 };
    const float *const w = striped(N, COLS);
    float *const h = identity(COLS);
    for (size_t j = 0; j < COLS; j++)
        h[j * (COLS + 1)] = j == 2 || j == 3 ? 400 : 1; /* small weights, large inputs */
    const pare_factor f = factorize(h, COLS, false);
    const pare_codes c = billm(&f, w, N, COLS);
    double score[COLS];
    size_t rank[COLS];
    for (size_t j = 0; j < COLS; j++) {
        score[j] = 0;
        for (size_t i = 0; i < N; i++) /* H is diagonal: 1 / U_jj^2 is its diagonal, damped */
            score[j] += pow((double)w[i * COLS + j], 2) *
                        ((double)h[j * (COLS + 1)] + 0.01 * (94 + 800) / 96);
        rank[j] = j;
    }
    for (size_t a = 0; a < COLS; a++)
        for (size_t b = a + 1; b < COLS; b++)
            if (score[rank[b]] > score[rank[a]]) {
                const size_t t = rank[a];
                rank[a] = rank[b];
                rank[b] = t;
            }
    size_t best = 0;
    for (size_t count = 1; count <= COLS / 2; count++)
        if (structure_error(w, N, COLS, rank, count) < structure_error(w, N, COLS, rank, best))
            best = count;
    ck_assert_uint_ge(best, 5);
    ck_assert(rank[0] + rank[1] == 5 && rank[0] * rank[1] == 6);
    for (size_t s = 0; s < COLS; s++)
        ck_assert_uint_eq(c.salient[rank[s]], s < best);
}
END_TEST

START_TEST(others_are_split_where_the_error_is_least)
{
    enum { COLS = 64 };
    const float *const w = weights(40, COLS);
    const pare_factor f = factorize(identity(COLS), COLS, false);
    const pare_codes c = billm(&f, w, 40, COLS);
    const float *const q = billm_values(&c);
    for (size_t i = 0; i < 40; i++) {
        float a[COLS];
        size_t count = 0;
        double mine = 0, least = INFINITY;
        for (size_t j = 0; j < COLS; j++) {
            if (c.salient[j])
                continue;
            a[count++] = fabsf(w[i * COLS + j]);
            mine += pow((double)w[i * COLS + j] - (double)q[i * COLS + j], 2);
        }
        for (size_t p = 0; p < count; p++) { /* every magnitude as the break point */
            double sum[2] = {0}, squares[2] = {0}, number[2] = {0}, e = 0;
            for (size_t s = 0; s < count; s++) {
                const int large = a[s] > a[p];
                sum[large] += (double)a[s];
                squares[large] += (double)a[s] * (double)a[s];
                number[large]++;
            }
            for (int part = 0; part < 2; part++)
                e += number[part] > 0 ? squares[part] - sum[part] * sum[part] / number[part] : 0;
            least = fmin(least, e);
        }
        ck_assert_double_le(mine, least * 1.002); /* means are rounded to F16 */
        ck_assert_double_ge(mine, least * 0.97);  /* a sweep may take the nearer of two */
    }
}
END_TEST

START_TEST(values_are_nearest_and_exact_in_f16)
{
    const float *const w = striped(N, K);
    const pare_factor f = factorize(identity(K), K, false);
    const pare_codes c = billm(&f, w, N, K);
    const float *const q = billm_values(&c);
    for (size_t i = 0; i < N; i++)
        for (size_t j = 0; j < K; j++) {
            const float *const m = &c.book[(i * c.groups + j / BLOCK) * 4];
            const float set[2][2] = {{m[0], m[1]}, {fabsf(m[2] - m[3]), m[2] + m[3]}};
            const float *const mine = set[c.salient[j]], x = fabsf(w[i * K + j]);
            const float best = fminf(fabsf(x - mine[0]), fabsf(x - mine[1]));
            ck_assert_float_eq_tol(fabsf(w[i * K + j] - q[i * K + j]), best, 1e-6F);
        }
    for (size_t i = 0; i < N * c.groups * 4; i++)
        ck_assert_float_eq(c.book[i], pare_f16_to_f32(pare_f32_to_f16(c.book[i])));
}
END_TEST

START_TEST(threads_do_not_change_a_sign)
{
    const float *const w = striped(N, K), *const h = hessian(K);
    const pare_factor f = factorize(h, K, false);
    const pare_codes one = billm(&f, w, N, K);
    ck_assert_int_eq(pare_pool_new(&cx, 3, &cx.pool), PARE_OK);
    const pare_codes many = billm(&f, w, N, K);
    ck_assert_mem_eq(one.codes, many.codes, N * K);
    ck_assert_mem_eq(one.salient, many.salient, K);
    ck_assert_mem_eq(one.book, many.book, N * one.groups * 4 * sizeof *one.book);
}
END_TEST

START_TEST(what_cannot_be_is_refused)
{
    float *const w = weights(N, K), *const h = hessian(K);
    const pare_factor ordered = factorize(h, K, true), plain = factorize(h, K, false);
    const pare_grid g = pare_billm_grid();
    pare_codes c;
    ck_assert_int_eq(pare_codes_take(&arena, &g, N, K, &c), PARE_OK);
    ck_assert_int_eq(pare_billm_quantize(&cx, &arena, &ordered, w, &c), PARE_EINVAL);
    pare_ctx_clear(&cx);
    w[140 * K + 299] = INFINITY;
    ck_assert_int_eq(pare_billm_quantize(&cx, &arena, &plain, copy(w, N * K), &c), PARE_ENUMERIC);
    pare_ctx_clear(&cx);
    w[140 * K + 299] = 0;
    w[140 * K + 9] = 1e8F;
    ck_assert_int_eq(pare_billm_quantize(&cx, &arena, &plain, w, &c), PARE_ENUMERIC);
    ck_assert_ptr_nonnull(strstr(cx.what, "row 140, group 0"));
    pare_ctx_clear(&cx);
    plain.u[(K - 2) * K + K - 1] = 3e38F; /* the last column overflows */
    float *const large = weights(N, K);
    for (size_t i = 0; i < N * K; i++)
        large[i] = i / K == 141 ? large[i] * 1e4F : 0;
    ck_assert_int_eq(pare_billm_quantize(&cx, &arena, &plain, large, &c), PARE_ENUMERIC);
    ck_assert_ptr_nonnull(strstr(cx.what, "row 141, group 2"));
}
END_TEST

START_TEST(weights_of_zero_stay_zero)
{
    float *const w = weights(N, K);
    memset(w, 0, N * K * sizeof *w / 2);
    const pare_factor f = factorize(hessian(K), K, false);
    const pare_codes c = billm(&f, w, N, K);
    const float *const q = billm_values(&c);
    for (size_t i = 0; i < N * K / 2; i++)
        ck_assert_float_eq(q[i], 0);
}
END_TEST

int main(void)
{
    Suite *const s = suite_create("billm");
    TCase *const t = tcase_create("billm");
    tcase_add_checked_fixture(t, quant_setup, quant_teardown);
    tcase_add_test(t, error_is_far_below_that_of_plain_signs);
    tcase_add_test(t, salient_columns_are_those_of_the_definition);
    tcase_add_test(t, others_are_split_where_the_error_is_least);
    tcase_add_test(t, values_are_nearest_and_exact_in_f16);
    tcase_add_test(t, threads_do_not_change_a_sign);
    tcase_add_test(t, what_cannot_be_is_refused);
    tcase_add_test(t, weights_of_zero_stay_zero);
    suite_add_tcase(s, t);
    return unit_main(s);
}
