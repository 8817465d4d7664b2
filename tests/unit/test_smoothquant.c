#include "quant/smoothquant.h"

#include <math.h>

#include "runtime/random.h"
#include "tests/unit/unit.h"

enum { N = 12, K = 40, M = 30, LOUD = 7 };

typedef struct rig {
    pare_ctx cx;
    pare_arena arena;
    float w[2][N * K], x[M * K], absmax[K];
    pare_smooth_linear linear[2];
    pare_smooth_site site;
} rig;

/* Inputs with one channel fifty times as loud, which both linears read with small weights. */
static void rig_begin(rig *r, const pare_grid *grid)
{
    *r = (rig){0};
    pare_ctx_init(&r->cx);
    ck_assert_int_eq(pare_arena_init(&r->cx, &r->arena, 0), PARE_OK);
    for (size_t i = 0; i < M * K; i++) {
        r->x[i] = (float)pare_random_normal(1, 0, i) * (i % K == LOUD ? 50 : 1);
        r->absmax[i % K] = fmaxf(r->absmax[i % K], fabsf(r->x[i]));
    }
    for (size_t l = 0; l < 2; l++) {
        for (size_t i = 0; i < N * K; i++)
            r->w[l][i] = (float)pare_random_normal(2, l, i) / (i % K == LOUD ? 50 : 1);
        r->linear[l] =
            (pare_smooth_linear){.w = r->w[l],
                                 .n = N,
                                 .grid = grid,
                                 .activation = {.mode = PARE_ACTIVATION_TOKEN, .bits = 8}};
    }
    r->site = (pare_smooth_site){.k = K,
                                 .absmax = r->absmax,
                                 .sample = r->x,
                                 .samples = M,
                                 .channels = K,
                                 .linear = r->linear,
                                 .linears = 2};
}

static void rig_end(rig *r)
{
    pare_arena_release(&r->arena);
    ck_assert_uint_eq(r->cx.live_bytes, 0);
}

static const pare_grid grid8 = {.bits = 8, .symmetric = true, .f16_scales = true};

START_TEST(scales_follow_the_formula_of_the_paper)
{
    static rig r;
    rig_begin(&r, &grid8);
    r.absmax[3] = 0; /* a dead channel */
    float s[K];
    const double alphas[] = {0, 0.5, 0.85, 1};
    for (size_t a = 0; a < 4; a++) {
        ck_assert_int_eq(pare_smoothquant_scales(&r.cx, &r.arena, &r.site, alphas[a], s), PARE_OK);
        for (size_t j = 0; j < K; j++) {
            double w = 0;
            for (size_t i = 0; i < 2 * N; i++)
                w = fmax(w, fabs((double)r.w[i / N][i % N * K + j]));
            const double want =
                j == 3 ? 1 : pow((double)r.absmax[j], alphas[a]) / pow(w, 1 - alphas[a]);
            ck_assert_double_le(fabs((double)s[j] - want), 1e-6 * want);
        }
    }
    rig_end(&r);
}
END_TEST

START_TEST(columns_of_a_channel_share_the_largest_of_their_ranges)
{
    static rig r;
    rig_begin(&r, &grid8);
    uint32_t channel[K];
    float s[K / 2];
    for (size_t j = 0; j < K; j++)
        channel[j] = (uint32_t)(j % (K / 2));
    r.site.channel = channel;
    r.site.channels = K / 2;
    ck_assert_int_eq(pare_smoothquant_scales(&r.cx, &r.arena, &r.site, 1, s), PARE_OK);
    for (size_t j = 0; j < K / 2; j++)
        ck_assert_float_eq(s[j], fmaxf(r.absmax[j], r.absmax[j + K / 2]));
    rig_end(&r);
}
END_TEST

