#include <math.h>
#include <string.h>

#include "kernels/half.h"
#include "quant/refine.h"
#include "quant/rtn.h"
#include "runtime/linalg.h"
#include "runtime/random.h"
#include "runtime/threads.h"
#include "tests/unit/unit.h"

enum { N = 150, K = 320 };

static float half(float x)
{
    return pare_f16_to_f32(pare_f32_to_f16(x));
}

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

static void *take(size_t count, size_t size)
{
    void *const p = pare_arena_take(&arena, count, size);
    ck_assert_ptr_nonnull(p);
    return p;
}

/* Adds x x^T to the lower half. */
UNIT_PLAIN static void add_outer(float *h, const double *x)
{
    for (size_t i = 0; i < K; i++)
        for (size_t j = 0; j <= i; j++)
            h[i * K + j] += (float)(x[i] * x[j]);
}

/* Sum of x x^T of inputs with one common direction; column 5 has none. */
static float *hessian(void)
{
    float *const h = take((size_t)K * K, sizeof *h);
    double x[K];
    for (size_t t = 0; t < 2 * K; t++) {
        const double common = pare_random_normal(31, 1, t);
        for (size_t j = 0; j < K; j++)
            x[j] =
                j == 5 ? 0 : (pare_random_normal(32, t, j) + common) * (0.2 + (double)(j % 7) / 4);
        add_outer(h, x);
    }
    return h;
}

/* What is refined, how, and from where. */
typedef struct job {
    pare_grid grid;
    pare_refine_opts opts;
    uint8_t dead[K];
    float *w;
    pare_codes codes;
} job;

static void begin(job *b, unsigned bits, size_t group, bool symmetric)
{
    *b = (job){.grid = {.bits = bits, .group = group, .symmetric = symmetric, .f16_scales = true}};
    b->dead[5] = 1;
    b->opts = (pare_refine_opts){.rounds = 2, .h = hessian(), .lambda = 3, .dead = b->dead};
    b->w = take((size_t)N * K, sizeof *b->w);
    for (size_t i = 0; i < (size_t)N * K; i++)
        b->w[i] = i / K == 7 ? 0 : (float)pare_random_normal(33, 4, i) * 0.1F;
    for (size_t i = 0; i < N; i++)
        b->w[i * K + 5] = 0;
    ck_assert_int_eq(pare_codes_take(&arena, &b->grid, N, K, &b->codes), PARE_OK);
    ck_assert_int_eq(pare_rtn_quantize(&cx, &b->grid, b->w, NULL, N, K, &b->codes), PARE_OK);
}

static double refine(job *b)
{
    double gain = -1;
    ck_assert_int_eq(pare_refine_codes(&cx, &arena, &b->opts, &b->grid, b->w, &b->codes, &gain),
                     PARE_OK);
    return gain;
}

static size_t group_at(const job *b, size_t i, size_t j)
{
    return i * b->codes.groups + (b->grid.group ? j / b->grid.group : 0);
}

static double h_at(const job *b, size_t i, size_t j)
{
    const double h = (double)(i > j ? b->opts.h[i * K + j] : b->opts.h[j * K + i]);
    return i == j ? h + b->opts.lambda : h;
}

static double error_at(const job *b, size_t i, size_t j)
{
    const size_t g = group_at(b, i, j);
    return ((double)b->codes.codes[i * K + j] - b->codes.zeros[g]) * (double)b->codes.scales[g] -
           (double)b->w[i * K + j];
}

/* (q - w) H of one row. */
static void slope(const job *b, size_t i, double g[K])
{
    memset(g, 0, K * sizeof *g);
    for (size_t l = 0; l < K; l++) {
        const double e = error_at(b, i, l);
        for (size_t j = 0; e != 0 && j < K; j++)
            g[j] += e * h_at(b, l, j);
    }
}

