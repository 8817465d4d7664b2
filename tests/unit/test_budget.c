/* The choice of a budget against every choice there is, and what it promises. */
#include <math.h>
#include <string.h>

#include "compress/budget/budget_choose.h"
#include "compress/budget/widths_internal.h"
#include "compress/evaluate/token_time.h"
#include "runtime/random.h"
#include "tests/unit/unit.h"

enum { UNITS = 6, OPTIONS = 4, CHOICES = 4 * 4 * 4 * 4 * 4 * 4, CASES = 40 };

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
    ck_assert_uint_eq(cx.live_bytes, 0);
}

/* Settings in no order, some of them worse than others in both ways. */
static void make_case(uint64_t seed, pare_budget_option *o)
{
    for (size_t i = 0; i < (size_t)UNITS * OPTIONS; i++) {
        o[i].bytes = 10 + pare_random_u64(seed, 1, i) % 40;
        o[i].loss = exp(-6.0 * (double)o[i].bytes / 50) * (0.5 + pare_random_unit(seed, 2, i)) *
                    exp(4 * pare_random_unit(seed, 3, i / OPTIONS));
    }
}

static uint64_t bytes_of(const pare_budget_option *o, const size_t *chosen)
{
    uint64_t bytes = 0;
    for (size_t u = 0; u < UNITS; u++)
        bytes += o[u * OPTIONS + chosen[u]].bytes;
    return bytes;
}

static double loss_of(const pare_budget_option *o, const size_t *chosen)
{
    double loss = 0;
    for (size_t u = 0; u < UNITS; u++)
        loss += o[u * OPTIONS + chosen[u]].loss;
    return loss;
}

/* By every choice. */
static double best_of_all(const pare_budget_option *o, uint64_t budget)
{
    double best = INFINITY;
    for (size_t i = 0; i < CHOICES; i++) {
        size_t chosen[UNITS], rest = i;
        for (size_t u = 0; u < UNITS; u++, rest /= OPTIONS)
            chosen[u] = rest % OPTIONS;
        if (bytes_of(o, chosen) <= budget && loss_of(o, chosen) < best)
            best = loss_of(o, chosen);
    }
    return best;
}

/* The most that any setting of a unit saves beside any other. */
static double largest_step(const pare_budget_option *o)
{
    double most = 0;
    for (size_t u = 0; u < UNITS; u++)
        for (size_t i = 0; i < OPTIONS; i++)
            for (size_t j = 0; j < OPTIONS; j++)
                most = fmax(most, o[u * OPTIONS + i].loss - o[u * OPTIONS + j].loss);
    return most;
}

/* On average within a hundredth of the best: greedy misses only what one step leaves. */
START_TEST(it_comes_near_the_best_of_all_choices)
{
    double sum = 0, best_sum = 0;
    for (uint64_t seed = 0; seed < CASES; seed++) {
        pare_budget_option o[UNITS * OPTIONS];
        size_t chosen[UNITS];
        make_case(seed, o);
        for (uint64_t budget = 60; budget <= 300; budget += 20) {
            uint64_t least;
            const pare_status s =
                pare_budget_choose(&cx, &arena, o, UNITS, OPTIONS, budget, chosen, &least);
            ck_assert_int_eq(s, budget < least ? PARE_EINVAL : PARE_OK);
            const double best = best_of_all(o, budget);
            ck_assert_int_eq(isinf(best), s != PARE_OK);
            if (s != PARE_OK)
                continue;
            ck_assert_uint_le(bytes_of(o, chosen), budget);
            ck_assert_double_ge(loss_of(o, chosen), best - 1e-12);
            ck_assert_double_le(loss_of(o, chosen), best + largest_step(o));
            sum += loss_of(o, chosen);
            best_sum += best;
        }
    }
    ck_assert_msg(sum < 1.03 * best_sum, "%.6f of all choices, the best have %.6f", sum, best_sum);
}
END_TEST

/* Where a walk up the hulls ends to the byte there is none better. */
START_TEST(it_is_the_best_where_its_bytes_are_the_budget)
{
    for (uint64_t seed = 100; seed < 100 + CASES; seed++) {
        pare_budget_option o[UNITS * OPTIONS];
        size_t chosen[UNITS];
        make_case(seed, o);
        /* of hulls alone: settings that lie above them go */
        for (size_t u = 0; u < UNITS; u++)
            for (size_t i = 0; i < OPTIONS; i++) {
                o[u * OPTIONS + i].bytes = 10 + 10 * i;
                o[u * OPTIONS + i].loss =
                    (double)(u + 1) * (double)(seed % 7 + 1) * exp2(-(double)i);
            }
        for (uint64_t budget = 60; budget <= 240; budget += 10) {
            ck_assert_int_eq(
                pare_budget_choose(&cx, &arena, o, UNITS, OPTIONS, budget, chosen, NULL), PARE_OK);
            ck_assert_double_eq_tol(loss_of(o, chosen), best_of_all(o, budget), 1e-12);
        }
    }
}
END_TEST

START_TEST(a_setting_above_the_hull_is_left_out)
{
    /* 2 is on the line from 0 to 3 or above; the hull goes 0, 1, 3 */
    static const pare_budget_option o[] = {{10, 8}, {20, 2}, {30, 1.9}, {40, 0}};
    size_t chosen;
    ck_assert_int_eq(pare_budget_choose(&cx, &arena, o, 1, 4, 25, &chosen, NULL), PARE_OK);
    ck_assert_uint_eq(chosen, 1);
    ck_assert_int_eq(pare_budget_choose(&cx, &arena, o, 1, 4, 40, &chosen, NULL), PARE_OK);
    ck_assert_uint_eq(chosen, 3);
    ck_assert_int_eq(pare_budget_choose(&cx, &arena, o, 1, 4, 39, &chosen, NULL), PARE_OK);
    ck_assert_uint_eq(chosen, 2); /* what is left over buys it all the same */
}
END_TEST

