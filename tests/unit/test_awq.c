#include <math.h>
#include <string.h>

#include "kernels/half.h"
#include "quant/awq.h"
#include "quant/gptq.h"
#include "quant/rtn.h"
#include "runtime/linalg.h"
#include "runtime/random.h"
#include "runtime/threads.h"
#include "tests/unit/unit.h"

enum { K = 300, NQ = 45, NK = 17, TOKENS = 400 };

static pare_ctx cx;
static pare_arena arena;
static float x[TOKENS * K], h[K * K], absmean[K], wq[NQ * K], wk[NK * K];
static const pare_grid grid = {.bits = 3, .group = 32, .f16_scales = true};
static pare_awq_linear linear[2];
static pare_awq_site site;
static const pare_awq_opts opts = {.steps = 20};

/* Inputs with a common part and a few loud channels; statistics in double. */
static void setup(void)
{
    pare_ctx_init(&cx);
    ck_assert_int_eq(pare_arena_init(&cx, &arena, 0), PARE_OK);
    for (size_t t = 0; t < TOKENS; t++)
        for (size_t j = 0; j < K; j++)
            x[t * K + j] = (float)((pare_random_normal(1, t, j) + pare_random_normal(2, t, 0)) *
                                   (j % 29 == 3 ? 9 : 0.1 + 0.1 * (double)(j % 7)));
    for (size_t i = 0; i < K; i++) {
        double mean = 0;
        for (size_t t = 0; t < TOKENS; t++)
            mean += fabs((double)x[t * K + i]) / TOKENS;
        absmean[i] = (float)mean;
        for (size_t j = 0; j < K; j++) {
            double sum = 0;
            for (size_t t = 0; t < TOKENS; t++)
                sum += (double)x[t * K + i] * (double)x[t * K + j];
            h[i * K + j] = j <= i ? (float)sum : NAN; /* the upper half is nobody's */
        }
    }
    for (size_t i = 0; i < NQ * K; i++)
        wq[i] = (float)pare_random_normal(3, 1, i) * 0.05F;
    for (size_t i = 0; i < NK * K; i++)
        wk[i] = (float)pare_random_normal(3, 2, i) * 0.02F;
    linear[0] = (pare_awq_linear){wq, NQ, &grid};
    linear[1] = (pare_awq_linear){wk, NK, &grid};
    site = (pare_awq_site){
        .k = K, .h = h, .absmean = absmean, .channels = K, .linear = linear, .linears = 2};
}

static void teardown(void)
{
    pare_arena_release(&arena);
    pare_pool_free(&cx, cx.pool);
    ck_assert_uint_eq(cx.live_bytes, 0);
}

/* Asymmetric 3-bit value of every weight of a group, written from the definition. */
static void round_by_hand(const float *w, size_t count, float *q)
{
    float lo = 0, hi = 0;
    for (size_t j = 0; j < count; j++) {
        lo = fminf(lo, w[j]);
        hi = fmaxf(hi, w[j]);
    }
    const float scale = pare_f16_to_f32(pare_f32_to_f16((hi - lo) / 7));
    const float zero = scale > 0 ? rintf(-lo / scale) : 0;
    for (size_t j = 0; j < count; j++)
        q[j] = scale > 0 ? (fminf(7, fmaxf(0, rintf(w[j] / scale) + zero)) - zero) * scale : 0;
}

/* sum over tokens and rows of ((Q(W s)/s - W) x)^2 from the inputs themselves. */
static double output_error(const float *w, size_t n, const float *s)
{
    double sum = 0;
    for (size_t i = 0; i < n; i++) {
        float row[K];
        for (size_t j = 0; j < K; j++)
            row[j] = w[i * K + j] * s[j];
        for (size_t g = 0; g < K; g += 32)
            round_by_hand(row + g, K - g < 32 ? K - g : 32, row + g);
        for (size_t t = 0; t < TOKENS; t++) {
            double y = 0;
            for (size_t j = 0; j < K; j++)
                y += ((double)row[j] / (double)s[j] - (double)w[i * K + j]) * (double)x[t * K + j];
            sum += y * y;
        }
    }
    return sum;
}

