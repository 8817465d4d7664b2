/* The cost of carrying predictions over against closed forms, differences and torch
 * (tests/interop/training.py). */
#include "distill/sinkhorn.h"

#include "distill/losses.h"
#include "tests/unit/hashed.h"
#include "tests/unit/tiny.h"

enum { ROWS = 150, VOCAB = 60, ALL = ROWS * VOCAB };
static float z[ALL], t[ALL], dz[2][ALL];
static int32_t label[ROWS];

/* Rows r with r mod 5 = 0 do not count. */
static void fill(void)
{
    for (size_t i = 0; i < ALL; i++) {
        z[i] = hashed(i);
        t[i] = hashed(10000 + i);
    }
    for (size_t i = 0; i < ROWS; i++)
        label[i] = i % 5 ? (int32_t)(i % VOCAB) : PARE_NO_LABEL;
}

static double cost(size_t threads, const float *x, const float *y, const int32_t *of, size_t rows,
                   size_t vocab, double temperature, double scale, float *gradient)
{
    double value;
    tiny_home h;
    tiny_begin(&h, threads);
    ck_assert_int_eq(
        pare_sinkhorn(&h.cx, &h.arena, x, y, of, rows, vocab, temperature, scale, gradient, &value),
        PARE_OK);
    tiny_end(&h);
    return value;
}

static double losses(const pare_losses *l, float *x, size_t rows, double scale)
{
    double value;
    tiny_home h;
    tiny_begin(&h, 2);
    ck_assert_int_eq(pare_losses_rows(&h.cx, &h.arena, l, x, t, label, rows, VOCAB, scale, &value),
                     PARE_OK);
    tiny_end(&h);
    return value;
}

/* Two rows of three, worked out in double. */
START_TEST(two_rows_have_the_closed_form)
{
    const float x[6] = {1, 0, -1, 0, .5f, 1}, y[6] = {2, 1, -2, -1, 1, 2};
    const double gradient[6] = {-.10251547, -.05444414, .15695962,
                                .19995636,  -.08179201, -.11816435};
    const int32_t both[2] = {0, 0};
    float d[6];
    hashed_near("value", cost(1, x, y, both, 2, 3, 2, .5, d), 2 * .489787265, 2e-7);
    for (size_t i = 0; i < 6; i++)
        hashed_near("gradient", (double)d[i], gradient[i], 1e-6);
}
END_TEST

/* One row has nowhere else to go. */
START_TEST(one_row_is_twice_the_total_variation)
{
    const pare_losses l = {.total_variation = 2, .temperature = 1.5};
    fill();
    memcpy(dz[1], z, sizeof z);
    const double value = cost(1, z + VOCAB, t + VOCAB, label + 1, 1, VOCAB, 1.5, 3, dz[0]);
    (void)losses(&l, dz[1], 2, 3);
    for (size_t i = 0; i < VOCAB; i++)
        hashed_near("gradient", (double)dz[0][i], (double)dz[1][VOCAB + i], 1e-6);
    memcpy(dz[1], z, sizeof z);
    hashed_near("value", value, losses(&l, dz[1], 2, 1), 1e-6);
}
END_TEST

START_TEST(value_and_gradient_are_those_of_torch)
{
    double figure[3], square = 0, dot = 0;
    fill();
    const double value = cost(2, z, t, label, ROWS, VOCAB, 2, 8, dz[0]);
    for (size_t i = 0; i < ALL; i++) {
        const double g = (double)dz[0][i] / 8;
        ck_assert(i / VOCAB % 5 || g == 0);
        square += g * g;
        dot += g * (double)hashed(20000 + i);
    }
    hashed_line("sinkhorn 2 0 ", figure);
    hashed_near("value", value, figure[0], 1e-6);
    hashed_near("norm", sqrt(square), figure[1], 1e-6);
    hashed_near("dot", dot, figure[2], 1e-6);
}
END_TEST

/* Through the plan, too: the teacher's rows are those of the student in another order, so that
 * plans are far from even. */
START_TEST(the_gradient_is_the_difference_of_values)
{
    const float step = 1.f / 512;
    fill();
    for (size_t i = 0; i < ALL; i++)
        t[i] = z[(i + 7 * VOCAB) % ALL] + hashed(i + 30000) / 8;
    (void)cost(2, z, t, label, ROWS, VOCAB, 1.5, 1, dz[0]);
    for (size_t i = 5; i < ALL; i += 397) {
        const float was = z[i];
        z[i] = was + step;
        const double up = cost(2, z, t, label, ROWS, VOCAB, 1.5, 1, dz[1]);
        z[i] = was - step;
        const double down = cost(2, z, t, label, ROWS, VOCAB, 1.5, 1, dz[1]);
        z[i] = was;
        hashed_near("slope", (double)dz[0][i], (up - down) / (2 * (double)step), 1e-4);
    }
}
END_TEST

