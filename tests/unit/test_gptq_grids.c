#include "kernels/half.h"
#include "kernels/layout.h"
#include "solve/nf4.h"
#include "solve/scales.h"
#include "tests/unit/quant_case.h"

enum { N = 40, K = 172 };

static float book[N * 8];

static const pare_grid grids[] = {
    {.bits = 2, .encoding = PARE_ENCODING_TERNARY, .group = 64, .f16_scales = true},
    {.bits = 2, .encoding = PARE_ENCODING_TERNARY, .tensor = true, .f16_scales = true},
    {.bits = 4, .encoding = PARE_ENCODING_NF4, .group = 64},
    {.bits = 8, .encoding = PARE_ENCODING_FP8, .f16_scales = true},
    {.bits = 4, .encoding = PARE_ENCODING_MXFP4, .group = 32, .f16_scales = true},
    {.bits = 3, .encoding = PARE_ENCODING_CODEBOOK, .book = book},
};
enum { GRIDS = sizeof grids / sizeof *grids };

static void setup(void)
{
    quant_setup();
    for (size_t i = 0; i < N * 8; i++)
        book[i] = pare_f16_to_f32(
            pare_f32_to_f16(((float)(i % 8) - 3.5F) * 0.06F + 0.001F * (float)(i / 8)));
}

static pare_codes gptq(const pare_grid *g, const pare_factor *f, const float *w)
{
    const pare_gptq_opts opts = {.block = 128};
    pare_codes c;
    ck_assert_int_eq(pare_codes_take(&arena, g, N, K, &c), PARE_OK);
    ck_assert_int_eq(pare_gptq_quantize(&cx, &arena, &opts, g, f, copy(w, N * K), &c, NULL),
                     PARE_OK);
    return c;
}

static pare_codes rtn(const pare_grid *g, const float *w)
{
    pare_codes c;
    ck_assert_int_eq(pare_codes_take(&arena, g, N, K, &c), PARE_OK);
    ck_assert_int_eq(pare_rtn_quantize(&cx, g, w, NULL, N, K, &c), PARE_OK);
    return c;
}

START_TEST(rtn_takes_the_nearest_value_of_each_grid)
{
    const pare_grid *const g = &grids[_i];
    const float *const w = weights(N, K);
    const pare_codes c = rtn(g, w);
    const float *const q = values(g, &c);
    for (size_t i = 0; i < N * K; i++) {
        const size_t row = i / K, at = row * c.groups + (g->group ? i % K / g->group : 0);
        float best = INFINITY;
        for (unsigned code = 0; code < (g->encoding == PARE_ENCODING_TERNARY ? 3 : 1u << g->bits);
             code++) {
            const float v = pare_grid_decode(g, row, (uint8_t)code, c.scales[at], c.zeros[at]);
            best = fminf(best, isnan(v) ? INFINITY : fabsf(w[i] - v));
        }
        ck_assert_float_le(fabsf(w[i] - q[i]), best * 1.00001F);
    }
}
END_TEST

START_TEST(sweep_beats_rtn_on_every_grid)
{
    const pare_grid *const g = &grids[_i];
    const float *const w = weights(N, K), *const h = hessian(K);
    const pare_codes base = rtn(g, w);
    const double rounded = pare_gptq_error(&cx, w, values(g, &base), h, N, K);
    for (int act_order = 0; act_order < 2; act_order++) {
        const pare_factor f = factorize(h, K, act_order);
        const pare_codes c = gptq(g, &f, w);
        ck_assert_double_lt(pare_gptq_error(&cx, w, values(g, &c), h, N, K), 0.8 * rounded);
    }
}
END_TEST

START_TEST(diagonal_hessian_gives_the_codes_of_rtn)
{
    const pare_grid *const g = &grids[_i];
    const float *const w = weights(N, K);
    float *const h = take(K * K, sizeof *h);
    for (size_t j = 0; j < K; j++)
        h[j * (K + 1)] = 1 + (float)(j % 5);
    const pare_factor f = factorize(h, K, false);
    const pare_codes c = gptq(g, &f, w), base = rtn(g, w);
    ck_assert_mem_eq(c.codes, base.codes, N * K);
    ck_assert_mem_eq(c.scales, base.scales, N * c.groups * sizeof *c.scales);
    if (c.scale_codes)
        ck_assert_mem_eq(c.scale_codes, base.scale_codes, N * c.groups);
    if (c.book)
        ck_assert_mem_eq(c.book, book, sizeof book);
}
END_TEST

