/* Steps of the optimizer against torch (tests/interop/training.py), rates, and the order of data.
 */
#include "distill/adamw.h"
#include "distill/schedule.h"
#include "tests/unit/hashed.h"
#include "tests/unit/tiny.h"

enum { FIRST = 300, SECOND = 37, ALL = FIRST + SECOND };

typedef struct rig {
    float value[ALL], gradient[ALL], m[ALL], v[ALL];
    pare_trained leaf[2];
} rig;

static void fill(float *to, size_t at, float over)
{
    for (size_t i = 0; i < FIRST; i++)
        to[i] = hashed(at + i) / over;
    for (size_t i = 0; i < SECOND; i++)
        to[FIRST + i] = hashed(at + 1000 + i) / over;
}

static void rig_make(rig *r, bool zeros)
{
    memset(r, 0, sizeof *r);
    fill(r->value, 0, 8);
    r->leaf[0] = (pare_trained){.value = r->value,
                                .gradient = r->gradient,
                                .m = r->m,
                                .v = r->v,
                                .count = FIRST,
                                .decays = true,
                                .keeps_zeros = zeros};
    r->leaf[1] = (pare_trained){.value = r->value + FIRST,
                                .gradient = r->gradient + FIRST,
                                .m = r->m + FIRST,
                                .v = r->v + FIRST,
                                .count = SECOND,
                                .keeps_zeros = zeros};
}

static const pare_adamw usual = {.beta1 = .9, .beta2 = .95, .eps = 1e-8, .decay = .1, .clip = 1};

START_TEST(steps_are_those_of_torch)
{
    tiny_home h;
    rig r;
    tiny_begin(&h, _i ? 3 : 1);
    rig_make(&r, false);
    for (size_t step = 1; step <= 5; step++) {
        char key[32];
        double figure[3], sum = 0, dot = 0;
        fill(r.gradient, 10000 * step, 16);
        const double norm = pare_trained_norm(&h.cx, r.leaf, 2);
        pare_adamw_step(&h.cx, &usual, r.leaf, 2, step, .01 / (double)step, norm);
        for (size_t i = 0; i < ALL; i++) {
            sum += (double)r.value[i];
            dot += (double)r.value[i] * (double)hashed(i);
            ck_assert_float_eq(r.gradient[i], 0);
        }
        (void)snprintf(key, sizeof key, "adamw %zu ", step);
        hashed_line(key, figure);
        hashed_near("norm", norm, figure[0], 1e-9);
        hashed_near("sum", sum, figure[1], 1e-6);
        hashed_near("dot", dot, figure[2], 1e-7);
    }
    tiny_end(&h);
}
END_TEST

/* A leaf that is fixed has no moments and no part in the norm, and its gradient becomes 0. */
START_TEST(a_fixed_leaf_stays)
{
    tiny_home h;
    rig r, alone;
    tiny_begin(&h, 2);
    rig_make(&r, false);
    rig_make(&alone, false);
    r.leaf[0].fixed = true;
    r.leaf[0].m = r.leaf[0].v = NULL;
    fill(r.gradient, 10000, 16);
    fill(alone.gradient, 10000, 16);
    const double norm = pare_trained_norm(&h.cx, r.leaf, 2);
    ck_assert_double_eq(norm, pare_trained_norm(&h.cx, alone.leaf + 1, 1));
    pare_adamw_step(&h.cx, &usual, r.leaf, 2, 1, .01, norm);
    pare_adamw_step(&h.cx, &usual, alone.leaf + 1, 1, 1, .01, norm);
    ck_assert_int_eq(memcmp(r.value, alone.value, sizeof r.value), 0);
    for (size_t i = 0; i < ALL; i++)
        ck_assert_float_eq(r.gradient[i], 0);
    tiny_end(&h);
}
END_TEST

/* A weight that is 0 has no part in the norm and stays 0; the others move as if it were not there.
 */
