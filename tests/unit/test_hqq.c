/* HQQ: against the values of its own implementation, against a plain version in double, and as it
 * is stored. */
#include "kernels/half.h"
#include "quant/hqq.h"
#include "solve/super.h"
#include "tests/unit/quant_case.h"

enum { N = 4, K = 128, GROUPS_MOST = 16 };

/* Cubes of integers, so that few weights are much larger than the rest: the same on any machine. */
static float *cubes(double scale)
{
    float *const w = take(N * K, sizeof *w);
    uint32_t x = 12345;
    for (size_t i = 0; i < N * K; i++) {
        x = (x * 1103515245U + 12345U) & 0x7fffffffU;
        const double a = (double)(x >> 8) - 2001.0 * (double)((x >> 8) / 2001) - 1000;
        w[i] = (float)(a * a * a * scale);
    }
    return w;
}

/* What hqq 0.2.5 makes of them (hqq/core/optimize.py, optimize_weights_proximal_legacy, axis 1,
 * torch 2.15 on a CPU, started as Quantizer.quantize does: zero points rounded for 4 bits): its
 * rounds, the mean of |w - value|, the sum of place times code from place 1 on, and zero points.
 * 0.2.8 no longer lets beta grow, which the article has. */
typedef struct published {
    unsigned bits;
    size_t group;
    double scale;
    size_t rounds;
    double error;
    uint64_t codes;
    float zero[GROUPS_MOST];
} published;

// clang-format off
static const published cases[] = {
    {2, 32, 1e-9, 13, 0.1077237, 182816,
     {1.835224F, 2.027286F, 1.927977F, 1.879150F, 2.103463F, 1.088050F, 1.997581F, 1.973790F,
      1.879522F, 1.970415F, 1.061672F, 1.047678F, 1.238230F, 0.977396F, 1.115832F, 1.019517F}},
    {2, 128, 4e-9, 20, 0.5735447, 211075, {1.785790F, 1.901611F, 1.845569F, 1.283590F}},
    {3, 64, 1e-10, 11, 0.0054034, 468070,
     {3.988049F, 4.059587F, 3.892478F, 3.792285F, 3.920094F, 2.972205F, 3.791196F, 3.241043F}},
    {3, 32, 1e-8, 20, 0.5459305, 467647,
     {4.099996F, 3.724466F, 4.023605F, 3.708375F, 4.062126F, 3.024910F, 3.895602F, 4.332774F,
      3.796259F, 3.946316F, 3.004546F, 3.446136F, 3.620033F, 3.447712F, 3.297435F, 3.289315F}},
    {4, 64, 1e-10, 2, 0.0025539, 994720,
     {7.967694F, 7.908935F, 7.963792F, 7.927665F, 8.045290F, 7.011868F, 7.907474F, 7.058931F}},
    {4, 128, 2e-8, 8, 0.5023252, 998940, {7.987508F, 7.985864F, 7.997385F, 7.028916F}},
    {8, 64, 1e-9, 12, 0.0016760, 16958664,
     {131.997665F, 132.139374F, 132.696976F, 135.160919F, 133.238678F, 125.904892F, 128.317657F,
      124.892464F}},
};
// clang-format on
enum { CASES = sizeof cases / sizeof *cases };

/* A start from the least and the greatest weight of each group. */
static pare_hqq start(const float *w, size_t n, size_t k, unsigned bits, size_t group, bool rounded)
{
    const size_t groups = k / group;
    const pare_hqq h = {.bits = bits,
                        .group = group,
                        .groups = groups,
                        .step = take(n * groups, sizeof(float)),
                        .zero = take(n * groups, sizeof(float)),
                        .error = take(n, sizeof(double))};
    for (size_t g = 0; g < n * groups; g++) {
        float lo = w[g * group], hi = lo;
        for (size_t j = g * group; j < (g + 1) * group; j++) {
            lo = fminf(lo, w[j]);
            hi = fmaxf(hi, w[j]);
        }
        h.step[g] = (hi - lo) / (float)((1u << bits) - 1);
        h.zero[g] = rounded ? rintf(-lo / h.step[g]) : -lo / h.step[g];
    }
    return h;
}

static double code_of(double w, double step, double zero, unsigned bits)
{
    return fmin(fmax(rint(w / step + zero), 0), (1u << bits) - 1);
}