/* The order of the teacher's rows is nothing to it. */
START_TEST(rows_of_a_group_are_a_set)
{
    static float turned[64 * VOCAB];
    for (size_t i = 0; i < ROWS; i++)
        label[i] = 0;
    for (size_t i = 0; i < ALL; i++) {
        z[i] = hashed(i);
        t[i] = hashed(10000 + i);
    }
    for (size_t i = 0; i < 64 * VOCAB; i++)
        turned[i] = t[(i + 11 * VOCAB) % (64 * VOCAB)];
    const double value = cost(2, z, t, label, 64, VOCAB, 1, 1, dz[0]);
    hashed_near("value", cost(2, z, turned, label, 64, VOCAB, 1, 1, dz[1]), value, 1e-9);
    for (size_t i = 0; i < 64 * VOCAB; i++)
        hashed_near("gradient", (double)dz[1][i], (double)dz[0][i], 1e-6);
}
END_TEST

/* Neither threads nor other groups change a byte; a group without rows costs nothing. */
START_TEST(groups_stand_alone)
{
    fill();
    const double value = cost(1, z, t, label, ROWS, VOCAB, 2, 1, dz[0]);
    ck_assert_double_eq(cost(5, z, t, label, ROWS, VOCAB, 2, 1, dz[1]), value);
    ck_assert_mem_eq(dz[0], dz[1], sizeof dz[0]);
    double sum = 0;
    for (size_t i = 0; i < ROWS; i += PARE_SINKHORN_ROWS) {
        const size_t rows = ROWS - i < PARE_SINKHORN_ROWS ? ROWS - i : PARE_SINKHORN_ROWS;
        sum += cost(2, z + i * VOCAB, t + i * VOCAB, label + i, rows, VOCAB, 2, 1, dz[1]);
        ck_assert_mem_eq(dz[1], dz[0] + i * VOCAB, rows * VOCAB * sizeof(float));
    }
    ck_assert_double_eq(sum, value);
    for (size_t i = 0; i < PARE_SINKHORN_ROWS; i++)
        label[i] = PARE_NO_LABEL;
    ck_assert_double_eq(cost(2, z, t, label, PARE_SINKHORN_ROWS, VOCAB, 2, 1, dz[1]), 0);
}
END_TEST

/* Beside another loss, with weights. */
START_TEST(it_is_one_of_the_losses)
{
    static float both[ALL], other[ALL];
    const pare_losses all = {.kl = .5, .sinkhorn = .25, .temperature = 2},
                      kl = {.kl = .5, .temperature = 2};
    fill();
    memcpy(both, z, sizeof z);
    memcpy(other, z, sizeof z);
    const double value =
        .25 * cost(2, z, t, label, ROWS, VOCAB, 2, 3 * .25, dz[0]) + losses(&kl, other, ROWS, 3);
    hashed_near("value", losses(&all, both, ROWS, 3), value, 1e-12);
    for (size_t i = 0; i < ALL; i++)
        hashed_near("gradient", (double)both[i], (double)dz[0][i] + (double)other[i], 1e-6);
}
END_TEST

START_TEST(what_is_not_finite_shows)
{
    fill();
    (_i & 1 ? t : z)[2 * VOCAB + 3] = _i & 2 ? INFINITY : NAN;
    ck_assert(!isfinite(cost(1, z, t, label, ROWS, VOCAB, 1, 1, dz[0])));
}
END_TEST

int main(void)
{
    Suite *const s = suite_create("sinkhorn");
    TCase *const t_case = tcase_create("sinkhorn");
    tcase_add_test(t_case, two_rows_have_the_closed_form);
    tcase_add_test(t_case, one_row_is_twice_the_total_variation);
    tcase_add_test(t_case, value_and_gradient_are_those_of_torch);
    tcase_add_test(t_case, the_gradient_is_the_difference_of_values);
    tcase_add_test(t_case, rows_of_a_group_are_a_set);
    tcase_add_test(t_case, groups_stand_alone);
    tcase_add_test(t_case, it_is_one_of_the_losses);
    tcase_add_loop_test(t_case, what_is_not_finite_shows, 0, 4);
    suite_add_tcase(s, t_case);
    return unit_main(s);
}
