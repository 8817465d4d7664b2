#include "solve/super.h"

#include "formats/ggml_blocks.h"
#include "kernels/half.h"
#include "kernels/layout.h"
#include "runtime/linear.h"
#include "solve/scales.h"
#include "tests/data/encoded.h"
#include "tests/unit/quant_case.h"

enum { N = 21, K = 512, BLOCKS = 40 };

static const pare_grid grids[] = {
    {.bits = 4,
     .group = 256,
     .symmetric = true,
     .f16_scales = true,
     .encoding = PARE_ENCODING_Q4_K},
    {.bits = 6,
     .group = 256,
     .symmetric = true,
     .f16_scales = true,
     .encoding = PARE_ENCODING_Q6_K},
};
enum { GRIDS = sizeof grids / sizeof *grids };

static const pare_ggml_type *type_of(pare_encoding e)
{
    return pare_ggml_type_named(e == PARE_ENCODING_Q4_K ? "Q4_K" : "Q6_K");
}

/* The block of the engine that super-block g of a row is. */
static pare_ggml_block block_of(const pare_codes *c, pare_encoding e, size_t row, size_t g)
{
    const size_t at = row * c->groups + g;
    pare_ggml_block b = {.d = pare_f32_to_f16(c->scales[at]), .m = pare_f32_to_f16(c->minima[at])};
    for (size_t i = 0; i < 16; i++) {
        const uint8_t byte = c->sub[at * 16 + i];
        if (e == PARE_ENCODING_Q6_K)
            b.scale[i] = (int8_t)byte;
        else if (i % 2)
            b.offset[i / 2] = byte;
        else
            b.scale[i / 2] = (int8_t)byte;
    }
    memcpy(b.code, c->codes + row * c->k + g * 256, 256);
    return b;
}

static pare_packed_linear linear_of(size_t grid)
{
    pare_packed_linear l = encoded_kinds[ENCODED_KINDS + grid];
    l.name = "w";
    l.n = N;
    l.k = K;
    l.bias = false;
    return l;
}

/* Packed, joined by nothing of the engine and decoded by the kernels, random codes are what the
 * engine's decoder makes of the same blocks. */
START_TEST(values_have_the_bits_of_the_engine)
{
    const pare_packed_linear l = linear_of((size_t)_i);
    pare_codes c;
    pare_packed_planes p;
    pare_linear w;
    ck_assert(encoded_codes(&arena, &l, 5, &c));
    ck_assert_int_eq(pare_packed_pack(&cx, &arena, &l, &c, &p), PARE_OK);
    ck_assert_int_eq(pare_packed_view(&cx, &arena, &l, p.plane, &w), PARE_OK);
    float *const own = take(N * K, 4), *const of_codes = take(N * K, 4), engine[256];
    pare_codes_values(&grids[_i], &c, of_codes);
    for (int level = 0; level < 2; level++) {
        if (level)
            pare_kernels_init(&cx.kernels, 0);
        pare_linear_to_f32(&cx, &w, own);
        for (size_t r = 0; r < N; r++)
            for (size_t g = 0; g < K / 256; g++) {
                uint8_t bytes[256];
                const pare_ggml_block b = block_of(&c, l.encoding, r, g);
                pare_ggml_join(type_of(l.encoding), &b, bytes);
                pare_ggml_decode(type_of(l.encoding), bytes, 1, engine);
                ck_assert_mem_eq(own + r * K + g * 256, engine, sizeof engine);
                ck_assert_mem_eq(of_codes + r * K + g * 256, engine, sizeof engine);
            }
    }
}
END_TEST

/* One token and five, fused and decoded first. */
START_TEST(products_are_those_of_the_decoded_weights)
{
    const pare_packed_linear l = linear_of((size_t)_i);
    pare_codes c;
    pare_packed_planes p;
    pare_linear w;
    ck_assert(encoded_codes(&arena, &l, 6, &c));
    ck_assert_int_eq(pare_packed_pack(&cx, &arena, &l, &c, &p), PARE_OK);
    ck_assert_int_eq(pare_packed_view(&cx, &arena, &l, p.plane, &w), PARE_OK);
    float *const values = take(N * K, 4), *const x = take(5 * K, 4);
    float y[5 * N], want[5 * N];
    pare_linear_to_f32(&cx, &w, values);
    for (size_t i = 0; i < 5 * K; i++)
        x[i] = (float)pare_random_normal(3, 1, i);
    cx.kernels.gemm_f32_f32(want, N, x, K, values, K, 5, N, K);
    for (size_t m = 1; m <= 5; m += 4) {
        ck_assert_int_eq(pare_linear_apply(&cx, &arena, &w, false, x, K, m, y, N), PARE_OK);
        ck_assert_mem_eq(y, want, m * N * sizeof *y);
    }
}
END_TEST