START_TEST(rounds_zeros_and_codes_are_those_of_its_own_implementation)
{
    const published *const p = &cases[_i];
    const float *const w = cubes(p->scale);
    const pare_hqq h = start(w, N, K, p->bits, p->group, p->bits == 4);
    ck_assert_uint_eq(pare_hqq_solve(&cx, &h, w, N, K), p->rounds);
    double error = 0;
    uint64_t codes = 0;
    for (size_t i = 0; i < N * K; i++) {
        const double step = (double)h.step[i / p->group], zero = (double)h.zero[i / p->group];
        const double q = code_of((double)w[i], step, zero, p->bits);
        error += fabs((double)w[i] - (q - zero) * step) / (N * K);
        codes += (i + 1) * (uint64_t)q;
    }
    ck_assert_uint_eq(codes, p->codes);
    ck_assert_double_eq_tol(error, p->error, 1e-6);
    for (size_t g = 0; g < N * h.groups; g++) /* theirs are means in F32 */
        ck_assert_float_eq_tol(h.zero[g], p->zero[g], (float)(1u << p->bits) * 4e-7F);
}
END_TEST

/* One round of a group with whole zero points as the header says it, in double. */
static double plain_round(const float *w, size_t count, unsigned bits, double beta, double *step,
                          double *zero)
{
    double q[K], x[K], mean = 0, up = 0, down = 0, error = 0;
    for (size_t j = 0; j < count; j++) {
        q[j] = code_of((double)w[j], *step, *zero, bits);
        const double e = (double)w[j] - (q[j] - *zero) * *step, a = fabs(e);
        x[j] = (double)w[j] - (a > 0 ? copysign(fmax(0, a - pow(a, -0.3) / beta), e) : 0);
        mean += (q[j] - x[j] / *step) / (double)count;
        error += a;
    }
    *zero = fmin(fmax(rint(mean), 0), (1u << bits) - 1);
    for (size_t j = 0; j < count; j++) {
        up += x[j] * (q[j] - *zero);
        down += (q[j] - *zero) * (q[j] - *zero);
    }
    *step = up / down;
    return error;
}

START_TEST(whole_zeros_and_steps_are_those_of_a_plain_version)
{
    const published *const p = &cases[_i];
    const float *const w = cubes(p->scale);
    pare_hqq h = start(w, N, K, p->bits, p->group, true);
    h.whole = true;
    const size_t count = N * h.groups;
    double step[N * GROUPS_MOST], zero[N * GROUPS_MOST], best = INFINITY, beta = 10;
    for (size_t g = 0; g < count; g++) {
        step[g] = (double)h.step[g];
        zero[g] = (double)h.zero[g];
    }
    size_t rounds = 0;
    for (bool better = true; better && rounds < 20; rounds++, beta *= 1.01) {
        double error = 0;
        for (size_t g = 0; g < count; g++)
            error += plain_round(w + g * p->group, p->group, p->bits, beta, &step[g], &zero[g]);
        better = error < best;
        best = error;
    }
    ck_assert_uint_eq(pare_hqq_solve(&cx, &h, w, N, K), rounds);
    for (size_t g = 0; g < count; g++) {
        ck_assert_double_eq((double)h.zero[g], zero[g]);
        ck_assert_double_eq_tol((double)h.step[g], step[g], 1e-6 * step[g]);
    }
}
END_TEST

/* A start far below its weights pulls zero points beyond the codes, one far above as well. */
START_TEST(whole_zeros_stay_among_the_codes)
{
    float w[64], step[2] = {0.01F, 0.01F}, zero[2] = {0, 7};
    double error[1];
    for (size_t j = 0; j < 64; j++)
        w[j] = j < 32 ? 1 + (float)j / 32 : -1 - (float)j / 32;
    const pare_hqq h = {.bits = 3, .group = 32, .groups = 2, .whole = true, step, zero, error};
    ck_assert_uint_ge(pare_hqq_solve(&cx, &h, w, 1, 64), 2);
    ck_assert_float_eq(zero[0], 0);
    ck_assert_float_eq(zero[1], 7);
    ck_assert_float_ge(step[0], 0.1F);
    ck_assert_float_ge(step[1], 0.1F);
}
END_TEST

static const pare_grid uniform = {.bits = 3, .group = 64, .f16_scales = true};
static const pare_grid super = {
    .bits = 4, .group = PARE_SUPER, .encoding = PARE_ENCODING_Q4_K, .f16_scales = true};
enum { ROWS = 20, WIDTH = 512 };

static pare_codes quantized(const pare_grid *g, const float *w, size_t n, size_t k)
{
    pare_codes c;
    ck_assert_int_eq(pare_codes_take(&arena, g, n, k, &c), PARE_OK);
    ck_assert_msg(pare_hqq_quantize(&cx, g, w, n, k, &arena, &c) == PARE_OK, "%s", cx.what);
    return c;
}