static double site_error(const float *s)
{
    return output_error(wq, NQ, s) + output_error(wk, NK, s);
}

/* s(alpha) as the head comment of awq.h defines it. */
static void scales_by_hand(double alpha, bool duo, float *s)
{
    double least = INFINITY, most = 0, v[K] = {0}, raw[K];
    for (size_t i = 0; i < NQ + NK; i++) {
        const float *const w = i < NQ ? wq + i * K : wk + (i - NQ) * K;
        for (size_t j = 0; j < K; j++) {
            double peak = 0;
            for (size_t o = j / 32 * 32; o < K && o < j / 32 * 32 + 32; o++)
                peak = fmax(peak, fabs((double)w[o]));
            v[j] += fabs((double)w[j]) / peak / (NQ + NK);
        }
    }
    for (size_t j = 0; j < K; j++) {
        raw[j] = pow((double)absmean[j], alpha) / (duo ? pow(v[j], 1 - alpha) + 1e-4 : 1);
        raw[j] = fmax(raw[j], 1e-4);
        least = fmin(least, raw[j]);
        most = fmax(most, raw[j]);
    }
    for (size_t j = 0; j < K; j++)
        s[j] = (float)(raw[j] / sqrt(least * most));
}

START_TEST(search_finds_what_trying_every_alpha_on_the_inputs_finds)
{
    const pare_awq_opts o = {.steps = 20, .duo = _i == 1};
    float best[K], found[K], s[K];
    double least = INFINITY, alpha = -1;
    for (size_t j = 0; j < K; j++)
        best[j] = 1;
    for (int i = 0; i < 20; i++) {
        scales_by_hand(i / 20.0, o.duo, s);
        const double error = site_error(s);
        if (error < least) {
            least = error;
            alpha = i / 20.0;
            memcpy(best, s, sizeof s);
        }
    }
    pare_awq_found f;
    ck_assert_int_eq(pare_awq_scale(&cx, &arena, &o, &site, found, &f), PARE_OK);
    ck_assert_double_eq(f.alpha, alpha);
    ck_assert_double_gt(f.alpha, 0.0);
    ck_assert_double_eq_tol(f.error / least, 1, 1e-4);
    for (size_t j = 0; j < K; j++)
        ck_assert_float_eq_tol(found[j] / best[j], 1, 1e-6F);
    ck_assert_double_lt(f.error, 0.9 * f.unscaled);
}
END_TEST

START_TEST(without_scales_the_error_is_that_of_round_to_nearest)
{
    float s[K];
    double rtn = 0;
    const float *const w[] = {wq, wk};
    const size_t n[] = {NQ, NK};
    for (size_t l = 0; l < 2; l++) {
        pare_codes codes;
        ck_assert_int_eq(pare_codes_take(&arena, &grid, n[l], K, &codes), PARE_OK);
        ck_assert_int_eq(pare_rtn_quantize(&cx, &grid, w[l], NULL, n[l], K, &codes), PARE_OK);
        float *const q = PARE_NEW(&arena, float, n[l] * K);
        float *const same = PARE_NEW(&arena, float, n[l] * K);
        ck_assert(q && same);
        pare_codes_values(&grid, &codes, q);
        rtn += pare_gptq_error(&cx, w[l], q, h, n[l], K);
        ck_assert_int_eq(pare_awq_round(&cx, &arena, &grid, w[l], NULL, n[l], K, same), PARE_OK);
        ck_assert_mem_eq(same, q, n[l] * K * sizeof *q);
    }
    pare_awq_found f;
    ck_assert_int_eq(pare_awq_scale(&cx, &arena, &opts, &site, s, &f), PARE_OK);
    ck_assert_double_eq_tol(f.unscaled / rtn, 1, 1e-9);
    const pare_awq_opts one = {.steps = 1}; /* alpha 0 alone: s = 1 */
    ck_assert_int_eq(pare_awq_scale(&cx, &arena, &one, &site, s, &f), PARE_OK);
    ck_assert_double_eq(f.alpha, 0);
    ck_assert_double_eq(f.error, f.unscaled);
    for (size_t j = 0; j < K; j++)
        ck_assert_float_eq(s[j], 1);
}
END_TEST

