#include <float.h>
#include <math.h>
#include <string.h>

#include "runtime/random.h"
#include "solve/grid.h"
#include "tests/unit/grid_fit.h"
#include "tests/unit/unit.h"

enum { MANY = 300 };

static float draw(uint64_t i)
{
    return (float)pare_random_normal(11, 7, i);
}

static float worst_error(const pare_grid *g, const float *w, size_t count, float s, uint8_t z)
{
    float worst = 0;
    for (size_t j = 0; j < count; j++) {
        const float e = fabsf(w[j] - pare_grid_value(pare_grid_code(g->bits, w[j], s, z), s, z));
        worst = e > worst ? e : worst;
    }
    return worst;
}

START_TEST(groups_are_counted_with_the_short_last_one)
{
    ck_assert_uint_eq(pare_grid_groups(&(pare_grid){.group = 0}, 172), 1);
    ck_assert_uint_eq(pare_grid_groups(&(pare_grid){.group = 32}, 172), 6);
    ck_assert_uint_eq(pare_grid_groups(&(pare_grid){.group = 32}, 160), 5);
    ck_assert_uint_eq(pare_grid_groups(&(pare_grid){.group = 512}, 160), 1);
}
END_TEST

START_TEST(code_rounds_half_to_even_and_clamps)
{
    const float s = 0.5F;
    ck_assert_uint_eq(pare_grid_code(4, 0.25F, s, 4), 4); /* 0.5 -> 0 */
    ck_assert_uint_eq(pare_grid_code(4, 0.75F, s, 4), 6); /* 1.5 -> 2 */
    ck_assert_uint_eq(pare_grid_code(4, -0.25F, s, 4), 4);
    ck_assert_uint_eq(pare_grid_code(4, -0.75F, s, 4), 2);
    ck_assert_uint_eq(pare_grid_code(4, 100, s, 4), 15);
    ck_assert_uint_eq(pare_grid_code(4, -100, s, 4), 0);
    ck_assert_uint_eq(pare_grid_code(8, FLT_MAX, s, 128), 255);
    ck_assert_uint_eq(pare_grid_code(8, -FLT_MAX, 1e-30F, 255), 0);
    ck_assert_uint_eq(pare_grid_code(4, NAN, s, 4), 15);
    ck_assert_uint_eq(pare_grid_code(4, 3, 0, 9), 9);
}
END_TEST

START_TEST(code_equals_the_formula_with_rint)
{
    for (uint64_t i = 0; i < 20000; i++) {
        const float w = draw(i) * 8, s = 0.01F + fabsf(draw(i + 100000));
        const unsigned bits = (unsigned[]){2, 3, 4, 8}[i % 4], top = (1u << bits) - 1;
        const uint8_t z = (uint8_t)(i % (top + 1));
        const float t = rintf(w / s) + (float)z;
        const float want = fminf(fmaxf(t, 0), (float)top);
        ck_assert_uint_eq(pare_grid_code(bits, w, s, z), (unsigned)want);
    }
}
END_TEST

START_TEST(asymmetric_grid_covers_the_range_and_zero)
{
    const float w[] = {0.5F, 2, 1.25F};
    float s;
    uint8_t z;
    ck_assert_int_eq(fit_grid(&(pare_grid){.bits = 2}, w, 3, &s, &z), PARE_GRID_OK);
    ck_assert_float_eq(s, 2.0F / 3);
    ck_assert_uint_eq(z, 0);
    const float v[] = {-1, 2, 0.25F};
    ck_assert_int_eq(fit_grid(&(pare_grid){.bits = 4}, v, 3, &s, &z), PARE_GRID_OK);
    ck_assert_float_eq(s, 3.0F / 15);
    ck_assert_uint_eq(z, 5);
}
END_TEST