/* The error by its definition, for 8 bits per row and one activation scale per token. */
static double defined(const rig *r, const float *s)
{
    double error = 0;
    for (size_t l = 0; l < 2; l++)
        for (size_t t = 0; t < M; t++)
            for (size_t i = 0; i < N; i++) {
                const float *const w = r->w[l] + i * K, *const x = r->x + t * K;
                double y = 0, z = 0, xmost = 0, high = 0, low = 0;
                for (size_t j = 0; j < K; j++) {
                    const double ws = (double)w[j] * (double)s[j];
                    high = fmax(high, ws);
                    low = fmin(low, ws);
                    xmost = fmax(xmost, fabs((double)x[j] / (double)s[j]));
                }
                const double ws = fmax(high / 127, -low / 128), xs = xmost / 127;
                for (size_t j = 0; j < K; j++) {
                    y += (double)w[j] * (double)x[j];
                    z += ws * rint((double)w[j] * (double)s[j] / ws) * xs *
                         rint((double)x[j] / (double)s[j] / xs);
                }
                error += (z - y) * (z - y);
            }
    return error;
}

START_TEST(the_error_is_that_of_rounding_weights_and_inputs)
{
    static rig r;
    rig_begin(&r, &grid8);
    float s[K];
    for (size_t j = 0; j < K; j++)
        s[j] = j == LOUD ? 10.0F : 1.0F + (float)j / K;
    double error;
    ck_assert_int_eq(pare_smoothquant_error(&r.cx, &r.arena, &r.site, s, &error), PARE_OK);
    const double want = defined(&r, s);
    /* F16 scales move single codes */
    ck_assert_double_le(fabs(error - want), 0.05 * want);
    rig_end(&r);
}
END_TEST

/* Without a grid and without rounded inputs nothing is lost. */
START_TEST(inputs_that_stay_floats_are_not_rounded)
{
    static rig r;
    rig_begin(&r, NULL);
    float s[K];
    double error, rounded;
    for (size_t j = 0; j < K; j++)
        s[j] = j == LOUD ? 8.0F : 1.0F;
    ck_assert_int_eq(pare_smoothquant_error(&r.cx, &r.arena, &r.site, s, &rounded), PARE_OK);
    for (size_t l = 0; l < 2; l++)
        r.linear[l].activation = (pare_activation){.mode = PARE_ACTIVATION_FLOAT};
    ck_assert_int_eq(pare_smoothquant_error(&r.cx, &r.arena, &r.site, s, &error), PARE_OK);
    ck_assert_double_gt(rounded, 0);
    ck_assert_double_eq(error, 0); /* dividing by 8 and multiplying again is exact */
    rig_end(&r);
}
END_TEST

START_TEST(the_search_takes_the_alpha_of_least_error_and_tames_the_loud_channel)
{
    static rig r;
    rig_begin(&r, &grid8);
    float found_scale[K], s[K];
    pare_smooth_found found;
    ck_assert_int_eq(pare_smoothquant_search(&r.cx, &r.arena, &r.site, found_scale, &found),
                     PARE_OK);
    double best = INFINITY, best_alpha = -1;
    for (size_t i = 0; i <= 20; i++) {
        double error;
        ck_assert_int_eq(pare_smoothquant_scales(&r.cx, &r.arena, &r.site, (double)i / 20, s),
                         PARE_OK);
        ck_assert_int_eq(pare_smoothquant_error(&r.cx, &r.arena, &r.site, s, &error), PARE_OK);
        if (error < best) {
            best = error;
            best_alpha = (double)i / 20;
        }
    }
    ck_assert_double_eq(found.alpha, best_alpha);
    ck_assert_double_eq(found.error, best);
    ck_assert_double_lt(found.error, 0.05 * found.unscaled);
    ck_assert_int_eq(pare_smoothquant_scales(&r.cx, &r.arena, &r.site, best_alpha, s), PARE_OK);
    ck_assert_mem_eq(found_scale, s, sizeof s);
    rig_end(&r);
}
END_TEST

