/* What a Hessian rests on: its rank and the effective samples, of matrices that are known. */
#include "calib/stats.h"

#include <math.h>

#include "runtime/linalg.h"
#include "runtime/random.h"
#include "tests/unit/tiny.h"

enum { TOKENS = 1500, WIDE = 700 };

/* Inputs x [tokens, k] and what statistics of them say. */
typedef struct inputs {
    tiny_home home;
    float *x;
    size_t k;
} inputs;

static void inputs_begin(inputs *in, size_t k, size_t threads)
{
    tiny_begin(&in->home, threads);
    in->k = k;
    in->x = tiny_take(&in->home.arena, TOKENS * k, sizeof *in->x);
    for (size_t i = 0; i < TOKENS * k; i++)
        in->x[i] = (float)pare_random_normal(7, k, i);
}

/* Through the tap, in batches of at most `batch` tokens. */
static pare_support seen(inputs *in, size_t tokens, size_t batch, const float *scale)
{
    pare_arena *const a = &in->home.arena;
    pare_config c = {.hidden = in->k, .arch = pare_arch_find("llama")};
    const unsigned kinds[PARE_SITES] = {[PARE_SITE_ATTENTION] = PARE_STATS_HESSIAN};
    pare_stats s;
    ck_assert_int_eq(pare_stats_take(&in->home.cx, a, &c, 0, kinds, tokens, &s), PARE_OK);
    const pare_tap tap = pare_stats_tap(&s);
    for (size_t t = 0; t < tokens; t += batch) {
        const size_t rows = tokens - t < batch ? tokens - t : batch;
        ck_assert_int_eq(tap.see(tap.self, 0, PARE_SITE_ATTENTION, in->x + t * in->k, rows, in->k),
                         PARE_OK);
    }
    if (scale)
        pare_stats_scale(&s.site[PARE_SITE_ATTENTION], scale);
    ck_assert_int_eq(pare_stats_support(a, &s, 1u << PARE_SITE_ATTENTION), PARE_OK);
    return s.site[PARE_SITE_ATTENTION].support;
}

START_TEST(the_rank_is_the_number_of_different_inputs_up_to_the_columns)
{
    static const size_t tokens[] = {1, 2, 7, 40, 63, 64, 65, 500};
    inputs in;
    inputs_begin(&in, 64, 1);
    for (size_t i = 0; i < sizeof tokens / sizeof *tokens; i++) {
        const pare_support s = seen(&in, tokens[i], 100, NULL);
        ck_assert(s.known && s.columns == 64 && s.tokens == tokens[i]);
        ck_assert_uint_eq(s.rank, tokens[i] < 64 ? tokens[i] : 64);
    }
    tiny_end(&in.home);
}
END_TEST

/* Each token is one of seven, and differs from it as by rounding. */
START_TEST(tokens_that_repeat_add_no_rank)
{
    inputs in;
    inputs_begin(&in, 64, 1);
    for (size_t t = 7; t < TOKENS; t++)
        for (size_t j = 0; j < 64; j++)
            in.x[t * 64 + j] = in.x[t % 7 * 64 + j] * (1 + 1e-6F * in.x[t * 64 + j]);
    ck_assert_uint_eq(seen(&in, TOKENS, 100, NULL).rank, 7);
    ck_assert_uint_eq(seen(&in, 2, 1, NULL).rank, 2);
    ck_assert_uint_eq(seen(&in, 8, 100, NULL).rank, 7);
    tiny_end(&in.home);
}
END_TEST

/* The rank is the same when one channel is 10,000 times as loud as the others, or one token. */
START_TEST(loud_channels_and_tokens_hide_nothing)
{
    inputs in;
    inputs_begin(&in, 64, 1);
    for (size_t t = 0; t < TOKENS; t++)
        in.x[t * 64 + 5] *= 1e4F;
    ck_assert_uint_eq(seen(&in, 40, 100, NULL).rank, 40);
    ck_assert_uint_eq(seen(&in, TOKENS, 100, NULL).rank, 64);
    const pare_support before = seen(&in, TOKENS, 100, NULL);
    in.x[3] = in.x[4] = 25 * 24; /* 600 times the energy of a token, in two columns */
    const pare_support after = seen(&in, TOKENS, 100, NULL);
    ck_assert_uint_eq(after.rank, 64);
    ck_assert_double_ge(after.effective, 0.95 * before.effective);
    tiny_end(&in.home);
}
END_TEST

START_TEST(effective_samples_count_tokens_that_a_column_rests_on)
{
    inputs in;
    inputs_begin(&in, 64, 1);
    const double normal = seen(&in, TOKENS, 100, NULL).effective;
    ck_assert_msg(normal > 0.9 * TOKENS / 3 && normal < 1.1 * TOKENS / 3, "%g", normal);
    for (size_t i = 0; i < TOKENS * 64; i++)
        in.x[i] = in.x[i] < 0 ? -2.0F : 2.0F;
    ck_assert_double_eq(seen(&in, TOKENS, 100, NULL).effective, TOKENS);
    for (size_t j = 0; j < 64; j++) /* one token outweighs all others, in every column */
        in.x[9 * 64 + j] *= 1e4F;
    ck_assert_double_lt(seen(&in, TOKENS, 100, NULL).effective, 1.001);
    for (size_t i = 0; i < TOKENS * 64; i++)
        in.x[i] = 0;
    const pare_support none = seen(&in, TOKENS, 100, NULL);
    ck_assert(none.known && none.columns == 0 && none.rank == 0 && none.effective == 0);
    for (size_t t = 0; t < 3; t++)
        in.x[t * 64 + 11 + t] = 1;
    const pare_support three = seen(&in, TOKENS, 100, NULL);
    ck_assert(three.columns == 3 && three.rank == 3 && three.effective == 1);
    tiny_end(&in.home);
}
END_TEST