/* Weights that lie like those of models, scaled by block, the last ones far off centre. */
static void fill_block(float w[256], float v[256], size_t block)
{
    for (size_t j = 0; j < 256; j++) {
        const double x = pare_random_normal(31, block, j);
        w[j] = (float)(x * 0.02 * (1 + (double)(j / 32 % 3)) + (block % 4 == 3 ? 0.05 : 0));
        v[j] = (float)(0.01 + 10 * pow(pare_random_normal(32, block, j), 4));
    }
}

static double cost_of(const float *w, const float *v, const float *q)
{
    double sum = 0;
    for (size_t j = 0; j < 256; j++)
        sum += (double)v[j] * ((double)w[j] - (double)q[j]) * ((double)w[j] - (double)q[j]);
    return sum;
}

static double fit_cost(pare_encoding e, const float *w, const float *fit_v, const float *v)
{
    float scale, minimum, q[256];
    uint8_t sub[16];
    ck_assert_int_eq(pare_super_fit(e, w, fit_v, &scale, &minimum, sub), PARE_GRID_OK);
    for (size_t j = 0; j < 256; j++) {
        const pare_sub_grid g =
            pare_super_grid(e, scale, minimum, sub + j / pare_super_sub(e) * pare_super_bytes(e));
        q[j] = pare_super_value(&g, pare_super_code(&g, w[j]));
    }
    return cost_of(w, v, q);
}

START_TEST(a_fit_costs_less_than_the_rule_of_the_engine_and_knows_what_counts)
{
    const pare_encoding e = grids[_i].encoding;
    float w[256], v[256], one[256], plain[256];
    double engine = 0, weighted = 0, even = 0, engine_even = 0, wrong = 0;
    for (size_t j = 0; j < 256; j++)
        one[j] = 1;
    for (size_t b = 0; b < BLOCKS; b++) {
        pare_ggml_block block;
        fill_block(w, v, b);
        ck_assert(pare_ggml_quantize(type_of(e), w, &block));
        pare_ggml_values(type_of(e), &block, plain);
        engine += cost_of(w, v, plain);
        engine_even += cost_of(w, one, plain);
        weighted += fit_cost(e, w, v, v);
        even += fit_cost(e, w, NULL, one);
        wrong += fit_cost(e, w, NULL, v);
    }
    ck_assert_double_lt(even, 0.97 * engine_even);
    ck_assert_double_lt(weighted, 0.9 * engine);
    ck_assert_double_lt(weighted, 0.9 * wrong);
}
END_TEST

START_TEST(choosing_a_sub_block_anew_never_costs_more)
{
    const pare_encoding e = grids[_i].encoding;
    const size_t n = pare_super_sub(e);
    size_t lower = 0;
    for (size_t b = 0; b < BLOCKS; b++) {
        float w[256], v[256], scale, minimum;
        uint8_t sub[16];
        fill_block(w, v, b);
        ck_assert_int_eq(pare_super_fit(e, w, v, &scale, &minimum, sub), PARE_GRID_OK);
        for (size_t j = 0; j < 256; j++)
            w[j] += 0.004F * (float)pare_random_normal(33, b, j);
        for (size_t i = 0; i < 256 / n; i++) {
            uint8_t *const at = sub + i * pare_super_bytes(e);
            double cost[2] = {0, 0};
            for (int after = 0; after < 2; after++) {
                if (after)
                    pare_super_refit(e, w + i * n, v + i * n, scale, minimum, at);
                const pare_sub_grid g = pare_super_grid(e, scale, minimum, at);
                for (size_t j = i * n; j < (i + 1) * n; j++) {
                    const double d =
                        (double)w[j] - (double)pare_super_value(&g, pare_super_code(&g, w[j]));
                    cost[after] += (double)v[j] * d * d;
                }
            }
            ck_assert_double_le(cost[1], cost[0] * 1.0001);
            lower += cost[1] < cost[0];
        }
    }
    ck_assert_uint_gt(lower, BLOCKS);
}
END_TEST