START_TEST(threads_do_not_change_a_byte_of_any_grid)
{
    const pare_grid *const g = &grids[_i];
    const float *const w = weights(N, K), *const h = hessian(K);
    const pare_factor f = factorize(h, K, false);
    const pare_codes one = gptq(g, &f, w), alone = rtn(g, w);
    ck_assert_int_eq(pare_pool_new(&cx, 3, &cx.pool), PARE_OK);
    const pare_codes many = gptq(g, &f, w), crowd = rtn(g, w);
    ck_assert_mem_eq(one.codes, many.codes, N * K);
    ck_assert_mem_eq(alone.codes, crowd.codes, N * K);
    ck_assert_mem_eq(one.scales, many.scales, N * one.groups * sizeof *one.scales);
}
END_TEST

START_TEST(dead_columns_become_zero_or_the_nearest_to_it)
{
    const pare_grid *const g = &grids[_i];
    float *const w = weights(N, K);
    float *const h = hessian(K);
    for (size_t j = 0; j < K; j++)
        h[j * K + 7] = h[7 * K + j] = 0;
    const pare_factor f = factorize(h, K, false);
    for (size_t i = 0; i < N; i++)
        w[i * K + 7] = 50; /* widens no grid */
    const pare_codes c = gptq(g, &f, w);
    for (size_t i = 0; i < N; i++)
        w[i * K + 7] = 0;
    const pare_codes clean = gptq(g, &f, w);
    ck_assert_mem_eq(c.scales, clean.scales, N * c.groups * sizeof *c.scales);
    ck_assert_mem_eq(c.codes, clean.codes, N * K);
    const float *const q = values(g, &c);
    for (size_t i = 0; i < N; i++)
        ck_assert_float_le(fabsf(q[i * K + 7]),
                           g->encoding == PARE_ENCODING_CODEBOOK ? 0.0301F : 0.0F);
}
END_TEST

START_TEST(exponents_of_mxfp4_are_those_of_the_scales)
{
    const pare_codes c = rtn(&grids[4], weights(N, K));
    for (size_t i = 0; i < N * c.groups; i++)
        ck_assert_double_eq((double)c.scales[i], ldexp(1, c.scale_codes[i] - 127));
}
END_TEST

/* Scales are fixed before the sweep, by what errors cost the outputs. */
START_TEST(nvfp4_sweeps_on_scales_of_the_whole_matrix)
{
    enum { WIDE = 192 };
    const pare_grid g = {.bits = 4,
                         .encoding = PARE_ENCODING_NVFP4,
                         .group = 16,
                         .clip = PARE_CLIP_WEIGHTED,
                         .f16_scales = true};
    const float *const w = weights(N, WIDE), *const h = hessian(WIDE);
    const pare_factor f = factorize(h, WIDE, true);
    const pare_gptq_opts opts = {.block = 64};
    float *const work = PARE_NEW(&arena, float, (size_t)N *WIDE);
    pare_codes swept, fixed;
    memcpy(work, w, sizeof *w * N * WIDE);
    ck_assert_int_eq(pare_codes_take(&arena, &g, N, WIDE, &swept), PARE_OK);
    ck_assert_int_eq(pare_codes_take(&arena, &g, N, WIDE, &fixed), PARE_OK);
    ck_assert_int_eq(pare_gptq_quantize(&cx, &arena, &opts, &g, &f, work, &swept, NULL), PARE_OK);
    ck_assert_int_eq(pare_rtn_quantize(&cx, &g, w, f.diagonal, N, WIDE, &fixed), PARE_OK);
    ck_assert_mem_eq(swept.scales, fixed.scales, sizeof *swept.scales * N * swept.groups);
    ck_assert_mem_eq(swept.scale_codes, fixed.scale_codes, N * swept.groups);
    ck_assert(swept.scale_factor == fixed.scale_factor);
    float *const q = PARE_NEW(&arena, float, (size_t)N *WIDE);
    pare_codes_values(&g, &swept, q);
    const double error = pare_gptq_error(&cx, w, q, h, N, WIDE);
    pare_codes_values(&g, &fixed, q);
    ck_assert_double_lt(error, 0.9 * pare_gptq_error(&cx, w, q, h, N, WIDE));
}
END_TEST