/* Above PARE_SUPPORT_COLUMNS the rank is looked for in some columns: exact below that, and then the
 * most that the tokens leave open. */
START_TEST(wide_inputs_are_judged_by_some_columns)
{
    static const size_t tokens[][2] = {{100, 100}, {500, 500}, {600, 600}, {1400, WIDE}};
    inputs in;
    inputs_begin(&in, WIDE, 2);
    for (size_t i = 0; i < sizeof tokens / sizeof *tokens; i++)
        ck_assert_uint_eq(seen(&in, tokens[i][0], 256, NULL).rank, tokens[i][1]);
    for (size_t t = 30; t < TOKENS; t++)
        memcpy(in.x + t * WIDE, in.x + t % 30 * WIDE, WIDE * sizeof *in.x);
    ck_assert_uint_eq(seen(&in, TOKENS, 256, NULL).rank, 30);
    tiny_end(&in.home);
}
END_TEST

START_TEST(the_numbers_do_not_depend_on_threads_or_scales)
{
    pare_support first = {0};
    float scale[WIDE];
    for (size_t threads = 1; threads <= 3; threads++) {
        inputs in;
        inputs_begin(&in, WIDE, threads);
        const pare_support s = seen(&in, 450, 128, NULL);
        if (threads == 1)
            first = s;
        ck_assert(s.rank == first.rank && s.columns == first.columns);
        ck_assert_mem_eq(&s.effective, &first.effective, sizeof s.effective);
        for (size_t j = 0; j < WIDE; j++)
            scale[j] = j % 2 ? 0.125F : 64.0F;
        const pare_support scaled = seen(&in, 450, 128, scale);
        ck_assert_uint_eq(scaled.rank, first.rank);
        tiny_end(&in.home);
    }
}
END_TEST

START_TEST(numbers_that_are_not_finite_are_left_to_who_needs_them)
{
    inputs in;
    inputs_begin(&in, 64, 1);
    in.x[70] = _i ? INFINITY : NAN;
    ck_assert(!seen(&in, 100, 100, NULL).known);
    tiny_end(&in.home);
}
END_TEST

START_TEST(memory_that_is_refused_is_reported)
{
    inputs in;
    inputs_begin(&in, 64, 1);
    float h[64] = {1, 0, 0, 0, 0, 0, 0, 0, 0, 1};
    double fourth[8] = {1, 1};
    const pare_alloc plain = in.home.cx.alloc;
    long n = 0;
    for (pare_status s = PARE_ENOMEM; s != PARE_OK; n++) {
        unit_failing failing = {.left = n};
        pare_support out;
        pare_ctx_clear(&in.home.cx);
        in.home.cx.alloc = (pare_alloc){unit_failing_resize, &failing};
        pare_arena a = {.cx = &in.home.cx};
        s = pare_support_of(&a, h, fourth, 8, 5, &out);
        ck_assert(s == PARE_OK || s == PARE_ENOMEM);
        ck_assert(s != PARE_OK || (out.known && out.rank == 2 && out.effective == 1));
        pare_arena_release(&a);
        ck_assert_int_eq(failing.live, 0);
    }
    ck_assert_int_gt(n, 1);
    in.home.cx.alloc = plain;
    tiny_end(&in.home);
}
END_TEST

/* Of few columns and of more than the rank is looked for in. */
START_TEST(scratch_is_what_the_plan_counts)
{
    enum { APART = 4 * PARE_ALIGN }; /* what a sanitizer puts between objects */
    static float h[600 * 600];
    static double fourth[600];
    const size_t k = _i ? 600 : 40;
    pare_ctx cx;
    pare_arena a;
    pare_support out;
    pare_ctx_init(&cx);
    for (size_t j = 0; j < k; j++) {
        memset(h + j * k, 0, k * sizeof *h);
        h[j * k + j] = 1;
        fourth[j] = 1;
    }
    ck_assert_int_eq(pare_arena_init(&cx, &a, (size_t)pare_support_bytes(k) + APART), PARE_OK);
    const size_t peak = cx.peak_bytes;
    ck_assert_int_eq(pare_support_of(&a, h, fourth, k, 1000, &out), PARE_OK);
    ck_assert_uint_eq(out.rank, k);
    ck_assert_uint_eq(cx.peak_bytes, peak);
    pare_arena_release(&a);
}
END_TEST

int main(void)
{
    Suite *const s = suite_create("support");
    TCase *const t = tcase_create("support");
    tcase_set_timeout(t, 60);
    tcase_add_test(t, the_rank_is_the_number_of_different_inputs_up_to_the_columns);
    tcase_add_test(t, tokens_that_repeat_add_no_rank);
    tcase_add_test(t, loud_channels_and_tokens_hide_nothing);
    tcase_add_test(t, effective_samples_count_tokens_that_a_column_rests_on);
    tcase_add_test(t, wide_inputs_are_judged_by_some_columns);
    tcase_add_test(t, the_numbers_do_not_depend_on_threads_or_scales);
    tcase_add_loop_test(t, numbers_that_are_not_finite_are_left_to_who_needs_them, 0, 2);
    tcase_add_test(t, memory_that_is_refused_is_reported);
    tcase_add_loop_test(t, scratch_is_what_the_plan_counts, 0, 2);
    suite_add_tcase(s, t);
    return unit_main(s);
}