/* Blocks without a range, of a single value, of nothing, and of numbers at the ends of F16. Scales
 * are off by 2^-11 at most, subnormal ones by 2^-10, and so are the two parts of a value. */
START_TEST(odd_blocks_have_their_values)
{
    const pare_encoding e = grids[_i].encoding;
    float w[256] = {0}, scale, minimum, one[256];
    uint8_t sub[16];
    for (size_t j = 0; j < 256; j++)
        one[j] = 1;
    ck_assert_double_eq(fit_cost(e, w, NULL, one), 0);
    w[200] = 0.25F;
    ck_assert_double_le(fit_cost(e, w, NULL, one), 256 * pow(0.25 * 0x1p-10, 2));
    w[200] = -0.25F;
    ck_assert_double_le(fit_cost(e, w, one, one), 256 * pow(0.25 * 0x1p-10, 2));
    for (size_t j = 0; j < 256; j++)
        w[j] = -0.125F;
    ck_assert_double_le(fit_cost(e, w, NULL, one), 256 * pow(0.125 * 0x1p-10, 2));
    for (size_t j = 0; j < 256; j++)
        w[j] = 1e-12F * (float)j;
    ck_assert_int_eq(pare_super_fit(e, w, NULL, &scale, &minimum, sub), PARE_GRID_OK);
    ck_assert(scale == 0x1p-24F && minimum <= 0x1p-24F);
    ck_assert_double_le(fit_cost(e, w, NULL, one), 256 * pow(256e-12, 2));
    for (size_t j = 0; j < 256; j++)
        w[j] = 1e-6F * cosf((float)j);
    ck_assert_double_le(fit_cost(e, w, NULL, one), 256 * pow(0.05e-6, 2));
    for (size_t j = 0; j < 256; j++)
        w[j] = j % 2 ? 6e4F : -6e4F;
    ck_assert_double_lt(fit_cost(e, w, NULL, one), 256 * 4e3 * 4e3);
    w[7] = 1e9F;
    ck_assert_int_eq(pare_super_fit(e, w, NULL, &scale, &minimum, sub), PARE_GRID_OVERFLOW);
    ck_assert(scale > 65504);
    for (size_t j = 0; j < 256; j++)
        w[j] = 1e30F * (float)(j % 7); /* squares are not finite */
    ck_assert_int_eq(pare_super_fit(e, w, NULL, &scale, &minimum, sub), PARE_GRID_OVERFLOW);
    ck_assert(scale > 65504);
    w[8] = NAN;
    ck_assert_int_eq(pare_super_fit(e, w, NULL, &scale, &minimum, sub), PARE_GRID_NOT_FINITE);
    ck_assert(isnan(scale));
}
END_TEST

static pare_codes sweep(const pare_grid *g, const pare_factor *f, const float *w)
{
    const pare_gptq_opts opts = {.block = 128};
    pare_codes c;
    ck_assert_int_eq(pare_codes_take(&arena, g, N, K, &c), PARE_OK);
    ck_assert_int_eq(pare_gptq_quantize(&cx, &arena, &opts, g, f, copy(w, N * K), &c, NULL),
                     PARE_OK);
    return c;
}

/* In the measure of the layer's output, in both orders of the columns and for any thread count. */
START_TEST(the_sweep_beats_rounding_on_the_same_grid_and_the_engine)
{
    const pare_grid *const g = &grids[_i];
    const float *const w = weights(N, K), *const h = hessian(K);
    float *const plain = take(N * K, 4), *const q = take(N * K, 4);
    pare_codes c;
    ck_assert_int_eq(pare_codes_take(&arena, g, N, K, &c), PARE_OK);
    ck_assert_int_eq(pare_rtn_quantize(&cx, g, w, NULL, N, K, &c), PARE_OK);
    pare_codes_values(g, &c, q);
    const double rounded = pare_gptq_error(&cx, w, q, h, N, K);
    for (size_t i = 0; i < N * K; i += 256) {
        pare_ggml_block b;
        ck_assert(pare_ggml_quantize(type_of(g->encoding), w + i, &b));
        pare_ggml_values(type_of(g->encoding), &b, plain + i);
    }
    const double engine = pare_gptq_error(&cx, w, plain, h, N, K);
    for (int act_order = 0; act_order < 2; act_order++) {
        const pare_factor f = factorize(h, K, act_order);
        const pare_codes one = sweep(g, &f, w);
        pare_codes_values(g, &one, q);
        const double swept = pare_gptq_error(&cx, w, q, h, N, K);
        ck_assert_double_lt(swept, 0.7 * rounded);
        ck_assert_double_lt(swept, 0.7 * engine);
        cx.pool = NULL;
        ck_assert_int_eq(pare_pool_new(&cx, 3, &cx.pool), PARE_OK);
        const pare_codes three = sweep(g, &f, w);
        pare_pool_free(&cx, cx.pool);
        cx.pool = NULL;
        ck_assert_mem_eq(one.codes, three.codes, N * K);
        ck_assert_mem_eq(one.sub, three.sub, N * one.groups * 16);
    }
}
END_TEST