START_TEST(symmetric_scale_is_the_smallest_that_covers)
{
    float s;
    uint8_t z;
    const pare_grid g = {.bits = 3, .symmetric = true};
    ck_assert_int_eq(fit_grid(&g, (float[]){-2, 1}, 2, &s, &z), PARE_GRID_OK);
    ck_assert_float_eq(s, 0.5F); /* -2 at code 0 */
    ck_assert_uint_eq(z, 4);
    ck_assert_int_eq(fit_grid(&g, (float[]){-1, 3}, 2, &s, &z), PARE_GRID_OK);
    ck_assert_float_eq(s, -0.75F); /* 3 at code 0, -1 at 5.3 */
    ck_assert_uint_eq(z, 4);
    ck_assert_uint_eq(pare_grid_code(3, 3, s, z), 0);
    ck_assert_uint_eq(pare_grid_code(3, -1, s, z), 5);
    ck_assert_int_eq(fit_grid(&g, (float[]){-3.75F, 4}, 2, &s, &z), PARE_GRID_OK);
    ck_assert_float_eq(s, -1.25F); /* the shorter side decides: -3.75 at code 7 */
    ck_assert_uint_eq(pare_grid_code(3, -3.75F, s, z), 7);
    ck_assert_int_eq(fit_grid(&g, (float[]){-3, 3}, 2, &s, &z), PARE_GRID_OK);
    ck_assert_float_eq(s, 1.0F); /* both alike: above 0 */
}
END_TEST

START_TEST(error_without_clipping_is_at_most_half_a_step)
{
    float w[MANY];
    for (unsigned round = 0; round < 64; round++) {
        for (size_t j = 0; j < MANY; j++)
            w[j] = draw(round * MANY + j) + (round % 5 == 0 ? 3.0F : 0);
        const pare_grid g = {.bits = (unsigned[]){2, 3, 4, 8}[round % 4],
                             .symmetric = round & 16,
                             .f16_scales = false};
        float s;
        uint8_t z;
        ck_assert_int_eq(fit_grid(&g, w, MANY, &s, &z), PARE_GRID_OK);
        /* an asymmetric zero point is rounded, which moves the ends by another half step */
        ck_assert_float_le(worst_error(&g, w, MANY, s, z),
                           fabsf(s) * (g.symmetric ? 0.5001F : 1.0001F));
    }
}
END_TEST

START_TEST(f16_scale_is_rounded_half_to_even_before_the_codes)
{
    float s;
    uint8_t z;
    const pare_grid g = {.bits = 2, .symmetric = true, .f16_scales = true};
    /* -scale is half of hi; 1 + 2^-11 is half way between 1 and 1 + 2^-10 */
    ck_assert_int_eq(fit_grid(&g, (float[]){2 + 0x1p-10F}, 1, &s, &z), PARE_GRID_OK);
    ck_assert_float_eq(s, -1);
    ck_assert_int_eq(fit_grid(&g, (float[]){2 + 0x3p-10F}, 1, &s, &z), PARE_GRID_OK);
    ck_assert_float_eq(s, -1 - 0x1p-9F);
    ck_assert_int_eq(fit_grid(&g, (float[]){2 + 0x1.8p-10F}, 1, &s, &z), PARE_GRID_OK);
    ck_assert_float_eq(s, -1 - 0x1p-10F);
    ck_assert_int_eq(fit_grid(&g, (float[]){-2 - 0x3p-10F}, 1, &s, &z), PARE_GRID_OK);
    ck_assert_float_eq(s, 1 + 0x1p-9F);
    ck_assert_int_eq(fit_grid(&g, (float[]){2 * 65504.0F}, 1, &s, &z), PARE_GRID_OK);
    ck_assert_float_eq(s, -65504);
    for (int side = -1; side <= 1; side += 2) {
        ck_assert_int_eq(fit_grid(&g, (float[]){(float)side * 140000}, 1, &s, &z),
                         PARE_GRID_OVERFLOW);
        ck_assert_float_eq(s, 70000);
    }
    ck_assert_int_eq(fit_grid(&g, (float[]){-0x1p-13F}, 1, &s, &z), PARE_GRID_OK);
    ck_assert_float_eq(s, 0x1p-14F);
}
END_TEST

START_TEST(group_of_zeros_has_scale_zero_and_codes_zero_point)
{
    const float w[40] = {0};
    for (int symmetric = 0; symmetric < 2; symmetric++)
        for (int clip = PARE_CLIP_NONE; clip <= PARE_CLIP_WEIGHTED; clip++) {
            const pare_grid g = {
                .bits = 4, .symmetric = symmetric, .clip = (pare_clip)clip, .f16_scales = true};
            float s = 9;
            uint8_t z = 9;
            ck_assert_int_eq(fit_grid(&g, w, 40, &s, &z), PARE_GRID_OK);
            ck_assert_float_eq(s, 0);
            ck_assert_uint_eq(z, symmetric ? 8 : 0);
            ck_assert_uint_eq(pare_grid_code(4, 0, s, z), z);
            ck_assert_float_eq(pare_grid_value(z, s, z), 0);
        }
}
END_TEST

