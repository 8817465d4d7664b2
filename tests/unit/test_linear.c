#include "tests/unit/tiny.h"

/* A double sum of f32 products and what rounding of any order of the same sum in f32 may differ. */
static void reference(const float *w, const float *x, size_t k, double *sum, double *bound)
{
    double magnitude = 0;
    *sum = 0;
    for (size_t j = 0; j < k; j++) {
        *sum += (double)w[j] * (double)x[j];
        magnitude += fabs((double)w[j] * (double)x[j]);
    }
    *bound = ((double)k + 2) * 0x1p-24 * magnitude * 1.01 + 1e-37;
}

static float *random_rows(pare_arena *a, uint64_t stream, size_t count)
{
    float *const x = tiny_take(a, count, sizeof *x);
    for (size_t i = 0; i < count; i++)
        x[i] = (float)pare_random_normal(12, stream, i);
    return x;
}

static pare_linear make(pare_arena *a, tiny_kind kind, size_t n, size_t k)
{
    return kind.bits ? tiny_packed(a, kind, 3, n, k) : tiny_dense(a, kind.dtype, 3, n, k);
}

static const size_t shapes[][3] = {/* m, n, k */
                                   {1, 1, 1},    {1, 9, 33},    {3, 64, 32},  {2, 65, 64},
                                   {65, 70, 44}, {130, 16, 96}, {1, 200, 160}};
enum { SHAPES = sizeof shapes / sizeof *shapes };

START_TEST(every_output_is_the_dot_product_of_a_row_and_a_token)
{
    tiny_home h;
    tiny_begin(&h, 3);
    const tiny_kind kind = tiny_kinds[_i / SHAPES];
    const size_t *const s = shapes[_i % SHAPES], m = s[0], n = s[1], k = s[2], ldx = k + 3;
    const pare_linear w = make(&h.arena, kind, n, k);
    float *const x = random_rows(&h.arena, 1, m * ldx), *const y = tiny_take(&h.arena, m * n, 4);
    float *const dense = tiny_take(&h.arena, n * k, 4);
    pare_linear_to_f32(&h.cx, &w, dense);
    ck_assert_int_eq(pare_linear_apply(&h.cx, &h.arena, &w, true, x, ldx, m, y, n), PARE_OK);
    for (size_t t = 0; t < m; t++)
        for (size_t r = 0; r < n; r++) {
            double sum, bound;
            reference(dense + r * k, x + t * ldx, k, &sum, &bound);
            ck_assert_msg(fabs((double)y[t * n + r] - sum) <= bound, "%zu %zu: %g %g", t, r,
                          (double)y[t * n + r], sum);
        }
    tiny_end(&h);
}
END_TEST

/* |x - code scale| <= scale / 2 for every activation, so |error| <= sum |w| scale / 2. */
START_TEST(quantized_activations_stay_within_half_a_step)
{
    tiny_home h;
    tiny_begin(&h, 2);
    const tiny_kind kind = tiny_kinds[3 + _i / SHAPES];
    const size_t *const s = shapes[_i % SHAPES], m = s[0], n = s[1], k = s[2];
    const pare_linear w = make(&h.arena, kind, n, k);
    float *const x = random_rows(&h.arena, 1, m * k), *const y = tiny_take(&h.arena, m * n, 4);
    float *const dense = tiny_take(&h.arena, n * k, 4);
    pare_linear_to_f32(&h.cx, &w, dense);
    ck_assert_int_eq(pare_linear_apply(&h.cx, &h.arena, &w, false, x, k, m, y, n), PARE_OK);
    for (size_t t = 0; t < m; t++)
        for (size_t r = 0; r < n; r++) {
            double sum, bound, weights = 0, largest = 0;
            reference(dense + r * k, x + t * k, k, &sum, &bound);
            for (size_t j = 0; j < k; j++) {
                weights += fabs((double)dense[r * k + j]);
                largest = fmax(largest, fabs((double)x[t * k + j]));
            }
            bound += weights * largest / 127 * 0.5001;
            ck_assert_msg(fabs((double)y[t * n + r] - sum) <= bound, "%zu %zu: %g %g", t, r,
                          (double)y[t * n + r], sum);
        }
    tiny_end(&h);
}
END_TEST