/* The formulas of solve/nf4.h in their order, over the plane as it is stored. */
START_TEST(scales_of_nf4_follow_the_formula)
{
    enum { ROWS = 45, GROUPS = 9, PLACES = 48 * GROUPS };
    const pare_grid g = {.bits = 4, .encoding = PARE_ENCODING_NF4, .group = 32};
    pare_codes c;
    ck_assert_int_eq(pare_codes_take(&arena, &g, ROWS, GROUPS * 32, &c), PARE_OK);
    float absmax[ROWS * GROUPS];
    double mean = 0;
    for (size_t i = 0; i < ROWS * GROUPS; i++) {
        absmax[i] = c.scales[i] = 0.05F + 0.04F * (float)pare_random_unit(7, 7, i);
        mean += (double)absmax[i] / (ROWS * GROUPS);
    }
    pare_nf4_scales(&c);
    ck_assert_float_eq_tol(c.scale_offset, (float)mean, 1e-7F);
    for (size_t run = 0; run * 256 < PLACES; run++) {
        float far = 0;
        for (int again = 0; again < 2; again++)
            for (size_t p = run * 256; p < PLACES && p < run * 256 + 256; p++) {
                const size_t row = p / (8 * GROUPS) * 8 + p % 8, group = p / 8 % GROUPS;
                if (row >= ROWS)
                    continue;
                const size_t at = row * GROUPS + group;
                const float d = absmax[at] - c.scale_offset, step = c.scale_steps[run];
                far = fmaxf(far, fabsf(d));
                if (!again)
                    continue;
                ck_assert_float_eq(step, far / 127);
                const float shipped = c.scale_offset + step * (float)(c.scale_codes[at] - 128);
                ck_assert_float_le(fabsf(shipped - absmax[at]), step * 0.501F);
                ck_assert_float_eq(c.scales[at], pare_f16_to_f32(pare_f32_to_f16(shipped)));
                ck_assert_float_eq(c.scales[at],
                                   pare_nf4_scale(c.scale_offset, step, c.scale_codes[at]));
            }
    }
}
END_TEST

/* 256 scales with mean 1, of which one is 0; the largest makes 100.6 steps of the mean, so that the
 * nearest code of 0 would stand for -0.4 steps. */
START_TEST(scales_of_nf4_are_never_negative)
{
    const pare_grid g = {.bits = 4, .encoding = PARE_ENCODING_NF4, .group = 64};
    pare_codes c;
    ck_assert_int_eq(pare_codes_take(&arena, &g, 64, 256, &c), PARE_OK);
    const float far = 127 / 100.6F;
    for (size_t i = 0; i < 256; i++)
        c.scales[i] = 1 + (1 - far) / 254;
    c.scales[0] = 0;
    c.scales[9] = 1 + far;
    pare_nf4_scales(&c);
    ck_assert_float_gt(c.scales[0], 0);
    ck_assert_float_lt(pare_nf4_scale(c.scale_offset, c.scale_steps[0], c.scale_codes[0] - 1), 0);
}
END_TEST

/* The group of zeros is the farthest from the mean m: its scale is m - 127 (m / 127), rounded. */
START_TEST(scales_of_nf4_are_never_minus_zero)
{
    const pare_grid g = {.bits = 4, .encoding = PARE_ENCODING_NF4, .group = 64};
    pare_codes c;
    ck_assert_int_eq(pare_codes_take(&arena, &g, 4, 64, &c), PARE_OK);
    for (size_t i = 0; i < 1000; i++) {
        c.scales[0] = c.scales[1] = c.scales[2] = (float)(1100 + i) * 0x1p-14F;
        c.scales[3] = 0;
        pare_nf4_scales(&c);
        ck_assert(!signbit(c.scales[3]));
        ck_assert_float_lt(c.scales[3], c.scales[0] / 100);
    }
}
END_TEST

