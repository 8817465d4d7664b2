#include <math.h>
#include <string.h>

#include "quant/gptq.h"
#include "quant/rtn.h"
#include "runtime/linalg.h"
#include "runtime/random.h"
#include "runtime/threads.h"
#include "tests/unit/unit.h"

static pare_ctx cx;
static pare_arena arena;

static void setup(void)
{
    pare_ctx_init(&cx);
    ck_assert_int_eq(pare_arena_init(&cx, &arena, 0), PARE_OK);
}

static void teardown(void)
{
    pare_arena_release(&arena);
    pare_pool_free(&cx, cx.pool);
    ck_assert_uint_eq(cx.live_bytes, 0);
}

static void use_threads(size_t threads)
{
    pare_pool_free(&cx, cx.pool);
    cx.pool = NULL;
    ck_assert_int_eq(pare_pool_new(&cx, threads, &cx.pool), PARE_OK);
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

/* Inputs with a few common directions, columns of different size; H = X^T X / rows, both halves. */
static float *hessian(size_t k)
{
    const size_t rows = 3 * k;
    double *const h = take(k * k, sizeof *h), *const x = take(k, sizeof *x);
    for (size_t t = 0; t < rows; t++) {
        const double common = pare_random_normal(21, 1, t);
        for (size_t j = 0; j < k; j++)
            x[j] = (pare_random_normal(22, t, j) + common) * (0.2 + (double)(j * 7 % 11) / 5);
        for (size_t i = 0; i < k; i++)
            for (size_t j = 0; j < k; j++)
                h[i * k + j] += x[i] * x[j] / (double)rows;
    }
    float *const f = take(k * k, sizeof *f);
    for (size_t i = 0; i < k * k; i++)
        f[i] = (float)h[i];
    return f;
}

static float *weights(size_t n, size_t k)
{
    float *const w = take(n * k, sizeof *w);
    for (size_t i = 0; i < n * k; i++)
        w[i] = (float)pare_random_normal(23, 4, i) * 0.1F;
    return w;
}

typedef struct result {
    pare_factor factor;
    pare_codes codes;
    double loss;
} result;

/* How H is factored and W swept. */
typedef struct setting {
    pare_factor_opts factor;
    pare_gptq_opts sweep;
} setting;

static const setting plain = {{.damp = 0.01F}, {.block = 128}};

static result run(const setting *opts, const pare_grid *grid, const float *w, const float *h,
                  size_t n, size_t k)
{
    result r = {.loss = -1};
    ck_assert_int_eq(pare_codes_take(&arena, grid, n, k, &r.codes), PARE_OK);
    ck_assert_int_eq(pare_factorize(&cx, &arena, &opts->factor, copy(h, k * k), k, &r.factor),
                     PARE_OK);
    ck_assert_int_eq(pare_gptq_quantize(&cx, &arena, &opts->sweep, grid, &r.factor, copy(w, n * k),
                                        &r.codes, &r.loss),
                     PARE_OK);
    return r;
}

static float *values(const pare_codes *c, size_t group)
{
    float *const q = take(c->n * c->k, sizeof *q);
    for (size_t i = 0; i < c->n; i++)
        for (size_t j = 0; j < c->k; j++) {
            const size_t g = i * c->groups + (group ? j / group : 0);
            q[i * c->k + j] = pare_grid_value(c->codes[i * c->k + j], c->scales[g], c->zeros[g]);
        }
    return q;
}

/* Inverse of a positive definite matrix by Gauss-Jordan, in double. */
static double *inverse(const double *h, size_t k)
{
    double *const a = take(k * k, sizeof *a), *const x = take(k * k, sizeof *x);
    memcpy(a, h, k * k * sizeof *a);
    for (size_t p = 0; p < k; p++)
        x[p * k + p] = 1;
    for (size_t p = 0; p < k; p++) {
        const double pivot = a[p * k + p];
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

/* The rule for one group grid, by the book. Positions are columns in the order of processing. */
static bool fit_now(const pare_grid *g, size_t block, size_t position, size_t column)
{
    if (g->group == 0)
        return position == 0;
    /* at the first column of a block: all groups that begin in the block that column belongs to */
    return position % block == 0 && column / block == position / block && column % g->group == 0;
}

/* Optimal brain quantization, column by column with an explicit inverse, all in double: round w_j,
 * w -= e / [H^-1]_jj [H^-1]_j, then drop column j from H^-1 by elimination. Writes codes. */
static void by_the_book(const pare_grid *g, size_t block, const uint32_t *order, const float *w,
                        const float *h, size_t n, size_t k, uint8_t *codes, double *loss)
{
    double *const a = take(k * k, sizeof *a), *const row = take(k, sizeof *row);
    float *const now = take(k, sizeof *now), *const scale = take(k, sizeof *scale);
    float *const own = take(k, sizeof *own);
    uint8_t *const zero = take(k, 1);
    double mean = 0;
    for (size_t j = 0; j < k; j++)
        mean += (double)h[j * k + j] / (double)k;
    for (size_t j = 0; j < k; j++)
        own[j] = h[j * k + j];
    for (size_t i = 0; i < k; i++)
        for (size_t j = 0; j < k; j++)
            a[i * k + j] = (double)h[order[i] * k + order[j]] + (i == j ? 0.01 * mean : 0);
    const double *const whole = inverse(a, k);
    double *const hinv = a;
    const size_t group = g->group ? g->group : k;
    *loss = 0;
    for (size_t i = 0; i < n; i++) {
        memcpy(hinv, whole, k * k * sizeof *hinv);
        for (size_t j = 0; j < k; j++)
            row[j] = (double)w[i * k + order[j]];
        for (size_t p = 0; p < k; p++) {
            for (size_t j = 0; j < k; j++)
                now[order[j]] = (float)row[j];
            const bool fixed = order[0] != 0 || order[k - 1] != k - 1;
            for (size_t c = 0; c < k; c += group)
                if (fixed ? p == 0 : fit_now(g, block, p, c))
                    ck_assert_int_eq(pare_grid_fit_by(&cx.kernels, g, now + c, own + c,
                                                      k - c < group ? k - c : group,
                                                      &scale[c / group], &zero[c / group]),
                                     PARE_GRID_OK);
            const size_t col = order[p];
            const float s = scale[col / group];
            const uint8_t z = zero[col / group];
            const uint8_t code = pare_grid_code(g->bits, (float)row[p], s, z);
            codes[i * k + col] = code;
            const double d = hinv[p * k + p];
            const double e = (row[p] - (double)pare_grid_value(code, s, z)) / d;
            *loss += e * e * d / 2;
            for (size_t j = 0; j < k; j++)
                row[j] -= e * hinv[p * k + j];
            for (size_t r = p + 1; r < k; r++)
                for (size_t c = p + 1; c < k; c++)
                    hinv[r * k + c] -= hinv[r * k + p] * hinv[p * k + c] / d;
        }
    }
}

typedef struct book_case {
    size_t n, k;
    pare_grid grid;
    bool act_order;
    size_t block;
} book_case;

static const book_case book[] = {
    {4, 4, {.bits = 2}, false, 128},
    {8, 40, {.bits = 4, .group = 32}, false, 32},
    {8, 40, {.bits = 3, .group = 32, .symmetric = true}, false, 64},
    {8, 40, {.bits = 4, .group = 32, .f16_scales = true}, true, 128},
    {5, 100, {.bits = 3, .group = 64}, false, 32},
    {5, 100, {.bits = 3, .group = 32}, false, 64},
    {3, 70, {.bits = 4, .group = 1024, .clip = PARE_CLIP_MSE}, false, 32},
    {70, 33, {.bits = 8, .group = 32, .clip = PARE_CLIP_MSE}, true, 32},
    {130, 40, {.bits = 2, .clip = PARE_CLIP_MSE, .f16_scales = true}, false, 32},
    {130, 100, {.bits = 3, .group = 32, .clip = PARE_CLIP_WEIGHTED}, false, 64},
    {30, 100, {.bits = 3, .group = 32, .clip = PARE_CLIP_WEIGHTED, .f16_scales = true}, true, 64},
};

START_TEST(equals_the_textbook_with_an_explicit_inverse)
{
    const book_case *const c = &book[_i];
    const float *const w = weights(c->n, c->k), *const h = hessian(c->k);
    const setting opts = {{.damp = 0.01F, .act_order = c->act_order}, {.block = c->block}};
    const result r = run(&opts, &c->grid, w, h, c->n, c->k);
    uint32_t *const order = take(c->k, sizeof *order);
    for (size_t j = 0; j < c->k; j++)
        order[j] = r.factor.order ? r.factor.order[j] : (uint32_t)j;
    uint8_t *const codes = take(c->n, c->k);
    double loss;
    by_the_book(&c->grid, c->block, order, w, h, c->n, c->k, codes, &loss);
    ck_assert_mem_eq(codes, r.codes.codes, c->n * c->k);
    ck_assert_double_le(fabs(r.loss - loss), 1e-5 * loss);
    ck_assert(!c->act_order == !r.factor.order);
}
END_TEST

START_TEST(factor_squared_is_the_inverse_of_the_damped_hessian)
{
    enum { K = 300 };
    const float *const h = hessian(K);
    for (int act = 0; act < 2; act++) {
        pare_factor f;
        const pare_factor_opts opts = {.damp = 0.01F, .act_order = act};
        float *const lower = copy(h, (size_t)K * K);
        for (size_t i = 0; i < K; i++)
            for (size_t j = i + 1; j < K; j++)
                lower[i * K + j] = NAN; /* the upper triangle is not read */
        ck_assert_int_eq(pare_factorize(&cx, &arena, &opts, lower, K, &f), PARE_OK);
        double mean = 0, worst = 0;
        for (size_t j = 0; j < K; j++)
            mean += (double)h[j * K + j] / K;
        /* H U^T U = I: y = U^T U column by column would do, U H U^T = I is symmetric and cheaper */
        double *const uh = take((size_t)K * K, sizeof *uh);
        for (size_t i = 0; i < K; i++)
            for (size_t j = 0; j < K; j++)
                for (size_t t = i; t < K; t++) {
                    const size_t a = act ? f.order[t] : t, b = act ? f.order[j] : j;
                    uh[i * K + j] += (double)f.u[i * K + t] *
                                     ((double)h[a * K + b] + (a == b ? 0.01 * mean : 0));
                }
        for (size_t i = 0; i < K; i++)
            for (size_t j = 0; j < K; j++) {
                double sum = -(double)(i == j);
                for (size_t t = j; t < K; t++)
                    sum += uh[i * K + t] * (double)f.u[j * K + t];
                worst = fabs(sum) <= worst ? worst : fabs(sum);
            }
        ck_assert_double_le(worst, 2e-4);
        for (size_t i = 0; i < K; i++)
            for (size_t j = 0; j < i; j++)
                if (f.u[i * K + j] != 0)
                    ck_abort_msg("U[%zu, %zu] is not 0", i, j);
        for (size_t j = 1; act && j < K; j++) {
            const float left = h[f.order[j - 1] * (K + 1)], right = h[f.order[j] * (K + 1)];
            ck_assert(left > right || (left == right && f.order[j - 1] < f.order[j]));
        }
    }
}
END_TEST

START_TEST(beats_rtn_in_output_error)
{
    enum { N = 40, K = 172 };
    const float *const w = weights(N, K), *const h = hessian(K);
    const pare_grid grid = {.bits = 3, .group = 32, .f16_scales = true};
    const result r = run(&plain, &grid, w, h, N, K);
    pare_codes rtn;
    ck_assert_int_eq(pare_codes_take(&arena, &grid, N, K, &rtn), PARE_OK);
    ck_assert_int_eq(pare_rtn_quantize(&cx, &grid, w, NULL, N, K, &rtn), PARE_OK);
    const double mine = pare_gptq_error(&cx, w, values(&r.codes, 32), h, N, K);
    const double base = pare_gptq_error(&cx, w, values(&rtn, 32), h, N, K);
    ck_assert_double_lt(mine, 0.8 * base);
    ck_assert_double_gt(mine, 0);
}
END_TEST

START_TEST(error_is_the_trace_of_its_definition)
{
    static const size_t shape[][2] = {{1, 1}, {3, 40}, {64, 128}, {70, 129}, {130, 300}};
    for (size_t v = 0; v < sizeof shape / sizeof *shape; v++) {
        const size_t n = shape[v][0], k = shape[v][1];
        float *const h = hessian(k);
        const float *const w = weights(n, k);
        float *const q = take(n * k, sizeof *q);
        for (size_t i = 0; i < n * k; i++)
            q[i] = roundf(w[i] * 8) / 8;
        double want = 0;
        for (size_t i = 0; i < n; i++)
            for (size_t j = 0; j < k; j++)
                for (size_t l = 0; l < k; l++)
                    want += ((double)w[i * k + j] - (double)q[i * k + j]) * (double)h[j * k + l] *
                            ((double)w[i * k + l] - (double)q[i * k + l]);
        for (size_t i = 0; i < k; i++)
            for (size_t j = i + 1; j < k; j++)
                h[i * k + j] = NAN;
        const double got = pare_gptq_error(&cx, w, q, h, n, k);
        ck_assert_double_le(fabs(got - want), 1e-6 * want);
        memset(q, 0, n * k * sizeof *q);
        ck_assert_double_eq(pare_gptq_error(&cx, w, NULL, h, n, k),
                            pare_gptq_error(&cx, w, q, h, n, k));
    }
}
END_TEST

static void same_bits(const result *a, const result *b, size_t n, size_t k)
{
    ck_assert_mem_eq(a->codes.codes, b->codes.codes, n * k);
    ck_assert_mem_eq(a->codes.zeros, b->codes.zeros, n * a->codes.groups);
    ck_assert_mem_eq(a->codes.scales, b->codes.scales, n * a->codes.groups * sizeof(float));
    ck_assert_mem_eq(a->factor.u, b->factor.u, k * k * sizeof(float));
    ck_assert(memcmp(&a->loss, &b->loss, sizeof a->loss) == 0);
}

START_TEST(threads_do_not_change_a_bit)
{
    enum { N = 300, K = 400 };
    const float *const w = weights(N, K), *const h = hessian(K);
    for (int act = 0; act < 2; act++) {
        const setting opts = {{.damp = 0.01F, .act_order = act}, {.block = 128}};
        const pare_grid grid = {.bits = 4, .group = 64, .clip = PARE_CLIP_MSE, .f16_scales = true};
        use_threads(1);
        const result first = run(&opts, &grid, w, h, N, K);
        const float *const q = values(&first.codes, 64);
        const double error = pare_gptq_error(&cx, w, q, h, N, K);
        for (size_t threads = 2; threads <= 5; threads += 3) {
            use_threads(threads);
            const result other = run(&opts, &grid, w, h, N, K);
            same_bits(&first, &other, N, K);
            const double again = pare_gptq_error(&cx, w, q, h, N, K);
            ck_assert(memcmp(&error, &again, sizeof error) == 0);
        }
    }
}
END_TEST

START_TEST(scale_of_the_hessian_does_not_matter)
{
    enum { N = 6, K = 96 };
    const float *const w = weights(N, K), *const h = hessian(K);
    float *const larger = copy(h, K * K);
    for (size_t i = 0; i < K * K; i++) {
        const bool dead = i % K == 7 || i / K == 7;
        larger[i] = dead ? 0 : larger[i] * 1024;
    }
    float *const smaller = copy(larger, K * K);
    for (size_t i = 0; i < K * K; i++)
        smaller[i] *= 0x1p-40F;
    const pare_grid grid = {.bits = 3};
    const result a = run(&plain, &grid, w, larger, N, K), b = run(&plain, &grid, w, smaller, N, K);
    ck_assert_mem_eq(a.codes.codes, b.codes.codes, N * K);
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

START_TEST(failed_factor_and_wrong_options_are_refused)
{
    enum { N = 2, K = 3 };
    pare_factor f;
    pare_codes c;
    pare_grid grid = {.bits = 4};
    float *const w = weights(N, K);
    ck_assert_int_eq(pare_codes_take(&arena, &grid, N, K, &c), PARE_OK);
    ck_assert_int_eq(pare_factorize(&cx, &arena, &plain.factor, indefinite(3), K, &f), PARE_OK);
    ck_assert_int_eq(pare_gptq_quantize(&cx, &arena, &plain.sweep, &grid, &f, w, &c, NULL),
                     PARE_EINVAL);
    ck_assert_ptr_nonnull(strstr(cx.what, "no factor"));
    pare_ctx_clear(&cx);
    ck_assert_int_eq(pare_factorize(&cx, &arena, &plain.factor, indefinite(0), K, &f), PARE_OK);
    const pare_gptq_opts opts = {.block = 48};
    ck_assert_int_eq(pare_gptq_quantize(&cx, &arena, &opts, &grid, &f, w, &c, NULL), PARE_EINVAL);
    ck_assert_ptr_nonnull(strstr(cx.what, "block of 48"));
    pare_ctx_clear(&cx);
    f.k = 4;
    ck_assert_int_eq(pare_gptq_quantize(&cx, &arena, &plain.sweep, &grid, &f, w, &c, NULL),
                     PARE_ESHAPE);
    pare_ctx_clear(&cx);
    grid.group = 7;
    ck_assert_int_eq(pare_gptq_quantize(&cx, &arena, &plain.sweep, &grid, &f, w, &c, NULL),
                     PARE_ESHAPE);
    pare_ctx_clear(&cx);
    grid = (pare_grid){.bits = 1};
    ck_assert_int_eq(pare_gptq_quantize(&cx, &arena, &plain.sweep, &grid, &f, w, &c, NULL),
                     PARE_EINVAL);
    pare_ctx_clear(&cx);
    const pare_factor_opts undefined = {.damp = NAN};
    ck_assert_int_eq(pare_factorize(&cx, &arena, &undefined, indefinite(0), K, &f), PARE_EINVAL);
}
END_TEST

START_TEST(dead_columns_become_zero_and_leave_the_others_alone)
{
    enum { N = 3, K = 64 };
    float *const w = weights(N, K), *const h = hessian(K);
    for (size_t j = 0; j < K; j++)
        h[5 * K + j] = h[j * K + 5] = h[63 * K + j] = h[j * K + 63] = 0;
    const pare_grid grid = {.bits = 4};
    const result r = run(&plain, &grid, w, h, N, K);
    ck_assert_uint_eq(r.factor.damping.dead, 2);
    ck_assert_uint_eq(r.factor.damping.raises, 0);
    ck_assert(r.factor.dead[5] && r.factor.dead[63] && !r.factor.dead[6]);
    for (size_t i = 0; i < N; i++) {
        ck_assert_uint_eq(r.codes.codes[i * K + 5], r.codes.zeros[i]);
        ck_assert_uint_eq(r.codes.codes[i * K + 63], r.codes.zeros[i]);
        w[i * K + 5] = 40; /* would change every scale if it counted */
        w[i * K + 63] = -40;
    }
    const result again = run(&plain, &grid, w, h, N, K);
    same_bits(&r, &again, N, K);
    const float *const none = take((size_t)K * K, sizeof *none);
    const result all = run(&plain, &grid, w, none, N, K);
    ck_assert_uint_eq(all.factor.damping.dead, K);
    ck_assert_double_eq(all.loss, 0);
    ck_assert_float_eq(all.codes.scales[0], 0);
}
END_TEST

START_TEST(dead_columns_count_neither_in_the_mean_nor_in_the_loss)
{
    enum { N = 4, K = 33 };
    const float *const w = weights(N, K);
    float *const h = hessian(K), *const less_h = take((K - 1) * (K - 1), sizeof *less_h);
    float *const less_w = take(N * (K - 1), sizeof *less_w);
    for (size_t j = 0; j < K; j++)
        h[(K - 1) * K + j] = h[j * K + K - 1] = 0;
    for (size_t i = 0; i < K - 1; i++)
        memcpy(less_h + i * (K - 1), h + i * K, (K - 1) * sizeof *h);
    for (size_t i = 0; i < N; i++)
        memcpy(less_w + i * (K - 1), w + i * K, (K - 1) * sizeof *w);
    const pare_grid grid = {.bits = 3};
    const result with = run(&plain, &grid, w, h, N, K);
    const result without = run(&plain, &grid, less_w, less_h, N, K - 1);
    ck_assert_double_le(fabs(with.loss - without.loss), 1e-6 * without.loss);
    for (size_t i = 0; i < N; i++)
        ck_assert_mem_eq(with.codes.codes + i * K, without.codes.codes + i * (K - 1), K - 1);
}
END_TEST

START_TEST(group_of_zeros_stays_at_its_zero_point)
{
    enum { N = 2, K = 96 };
    float *const w = weights(N, K);
    for (size_t j = 0; j < K; j++)
        w[K + j] = j >= 32 && j < 64 ? 0 : w[K + j] * 100;
    /* one block: the group is all zero when its grid is fitted, and is pushed about afterwards */
    const pare_grid grid = {.bits = 4, .group = 32, .symmetric = true, .f16_scales = true};
    const result r = run(&plain, &grid, w, hessian(K), N, K);
    ck_assert_float_eq(r.codes.scales[3 + 1], 0);
    for (size_t j = 32; j < 64; j++)
        ck_assert_uint_eq(r.codes.codes[K + j], 8);
}
END_TEST

static const char *refusal(const float *w, size_t n, size_t k, const float *h, bool act_order)
{
    const pare_grid grid = {.bits = 4, .group = 32, .f16_scales = true};
    const setting opts = {{.damp = 0.01F, .act_order = act_order}, {.block = 32}};
    pare_codes c;
    pare_factor f;
    pare_ctx_clear(&cx);
    ck_assert_int_eq(pare_codes_take(&arena, &grid, n, k, &c), PARE_OK);
    ck_assert_int_eq(pare_factorize(&cx, &arena, &opts.factor, copy(h, k * k), k, &f), PARE_OK);
    ck_assert_int_eq(
        pare_gptq_quantize(&cx, &arena, &opts.sweep, &grid, &f, copy(w, n * k), &c, NULL),
        PARE_ENUMERIC);
    return cx.what;
}

START_TEST(weights_without_a_grid_are_refused_by_row_group_and_value)
{
    enum { N = 300, K = 96 };
    float *const w = weights(N, K);
    const float *const h = hessian(K);
    for (size_t threads = 1; threads <= 3; threads++) {
        use_threads(threads);
        for (int act = 0; act < 2; act++) {
            w[140 * K + 70] = NAN;
            w[280 * K] = INFINITY;
            ck_assert_ptr_nonnull(
                strstr(refusal(w, N, K, h, act), "row 140, group 2: weight nan is not finite"));
            w[140 * K + 70] = w[280 * K] = 0;
        }
    }
    for (size_t j = 0; j < K; j++)
        w[17 * K + j] = 0;
    w[17 * K + 3] = -15e5F;
    ck_assert_ptr_nonnull(strstr(refusal(w, N, K, h, true),
                                 "row 17, group 0: scale 100000 is above what the scales of this"));
}
END_TEST

/* U above the diagonal of H: the same, and H stays. */
START_TEST(a_factor_lies_above_h)
{
    enum { K = 300 };
    float *const h = hessian(K), *const own = copy(h, (size_t)K * K);
    const pare_factor_opts opts = {.damp = 0.01F, .act_order = _i, .above = true};
    const pare_factor_opts apart = {.damp = 0.01F, .act_order = _i};
    pare_factor f, above;
    ck_assert_int_eq(pare_factorize(&cx, &arena, &apart, h, K, &f), PARE_OK);
    ck_assert_int_eq(pare_factorize(&cx, &arena, &opts, own, K, &above), PARE_OK);
    ck_assert_ptr_eq(above.u, own);
    ck_assert_mem_eq(above.pivot, f.pivot, K * sizeof *f.pivot);
    for (size_t i = 0; i < K; i++) {
        ck_assert_mem_eq(own + i * K, h + i * K, (i + 1) * sizeof *h);
        ck_assert_mem_eq(own + i * K + i + 1, f.u + i * K + i + 1, (K - i - 1) * sizeof *h);
        ck_assert(f.u[i * K + i] == f.pivot[i]);
    }
}
END_TEST

START_TEST(compensation_beyond_f32_is_refused)
{
    enum { K = 64 };
    float *const w = weights(1, K), *const u = take(K * K, sizeof *u);
    float *const pivot = take(K, sizeof *pivot);
    for (size_t i = 0; i < K; i++) {
        pivot[i] = 1e-20F;
        for (size_t j = i + 1; j < K; j++)
            u[i * K + j] = 1e20F;
    }
    const pare_grid grid = {.bits = 4};
    const pare_gptq_opts opts = {.block = 32};
    const pare_factor factor = {.k = K, .u = u, .pivot = pivot, .dead = take(K, 1)};
    pare_codes out;
    ck_assert_int_eq(pare_codes_take(&arena, &grid, 1, K, &out), PARE_OK);
    ck_assert_int_eq(pare_gptq_quantize(&cx, &arena, &opts, &grid, &factor, w, &out, NULL),
                     PARE_ENUMERIC);
    ck_assert_str_eq(cx.what, "the compensated weights left the range of F32: raise the damping");
}
END_TEST

START_TEST(every_failed_allocation_is_reported_and_leaks_nothing)
{
    enum { N = 5, K = 260 };
    const float *const w = weights(N, K), *const h = hessian(K);
    float *const wide = copy(h, (size_t)K * K); /* takes the way over double precision */
    for (size_t i = 0; i < K; i++)
        wide[i * (K + 1)] = -1;
    long n = 0;
    for (bool done = false; !done; n++) {
        pare_ctx c;
        pare_ctx_init(&c);
        unit_failing f = {.left = n};
        c.alloc = (pare_alloc){unit_failing_resize, &f};
        pare_arena a;
        ck_assert_int_eq(pare_arena_init(&c, &a, 0), PARE_OK);
        float *const w1 = copy(w, N * K), *const h1 = copy(h, (size_t)K * K);
        float *const h2 = copy(wide, (size_t)K * K);
        const pare_grid grid = {.bits = 4};
        const pare_factor_opts how = {.damp = 0.01F, .act_order = true};
        const pare_gptq_opts opts = {.block = 128};
        pare_codes out;
        pare_factor factor;
        pare_status s = pare_codes_take(&a, &grid, N, K, &out);
        if (s == PARE_OK)
            s = pare_factorize(&c, &a, &how, h2, K, &factor);
        if (s == PARE_OK)
            s = pare_factorize(&c, &a, &how, h1, K, &factor);
        if (s == PARE_OK)
            s = pare_gptq_quantize(&c, &a, &opts, &grid, &factor, w1, &out, NULL);
        done = s == PARE_OK;
        if (!done) {
            ck_assert_int_eq(s, PARE_ENOMEM);
            ck_assert_ptr_nonnull(strstr(c.what, "out of memory"));
        }
        pare_arena_release(&a);
        ck_assert_int_eq(f.live, 0);
    }
    ck_assert_int_gt(n, 4);
}
END_TEST

int main(void)
{
    Suite *const s = suite_create("gptq");
    TCase *const t = tcase_create("gptq");
    tcase_set_timeout(t, 120);
    tcase_add_checked_fixture(t, setup, teardown);
    tcase_add_loop_test(t, equals_the_textbook_with_an_explicit_inverse, 0,
                        (int)(sizeof book / sizeof *book));
    tcase_add_test(t, factor_squared_is_the_inverse_of_the_damped_hessian);
    tcase_add_test(t, beats_rtn_in_output_error);
    tcase_add_test(t, error_is_the_trace_of_its_definition);
    tcase_add_test(t, threads_do_not_change_a_bit);
    tcase_add_test(t, scale_of_the_hessian_does_not_matter);
    tcase_add_test(t, failed_factor_and_wrong_options_are_refused);
    tcase_add_test(t, dead_columns_become_zero_and_leave_the_others_alone);
    tcase_add_test(t, dead_columns_count_neither_in_the_mean_nor_in_the_loss);
    tcase_add_test(t, group_of_zeros_stays_at_its_zero_point);
    tcase_add_test(t, weights_without_a_grid_are_refused_by_row_group_and_value);
    tcase_add_test(t, compensation_beyond_f32_is_refused);
    tcase_add_loop_test(t, a_factor_lies_above_h, 0, 2);
    tcase_add_test(t, every_failed_allocation_is_reported_and_leaks_nothing);
    suite_add_tcase(s, t);
    return unit_main(s);
}
