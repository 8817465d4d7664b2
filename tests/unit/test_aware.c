/* Codes in place while a matrix is trained: closed forms, differences of the straight-through
 * function, what a step of the optimizer may do to a scale. */
#include "distill/aware.h"

#include "kernels/half.h"
#include "tests/unit/hashed.h"
#include "tests/unit/tiny.h"

enum { ROWS = 3, COLUMNS = 72, MOST = ROWS * COLUMNS };

typedef struct rig {
    tiny_home home;
    pare_trained master, step;
    pare_aware aware;
} rig;

static pare_trained leaf(pare_arena *a, size_t count)
{
    return (pare_trained){.value = tiny_take(a, count, sizeof(float)),
                          .gradient = tiny_take(a, count, sizeof(float)),
                          .count = count};
}

static void rig_begin(rig *r, const pare_grid *grid, size_t n, size_t k, float scale, uint8_t zero)
{
    tiny_begin(&r->home, 2);
    ck_assert_int_eq(pare_aware_take(&r->home.arena, grid, n, k, &r->aware), PARE_OK);
    const size_t groups = n * r->aware.codes.groups;
    r->master = leaf(&r->home.arena, n * k);
    r->step = leaf(&r->home.arena, groups);
    r->aware.master = &r->master;
    r->aware.step = pare_encodings[grid->encoding].uniform ? &r->step : NULL;
    for (size_t i = 0; i < groups; i++) {
        r->step.value[i] = scale;
        r->aware.codes.zeros[i] = zero;
    }
}

static pare_grid uniform(unsigned bits, size_t group, bool symmetric)
{
    return (pare_grid){.bits = bits, .group = group, .symmetric = symmetric, .f16_scales = true};
}

/* By hand: x = w / s, levels code - z, and 1 / sqrt(N Q). */
static const struct {
    unsigned bits;
    bool symmetric;
    float scale;
    uint8_t zero;
    float w[4], value[4], master[4];
    double step, compensated;
} closed[] = {
    /* x .6 -1.8 4 -5, levels 1 -2 3 -4, Q 3 */
    {3,
     true,
     .5F,
     4,
     {.3F, -.9F, 2, -2.5F},
     {.5F, -1, 1.5F, -2},
     {1, 2, 0, 0},
     -7 / 3.4641016,
     -10 / 3.4641016},
    /* x .4 1.6 2.7 -1.2, levels 0 2 2 -1, Q 3 */
    {2,
     false,
     1,
     1,
     {.4F, 1.6F, 2.7F, -1.2F},
     {0, 2, 2, -1},
     {1, 2, 0, 0},
     2.4 / 3.4641016,
     6 / 3.4641016},
    /* x 1 -2 .25 -1.75: the ends are inside; levels 1 -2 0 -2, Q 1 */
    {2, true, 2, 2, {2, -4, .5F, -3.5F}, {2, -4, 0, -4}, {1, 2, 3, 4}, -1.75 / 2, -11. / 2},
    /* the longer side up: x -1 -3 1.8 0, levels -1 -3 2 -0 */
    {3,
     true,
     -.5F,
     4,
     {.5F, 1.5F, -.9F, 0},
     {.5F, 1.5F, -1, 0},
     {1, 2, 3, 4},
     .6 / 3.4641016,
     -1 / 3.4641016},
    /* a group of zeros */
    {4, true, 0, 8, {.5F, 0, 0, -1}, {0, 0, 0, 0}, {0, 0, 0, 0}, 0, 0},
};