/* Rounded inputs want their range in the weights; inputs that stay floats leave it where it is. */
START_TEST(the_search_weighs_the_rounding_of_inputs_against_that_of_weights)
{
    static rig r;
    static const pare_grid grid4 = {.bits = 4, .symmetric = true, .f16_scales = true};
    static const pare_activation inputs[] = {{.mode = PARE_ACTIVATION_FLOAT},
                                             {.mode = PARE_ACTIVATION_TOKEN, .bits = 4}};
    double alpha[2];
    for (size_t i = 0; i < 2; i++) {
        float scale[K];
        pare_smooth_found found;
        rig_begin(&r, &grid4);
        r.linear[0].activation = r.linear[1].activation = inputs[i];
        ck_assert_int_eq(pare_smoothquant_search(&r.cx, &r.arena, &r.site, scale, &found), PARE_OK);
        alpha[i] = found.alpha;
        rig_end(&r);
    }
    ck_assert_msg(alpha[1] > alpha[0] + 0.2, "%g %g", alpha[0], alpha[1]);
}
END_TEST

START_TEST(ranges_that_are_not_finite_are_refused)
{
    static rig r;
    rig_begin(&r, &grid8);
    float s[K];
    pare_smooth_found found;
    r.absmax[5] = INFINITY;
    ck_assert_int_eq(pare_smoothquant_scales(&r.cx, &r.arena, &r.site, 0.5, s), PARE_ENUMERIC);
    ck_assert_ptr_nonnull(strstr(r.cx.what, "input 5"));
    pare_ctx_clear(&r.cx);
    r.absmax[5] = 1;
    r.w[1][3 * K + 2] = NAN;
    ck_assert_int_eq(pare_smoothquant_scales(&r.cx, &r.arena, &r.site, 0.5, s), PARE_ENUMERIC);
    ck_assert_ptr_nonnull(strstr(r.cx.what, "weight [3, 2]"));
    pare_ctx_clear(&r.cx);
    r.site.samples = 0;
    ck_assert_int_eq(pare_smoothquant_search(&r.cx, &r.arena, &r.site, s, &found), PARE_EINVAL);
    rig_end(&r);
}
END_TEST

START_TEST(every_refused_allocation_is_reported_and_nothing_leaks)
{
    static rig r;
    rig_begin(&r, &grid8);
    pare_ctx *const cx = &r.cx;
    const pare_alloc plain = cx->alloc;
    float s[K];
    pare_smooth_found found;
    pare_status status = PARE_ENOMEM;
    long n = 0;
    for (; status != PARE_OK; n++) {
        unit_failing failing = {.left = n};
        pare_arena a = {.cx = cx};
        pare_ctx_clear(cx);
        cx->alloc = (pare_alloc){unit_failing_resize, &failing};
        status = pare_smoothquant_search(cx, &a, &r.site, s, &found);
        ck_assert(status == PARE_OK || (status == PARE_ENOMEM && cx->what[0]));
        pare_arena_release(&a);
        ck_assert_int_eq(failing.live, 0);
    }
    ck_assert_int_ge(n, 2);
    cx->alloc = plain;
    rig_end(&r);
}
END_TEST

int main(void)
{
    Suite *const s = suite_create("smoothquant");
    TCase *const t = tcase_create("smoothquant");
    tcase_set_timeout(t, 60);
    tcase_add_test(t, scales_follow_the_formula_of_the_paper);
    tcase_add_test(t, columns_of_a_channel_share_the_largest_of_their_ranges);
    tcase_add_test(t, the_error_is_that_of_rounding_weights_and_inputs);
    tcase_add_test(t, inputs_that_stay_floats_are_not_rounded);
    tcase_add_test(t, the_search_takes_the_alpha_of_least_error_and_tames_the_loud_channel);
    tcase_add_test(t, the_search_weighs_the_rounding_of_inputs_against_that_of_weights);
    tcase_add_test(t, ranges_that_are_not_finite_are_refused);
    tcase_add_test(t, every_refused_allocation_is_reported_and_nothing_leaks);
    suite_add_tcase(s, t);
    return unit_main(s);
}