START_TEST(powers_of_two_move_nothing_but_the_grid)
{
    float s[K], *const q = PARE_NEW(&arena, float, NQ *K),
                       *const p = PARE_NEW(&arena, float, NQ *K);
    ck_assert(p && q);
    for (size_t j = 0; j < K; j++)
        s[j] = 4; /* the same for a whole group: its codes stay, its scale is 4 times as large */
    ck_assert_int_eq(pare_awq_round(&cx, &arena, &grid, wq, s, NQ, K, q), PARE_OK);
    ck_assert_int_eq(pare_awq_round(&cx, &arena, &grid, wq, NULL, NQ, K, p), PARE_OK);
    ck_assert_mem_eq(p, q, NQ * K * sizeof *q);
}
END_TEST

START_TEST(columns_of_a_channel_share_one_scale)
{
    uint32_t channel[K];
    float s[K], each[K];
    for (uint32_t j = 0; j < K; j++)
        channel[j] = j / 8 % 2 * 4 + j % 4; /* 8 channels */
    site.channel = channel;
    site.channels = 8;
    double mean[8] = {0}, columns[8] = {0}, least = INFINITY, most = 0;
    for (size_t j = 0; j < K; j++) {
        mean[channel[j]] += (double)absmean[j];
        columns[channel[j]]++;
    }
    for (size_t c = 0; c < 8; c++) {
        mean[c] = sqrt(mean[c] / columns[c]);
        least = fmin(least, mean[c]);
        most = fmax(most, mean[c]);
    }
    ck_assert_int_eq(pare_awq_candidate(&cx, &arena, &opts, &site, 0.5, s), PARE_OK);
    for (size_t c = 0; c < 8; c++)
        ck_assert_double_eq_tol((double)s[c], mean[c] / sqrt(least * most), 1e-6);
    pare_awq_found f;
    ck_assert_int_eq(pare_awq_scale(&cx, &arena, &opts, &site, s, &f), PARE_OK);
    for (size_t j = 0; j < K; j++)
        each[j] = s[channel[j]];
    ck_assert_double_eq_tol(f.error / site_error(each), 1, 1e-4);
}
END_TEST

START_TEST(a_channel_that_is_always_zero_gets_a_finite_scale)
{
    float s[K];
    pare_awq_found f;
    absmean[5] = 0;
    for (size_t j = 0; j < K; j++)
        *(j < 5 ? &h[5 * K + j] : &h[j * K + 5]) = 0;
    ck_assert_int_eq(pare_awq_scale(&cx, &arena, &opts, &site, s, &f), PARE_OK);
    ck_assert_double_gt(f.alpha, 0);
    for (size_t j = 0; j < K; j++)
        ck_assert(isnormal(s[j]) && s[j] > 0);
}
END_TEST

START_TEST(linears_left_in_floats_do_not_count)
{
    float s[K];
    pare_awq_found f, alone;
    linear[1].grid = NULL;
    ck_assert_int_eq(pare_awq_scale(&cx, &arena, &opts, &site, s, &f), PARE_OK);
    site.linears = 1;
    ck_assert_int_eq(pare_awq_scale(&cx, &arena, &opts, &site, s, &alone), PARE_OK);
    ck_assert_mem_eq(&f, &alone, sizeof f);
    linear[0].grid = NULL;
    ck_assert_int_eq(pare_awq_scale(&cx, &arena, &opts, &site, s, &f), PARE_EINVAL);
    ck_assert_ptr_nonnull(strstr(cx.what, "no linear that is quantized"));
}
END_TEST