START_TEST(bytes_depend_neither_on_threads_nor_on_the_number_of_tokens)
{
    const tiny_kind kind = tiny_kinds[_i / 2];
    const bool exact = _i % 2;
    const size_t m = 70, n = 150, k = 100;
    float first[70 * 150];
    for (size_t threads = 1; threads <= 5; threads += threads == 1 ? 1 : 3) {
        tiny_home h;
        tiny_begin(&h, threads);
        const pare_linear w = make(&h.arena, kind, n, k);
        float *const x = random_rows(&h.arena, 1, m * k), *const y = tiny_take(&h.arena, m * n, 4);
        ck_assert_int_eq(pare_linear_apply(&h.cx, &h.arena, &w, exact, x, k, m, y, n), PARE_OK);
        if (threads == 1)
            memcpy(first, y, sizeof first);
        ck_assert_mem_eq(first, y, sizeof first);
        float one[150];
        for (size_t t = 0; t < m; t += 23) {
            ck_assert_int_eq(pare_linear_apply(&h.cx, &h.arena, &w, exact, x + t * k, k, 1, one, n),
                             PARE_OK);
            ck_assert_mem_eq(first + t * n, one, sizeof one);
        }
        tiny_end(&h);
    }
}
END_TEST

START_TEST(rows_behind_the_last_and_columns_between_rows_are_not_written)
{
    tiny_home h;
    tiny_begin(&h, 2);
    const tiny_kind kind = tiny_kinds[_i / 2];
    const size_t m = 5, n = 13, k = 40, ldy = 29;
    const pare_linear w = make(&h.arena, kind, n, k);
    float *const x = random_rows(&h.arena, 1, m * k), *const y = tiny_take(&h.arena, m * ldy, 4);
    for (size_t i = 0; i < m * ldy; i++)
        y[i] = 77;
    ck_assert_int_eq(pare_linear_apply(&h.cx, &h.arena, &w, _i % 2, x, k, m, y, ldy), PARE_OK);
    for (size_t i = 0; i < m * ldy; i++)
        ck_assert(i % ldy < n ? y[i] != 77 : y[i] == 77);
    tiny_end(&h);
}
END_TEST

START_TEST(a_bias_is_added_to_each_output)
{
    tiny_home h;
    tiny_begin(&h, 2);
    pare_linear w = make(&h.arena, tiny_kinds[_i], 70, 44);
    float *const x = random_rows(&h.arena, 1, 66 * 44), *const y = tiny_take(&h.arena, 66 * 70, 4);
    float *const z = tiny_take(&h.arena, 66 * 70, 4), *const bias = random_rows(&h.arena, 5, 70);
    ck_assert_int_eq(pare_linear_apply(&h.cx, &h.arena, &w, false, x, 44, 66, y, 70), PARE_OK);
    w.bias = bias;
    ck_assert_int_eq(pare_linear_apply(&h.cx, &h.arena, &w, false, x, 44, 66, z, 70), PARE_OK);
    for (size_t i = 0; i < 66 * 70; i++)
        ck_assert(z[i] == y[i] + bias[i % 70]);
    tiny_end(&h);
}
END_TEST

START_TEST(every_refused_allocation_is_reported_and_nothing_leaks)
{
    tiny_home h;
    tiny_begin(&h, 2);
    const pare_linear w = make(&h.arena, tiny_kinds[3], 70, 44);
    float *const x = random_rows(&h.arena, 1, 66 * 44), *const y = tiny_take(&h.arena, 66 * 70, 4);
    const pare_alloc plain = h.cx.alloc;
    pare_status s = PARE_ENOMEM;
    long n = 0;
    for (; s != PARE_OK; n++) {
        unit_failing f = {.left = n};
        pare_arena scratch = {.cx = &h.cx};
        pare_ctx_clear(&h.cx);
        h.cx.alloc = (pare_alloc){unit_failing_resize, &f};
        s = pare_linear_apply(&h.cx, &scratch, &w, _i, x, 44, 66, y, 70);
        ck_assert(s == PARE_OK || (s == PARE_ENOMEM && h.cx.what[0]));
        pare_arena_release(&scratch);
        ck_assert_int_eq(f.live, 0);
    }
    ck_assert_int_gt(n, 1);
    h.cx.alloc = plain;
    tiny_end(&h);
}
END_TEST

int main(void)
{
    Suite *const s = suite_create("linear");
    TCase *const c = tcase_create("linear");
    tcase_set_timeout(c, 60);
    tcase_add_loop_test(c, every_output_is_the_dot_product_of_a_row_and_a_token, 0,
                        TINY_KINDS * SHAPES);
    tcase_add_loop_test(c, quantized_activations_stay_within_half_a_step, 0,
                        (TINY_KINDS - 3) * SHAPES);
    tcase_add_loop_test(c, bytes_depend_neither_on_threads_nor_on_the_number_of_tokens, 0,
                        TINY_KINDS * 2);
    tcase_add_loop_test(c, rows_behind_the_last_and_columns_between_rows_are_not_written, 0,
                        TINY_KINDS * 2);
    tcase_add_loop_test(c, a_bias_is_added_to_each_output, 0, TINY_KINDS);
    tcase_add_loop_test(c, every_refused_allocation_is_reported_and_nothing_leaks, 0, 2);
    suite_add_tcase(s, c);
    return unit_main(s);
}