static void check_closed(size_t i, bool compensated)
{
    rig r;
    const pare_grid grid = uniform(closed[i].bits, 0, closed[i].symmetric);
    rig_begin(&r, &grid, 1, 4, closed[i].scale, closed[i].zero);
    r.aware.compensated = compensated;
    for (size_t j = 0; j < 4; j++) {
        r.master.value[j] = closed[i].w[j];
        r.master.gradient[j] = (float)(j + 1);
    }
    ck_assert_int_eq(pare_aware_round(&r.home.cx, &r.aware), PARE_OK);
    pare_aware_gradient(&r.home.cx, &r.aware);
    for (size_t j = 0; j < 4; j++) {
        ck_assert_float_eq(r.aware.seen[j], closed[i].value[j]);
        ck_assert_float_eq(r.master.gradient[j], closed[i].master[j]);
    }
    hashed_near("step", (double)r.step.gradient[0],
                compensated ? closed[i].compensated : closed[i].step, 1e-6);
    tiny_end(&r.home);
}

START_TEST(values_and_gradients_are_those_of_the_formulas)
{
    check_closed((size_t)_i, false);
    check_closed((size_t)_i, true);
}
END_TEST

/* What straight-through takes the value for, near a point: rounding adds what it adds there. */
static double straight(double w, double s, double low, double high, double rounded)
{
    const double x = w / s;
    return s * ((x < low ? low : x > high ? high : x) + rounded);
}

static const struct {
    unsigned bits;
    bool symmetric;
    uint8_t zero;
} kinds[] = {{2, true, 2}, {3, true, 4}, {4, true, 8}, {2, false, 1}, {3, false, 5}, {4, false, 0}};

/* Of sum g q over groups of 32, the last shorter, by central differences in double. */
static void check_differences(size_t kind, bool compensated)
{
    rig r;
    const pare_grid grid = uniform(kinds[kind].bits, 32, kinds[kind].symmetric);
    const double top = (1 << grid.bits) - 1, low = -(double)kinds[kind].zero, high = low + top;
    const double q = grid.symmetric ? (1 << (grid.bits - 1)) - 1 : top, eps = 1e-6;
    double g[MOST], by_step[ROWS * 3] = {0};
    const double s = .1875;
    size_t clipped = 0;
    rig_begin(&r, &grid, ROWS, COLUMNS, (float)s, kinds[kind].zero);
    r.aware.compensated = compensated;
    for (size_t i = 0; i < MOST; i++) {
        r.master.value[i] = hashed(i) / 2 + 1e-3F; /* no w / s near an end of the codes */
        r.master.gradient[i] = hashed(i + 5000);
        g[i] = (double)r.master.gradient[i];
    }
    ck_assert_int_eq(pare_aware_round(&r.home.cx, &r.aware), PARE_OK);
    pare_aware_gradient(&r.home.cx, &r.aware);
    for (size_t i = 0; i < MOST; i++) {
        const double w = (double)r.master.value[i], x = w / s;
        const double inside = x < low ? low : x > high ? high : x;
        const double level = (double)r.aware.codes.codes[i] - (double)kinds[kind].zero;
        ck_assert_double_le(fabs(level - inside), .5);
        ck_assert_double_gt(fmin(fabs(x - low), fabs(x - high)), 1e-4);
        clipped += x < low || x > high;
        const double by_w = straight(w + eps, s, low, high, level - inside) -
                            straight(w - eps, s, low, high, level - inside);
        const double more = s + eps, less = s - eps;
        const double with_more = compensated ? w * more / s : w; /* the master, which then goes */
        const double with_less = compensated ? w * less / s : w; /* with its step */
        const double by_s = straight(with_more, more, low, high, level - inside) -
                            straight(with_less, less, low, high, level - inside);
        hashed_near("master", (double)r.master.gradient[i], g[i] * by_w / (2 * eps), 1e-6);
        by_step[i / COLUMNS * 3 + i % COLUMNS / 32] += g[i] * by_s / (2 * eps);
    }
    ck_assert(clipped > 0 && clipped < MOST);
    for (size_t i = 0; i < ROWS * 3; i++)
        hashed_near("step", (double)r.step.gradient[i],
                    by_step[i] / sqrt((i % 3 == 2 ? 8 : 32) * q), 1e-6);
    tiny_end(&r.home);
}