/* O of two rows; without O rows count by themselves. */
static double o_at(const job *b, size_t i, size_t l)
{
    if (!b->opts.o || i / PARE_OUTPUT_BLOCK != l / PARE_OUTPUT_BLOCK)
        return i == l;
    return (double)b->opts.o[i * PARE_OUTPUT_BLOCK + l % PARE_OUTPUT_BLOCK];
}

static double objective(const job *b)
{
    double sum = 0, g[K];
    for (size_t i = 0; i < N; i++) {
        slope(b, i, g);
        const size_t first = i / PARE_OUTPUT_BLOCK * PARE_OUTPUT_BLOCK;
        for (size_t l = first; l < N && l < first + PARE_OUTPUT_BLOCK; l++) {
            const double o = o_at(b, i, l);
            for (size_t j = 0; o != 0 && j < K; j++)
                sum += o * g[j] * error_at(b, l, j);
        }
    }
    return sum;
}

/* One round of the rule on one row, by the book and in double. */
static void plain_round(job *b, size_t i, double g[K])
{
    const size_t width = b->grid.group ? b->grid.group : K;
    const double top = (double)((1u << b->grid.bits) - 1);
    for (size_t begin = 0; begin < K; begin += width) {
        const size_t at = group_at(b, i, begin), end = K - begin < width ? K : begin + width;
        double num = 0, den = 0, c[K] = {0};
        for (size_t j = begin; j < end; j++)
            c[j] = (double)b->codes.codes[i * K + j] - b->codes.zeros[at];
        for (size_t j = begin; j < end; j++) {
            num += g[j] * c[j];
            for (size_t l = begin; l < end; l++)
                den += c[j] * h_at(b, j, l) * c[l];
        }
        const float s = b->codes.scales[at];
        if (s == 0)
            continue;
        const float next = den > 0 ? half((float)((double)s - num / den)) : s;
        const double d = (double)next - (double)s;
        if (d * (2 * num + d * den) < 0 && next * s > 0) {
            b->codes.scales[at] = next;
            for (size_t l = begin; l < end; l++)
                for (size_t j = 0; j < K; j++)
                    g[j] += d * c[l] * h_at(b, l, j);
        }
        const double scale = (double)b->codes.scales[at];
        for (size_t j = begin; j < end; j++) {
            uint8_t *const code = &b->codes.codes[i * K + j];
            if (b->dead[j] || (b->opts.keep_zeros && b->w[i * K + j] == 0))
                continue;
            double t = rint(*code - g[j] / (h_at(b, j, j) * scale));
            t = t < 0 ? 0 : t > top ? top : t;
            const double step = (t - *code) * scale;
            *code = (uint8_t)t;
            for (size_t l = 0; step != 0 && l < K; l++)
                g[l] += step * h_at(b, j, l);
        }
    }
}

/* O of gradients with one common direction; row 9 has nearly none. */
static const float *outputs(void)
{
    float *const o = take((size_t)192 * PARE_OUTPUT_BLOCK, sizeof *o);
    for (size_t i = 0; i < N; i++)
        for (size_t l = i / PARE_OUTPUT_BLOCK * PARE_OUTPUT_BLOCK;
             l < N && l / PARE_OUTPUT_BLOCK == i / PARE_OUTPUT_BLOCK; l++) {
            const double a = 0.5 + (double)(i % 5) * (i % 2 ? 0.3 : -0.3);
            const double c = 0.5 + (double)(l % 5) * (l % 2 ? 0.3 : -0.3);
            const double own = i == l ? 0.4 : 0;
            o[i * PARE_OUTPUT_BLOCK + l % PARE_OUTPUT_BLOCK] =
                (float)((a * c + own) * (i == 9 ? 1e-2 : 1) * (l == 9 ? 1e-2 : 1));
        }
    return o;
}

/* (O G)_ij of rows from `first`. */
static double shared_slope(const job *b, size_t first, size_t rows, double (*g)[K], size_t i,
                           size_t j)
{
    double sum = 0;
    for (size_t l = 0; l < rows; l++)
        sum += o_at(b, first + i, first + l) * g[l][j];
    return sum;
}