START_TEST(zeros_stay)
{
    tiny_home h;
    rig r, free;
    tiny_begin(&h, 2);
    rig_make(&r, true);
    rig_make(&free, false);
    for (size_t i = 0; i < ALL; i += 3)
        r.value[i] = 0;
    for (size_t step = 1; step <= 3; step++) {
        fill(r.gradient, 10000 * step, 16);
        fill(free.gradient, 10000 * step, 16);
        for (size_t i = 0; i < ALL; i += 3)
            free.gradient[i] = 0;
        const double norm = pare_trained_norm(&h.cx, r.leaf, 2);
        ck_assert_double_eq(norm, pare_trained_norm(&h.cx, free.leaf, 2));
        pare_adamw_step(&h.cx, &usual, r.leaf, 2, step, .01, norm);
        pare_adamw_step(&h.cx, &usual, free.leaf, 2, step, .01, norm);
    }
    for (size_t i = 0; i < ALL; i++)
        if (i % 3)
            ck_assert_float_eq(r.value[i], free.value[i]);
        else
            ck_assert(r.value[i] == 0 && r.m[i] == 0 && r.v[i] == 0);
    tiny_end(&h);
}
END_TEST

START_TEST(without_clip_the_norm_does_not_matter)
{
    tiny_home h;
    rig r[2];
    pare_adamw o = usual;
    o.clip = 0;
    tiny_begin(&h, 1);
    for (size_t i = 0; i < 2; i++) {
        rig_make(&r[i], false);
        fill(r[i].gradient, 10000, 16);
        pare_adamw_step(&h.cx, &o, r[i].leaf, 2, 1, .01, i ? 1e9 : 1e-9);
    }
    ck_assert_mem_eq(r[0].value, r[1].value, sizeof r[0].value);
    tiny_end(&h);
}
END_TEST

START_TEST(rates_rise_and_fall)
{
    pare_schedule s = {.peak = 8, .last = 2, .warmup = 4, .steps = 12};
    static const double rise[] = {2, 4, 6, 8};
    for (size_t i = 0; i < 4; i++)
        ck_assert_double_eq(pare_schedule_rate(&s, i), rise[i]);
    ck_assert_double_eq(pare_schedule_rate(&s, 4), 8);
    ck_assert_double_eq_tol(pare_schedule_rate(&s, 6), 5 + 3 * sqrt(.5), 1e-12);
    ck_assert_double_eq_tol(pare_schedule_rate(&s, 8), 5, 1e-12);
    s.decay = PARE_DECAY_LINEAR;
    ck_assert_double_eq(pare_schedule_rate(&s, 8), 5);
    ck_assert_double_eq(pare_schedule_rate(&s, 10), 3.5);
    s.decay = PARE_DECAY_CONSTANT;
    ck_assert_double_eq(pare_schedule_rate(&s, 11), 8);
}
END_TEST

START_TEST(each_window_comes_once_in_a_round)
{
    enum { WINDOWS = 50 };
    size_t order[3][WINDOWS], moved = 0, other = 0;
    for (size_t i = 0; i < 3; i++) {
        bool seen[WINDOWS] = {false};
        pare_schedule_order(i == 2, i == 1, WINDOWS, order[i]);
        for (size_t j = 0; j < WINDOWS; j++) {
            ck_assert(order[i][j] < WINDOWS && !seen[order[i][j]]);
            seen[order[i][j]] = true;
            moved += order[i][j] != j;
            other += i > 0 && order[i][j] != order[0][j];
        }
    }
    ck_assert_uint_gt(moved, 3 * WINDOWS * 8 / 10);
    ck_assert_uint_gt(other, 2 * WINDOWS * 8 / 10);
}
END_TEST

int main(void)
{
    Suite *const s = suite_create("adamw");
    TCase *const t = tcase_create("adamw");
    tcase_add_loop_test(t, steps_are_those_of_torch, 0, 2);
    tcase_add_test(t, a_fixed_leaf_stays);
    tcase_add_test(t, zeros_stay);
    tcase_add_test(t, without_clip_the_norm_does_not_matter);
    tcase_add_test(t, rates_rise_and_fall);
    tcase_add_test(t, each_window_comes_once_in_a_round);
    suite_add_tcase(s, t);
    return unit_main(s);
}