START_TEST(gradients_are_differences_of_the_straight_through_function)
{
    check_differences((size_t)_i, false);
    check_differences((size_t)_i, true);
}
END_TEST

/* A scale goes to F16, at most by a factor of 2, and keeps its sign. */
START_TEST(a_step_stays_within_a_factor_of_two)
{
    static const struct {
        float from, to, is;
    } moves[] = {{.5F, .1F, .25F},   {.5F, -3, .25F},        {.5F, 9, 1},
                 {-.5F, .1F, -.25F}, {-.5F, -.625F, -.625F}, {0, 7, 0}};
    rig r;
    const pare_grid grid = uniform(4, 0, true);
    for (size_t i = 0; i < sizeof moves / sizeof *moves; i++) {
        rig_begin(&r, &grid, 1, 4, moves[i].from, 8);
        ck_assert_int_eq(pare_aware_round(&r.home.cx, &r.aware), PARE_OK);
        ck_assert_float_eq(r.aware.codes.scales[0], moves[i].from);
        r.step.value[0] = moves[i].to;
        ck_assert_int_eq(pare_aware_follow(&r.home.cx, &r.aware), PARE_OK);
        ck_assert_float_eq(r.step.value[0], moves[i].is);
        ck_assert_float_eq(r.aware.codes.scales[0], moves[i].is);
        tiny_end(&r.home);
    }
    rig_begin(&r, &grid, 1, 4, .1F, 8);
    r.master.value[1] = .31F;
    ck_assert_int_eq(pare_aware_round(&r.home.cx, &r.aware), PARE_OK);
    ck_assert_float_eq(r.aware.codes.scales[0], .0999755859375F); /* the F16 nearest to .1 */
    ck_assert_float_eq(r.aware.seen[1], 3 * .0999755859375F);
    ck_assert_float_eq(r.step.value[0], .1F);
    tiny_end(&r.home);
}
END_TEST

/* Steps that move alone, to 3/4 or by what is not exact. Where codes make up for each other's
 * errors, masters move as much, and codes stay; else masters stay, and codes follow. */
static void check_moves(size_t kind, bool compensated, float factor)
{
    rig r;
    uint8_t codes[MOST];
    float seen[MOST];
    const pare_grid grid = uniform(kinds[kind].bits, 32, kinds[kind].symmetric);
    rig_begin(&r, &grid, ROWS, COLUMNS, .1875F, kinds[kind].zero);
    r.aware.compensated = compensated;
    for (size_t i = 0; i < MOST; i++)
        r.master.value[i] = hashed(i) / 2;
    r.step.value[4] = 0; /* a group of zeros */
    ck_assert_int_eq(pare_aware_round(&r.home.cx, &r.aware), PARE_OK);
    memcpy(codes, r.aware.codes.codes, sizeof codes);
    memcpy(seen, r.aware.seen, sizeof seen);
    for (size_t i = 0; i < ROWS * 3; i++)
        r.step.value[i] *= factor;
    const double moved = (double)pare_f16_scale(.1875F * factor) / .1875;
    ck_assert_int_eq(pare_aware_follow(&r.home.cx, &r.aware), PARE_OK);
    size_t other = 0;
    for (size_t i = 0; i < MOST; i++) {
        const bool zeros = i / COLUMNS == 1 && i % COLUMNS / 32 == 1;
        const double master = (double)hashed(i) / 2 * (zeros || !compensated ? 1 : moved);
        hashed_near("master", (double)r.master.value[i], master, 1e-6);
        if (compensated)
            hashed_near("value", (double)r.aware.seen[i], (double)seen[i] * moved, 1e-6);
        other += r.aware.codes.codes[i] != codes[i];
    }
    ck_assert_msg(compensated ? other == 0 : other > 0, "%zu codes changed", other);
    tiny_end(&r.home);
}