START_TEST(faults_leave_what_is_at_fault)
{
    float s;
    uint8_t z;
    pare_grid g = {.bits = 4, .f16_scales = true};
    ck_assert_int_eq(fit_grid(&g, (float[]){1, NAN}, 2, &s, &z), PARE_GRID_NOT_FINITE);
    ck_assert(isnan(s));
    ck_assert_int_eq(fit_grid(&g, (float[]){-INFINITY, 1}, 2, &s, &z), PARE_GRID_NOT_FINITE);
    ck_assert(isinf(s) && s < 0);
    ck_assert_int_eq(fit_grid(&g, (float[]){15 * 70000.0F}, 1, &s, &z), PARE_GRID_OVERFLOW);
    ck_assert_float_eq(s, 70000);
    g.f16_scales = false;
    ck_assert_int_eq(fit_grid(&g, (float[]){15 * 70000.0F}, 1, &s, &z), PARE_GRID_OK);
    ck_assert_int_eq(fit_grid(&g, (float[]){1e-30F}, 1, &s, &z), PARE_GRID_OK);
    ck_assert_int_eq(fit_grid(&g, (float[]){1e-45F}, 1, &s, &z), PARE_GRID_UNDERFLOW);
    ck_assert_int_eq(fit_grid(&g, (float[]){FLT_MAX, -FLT_MAX}, 2, &s, &z), PARE_GRID_OVERFLOW);
}
END_TEST