START_TEST(numbers_that_are_not_finite_are_refused_by_name)
{
    float s[K];
    pare_awq_found f;
    pare_awq_clipped c;
    wk[3 * K + 40] = INFINITY;
    ck_assert_int_eq(pare_awq_scale(&cx, &arena, &opts, &site, s, &f), PARE_ENUMERIC);
    ck_assert_ptr_nonnull(strstr(cx.what, "row 3, group 1: weight inf is not finite"));
    pare_ctx_clear(&cx);
    ck_assert_int_eq(pare_awq_clip(&cx, &arena, &grid, h, wk, NK, K, &c), PARE_ENUMERIC);
    ck_assert_ptr_nonnull(strstr(cx.what, "row 3, group 1: weight inf is not finite"));
    pare_ctx_clear(&cx);
    wk[3 * K + 40] = 0;
    absmean[7] = INFINITY;
    ck_assert_int_eq(pare_awq_scale(&cx, &arena, &opts, &site, s, &f), PARE_ENUMERIC);
    ck_assert_ptr_nonnull(strstr(cx.what, "input channel 7 is inf"));
    pare_ctx_clear(&cx);
    absmean[7] = 1;
    h[9 * K + 2] = NAN;
    ck_assert_int_eq(pare_awq_scale(&cx, &arena, &opts, &site, s, &f), PARE_ENUMERIC);
    ck_assert_ptr_nonnull(strstr(cx.what, "H is not finite"));
}
END_TEST

/* Least error over the ten bounds of one group, from the inputs. */
static double clip_by_hand(const float *w, size_t at, size_t count, float *bound, double *unclipped)
{
    double least = INFINITY;
    float most = 0;
    for (size_t j = 0; j < count; j++)
        most = fmaxf(most, fabsf(w[j]));
    for (int i = 0; i < 10; i++) {
        const float b = i ? (float)((double)most * (1 - i / 20.0)) : most;
        float q[K];
        double error = 0;
        for (size_t j = 0; j < count; j++)
            q[j] = fminf(b, fmaxf(-b, w[j]));
        round_by_hand(q, count, q);
        for (size_t t = 0; t < TOKENS; t++) {
            double y = 0;
            for (size_t j = 0; j < count; j++)
                y += ((double)q[j] - (double)w[j]) * (double)x[t * K + at + j];
            error += y * y;
        }
        if (i == 0)
            *unclipped += error;
        if (error < least) {
            least = error;
            *bound = b;
        }
    }
    return least;
}

START_TEST(clip_finds_the_bound_that_trying_all_on_the_inputs_finds)
{
    float *const before = PARE_NEW(&arena, float, NQ *K);
    pare_awq_clipped c;
    double error = 0, unclipped = 0;
    size_t clamped = 0;
    ck_assert_ptr_nonnull(before);
    memcpy(before, wq, sizeof wq);
    ck_assert_int_eq(pare_awq_clip(&cx, &arena, &grid, h, wq, NQ, K, &c), PARE_OK);
    for (size_t i = 0; i < NQ; i++)
        for (size_t g = 0; g < K; g += 32) {
            const size_t count = K - g < 32 ? K - g : 32;
            const float *const w = before + i * K + g;
            float bound = INFINITY, most = 0;
            error += clip_by_hand(w, g, count, &bound, &unclipped);
            for (size_t j = 0; j < count; j++) {
                ck_assert_float_eq(wq[i * K + g + j], fminf(bound, fmaxf(-bound, w[j])));
                most = fmaxf(most, fabsf(w[j]));
            }
            clamped += bound < most;
        }
    ck_assert_uint_eq(c.groups, NQ * 10);
    ck_assert_uint_eq(c.clipped, clamped);
    ck_assert_uint_gt(clamped, NQ);
    ck_assert_double_eq_tol(c.error / error, 1, 1e-4);
    ck_assert_double_eq_tol(c.unclipped / unclipped, 1, 1e-4);
    ck_assert_double_lt(c.error, c.unclipped);
}
END_TEST