START_TEST(masters_of_compensated_codes_go_with_their_step)
{
    static const float factors[] = {.75F, 1.23F, .5F};
    for (size_t i = 0; i < sizeof factors / sizeof *factors; i++) {
        check_moves((size_t)_i, true, factors[i]);
        check_moves((size_t)_i, false, factors[i]);
    }
}
END_TEST

/* mean |w| = .375 * 2 / 2: rounded values, and gradients as they come. */
START_TEST(ternary_scales_follow_the_masters)
{
    static const float w[4] = {.5F, -.1F, -.9F, 0};
    rig r;
    const pare_grid grid = {
        .bits = 2, .encoding = PARE_ENCODING_TERNARY, .f16_scales = true, .tensor = _i == 1};
    rig_begin(&r, &grid, 1, 4, 0, 0);
    memcpy(r.master.value, w, sizeof w);
    for (size_t j = 0; j < 4; j++)
        r.master.gradient[j] = (float)j - 1;
    ck_assert_int_eq(pare_aware_follow(&r.home.cx, &r.aware), PARE_OK);
    ck_assert_float_eq(r.aware.codes.scales[0], .375F);
    ck_assert_float_eq(r.aware.seen[0], .375F);
    ck_assert_float_eq(r.aware.seen[1], 0);
    ck_assert_float_eq(r.aware.seen[2], -.375F);
    pare_aware_gradient(&r.home.cx, &r.aware);
    for (size_t j = 0; j < 4; j++)
        ck_assert_float_eq(r.master.gradient[j], (float)j - 1);
    r.master.value[2] = -1.7F; /* mean .575 */
    ck_assert_int_eq(pare_aware_follow(&r.home.cx, &r.aware), PARE_OK);
    ck_assert_float_eq(r.aware.codes.scales[0], pare_f16_scale(.575F));
    r.master.value[2] = 1e6F;
    ck_assert_int_eq(pare_aware_round(&r.home.cx, &r.aware), PARE_ENUMERIC);
    tiny_end(&r.home);
}
END_TEST

enum { TILED_ROWS = 32, TILED_COLUMNS = 80, TILED = TILED_ROWS * TILED_COLUMNS };

/* Codes and scales as a quantizer might have chosen them, one row of zeros, and training begun. */
static void trellis_begin(rig *r, pare_grid *grid)
{
    *grid = (pare_grid){.bits = 3, .encoding = PARE_ENCODING_EXL3};
    tiny_begin(&r->home, 2);
    ck_assert_int_eq(pare_aware_take(&r->home.arena, grid, TILED_ROWS, TILED_COLUMNS, &r->aware),
                     PARE_OK);
    ck_assert_uint_eq(pare_aware_steps(grid, TILED_ROWS, TILED_COLUMNS),
                      TILED_ROWS + TILED_COLUMNS);
    pare_codes *const c = &r->aware.codes;
    r->master = leaf(&r->home.arena, TILED);
    r->step = leaf(&r->home.arena, TILED_ROWS + TILED_COLUMNS);
    r->aware.master = &r->master;
    r->aware.step = &r->step;
    for (size_t i = 0; i < TILED; i++)
        c->codes[i] = (uint8_t)(i * 2654435761u >> 20 & 7);
    for (size_t i = 0; i < TILED_ROWS; i++)
        c->row_scales[i] = i == 5 ? 0 : pare_f16_scale(.25F + .01F * (float)i) * (i % 3 ? 1 : -1);
    for (size_t j = 0; j < TILED_COLUMNS; j++)
        c->column_scales[j] = pare_f16_scale(1.5F - .02F * (float)j) * (j % 4 ? 1 : -1);
    pare_aware_begin(&r->aware);
}