/* A row of one super-block, column by column, as the documentation says it. */
static void sweep_row(pare_encoding e, float w[256], const float *u, const float v[256],
                      float *scale, float *minimum, uint8_t sub[16], uint8_t codes[256])
{
    const size_t n = pare_super_sub(e), bytes = pare_super_bytes(e);
    ck_assert_int_eq(pare_super_fit(e, w, v, scale, minimum, sub), PARE_GRID_OK);
    for (size_t j = 0; j < 256; j++) {
        if (j % n == 0)
            pare_super_refit(e, w + j, v + j, *scale, *minimum, sub + j / n * bytes);
        const pare_sub_grid g = pare_super_grid(e, *scale, *minimum, sub + j / n * bytes);
        codes[j] = pare_super_code(&g, w[j]);
        const float error = (w[j] - pare_super_value(&g, codes[j])) / u[j * 257];
        for (size_t i = j + 1; i < 256; i++)
            w[i] -= error * u[j * 256 + i];
    }
}

START_TEST(scales_are_fitted_to_what_errors_cost_and_again_where_the_sweep_stands)
{
    const pare_grid *const g = &grids[_i];
    const float *const w = weights(N, 256);
    const pare_factor f = factorize(hessian(256), 256, false);
    const pare_gptq_opts opts = {.block = 256};
    float v[256], row[256], scale, minimum;
    uint8_t sub[16], codes[256];
    pare_codes c;
    for (size_t j = 0; j < 256; j++)
        v[j] = 1 / (f.u[j * 257] * f.u[j * 257]);
    ck_assert_int_eq(pare_codes_take(&arena, g, N, 256, &c), PARE_OK);
    ck_assert_int_eq(pare_gptq_quantize(&cx, &arena, &opts, g, &f, copy(w, N * 256), &c, NULL),
                     PARE_OK);
    for (size_t r = 0; r < N; r++) {
        memcpy(row, w + r * 256, sizeof row);
        sweep_row(g->encoding, row, f.u, v, &scale, &minimum, sub, codes);
        ck_assert(scale == c.scales[r] && minimum == c.minima[r]);
        ck_assert_mem_eq(c.sub + r * 16, sub, sizeof sub);
        ck_assert_mem_eq(c.codes + r * 256, codes, sizeof codes);
    }
}
END_TEST

START_TEST(what_does_not_go_together_is_refused)
{
    pare_grid g = grids[_i];
    pare_codes c;
    ck_assert_int_eq(pare_codes_take(&arena, &g, 2, 512, &c), PARE_OK);
    ck_assert_int_eq(pare_grid_check(&cx, &g, 2, 512, &c), PARE_OK);
    g.bits = 5;
    ck_assert_int_eq(pare_grid_check(&cx, &g, 2, 512, &c), PARE_EINVAL);
    ck_assert_ptr_nonnull(strstr(cx.what, "5 bits per weight"));
    g = grids[_i];
    g.group = 128;
    pare_ctx_clear(&cx);
    ck_assert_int_eq(pare_grid_check(&cx, &g, 2, 512, &c), PARE_EINVAL);
    ck_assert_str_eq(cx.what, "a super-block has 256 weights");
    g = grids[_i];
    ck_assert_int_eq(pare_codes_take(&arena, &g, 2, 640, &c), PARE_OK);
    pare_ctx_clear(&cx);
    ck_assert_int_eq(pare_grid_check(&cx, &g, 2, 640, &c), PARE_ESHAPE);
    ck_assert_str_eq(cx.what, "super-blocks of 256 weights do not divide rows of 640");

    const float *const h = hessian(256);
    const pare_factor f = factorize(h, 256, false);
    const pare_sparsity half = {.keep = 2, .of = 4};
    pare_compensate sweep = {.factor = &f, .block = 128, .grid = &g, .sparsity = &half};
    float *const w = weights(4, 256);
    ck_assert_int_eq(pare_codes_take(&arena, &g, 4, 256, &c), PARE_OK);
    pare_ctx_clear(&cx);
    ck_assert_int_eq(pare_compensate_run(&cx, &arena, &sweep, w, 4, 256, &c, NULL), PARE_EINVAL);
    sweep.sparsity = NULL;
    sweep.keep_zeros = true;
    const bool q4 = g.encoding == PARE_ENCODING_Q4_K;
    pare_ctx_clear(&cx);
    w[17] = 0;
    ck_assert_int_eq(pare_compensate_run(&cx, &arena, &sweep, w, 4, 256, &c, NULL),
                     q4 ? PARE_EINVAL : PARE_OK);
    ck_assert(q4 || c.codes[17] == 32);
}
END_TEST