static void plain_shared_scale(job *b, size_t first, size_t rows, double (*g)[K], size_t i,
                               size_t begin, size_t end)
{
    const size_t at = group_at(b, first + i, begin);
    const float s = b->codes.scales[at];
    double num = 0, den = 0, c[K] = {0};
    for (size_t j = begin; j < end; j++)
        c[j] = (double)b->codes.codes[(first + i) * K + j] - b->codes.zeros[at];
    for (size_t j = begin; j < end; j++) {
        num += shared_slope(b, first, rows, g, i, j) * c[j];
        for (size_t l = begin; l < end; l++)
            den += c[j] * h_at(b, j, l) * c[l] * o_at(b, first + i, first + i);
    }
    if (s == 0 || !(den > 0))
        return;
    const float next = half((float)((double)s - num / den));
    const double d = (double)next - (double)s;
    if (!(d * (2 * num + d * den) < 0 && next * s > 0))
        return;
    b->codes.scales[at] = next;
    for (size_t l = begin; l < end; l++)
        for (size_t j = 0; j < K; j++)
            g[i][j] += d * c[l] * h_at(b, l, j);
}

static void plain_shared_code(job *b, size_t first, size_t rows, double (*g)[K], size_t i, size_t j)
{
    const double scale = (double)b->codes.scales[group_at(b, first + i, j)];
    const double top = (double)((1u << b->grid.bits) - 1);
    uint8_t *const code = &b->codes.codes[(first + i) * K + j];
    if (b->dead[j] || scale == 0)
        return;
    const double bend = o_at(b, first + i, first + i) * h_at(b, j, j) * scale;
    double t = rint(*code - shared_slope(b, first, rows, g, i, j) / bend);
    t = t < 0 ? 0 : t > top ? top : t;
    const double step = (t - *code) * scale;
    *code = (uint8_t)t;
    for (size_t l = 0; step != 0 && l < K; l++)
        g[i][l] += step * h_at(b, j, l);
}

/* All rounds on a block of rows that share their errors. */
static void plain_shared(job *b, size_t first)
{
    const size_t rows = N - first < PARE_OUTPUT_BLOCK ? N - first : PARE_OUTPUT_BLOCK;
    const size_t width = b->grid.group ? b->grid.group : K;
    double(*const g)[K] = take(rows, sizeof *g);
    for (size_t i = 0; i < rows; i++)
        slope(b, first + i, g[i]);
    for (size_t round = 0; round < b->opts.rounds; round++)
        for (size_t begin = 0; begin < K; begin += width) {
            const size_t end = K - begin < width ? K : begin + width;
            for (size_t i = 0; i < rows; i++)
                plain_shared_scale(b, first, rows, g, i, begin, end);
            for (size_t j = begin; j < end; j++)
                for (size_t i = 0; i < rows; i++)
                    plain_shared_code(b, first, rows, g, i, j);
        }
}

/* A row that goes another way takes those of its block along: only objectives can be compared. */
START_TEST(rows_that_share_their_errors_equal_the_plain_form)
{
    static const struct {
        unsigned bits;
        size_t group;
        bool symmetric;
    } cases[] = {{4, 64, true}, {3, 32, false}, {2, 256, true}};
    job fast, plain, alone;
    begin(&fast, cases[_i].bits, cases[_i].group, cases[_i].symmetric);
    begin(&plain, cases[_i].bits, cases[_i].group, cases[_i].symmetric);
    begin(&alone, cases[_i].bits, cases[_i].group, cases[_i].symmetric);
    fast.opts.o = plain.opts.o = outputs();
    const double before = objective(&fast), gain = refine(&fast), after = objective(&fast);
    for (size_t first = 0; first < N; first += PARE_OUTPUT_BLOCK)
        plain_shared(&plain, first);
    (void)refine(&alone);
    alone.opts.o = fast.opts.o;
    ck_assert_double_eq_tol(gain, before - after, 1e-3 * before);
    ck_assert_double_eq_tol(after, objective(&plain), 2e-2 * after);
    ck_assert_double_lt(after, 0.8 * objective(&alone));
}
END_TEST