static double error_of(const pare_grid *g, const pare_codes *c, const float *w)
{
    float *const q = take(c->n * c->k, sizeof *q);
    double sum = 0;
    pare_codes_values(g, c, q);
    for (size_t i = 0; i < c->n * c->k; i++)
        sum += fabs((double)w[i] - (double)q[i]);
    return sum;
}

/* Rows whose length the group does not divide. */
START_TEST(uniform_grids_keep_steps_in_f16_and_err_less_than_rtn)
{
    enum { TAIL = WIDTH + 20 };
    const float *const w = weights(ROWS, TAIL);
    const pare_codes c = quantized(&uniform, w, ROWS, TAIL);
    ck_assert_uint_eq(c.groups, 9);
    for (size_t i = 0; i < ROWS * TAIL; i++) {
        const size_t at = i / TAIL * c.groups + i % TAIL / 64;
        ck_assert_float_eq(c.scales[at], pare_f16_scale(c.scales[at]));
        ck_assert_uint_eq(c.codes[i], pare_grid_code(3, w[i], c.scales[at], c.zeros[at]));
    }
    pare_codes rtn;
    ck_assert_int_eq(pare_codes_take(&arena, &uniform, ROWS, TAIL, &rtn), PARE_OK);
    ck_assert_int_eq(pare_rtn_quantize(&cx, &uniform, w, NULL, ROWS, TAIL, &rtn), PARE_OK);
    ck_assert_double_lt(error_of(&uniform, &c, w), 0.95 * error_of(&uniform, &rtn, w));
}
END_TEST

START_TEST(super_blocks_keep_fractions_of_zeros)
{
    enum { SUBS = ROWS * WIDTH / 32 };
    const float *const w = weights(ROWS, WIDTH);
    const pare_codes c = quantized(&super, w, ROWS, WIDTH);
    pare_hqq h = start(w, ROWS, WIDTH, 4, 32, false);
    for (size_t s = 0; s < SUBS; s++) {
        const uint8_t *const sub = c.sub + s / 8 * PARE_SUPER_BYTES + s % 8 * 2;
        const float step = c.scales[s / 8] * (float)sub[0];
        ck_assert_float_le(fabsf(step - h.step[s]), 0.51F * c.scales[s / 8]);
        h.zero[s] *= h.step[s] / step;
        h.step[s] = step;
    }
    ck_assert_uint_gt(pare_hqq_solve(&cx, &h, w, ROWS, WIDTH), 2);
    size_t fractions = 0;
    for (size_t s = 0; s < SUBS; s++) {
        const uint8_t *const sub = c.sub + s / 8 * PARE_SUPER_BYTES + s % 8 * 2;
        const float least = c.minima[s / 8] * (float)sub[1], zero = least / h.step[s];
        ck_assert_float_le(fabsf(least - h.zero[s] * h.step[s]), 0.51F * c.minima[s / 8]);
        fractions += fabsf(zero - rintf(zero)) > 0.1F;
        const pare_sub_grid g = {h.step[s], least, 0, 15};
        for (size_t j = s * 32; j < (s + 1) * 32; j++)
            ck_assert_uint_eq(c.codes[j], pare_super_code(&g, w[j]));
    }
    ck_assert_uint_gt(fractions, SUBS / 2);
    const pare_grid whole = {.bits = 4, .group = 32, .f16_scales = true};
    const pare_codes other = quantized(&whole, w, ROWS, WIDTH);
    ck_assert_double_lt(error_of(&super, &c, w), error_of(&whole, &other, w));
}
END_TEST

/* Rows of zeros, of weights of one sign, of numbers that F16 barely holds, of numbers it does not
 * tell apart from 0. */
START_TEST(odd_rows_have_finite_values_near_the_weights)
{
    const pare_grid *const g = _i ? &super : &uniform;
    float *const w = weights(ROWS, WIDTH), *const q = take(ROWS * WIDTH, sizeof *q);
    for (size_t j = 0; j < WIDTH; j++) {
        w[j] = 0;
        w[WIDTH + j] = -1 - (float)(j % 7);
        w[2 * WIDTH + j] = 1 + (float)(j % 7);
        w[3 * WIDTH + j] *= 5e5F;
        w[4 * WIDTH + j] *= 1e-9F;
        w[5 * WIDTH + j] = j % 32 ? 0 : 1;
    }
    const pare_codes c = quantized(g, w, ROWS, WIDTH);
    pare_codes_values(g, &c, q);
    for (size_t j = 0; j < WIDTH; j++)
        ck_assert_float_eq(q[j], 0);
    for (size_t i = WIDTH; i < ROWS * WIDTH; i++) {
        const float most = i / WIDTH == 3 ? 5e5F : i / WIDTH < 3 ? 7 : 1;
        ck_assert_float_le(fabsf(q[i] - w[i]), 0.15F * most);
    }
}
END_TEST

