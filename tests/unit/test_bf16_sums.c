/* Gradients and outer products of what is rounded to BF16, held against sums in double.
 *
 * A number rounded to 8 bits is off by 2^-9 of itself, so a term a b by 2^-8 + 2^-18 of it. Each
 * term then goes through at most n roundings of an F32 sum, 2^-24 of the sum of |terms| each. */
#include <math.h>
#include <string.h>

#include "runtime/gram_bf16.h"
#include "runtime/random.h"
#include "runtime/tape.h"
#include "tests/unit/tiny.h"

static tiny_home home;

static void setup(void)
{
    tiny_begin(&home, 1);
}

static void teardown(void)
{
    tiny_end(&home);
}

static float *normals(uint64_t stream, size_t count)
{
    float *const x = tiny_take(&home.arena, count, sizeof *x);
    for (size_t i = 0; i < count; i++)
        x[i] = (float)pare_random_normal(5, stream, i);
    return x;
}

static void use_threads(size_t threads)
{
    pare_pool_free(&home.cx, home.cx.pool);
    home.cx.pool = NULL;
    ck_assert_int_eq(pare_pool_new(&home.cx, threads, &home.cx.pool), PARE_OK);
}

static double bound(size_t roundings)
{
    return 0x1p-8 + 0x1p-18 + ((double)roundings + 3) * 0x1p-24;
}

/* The gradient in front of a linear of these weights. */
static void undo(const pare_backend *over, const pare_linear *w, const float *x, const float *dy,
                 size_t rows, float *dx)
{
    pare_tape t;
    pare_array in, y;
    pare_tape_begin(&home.cx, &home.arena, over, &t);
    const pare_ops o = pare_tape_ops(&t);
    ck_assert_int_eq(pare_tape_input(&t, x, rows, w->k, true, &in), PARE_OK);
    ck_assert_int_eq(o.op->take(&o, rows, w->n, &y), PARE_OK);
    ck_assert_int_eq(o.op->linears(&o, &w, 1, true, in, &y), PARE_OK);
    ck_assert_int_eq(pare_tape_back(&t, y, dy, &(pare_gradients){0}), PARE_OK);
    memcpy(dx, pare_tape_gradient(in), rows * w->k * sizeof *dx);
    pare_tape_end(&t);
}

/* More rows of W than are turned at once, and no number that tiles divide. */
START_TEST(gradients_are_off_by_what_rounding_takes)
{
    static const pare_dtype types[] = {PARE_F32, PARE_F16, PARE_BF16};
    enum { N = 1061, ROWS = 261 };
    const size_t k = 70 + (size_t)_i / 3; /* pairs of columns, and one that has none */
    const pare_linear w = tiny_dense(&home.arena, types[_i % 3], 3, N, k);
    const float *const x = normals(1, ROWS * k), *const dy = normals(2, ROWS * N);
    float *const rounded = normals(3, ROWS * k), *const plain = normals(4, ROWS * k);
    float *const values = tiny_take(&home.arena, N * k, sizeof *values);
    pare_linear_to_f32(&home.cx, &w, values);
    undo(NULL, &w, x, dy, ROWS, plain);
    undo(&pare_cpu_bf16, &w, x, dy, ROWS, rounded);
    double worst = 0;
    for (size_t i = 0; i < ROWS; i++)
        for (size_t c = 0; c < k; c++) {
            double want = 0, terms = 0;
            for (size_t r = 0; r < N; r++) {
                const double term = (double)dy[i * N + r] * (double)values[r * k + c];
                want += term;
                terms += fabs(term);
            }
            const double error = fabs((double)rounded[i * k + c] - want) / terms;
            worst = error <= worst ? worst : error;
        }
    ck_assert_double_le(worst, bound(N));
    ck_assert_double_gt(worst, 0x1p-18); /* it did round */
    ck_assert(memcmp(plain, rounded, ROWS * k * sizeof *plain) != 0);
    use_threads(3);
    undo(&pare_cpu_bf16, &w, x, dy, ROWS, plain);
    ck_assert(memcmp(plain, rounded, ROWS * k * sizeof *plain) == 0);
    const pare_linear floats = {
        .name = "floats", .n = N, .k = k, .dtype = PARE_F32, .data = values};
    undo(&pare_cpu_bf16, &floats, x, dy, ROWS, plain); /* however weights are stored */
    ck_assert(memcmp(plain, rounded, ROWS * k * sizeof *plain) == 0);
}
END_TEST

/* Whether c is at most so far from 1 + the sums of w a b; `lower`: and 1 above the diagonal. */
/* c [m, n] of a [rows, m] and b [rows, n]. */
static void check_sums(const float *c, const float *a, size_t m, const float *b, size_t n,
                       const float *weight, size_t rows, bool lower)
{
    double worst = 0;
    for (size_t i = 0; i < m; i++)
        for (size_t j = 0; j < n; j++) {
            double want = 1, terms = 1;
            for (size_t t = 0; t < rows && !(lower && j > i); t++) {
                const double term =
                    (weight ? (double)weight[t] : 1) * (double)a[t * m + i] * (double)b[t * n + j];
                want += term;
                terms += fabs(term);
            }
            const double error = fabs((double)c[i * n + j] - want) / terms;
            worst = error <= worst ? worst : error;
        }
    ck_assert_double_le(worst, bound(rows + 4)); /* with the root of a weight, twice */
    ck_assert_double_gt(worst, 0x1p-18);
}

/* Several blocks of tokens, the last one short; several tiles of columns, the last one narrow. */
START_TEST(grams_are_off_by_what_rounding_takes)
{
    static const size_t widths[] = {1, 33, 70, 301};
    enum { ROWS = 2 * PARE_GRAM_ROWS + 77 };
    const size_t k = widths[_i / 2], other = k + 40, count = k * k, all = count + k * other;
    const float *const x = normals(1, ROWS * k), *const y = normals(2, ROWS * other);
    float *const weight = _i % 2 ? normals(3, ROWS) : NULL;
    uint16_t *const side = tiny_take(&home.arena, (k + other) * PARE_GRAM_LINE, sizeof *side);
    for (size_t t = 0; t < ROWS && weight; t++)
        weight[t] *= weight[t];
    for (size_t threads = 1; threads < 4; threads += 2) {
        float *const h = tiny_take(&home.arena, all, sizeof *h);
        static float first[301 * (301 + 341)];
        for (size_t i = 0; i < all; i++)
            h[i] = 1;
        use_threads(threads);
        pare_gram_add_bf16(&home.cx, side, h, x, weight, ROWS, k);
        pare_gram_cross_bf16(&home.cx, side, h + count, x, k, y, other, ROWS);
        if (threads > 1) {
            ck_assert(memcmp(first, h, all * sizeof *h) == 0);
            continue;
        }
        memcpy(first, h, all * sizeof *h);
        check_sums(h, x, k, x, k, weight, ROWS, true);
        check_sums(h + count, x, k, y, other, NULL, ROWS, false);
    }
}
END_TEST

int main(void)
{
    Suite *const s = suite_create("bf16_sums");
    TCase *const t = tcase_create("bf16_sums");
    tcase_set_timeout(t, 120);
    tcase_add_checked_fixture(t, setup, teardown);
    tcase_add_loop_test(t, gradients_are_off_by_what_rounding_takes, 0, 6);
    tcase_add_loop_test(t, grams_are_off_by_what_rounding_takes, 0, 8);
    suite_add_tcase(s, t);
    return unit_main(s);
}