/* Rows that share nothing are refined as without O, whatever their own curvature. */
START_TEST(rows_that_share_nothing_stay_alone)
{
    job alone, own;
    begin(&alone, 3, 64, true);
    begin(&own, 3, 64, true);
    float *const o = take((size_t)192 * PARE_OUTPUT_BLOCK, sizeof *o);
    for (size_t i = 0; i < N; i++)
        o[i * PARE_OUTPUT_BLOCK + i % PARE_OUTPUT_BLOCK] = (float)(1u << i % 5);
    own.opts.o = o;
    (void)refine(&alone);
    (void)refine(&own);
    ck_assert_mem_eq(alone.codes.codes, own.codes.codes, (size_t)N * K);
}
END_TEST

/* Against the plain form: a tie of roundings may fall either way, and then the row goes on from
 * there, so a few rows may differ; the objective is the same. */
static void check_plain(unsigned bits, size_t group, bool symmetric, bool keep_zeros)
{
    job fast, plain;
    begin(&fast, bits, group, symmetric);
    begin(&plain, bits, group, symmetric);
    fast.opts.keep_zeros = plain.opts.keep_zeros = keep_zeros;
    const double before = objective(&fast), gain = refine(&fast), after = objective(&fast);
    for (size_t i = 0; i < N; i++) {
        double g[K];
        slope(&plain, i, g);
        for (size_t r = 0; r < plain.opts.rounds; r++)
            plain_round(&plain, i, g);
    }
    size_t rows = 0;
    for (size_t i = 0; i < N; i++)
        rows += memcmp(fast.codes.codes + i * K, plain.codes.codes + i * K, K) != 0;
    ck_assert_msg(rows <= N / 10, "%zu rows differ", rows);
    ck_assert_double_lt(after, 0.8 * before);
    ck_assert_double_eq_tol(gain, before - after, 1e-3 * before);
    ck_assert_double_eq_tol(after, objective(&plain), 1e-3 * after);
}

START_TEST(equals_the_plain_form)
{
    check_plain(4, 64, true, false);
    check_plain(3, 32, false, false);
    check_plain(2, 128, false, true);
    check_plain(4, 256, true, false); /* longer than a block, and a shorter last one */
    check_plain(3, 0, true, false);
    check_plain(8, 96, false, false);
}
END_TEST

START_TEST(zeros_and_dead_columns_stay)
{
    job b;
    begin(&b, 3, 64, true);
    for (size_t i = 0; i < (size_t)N * K; i += 3)
        b.w[i] = 0;
    ck_assert_int_eq(pare_rtn_quantize(&cx, &b.grid, b.w, NULL, N, K, &b.codes), PARE_OK);
    b.opts.keep_zeros = true;
    (void)refine(&b);
    for (size_t i = 0; i < (size_t)N * K; i++)
        ck_assert(b.w[i] != 0 || b.codes.codes[i] == b.codes.zeros[group_at(&b, i / K, i % K)]);
    b.opts.keep_zeros = false;
    (void)refine(&b);
    size_t moved = 0;
    for (size_t i = 0; i < (size_t)N * K; i++) {
        const bool at_zero = b.codes.codes[i] == b.codes.zeros[group_at(&b, i / K, i % K)];
        moved += b.w[i] == 0 && !at_zero;
        ck_assert(at_zero || (i % K != 5 && i / K != 7)); /* dead column, row of zeros */
    }
    ck_assert_uint_gt(moved, 100);
}
END_TEST