START_TEST(rows_of_zeros_stay_zero_in_nf4)
{
    const pare_grid g = {.bits = 4, .encoding = PARE_ENCODING_NF4, .group = 64};
    float *const w = take(512 * 64, sizeof *w);
    for (size_t i = 0; i < 512; i++)
        w[i * 64] = i < 3 ? 0.001F * (float)i : 1.37F + 0.5F * (float)(i % 2);
    pare_codes c;
    ck_assert_int_eq(pare_codes_take(&arena, &g, 512, 64, &c), PARE_OK);
    ck_assert_int_eq(pare_rtn_quantize(&cx, &g, w, NULL, 512, 64, &c), PARE_OK);
    const float *const q = values(&g, &c);
    for (size_t j = 0; j < 64; j++)
        ck_assert_float_eq(q[j], 0); /* whatever its scale */
    memset(w, 0, 512 * 64 * sizeof *w);
    ck_assert_int_eq(pare_rtn_quantize(&cx, &g, w, NULL, 512, 64, &c), PARE_OK);
    ck_assert_float_eq(c.scales[77], 0);
}
END_TEST

START_TEST(one_ternary_scale_is_the_mean_of_the_matrix)
{
    float *const w = weights(N, K);
    double sum = 0;
    for (size_t i = 0; i < N * K; i++)
        sum += fabs((double)w[i]) / (N * K);
    const pare_codes c = rtn(&grids[1], w);
    for (size_t i = 0; i < N; i++)
        ck_assert_float_eq(c.scales[i], pare_f16_to_f32(pare_f32_to_f16((float)sum)));
    for (size_t i = 0; i < N * K; i++) {
        const float t = rintf(w[i] / c.scales[0]);
        ck_assert_int_eq(c.codes[i], (int)fminf(fmaxf(t, -1), 1) + 1);
    }
    w[3 * K + 5] = NAN;
    pare_codes bad;
    ck_assert_int_eq(pare_codes_take(&arena, &grids[1], N, K, &bad), PARE_OK);
    ck_assert_int_eq(pare_rtn_quantize(&cx, &grids[1], w, NULL, N, K, &bad), PARE_ENUMERIC);
    ck_assert_ptr_nonnull(strstr(cx.what, "row 3"));
}
END_TEST

int main(void)
{
    Suite *const s = suite_create("gptq_grids");
    TCase *const t = tcase_create("gptq_grids");
    tcase_add_checked_fixture(t, setup, quant_teardown);
    tcase_add_loop_test(t, rtn_takes_the_nearest_value_of_each_grid, 0, GRIDS);
    tcase_add_loop_test(t, sweep_beats_rtn_on_every_grid, 0, GRIDS);
    tcase_add_loop_test(t, diagonal_hessian_gives_the_codes_of_rtn, 0, GRIDS);
    tcase_add_loop_test(t, threads_do_not_change_a_byte_of_any_grid, 0, GRIDS);
    tcase_add_loop_test(t, dead_columns_become_zero_or_the_nearest_to_it, 0, GRIDS);
    tcase_add_test(t, exponents_of_mxfp4_are_those_of_the_scales);
    tcase_add_test(t, nvfp4_sweeps_on_scales_of_the_whole_matrix);
    tcase_add_test(t, scales_of_nf4_follow_the_formula);
    tcase_add_test(t, scales_of_nf4_are_never_negative);
    tcase_add_test(t, scales_of_nf4_are_never_minus_zero);
    tcase_add_test(t, rows_of_zeros_stay_zero_in_nf4);
    tcase_add_test(t, one_ternary_scale_is_the_mean_of_the_matrix);
    suite_add_tcase(s, t);
    return unit_main(s);
}