/* Training begins with the bits that are stored, and still has them once multipliers moved. */
START_TEST(trellis_codes_are_seen_as_they_are_stored)
{
    rig r;
    pare_grid grid;
    float stored[TILED], first;
    trellis_begin(&r, &grid);
    pare_codes_values(&grid, &r.aware.codes, stored);
    ck_assert_int_eq(pare_aware_round(&r.home.cx, &r.aware), PARE_OK);
    ck_assert_int_eq(memcmp(stored, r.aware.seen, sizeof stored), 0);
    first = r.aware.codes.row_scales[1];
    for (size_t i = 0; i < r.step.count; i++)
        r.step.value[i] *= 1 + hashed(i) / 16;
    ck_assert_int_eq(pare_aware_follow(&r.home.cx, &r.aware), PARE_OK);
    hashed_near("scale", (double)r.aware.codes.row_scales[1],
                (double)pare_f16_scale(first * (1 + hashed(1) / 16)), 1e-3);
    ck_assert_float_ne(r.aware.codes.row_scales[1], first);
    ck_assert_float_eq(r.aware.codes.row_scales[5], 0);
    pare_codes_values(&grid, &r.aware.codes, stored);
    ck_assert_int_eq(memcmp(stored, r.aware.seen, sizeof stored), 0);
    tiny_end(&r.home);
}
END_TEST

/* Sum of g q by its differences, where multipliers begin. */
START_TEST(multipliers_of_trellis_codes_have_the_gradients_of_the_formula)
{
    rig r;
    pare_grid grid;
    double by_row[TILED_ROWS] = {0}, by_column[TILED_COLUMNS] = {0};
    trellis_begin(&r, &grid);
    ck_assert_int_eq(pare_aware_round(&r.home.cx, &r.aware), PARE_OK);
    for (size_t i = 0; i < TILED; i++) {
        r.master.gradient[i] = hashed(i + 7000);
        const double part = (double)r.master.gradient[i] * (double)r.aware.seen[i];
        by_row[i / TILED_COLUMNS] += part;
        by_column[i % TILED_COLUMNS] += part;
    }
    pare_aware_gradient(&r.home.cx, &r.aware);
    for (size_t i = 0; i < TILED_ROWS; i++)
        hashed_near("row", (double)r.step.gradient[i], PARE_AWARE_PACE * by_row[i], 1e-5);
    for (size_t j = 0; j < TILED_COLUMNS; j++)
        hashed_near("column", (double)r.step.gradient[TILED_ROWS + j],
                    PARE_AWARE_PACE * by_column[j], 1e-5);
    tiny_end(&r.home);
}
END_TEST

/* The code that a quantizer chose stays, and so does the weight where they agree. */
START_TEST(masters_begin_with_the_codes_they_have)
{
    const pare_grid grid = uniform(3, 0, true);
    ck_assert_float_eq(pare_aware_master(&grid, .3F, 5, .5F, 4), .3F);
    ck_assert_float_eq(pare_aware_master(&grid, .3F, 4, .5F, 4), 0);
    ck_assert_float_eq(pare_aware_master(&grid, 9, 7, .5F, 4), 9);
    ck_assert_float_eq(pare_aware_master(&grid, 9, 6, .5F, 4), 1);
}
END_TEST

int main(void)
{
    Suite *const s = suite_create("aware");
    TCase *const t = tcase_create("aware");
    tcase_add_loop_test(t, values_and_gradients_are_those_of_the_formulas, 0,
                        sizeof closed / sizeof *closed);
    tcase_add_loop_test(t, gradients_are_differences_of_the_straight_through_function, 0,
                        sizeof kinds / sizeof *kinds);
    tcase_add_test(t, a_step_stays_within_a_factor_of_two);
    tcase_add_loop_test(t, masters_of_compensated_codes_go_with_their_step, 0,
                        sizeof kinds / sizeof *kinds);
    tcase_add_loop_test(t, ternary_scales_follow_the_masters, 0, 2);
    tcase_add_test(t, trellis_codes_are_seen_as_they_are_stored);
    tcase_add_test(t, multipliers_of_trellis_codes_have_the_gradients_of_the_formula);
    tcase_add_test(t, masters_begin_with_the_codes_they_have);
    suite_add_tcase(s, t);
    return unit_main(s);
}