/* Below 2^-14 F16 has steps of 2^-24, below 2^-20 the scale is the next one above. */
START_TEST(a_group_too_small_for_f16_keeps_the_smallest_scale_that_covers_it)
{
    static const struct {
        float most, scale;
    } cases[] = {{0x1p-14F, 0x1p-14F},
                 {0x1p-15F, 0x1p-15F},
                 {0x1p-19F + 0x1p-25F, 0x1p-19F},
                 {0x1p-20F, 0x1p-20F},
                 {0x1p-22F + 0x1p-40F, 0x5p-24F},
                 {0x1.1p-24F, 0x2p-24F},
                 {0x1p-30F, 0x1p-24F},
                 {1e-45F, 0x1p-24F}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        for (int clip = PARE_CLIP_NONE; clip <= PARE_CLIP_WEIGHTED; clip++)
            for (int symmetric = 0; symmetric < 2; symmetric++) {
                const pare_grid g = {
                    .bits = 4, .symmetric = symmetric, .clip = (pare_clip)clip, .f16_scales = true};
                const float side = symmetric && i % 2 ? -1 : 1, sign = symmetric ? -side : 1;
                const float top = symmetric ? 8 : 15, a = side * top * cases[i].most;
                const float own[2] = {1, 2};
                float s;
                uint8_t z;
                ck_assert_int_eq(fit_grid_by(&g, (float[]){0, a}, own, 2, &s, &z), PARE_GRID_OK);
                if (cases[i].most >= 0x1p-14F && clip != PARE_CLIP_NONE)
                    continue; /* the search may choose another */
                ck_assert_float_eq(sign * s, fabsf(a) > 1e-44F ? cases[i].scale : 0x1p-24F);
                ck_assert_float_le(fabsf(pare_grid_value(pare_grid_code(4, a, s, z), s, z) - a),
                                   fabsf(s) / 2 + fabsf(a) / 32);
            }
}
END_TEST

/* What the errors of a grid cost: own[j] e_j^2, or |e_j|^2.4 without, with libm's pow in double. */
static double cost_by_definition(const pare_grid *g, const float *w, const float *own, size_t count,
                                 float s, uint8_t z)
{
    double sum = 0;
    for (size_t j = 0; j < count; j++) {
        const uint8_t c = pare_grid_code(g->bits, w[j], s, z);
        const double e = fabs((double)w[j] - (double)pare_grid_value(c, s, z));
        sum += own ? (double)own[j] * e * e : pow(e, 2.4);
    }
    return sum;
}

/* The smallest scale above 0 that covers lo .. hi. */
static void cover(const pare_grid *g, float lo, float hi, float *s, uint8_t *z)
{
    const pare_grid plain = {.bits = g->bits};
    const float half = (float)(1u << (g->bits - 1));
    *s = fmaxf(hi / (half - 1), -lo / half);
    *z = (uint8_t)half;
    if (!g->symmetric)
        ck_assert_int_eq(fit_grid(&plain, (float[]){lo, hi}, 2, s, z), PARE_GRID_OK);
}

/* The search by its definition. */
static int clip_by_definition(const pare_grid *g, const float *w, const float *own, size_t count,
                              double cost[80])
{
    float lo = 0, hi = 0;
    for (size_t j = 0; j < count; j++) {
        lo = fminf(lo, w[j]);
        hi = fmaxf(hi, w[j]);
    }
    int best = 0;
    for (int i = 0; i < 80; i++) {
        const float p = (float)(1 - i / 100.0);
        float s;
        uint8_t z;
        cover(g, p * lo, p * hi, &s, &z);
        cost[i] = cost_by_definition(g, w, own, count, s, z);
        if (g->symmetric) {
            cover(g, -p * hi, -p * lo, &s, &z);
            cost[i] = fmin(cost[i], cost_by_definition(g, w, own, count, -s, z));
        }
        best = cost[i] < cost[best] ? i : best;
    }
    return best;
}

/* Odd _i: with costs from 0 to 1e6. */
START_TEST(clip_finds_the_least_cost)
{
    float w[MANY], own[MANY];
    int clipped = 0, turned = 0;
    for (unsigned round = 0; round < 60; round++) {
        const size_t count = (size_t[]){32, 128, 172, 300, 7}[round % 5];
        const float unit = (float[]){1, 1e-9F, 1e9F}[round % 3];
        for (size_t j = 0; j < count; j++)
            w[j] = draw(round * 1000 + j) * unit * (j == 3 ? 3.0F : 1.0F);
        for (size_t j = 0; j < count; j++)
            own[j] = j % 3 ? 1.0F + fabsf(draw(j + 7)) : j % 2 ? 0 : 1e6F * fabsf(draw(j + 9));
        const float *const by = _i % 2 ? own : NULL;
        const pare_grid g = {.bits = (unsigned[]){2, 3, 4, 8}[round % 4],
                             .symmetric = round & 1,
                             .clip = by ? PARE_CLIP_WEIGHTED : PARE_CLIP_MSE};
        double cost[80];
        const int best = clip_by_definition(&g, w, by, count, cost);
        float s, plain;
        uint8_t z;
        ck_assert_int_eq(fit_grid_by(&g, w, by, count, &s, &z), PARE_GRID_OK);
        const double mine = cost_by_definition(&g, w, by, count, s, z);
        /* a relative error of 1e-6 per term cannot lose more than twice that */
        ck_assert_double_le(mine, cost[best] * (1 + 4e-6));
        const pare_grid full = {.bits = g.bits, .symmetric = g.symmetric};
        ck_assert_int_eq(fit_grid(&full, w, count, &plain, &z), PARE_GRID_OK);
        clipped += fabsf(s) < fabsf(plain);
        turned += s < 0;
    }
    ck_assert_int_gt(clipped, 30);
    ck_assert(turned > 5 && turned < 25);
}
END_TEST

START_TEST(clip_search_reaches_a_fifth_of_the_range)
{
    enum { COUNT = 4096 };
    static float w[COUNT];
    for (size_t j = 0; j < COUNT; j++)
        w[j] = (float)pare_random_unit(3, 3, j) * 0.6F - 0.3F;
    w[99] = 4;
    const pare_grid g = {.bits = 2, .clip = PARE_CLIP_MSE}, full = {.bits = 2};
    double cost[80];
    const int best = clip_by_definition(&g, w, NULL, COUNT, cost);
    float s, plain;
    uint8_t z;
    ck_assert_int_eq(fit_grid(&full, w, COUNT, &plain, &z), PARE_GRID_OK);
    ck_assert_int_eq(fit_grid(&g, w, COUNT, &s, &z), PARE_GRID_OK);
    ck_assert_int_ge(best, 75);
    ck_assert_float_eq_tol(s / plain, 1 - (float)best / 100, 1e-6F);
}
END_TEST

START_TEST(clip_passes_over_scales_that_f16_cannot_hold)
{
    /* The full range just fits, every clipped one underflows. */
    float w[64] = {0};
    for (size_t j = 0; j < 64; j++)
        w[j] = 0x1p-17F * (float)(j % 3);
    w[0] = 15 * 0x1p-14F;
    const pare_grid g = {.bits = 4, .clip = PARE_CLIP_MSE, .f16_scales = true};
    float s;
    uint8_t z;
    ck_assert_int_eq(fit_grid(&g, w, 64, &s, &z), PARE_GRID_OK);
    ck_assert_float_eq(s, 0x1p-14F);
}
END_TEST

START_TEST(check_names_what_does_not_fit)
{
    pare_ctx cx;
    pare_ctx_init(&cx);
    pare_codes c = {.n = 2, .k = 40, .groups = 2};
    ck_assert_int_eq(pare_grid_check(&cx, &(pare_grid){.bits = 4, .group = 32}, 2, 40, &c),
                     PARE_OK);
    ck_assert_int_eq(pare_grid_check(&cx, &(pare_grid){.bits = 5, .group = 32}, 2, 40, &c),
                     PARE_EINVAL);
    ck_assert_ptr_nonnull(strstr(cx.what, "5 bits"));
    pare_ctx_clear(&cx);
    ck_assert_int_eq(pare_grid_check(&cx, &(pare_grid){.bits = 4, .group = 20}, 2, 40, &c),
                     PARE_ESHAPE);
    ck_assert_ptr_nonnull(strstr(cx.what, "group 20"));
    pare_ctx_clear(&cx);
    ck_assert_int_eq(pare_grid_check(&cx, &(pare_grid){.bits = 4, .group = 64}, 2, 40, &c),
                     PARE_ESHAPE);
    ck_assert_ptr_nonnull(strstr(cx.what, "in 1 groups"));
}
END_TEST

START_TEST(planes_survive_every_failed_allocation)
{
    long n = 0;
    for (bool done = false; !done; n++) {
        pare_ctx cx;
        pare_ctx_init(&cx);
        unit_failing f = {.left = n};
        cx.alloc = (pare_alloc){unit_failing_resize, &f};
        pare_arena a;
        pare_codes c;
        const pare_grid g = {.bits = 4, .group = 32};
        pare_status s = pare_arena_init(&cx, &a, 0);
        if (s == PARE_OK)
            s = pare_codes_take(&a, &g, 300, 1000, &c);
        done = s == PARE_OK;
        if (!done)
            ck_assert_int_eq(s, PARE_ENOMEM);
        else
            ck_assert_uint_eq(c.groups, 32);
        if (done)
            ck_assert_int_eq(pare_codes_take(&a, &g, SIZE_MAX / 2, 3, &c), PARE_ENOMEM);
        pare_arena_release(&a);
        ck_assert_int_eq(f.live, 0);
    }
    ck_assert_int_gt(n, 2);
}
END_TEST

START_TEST(groups_that_divide_are_named)
{
    char text[PARE_GROUPS_TEXT];
    ck_assert_str_eq(pare_grid_groups_text(576, 256, text), "32, 64 or row");
    ck_assert_str_eq(pare_grid_groups_text(1536, 128, text), "32, 64, 128 or row");
    ck_assert_str_eq(pare_grid_groups_text(1536, 256, text), "32, 64, 128, 256 or row");
    ck_assert_str_eq(pare_grid_groups_text(64, 256, text), "32 or row");
    ck_assert_str_eq(pare_grid_groups_text(44, 256, text), "row");
}
END_TEST

int main(void)
{
    Suite *const s = suite_create("grid");
    TCase *const t = tcase_create("grid");
    tcase_add_test(t, groups_are_counted_with_the_short_last_one);
    tcase_add_test(t, code_rounds_half_to_even_and_clamps);
    tcase_add_test(t, code_equals_the_formula_with_rint);
    tcase_add_test(t, asymmetric_grid_covers_the_range_and_zero);
    tcase_add_test(t, symmetric_scale_is_the_smallest_that_covers);
    tcase_add_test(t, error_without_clipping_is_at_most_half_a_step);
    tcase_add_test(t, f16_scale_is_rounded_half_to_even_before_the_codes);
    tcase_add_test(t, group_of_zeros_has_scale_zero_and_codes_zero_point);
    tcase_add_test(t, faults_leave_what_is_at_fault);
    tcase_add_test(t, a_group_too_small_for_f16_keeps_the_smallest_scale_that_covers_it);
    tcase_add_loop_test(t, clip_finds_the_least_cost, 0, 2);
    tcase_add_test(t, clip_search_reaches_a_fifth_of_the_range);
    tcase_add_test(t, clip_passes_over_scales_that_f16_cannot_hold);
    tcase_add_test(t, check_names_what_does_not_fit);
    tcase_add_test(t, groups_that_divide_are_named);
    tcase_add_test(t, planes_survive_every_failed_allocation);
    suite_add_tcase(s, t);
    return unit_main(s);
}