START_TEST(threads_do_not_change_a_byte)
{
    const pare_grid *const g = _i ? &super : &uniform;
    const float *const w = weights(ROWS, WIDTH);
    const pare_codes one = quantized(g, w, ROWS, WIDTH);
    for (size_t threads = 2; threads <= 5; threads += 3) {
        ck_assert_int_eq(pare_pool_new(&cx, threads, &cx.pool), PARE_OK);
        const pare_codes c = quantized(g, w, ROWS, WIDTH);
        ck_assert_mem_eq(c.codes, one.codes, ROWS * WIDTH);
        ck_assert_mem_eq(c.scales, one.scales, ROWS * c.groups * sizeof(float));
        if (_i) {
            ck_assert_mem_eq(c.minima, one.minima, ROWS * c.groups * sizeof(float));
            ck_assert_mem_eq(c.sub, one.sub, ROWS * c.groups * PARE_SUPER_BYTES);
        } else {
            ck_assert_mem_eq(c.zeros, one.zeros, ROWS * c.groups);
        }
        pare_pool_free(&cx, cx.pool);
        cx.pool = NULL;
    }
}
END_TEST

START_TEST(what_cannot_be_done_is_named)
{
    static const struct {
        pare_grid grid;
        float weight;
        pare_status status;
        const char *what;
    } wrong[] = {
        {{.bits = 4, .group = 64, .symmetric = true}, 0, PARE_EINVAL, "HQQ looks for zero points"},
        {{.bits = 4, .group = 64, .clip = PARE_CLIP_MSE}, 0, PARE_EINVAL, "without clip, and q4_k"},
        {{.bits = 6, .group = PARE_SUPER, .encoding = PARE_ENCODING_Q6_K}, 0, PARE_EINVAL, "HQQ"},
        {{.bits = 6, .group = 64}, 0, PARE_EINVAL, "6 bits per weight"},
        {{.bits = 4, .group = 64, .f16_scales = true},
         NAN,
         PARE_ENUMERIC,
         "row 3, group 2: weight nan"},
        {{.bits = 4, .group = PARE_SUPER, .encoding = PARE_ENCODING_Q4_K, .f16_scales = true},
         INFINITY,
         PARE_ENUMERIC,
         "row 3, group 4: weight inf"},
        {{.bits = 4, .group = 64, .f16_scales = true},
         1e9F,
         PARE_ENUMERIC,
         "is above what the scales of this"},
    };
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        float *const w = weights(ROWS, WIDTH);
        pare_codes c;
        w[3 * WIDTH + 130] = wrong[i].weight;
        ck_assert_int_eq(pare_codes_take(&arena, &wrong[i].grid, ROWS, WIDTH, &c), PARE_OK);
        ck_assert_int_eq(pare_hqq_quantize(&cx, &wrong[i].grid, w, ROWS, WIDTH, &arena, &c),
                         wrong[i].status);
        ck_assert_msg(strstr(cx.what, wrong[i].what), "%s", cx.what);
        pare_ctx_clear(&cx);
    }
}
END_TEST

int main(void)
{
    Suite *const s = suite_create("hqq");
    TCase *const t = tcase_create("hqq");
    tcase_add_checked_fixture(t, quant_setup, quant_teardown);
    tcase_add_loop_test(t, rounds_zeros_and_codes_are_those_of_its_own_implementation, 0, CASES);
    tcase_add_loop_test(t, whole_zeros_and_steps_are_those_of_a_plain_version, 0, CASES);
    tcase_add_test(t, whole_zeros_stay_among_the_codes);
    tcase_add_test(t, uniform_grids_keep_steps_in_f16_and_err_less_than_rtn);
    tcase_add_test(t, super_blocks_keep_fractions_of_zeros);
    tcase_add_loop_test(t, odd_rows_have_finite_values_near_the_weights, 0, 2);
    tcase_add_loop_test(t, threads_do_not_change_a_byte, 0, 2);
    tcase_add_test(t, what_cannot_be_done_is_named);
    suite_add_tcase(s, t);
    return unit_main(s);
}