START_TEST(equals_go_by_unit)
{
    static const pare_budget_option o[] = {{10, 4}, {20, 2}, {10, 4}, {20, 2}, {10, 4}, {20, 2}};
    size_t chosen[3];
    ck_assert_int_eq(pare_budget_choose(&cx, &arena, o, 3, 2, 45, chosen, NULL), PARE_OK);
    ck_assert_uint_eq(chosen[0], 1);
    ck_assert_uint_eq(chosen[1], 0);
    ck_assert_uint_eq(chosen[2], 0);
}
END_TEST

START_TEST(too_few_bytes_are_refused_with_the_least)
{
    static const pare_budget_option o[] = {{10, 4}, {20, 2}, {12, 4}, {11, 5}};
    size_t chosen[2];
    uint64_t least = 0;
    ck_assert_int_eq(pare_budget_choose(&cx, &arena, o, 2, 2, 20, chosen, &least), PARE_EINVAL);
    ck_assert_uint_eq(least, 21);
    ck_assert_msg(strstr(cx.what, "21") != NULL, "%s", cx.what);
    ck_assert_int_eq(pare_budget_choose(&cx, &arena, o, 2, 2, 21, chosen, &least), PARE_OK);
    ck_assert_uint_eq(chosen[1], 1);
}
END_TEST

START_TEST(a_speed_is_a_time_and_the_slowest_the_longest)
{
    ck_assert_uint_eq(pare_time_at(1e6), 1000000);
    ck_assert_uint_eq(pare_time_at(3), 333333333333);
    ck_assert_uint_eq(pare_time_at(1e-6), 1000000000000000000);
    ck_assert_uint_eq(pare_time_at(1e-9), INT64_MAX);
    ck_assert_uint_eq(pare_time_at(1e-320), INT64_MAX);
}
END_TEST

/* Cosines and sines of 32 positions of 4 pairs; blocks with a window have as many of their own,
 * sequences of up to 16 positions half as many. */
START_TEST(timing_a_token_counts_every_table_of_angles)
{
    pare_config c = {.arch = pare_arch_find("gemma3_text"),
                     .hidden = 16,
                     .intermediate = 32,
                     .blocks = 2,
                     .heads = 2,
                     .kv_heads = 1,
                     .head_dim = 8,
                     .vocab = 11,
                     .context = 32,
                     .rope = {.theta = 10000}};
    const uint64_t table = 2 * 32 * 4 * sizeof(float), one = pare_time_token_bytes(&cx, &c);
    ck_assert_ptr_nonnull(c.arch);
    c.rope_local.theta = 100;
    ck_assert_uint_eq(pare_time_token_bytes(&cx, &c), one + table);
    c.rope.kind = PARE_ROPE_LONGROPE;
    c.rope.original_context = 16;
    ck_assert_uint_eq(pare_time_token_bytes(&cx, &c), one + table + table / 2);
}
END_TEST

START_TEST(memory_that_is_refused_is_a_status)
{
    static const pare_budget_option o[] = {{10, 4}, {20, 2}};
    unit_failing f = {.left = 0};
    pare_ctx poor;
    pare_arena a;
    size_t chosen;
    pare_ctx_init(&poor);
    poor.alloc.resize = unit_failing_resize;
    poor.alloc.self = &f;
    ck_assert_int_eq(pare_arena_init(&poor, &a, 0), PARE_OK);
    ck_assert_int_eq(pare_budget_choose(&poor, &a, o, 1, 2, 20, &chosen, NULL), PARE_ENOMEM);
    pare_arena_release(&a);
    ck_assert_int_eq(f.live, 0);
}
END_TEST

/* The second and the fourth time were slowed, the others hold. */
START_TEST(times_of_widths_are_bounded_by_each_other)
{
    pare_widths w = {
        .count = 5, .width = {640, 480, 320, 160, 80}, .ps = {1000, 3000, 600, 700, 200}};
    static const uint64_t bounded[] = {1000, 900, 600, 400, 200};
    pare__widths_bound(&w);
    for (size_t i = 0; i < w.count; i++)
        ck_assert_uint_eq(w.ps[i], bounded[i]);
    w.ps[0] = 50; /* slower where there are fewer channels */
    pare__widths_bound(&w);
    for (size_t i = 0; i < w.count; i++)
        ck_assert_uint_eq(w.ps[i], 50);
}
END_TEST

int main(void)
{
    Suite *const s = suite_create("budget");
    TCase *const c = tcase_create("budget");
    tcase_add_checked_fixture(c, setup, teardown);
    tcase_add_test(c, it_comes_near_the_best_of_all_choices);
    tcase_add_test(c, it_is_the_best_where_its_bytes_are_the_budget);
    tcase_add_test(c, a_setting_above_the_hull_is_left_out);
    tcase_add_test(c, equals_go_by_unit);
    tcase_add_test(c, too_few_bytes_are_refused_with_the_least);
    tcase_add_test(c, a_speed_is_a_time_and_the_slowest_the_longest);
    tcase_add_test(c, timing_a_token_counts_every_table_of_angles);
    tcase_add_test(c, times_of_widths_are_bounded_by_each_other);
    tcase_add_test(c, memory_that_is_refused_is_a_status);
    suite_add_tcase(s, c);
    return unit_main(s);
}