/* Scales are stored as F16: normal ones, of their sign. */
START_TEST(scales_are_halves_of_the_same_sign)
{
    job b;
    begin(&b, 4, 32, true);
    for (size_t i = 0; i < N * b.codes.groups; i += 2) {
        b.codes.scales[i] = -b.codes.scales[i]; /* as clip: weighted leaves them */
        for (size_t j = 0; j < 32; j++) {
            uint8_t *const code =
                &b.codes.codes[i / b.codes.groups * K + i % b.codes.groups * 32 + j];
            *code = (uint8_t)(16 - (*code ? *code : 1));
        }
    }
    float *const before = take(N * b.codes.groups, sizeof *before);
    memcpy(before, b.codes.scales, N * b.codes.groups * sizeof *before);
    const double at_first = objective(&b), gain = refine(&b);
    ck_assert_double_eq_tol(at_first - objective(&b), gain, 1e-3 * at_first);
    size_t moved = 0;
    for (size_t i = 0; i < N * b.codes.groups; i++) {
        const float s = b.codes.scales[i];
        ck_assert_float_eq(s, half(s));
        ck_assert((s > 0) == (before[i] > 0) && (s < 0) == (before[i] < 0));
        moved += s != before[i];
    }
    ck_assert_uint_gt(moved, N);
}
END_TEST

START_TEST(any_number_of_threads)
{
    job one, four;
    begin(&one, 4, 64, true);
    begin(&four, 4, 64, true);
    one.opts.o = four.opts.o = _i ? outputs() : NULL;
    (void)refine(&one);
    ck_assert_int_eq(pare_pool_new(&cx, 4, &cx.pool), PARE_OK);
    (void)refine(&four);
    ck_assert_mem_eq(one.codes.codes, four.codes.codes, (size_t)N * K);
    ck_assert_mem_eq(one.codes.scales, four.codes.scales,
                     N * one.codes.groups * sizeof *one.codes.scales);
}
END_TEST

/* Others read H behind it. */
START_TEST(h_stays_on_and_below_its_diagonal)
{
    job b;
    begin(&b, 3, 64, true);
    float *const was = take((size_t)K * K, sizeof *was);
    memcpy(was, b.opts.h, (size_t)K * K * sizeof *was);
    (void)refine(&b);
    for (size_t i = 0; i < K; i++)
        ck_assert_mem_eq(b.opts.h + i * K, was + i * K, (i + 1) * sizeof *was);
}
END_TEST

START_TEST(what_cannot_be_is_refused)
{
    job b;
    begin(&b, 4, 64, true);
    b.grid.encoding = PARE_ENCODING_NF4;
    ck_assert_int_eq(pare_refine_codes(&cx, &arena, &b.opts, &b.grid, b.w, &b.codes, NULL),
                     PARE_EINVAL);
    begin(&b, 4, 64, true);
    pare_ctx_clear(&cx);
    b.w[3] = 3e38F;
    ck_assert_int_eq(pare_refine_codes(&cx, &arena, &b.opts, &b.grid, b.w, &b.codes, NULL),
                     PARE_ENUMERIC);
    ck_assert_ptr_nonnull(strstr(cx.what, "refine: 0"));
}
END_TEST

int main(void)
{
    Suite *const s = suite_create("refine");
    TCase *const t = tcase_create("refine");
    tcase_set_timeout(t, 120);
    tcase_add_checked_fixture(t, setup, teardown);
    tcase_add_test(t, equals_the_plain_form);
    tcase_add_test(t, zeros_and_dead_columns_stay);
    tcase_add_test(t, scales_are_halves_of_the_same_sign);
    tcase_add_loop_test(t, rows_that_share_their_errors_equal_the_plain_form, 0, 3);
    tcase_add_test(t, rows_that_share_nothing_stay_alone);
    tcase_add_loop_test(t, any_number_of_threads, 0, 2);
    tcase_add_test(t, what_cannot_be_is_refused);
    tcase_add_test(t, h_stays_on_and_below_its_diagonal);
    suite_add_tcase(s, t);
    return unit_main(s);
}