static pare_status everything(pare_ctx *c, const pare_grid *g, const float *h0, const float *w0)
{
    const pare_gptq_opts opts = {.block = 128};
    const pare_factor_opts how = {.damp = 0.01F, .act_order = true};
    pare_arena a;
    pare_codes codes;
    pare_factor f;
    pare_status s = pare_arena_init(c, &a, 0);
    float *const h = s == PARE_OK ? PARE_NEW(&a, float, 256 * 256) : NULL;
    float *const w = h ? PARE_NEW(&a, float, 8 * 256) : NULL;
    if (s == PARE_OK && !w)
        s = PARE_ENOMEM;
    if (s == PARE_OK) {
        memcpy(h, h0, 256 * 256 * sizeof *h);
        memcpy(w, w0, 8 * 256 * sizeof *w);
        s = pare_factorize(c, &a, &how, h, 256, &f);
    }
    if (s == PARE_OK)
        s = pare_codes_take(&a, g, 8, 256, &codes);
    if (s == PARE_OK)
        s = pare_gptq_quantize(c, &a, &opts, g, &f, w, &codes, NULL);
    pare_arena_release(&a);
    return s;
}

START_TEST(every_failed_allocation_is_reported_and_leaks_nothing)
{
    const float *const h = hessian(256), *const w = weights(8, 256);
    pare_status s = PARE_ENOMEM;
    for (long n = 0; s != PARE_OK && n < 1000; n++) {
        unit_failing f = {.left = n};
        pare_ctx c;
        pare_ctx_init(&c);
        c.alloc = (pare_alloc){unit_failing_resize, &f};
        s = everything(&c, &grids[_i], h, w);
        ck_assert(s == PARE_OK || s == PARE_ENOMEM);
        ck_assert((s == PARE_OK) == (c.what[0] == '\0'));
        ck_assert_int_eq(f.live, 0);
    }
    ck_assert_int_eq(s, PARE_OK);
}
END_TEST

int main(void)
{
    Suite *const s = suite_create("super");
    TCase *const t = tcase_create("super");
    tcase_add_checked_fixture(t, quant_setup, quant_teardown);
    tcase_add_loop_test(t, values_have_the_bits_of_the_engine, 0, GRIDS);
    tcase_add_loop_test(t, products_are_those_of_the_decoded_weights, 0, GRIDS);
    tcase_add_loop_test(t, a_fit_costs_less_than_the_rule_of_the_engine_and_knows_what_counts, 0,
                        GRIDS);
    tcase_add_loop_test(t, choosing_a_sub_block_anew_never_costs_more, 0, GRIDS);
    tcase_add_loop_test(t, odd_blocks_have_their_values, 0, GRIDS);
    tcase_add_loop_test(t, the_sweep_beats_rounding_on_the_same_grid_and_the_engine, 0, GRIDS);
    tcase_add_loop_test(t, scales_are_fitted_to_what_errors_cost_and_again_where_the_sweep_stands,
                        0, GRIDS);
    tcase_add_loop_test(t, what_does_not_go_together_is_refused, 0, GRIDS);
    tcase_add_loop_test(t, every_failed_allocation_is_reported_and_leaks_nothing, 0, GRIDS);
    tcase_set_timeout(t, 120);
    suite_add_tcase(s, t);
    return unit_main(s);
}