/* A row of three squares of H, so that squares beside the diagonal take part. */
START_TEST(clip_of_whole_rows_uses_all_of_h)
{
    const pare_grid row = {.bits = 3, .f16_scales = true};
    pare_awq_clipped c;
    double error = 0, unclipped = 0;
    for (size_t i = 0; i < NQ; i++) {
        float bound;
        error += clip_by_hand(wq + i * K, 0, K, &bound, &unclipped);
    }
    ck_assert_int_eq(pare_awq_clip(&cx, &arena, &row, h, wq, NQ, K, &c), PARE_OK);
    ck_assert_double_eq_tol(c.error / error, 1, 1e-3);
    ck_assert_double_eq_tol(c.unclipped / unclipped, 1, 1e-3);
}
END_TEST

START_TEST(threads_do_not_change_a_byte)
{
    float s[2][K];
    static float w[2][NQ * K];
    pare_awq_found f[2];
    pare_awq_clipped c[2];
    for (size_t i = 0; i < 2; i++) {
        memcpy(w[i], wq, sizeof wq);
        ck_assert_int_eq(pare_awq_scale(&cx, &arena, &opts, &site, s[i], &f[i]), PARE_OK);
        ck_assert_int_eq(pare_awq_clip(&cx, &arena, &grid, h, w[i], NQ, K, &c[i]), PARE_OK);
        if (i == 0)
            ck_assert_int_eq(pare_pool_new(&cx, 5, &cx.pool), PARE_OK);
    }
    ck_assert_mem_eq(s[0], s[1], sizeof s[0]);
    ck_assert_mem_eq(w[0], w[1], sizeof w[0]);
    ck_assert_mem_eq(&f[0], &f[1], sizeof f[0]);
    ck_assert_mem_eq(&c[0], &c[1], sizeof c[0]);
}
END_TEST

START_TEST(every_refused_allocation_is_reported)
{
    const pare_awq_opts o = {.steps = 2, .duo = true};
    for (long n = 0;; n++) {
        unit_failing f = {.left = n};
        pare_ctx c;
        pare_arena a;
        pare_ctx_init(&c);
        c.alloc = (pare_alloc){.self = &f, .resize = unit_failing_resize};
        ck_assert_int_eq(pare_arena_init(&c, &a, 0), PARE_OK);
        float s[K];
        pare_awq_found found;
        pare_awq_clipped clipped;
        pare_status st = pare_awq_scale(&c, &a, &o, &site, s, &found);
        if (st == PARE_OK)
            st = pare_awq_clip(&c, &a, &grid, h, wq, NQ, K, &clipped);
        pare_arena_release(&a);
        ck_assert_int_eq(f.live, 0);
        if (st == PARE_OK)
            break;
        ck_assert_int_eq(st, PARE_ENOMEM);
        ck_assert_int_lt(n, 64);
    }
}
END_TEST

int main(void)
{
    Suite *const s = suite_create("awq");
    TCase *const tc = tcase_create("awq");
    tcase_set_timeout(tc, 120);
    tcase_add_checked_fixture(tc, setup, teardown);
    tcase_add_loop_test(tc, search_finds_what_trying_every_alpha_on_the_inputs_finds, 0, 2);
    tcase_add_test(tc, without_scales_the_error_is_that_of_round_to_nearest);
    tcase_add_test(tc, powers_of_two_move_nothing_but_the_grid);
    tcase_add_test(tc, columns_of_a_channel_share_one_scale);
    tcase_add_test(tc, a_channel_that_is_always_zero_gets_a_finite_scale);
    tcase_add_test(tc, linears_left_in_floats_do_not_count);
    tcase_add_test(tc, numbers_that_are_not_finite_are_refused_by_name);
    tcase_add_test(tc, clip_finds_the_bound_that_trying_all_on_the_inputs_finds);
    tcase_add_test(tc, clip_of_whole_rows_uses_all_of_h);
    tcase_add_test(tc, threads_do_not_change_a_byte);
    tcase_add_test(tc, every_refused_allocation_is_reported);
    suite_add_tcase(s, tc);
    return unit_main(s);
}
