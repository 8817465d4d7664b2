#include <math.h>
#include <string.h>

#include "kernels/half.h"
#include "kernels/levels.h"
#include "runtime/random.h"
#include "solve/scales.h"
#include "tests/unit/grid_fit.h"
#include "tests/unit/unit.h"

static const pare_grid
    nf4 = {.bits = 4, .group = 64, .encoding = PARE_ENCODING_NF4},
    fp8 = {.bits = 8, .encoding = PARE_ENCODING_FP8, .f16_scales = true},
    mxfp4 = {.bits = 4, .group = 32, .encoding = PARE_ENCODING_MXFP4, .f16_scales = true},
    nvfp4 = {.bits = 4, .group = 16, .encoding = PARE_ENCODING_NVFP4, .f16_scales = true},
    ternary = {.bits = 2, .encoding = PARE_ENCODING_TERNARY, .f16_scales = true};

static float draw(uint64_t i)
{
    return (float)pare_random_normal(5, 9, i);
}

/* Table of QLoRA, appendix E. */
static const double published_nf4[16] = {
    -1.0,
    -0.6961928009986877,
    -0.5250730514526367,
    -0.39491748809814453,
    -0.28444138169288635,
    -0.18477343022823334,
    -0.09105003625154495,
    0.0,
    0.07958029955625534,
    0.16093020141124725,
    0.24611230194568634,
    0.33791524171829224,
    0.44070982933044434,
    0.5626170039176941,
    0.7229568362236023,
    1.0,
};

START_TEST(nf4_has_the_published_levels_and_takes_the_nearest)
{
    for (unsigned c = 0; c < 16; c++) {
        ck_assert_float_eq(pare_grid_decode(&nf4, 0, (uint8_t)c, 1, 0), (float)published_nf4[c]);
        ck_assert_uint_eq(pare_grid_encode(&nf4, 0, (float)published_nf4[c] * 0.5F, 0.5F, 0), c);
    }
    for (uint64_t i = 0; i < 20000; i++) {
        const float w = draw(i) * 0.4F;
        unsigned best = 0;
        for (unsigned c = 1; c < 16; c++)
            if (fabs((double)w - published_nf4[c]) < fabs((double)w - published_nf4[best]))
                best = c;
        ck_assert_uint_eq(pare_grid_encode(&nf4, 0, w, 1, 0), best);
    }
    ck_assert_uint_eq(pare_grid_encode(&nf4, 0, 0, 0, 0), 7);
}
END_TEST

/* E4M3 by its definition: bias 7, no infinities, all ones is a NaN. */
static double e4m3(unsigned pattern)
{
    const unsigned e = pattern >> 3 & 15, f = pattern & 7;
    const double a = e ? ldexp(1 + f / 8.0, (int)e - 7) : ldexp(f / 8.0, -6);
    return (pattern & 127) == 127 ? (double)NAN : pattern & 128 ? -a : a;
}

START_TEST(fp8_decodes_all_256_patterns)
{
    ck_assert_double_eq(e4m3(0x7E), 448);
    for (unsigned p = 0; p < 256; p++) {
        const double v = (double)pare_grid_decode(&fp8, 0, (uint8_t)p, 1, 0);
        if ((p & 127) == 127) {
            ck_assert(isnan(v));
            continue;
        }
        ck_assert_double_eq(v, e4m3(p));
        ck_assert_uint_eq(pare_grid_encode(&fp8, 0, (float)v, 1, 0), p == 128 ? 0 : p);
    }
}
END_TEST

START_TEST(fp8_rounds_half_to_even_and_saturates)
{
    for (unsigned p = 0; p < 126; p++) {
        const float middle = (float)((e4m3(p) + e4m3(p + 1)) / 2), next = nextafterf(middle, 1000);
        ck_assert_uint_eq(pare_grid_encode(&fp8, 0, middle, 1, 0), p % 2 ? p + 1 : p);
        ck_assert_uint_eq(pare_grid_encode(&fp8, 0, next, 1, 0), p + 1);
        ck_assert_uint_eq(pare_grid_encode(&fp8, 0, nextafterf(middle, 0), 1, 0), p);
        if (p)
            ck_assert_uint_eq(pare_grid_encode(&fp8, 0, -next, 1, 0), (p + 1) | 128);
    }
    ck_assert_uint_eq(pare_grid_encode(&fp8, 0, 1e30F, 1, 0), 0x7E);
    ck_assert_uint_eq(pare_grid_encode(&fp8, 0, -449, 1, 0), 0xFE);
    ck_assert_uint_eq(pare_grid_encode(&fp8, 0, -1e-9F, 1, 0), 0);
}
END_TEST

START_TEST(fp8_scale_puts_the_largest_weight_on_448)
{
    float s;
    uint8_t z;
    ck_assert_int_eq(fit_grid(&fp8, (float[]){-896, 3}, 2, &s, &z), PARE_GRID_OK);
    ck_assert_float_eq(s, 2);
    ck_assert_uint_eq(pare_grid_encode(&fp8, 0, -896, s, z), 0xFE);
    ck_assert_int_eq(fit_grid(&fp8, (float[]){0x1p-17F}, 1, &s, &z), PARE_GRID_OK);
    ck_assert_float_eq(s, 0x1p-24F); /* 2^-17 / 448 is below */
    ck_assert_float_eq(pare_grid_decode(&fp8, 0, pare_grid_encode(&fp8, 0, 0x1p-17F, s, z), s, z),
                       0x1p-17F);
    ck_assert_int_eq(fit_grid(&fp8, (float[]){0.01F}, 1, &s, &z), PARE_GRID_OK);
    ck_assert_float_eq(s, pare_f16_to_f32(pare_f32_to_f16(0.01F / 448)));
    ck_assert_int_eq(fit_grid(&fp8, (float[]){0, 0}, 2, &s, &z), PARE_GRID_OK);
    ck_assert_float_eq(s, 0);
    ck_assert_uint_eq(pare_grid_encode(&fp8, 0, 0, s, z), 0);
}
END_TEST

START_TEST(mxfp4_follows_the_rule_of_the_specification)
{
    static const float level[8] = {0, 0.5F, 1, 1.5F, 2, 3, 4, 6};
    float s;
    uint8_t z;
    for (uint64_t i = 0; i < 2000; i++) {
        const float a = fabsf(draw(i)) * ldexpf(1, (int)(i % 24) - 12) + 1e-6F;
        ck_assert_int_eq(fit_grid(&mxfp4, (float[]){a / 3, -a}, 2, &s, &z), PARE_GRID_OK);
        ck_assert_double_eq((double)s, ldexp(1, (int)floor(log2((double)a)) - 2));
    }
    for (unsigned c = 0; c < 8; c++) {
        ck_assert_float_eq(pare_grid_decode(&mxfp4, 0, (uint8_t)c, 2, 0), 2 * level[c]);
        ck_assert_float_eq(pare_grid_decode(&mxfp4, 0, (uint8_t)(c | 8), 2, 0), -2 * level[c]);
        ck_assert_uint_eq(pare_grid_encode(&mxfp4, 0, level[c], 1, 0), c);
        if (c == 7)
            break;
        const float middle = (level[c] + level[c + 1]) / 2;
        ck_assert_uint_eq(pare_grid_encode(&mxfp4, 0, middle, 1, 0), c % 2 ? c + 1 : c);
        ck_assert_uint_eq(pare_grid_encode(&mxfp4, 0, -nextafterf(middle, 9), 1, 0), (c + 1) | 8);
    }
    ck_assert_uint_eq(pare_grid_encode(&mxfp4, 0, -7.9F, 1, 0), 15);
    ck_assert_uint_eq(pare_grid_encode(&mxfp4, 0, -0.2F, 1, 0), 0);
    ck_assert_int_eq(fit_grid(&mxfp4, (float[]){0x1p-30F}, 1, &s, &z), PARE_GRID_OK);
    ck_assert_float_eq(s, 0x1p-24F);
    ck_assert_uint_eq(pare_grid_encode(&mxfp4, 0, 0x1p-30F, s, z), 0);
    ck_assert_int_eq(fit_grid(&mxfp4, (float[]){0x1p18F}, 1, &s, &z), PARE_GRID_OVERFLOW);
    ck_assert_int_eq(fit_grid(&mxfp4, (float[]){0x1p-22F}, 1, &s, &z), PARE_GRID_OK);
    ck_assert_int_eq(fit_grid(&mxfp4, (float[]){0x1.fp17F}, 1, &s, &z), PARE_GRID_OK);
    ck_assert_int_eq(fit_grid(&mxfp4, (float[]){0}, 1, &s, &z), PARE_GRID_OK);
    ck_assert_float_eq(s, 0x1p-24F);
}
END_TEST

/* Least squared error of a weight over all levels. */
static double least(float w, float scale)
{
    static const float level[8] = {0, 0.5F, 1, 1.5F, 2, 3, 4, 6};
    double best = INFINITY;
    for (size_t c = 0; c < 8; c++)
        best = fmin(best, pow(fabs((double)w) - (double)(level[c] * scale), 2));
    return best;
}

START_TEST(mxfp4_takes_the_power_whose_errors_cost_less)
{
    static const pare_clip clip[] = {PARE_CLIP_MSE, PARE_CLIP_WEIGHTED};
    pare_kernels kernels;
    pare_kernels_init(&kernels, 0);
    pare_grid g = mxfp4;
    g.clip = clip[_i];
    size_t next = 0;
    for (uint64_t i = 0; i < 500; i++) {
        float w[32], cost[32], standard, s;
        double sum = 0, sum_next = 0;
        uint8_t z;
        for (size_t j = 0; j < 32; j++) {
            w[j] = draw(32 * i + j) * (1 + (float)(i % 16) / 16);
            cost[j] = fabsf(draw(7777 + 32 * i + j)) * (j % 4 == 0 ? 30.0F : 0.5F);
        }
        ck_assert_int_eq(fit_grid(&mxfp4, w, 32, &standard, &z), PARE_GRID_OK);
        ck_assert_int_eq(pare_grid_fit_by(&kernels, &g, w, cost, 32, &s, &z), PARE_GRID_OK);
        for (size_t j = 0; j < 32; j++) {
            const double by = g.clip == PARE_CLIP_WEIGHTED ? (double)cost[j] : 1;
            sum += by * least(w[j], standard);
            sum_next += by * least(w[j], 2 * standard);
        }
        ck_assert_float_eq(s, sum_next < sum ? 2 * standard : standard);
        next += sum_next < sum;
    }
    ck_assert(next > 20 && next < 480);
    float s;
    uint8_t z;
    ck_assert_int_eq(fit_grid(&g, (float[]){0x1.fp17F}, 1, &s, &z), PARE_GRID_OK);
    ck_assert_float_eq(s, 0x1p15F); /* the last power of F16 */
}
END_TEST

enum { NV_ROWS = 24, NV_K = 64, NV_GROUPS = NV_K / 16 };

/* Rows from tiny to large, the last two groups of a row at the ends of what E4M3 holds, one group
 * of zeros. */
static void draw_nvfp4(float w[NV_ROWS * NV_K], float cost[NV_K])
{
    for (size_t i = 0; i < (size_t)NV_ROWS * NV_K; i++)
        w[i] = draw(9000 + i) * ldexpf(1, (int)(i / NV_K) - 12);
    for (size_t j = 0; j < 16; j++) {
        w[7 * NV_K + 32 + j] *= 0x1p-9F;
        w[7 * NV_K + 48 + j] *= 0x1p9F;
        w[3 * NV_K + j] = 0;
    }
    for (size_t j = 0; j < NV_K; j++)
        cost[j] = fabsf(draw(8000 + j)) * (j % 5 == 0 ? 20.0F : 0.5F);
}

static double cost_of(const float *w, const float *cost, float scale)
{
    double sum = 0;
    for (size_t j = 0; j < 16; j++)
        sum += (cost ? (double)cost[j] : 1) * least(w[j], scale);
    return sum;
}

/* No other scale of E4M3 costs less; without a search it is the nearest to max |w| / 6. */
static void check_nvfp4_group(const pare_codes *c, size_t i, const float *w, const float *cost,
                              pare_clip clip)
{
    const float *const e4m3 = pare_levels_e4m3;
    const float s = c->scales[i];
    float a = 0;
    for (size_t j = 0; j < 16; j++)
        a = fmaxf(a, fabsf(w[j]));
    ck_assert_float_eq(e4m3[c->scale_codes[i]] * c->scale_factor, s);
    ck_assert_int_eq(s == 0, a == 0);
    for (unsigned code = 1; a > 0 && code < 127; code++) {
        const float other = e4m3[code] * c->scale_factor;
        if (clip == PARE_CLIP_NONE)
            ck_assert_float_ge(fabsf(other - a / 6), fabsf(s - a / 6));
        else if (other > 0.8F * a / 6 && other < a / 4)
            ck_assert_double_ge(cost_of(w, clip == PARE_CLIP_WEIGHTED ? cost : NULL, other),
                                cost_of(w, clip == PARE_CLIP_WEIGHTED ? cost : NULL, s));
    }
}

START_TEST(nvfp4_scales_are_small_floats_times_a_power_of_two)
{
    static const pare_clip clip[] = {PARE_CLIP_NONE, PARE_CLIP_MSE, PARE_CLIP_WEIGHTED};
    float w[NV_ROWS * NV_K], cost[NV_K], most = 0;
    pare_ctx cx;
    pare_arena a;
    pare_codes c;
    pare_grid g = nvfp4;
    g.clip = clip[_i];
    pare_ctx_init(&cx);
    draw_nvfp4(w, cost);
    ck_assert_int_eq(pare_arena_init(&cx, &a, 0), PARE_OK);
    ck_assert_int_eq(pare_codes_take(&a, &g, NV_ROWS, NV_K, &c), PARE_OK);
    ck_assert_int_eq(pare_scales_fit(&cx, &g, w, cost, NV_ROWS, NV_K, &c), PARE_OK);
    for (size_t i = 0; i < (size_t)NV_ROWS * NV_GROUPS; i++) {
        most = fmaxf(most, c.scales[i]);
        check_nvfp4_group(&c, i, w + 16 * i, cost + 16 * (i % NV_GROUPS), g.clip);
    }
    ck_assert(most <= 448 * c.scale_factor && most > 224 * c.scale_factor);
    ck_assert_double_eq(log2((double)c.scale_factor), rint(log2((double)c.scale_factor)));
    ck_assert_uint_eq(c.scale_codes[3 * NV_GROUPS], 0);
    pare_arena_release(&a);
}
END_TEST

START_TEST(nvfp4_says_which_group_is_too_large)
{
    float w[2 * 32] = {0};
    pare_ctx cx;
    pare_arena a;
    pare_codes c;
    pare_ctx_init(&cx);
    ck_assert_int_eq(pare_arena_init(&cx, &a, 0), PARE_OK);
    ck_assert_int_eq(pare_codes_take(&a, &nvfp4, 2, 32, &c), PARE_OK);
    ck_assert_int_eq(pare_scales_fit(&cx, &nvfp4, w, NULL, 2, 32, &c), PARE_OK);
    ck_assert_float_eq(c.scale_factor, 0x1p-15F); /* of zeros: the smallest */
    w[50] = -6 * 57344.0F;
    w[3] = 1e-30F;
    ck_assert_int_eq(pare_scales_fit(&cx, &nvfp4, w, NULL, 2, 32, &c), PARE_OK);
    ck_assert_float_eq(c.scale_factor, 0x1p7F);
    ck_assert_uint_eq(c.scale_codes[3], 126);
    ck_assert_uint_eq(c.scale_codes[0], 1); /* never 0 for weights that are not */
    w[50] = -6.1F * 57344.0F;
    ck_assert_int_eq(pare_scales_fit(&cx, &nvfp4, w, NULL, 2, 32, &c), PARE_ENUMERIC);
    ck_assert_ptr_nonnull(strstr(cx.what, "row 1, group 1: scale 58299.7 is above"));
    pare_ctx_clear(&cx);
    w[50] = NAN;
    ck_assert_int_eq(pare_scales_fit(&cx, &nvfp4, w, NULL, 2, 32, &c), PARE_ENUMERIC);
    ck_assert_ptr_nonnull(strstr(cx.what, "row 1, group 1: weight nan is not finite"));
    pare_ctx_clear(&cx);
    pare_arena_release(&a);
}
END_TEST

START_TEST(ternary_rounds_by_the_mean_magnitude)
{
    const float w[] = {0.5F, -1.5F, 0.25F, 1.75F}; /* mean magnitude 1 */
    const unsigned want[] = {1, 0, 1, 2};          /* 0.5 rounds to even */
    float s, q[4];
    uint8_t z;
    ck_assert_int_eq(fit_grid(&ternary, w, 4, &s, &z), PARE_GRID_OK);
    ck_assert_float_eq(s, 1);
    for (size_t j = 0; j < 4; j++)
        ck_assert_uint_eq(pare_grid_encode(&ternary, 0, w[j], s, z), want[j]);
    ck_assert_int_eq(round_grid(&ternary, 0, w, 4, q), PARE_GRID_OK);
    for (size_t j = 0; j < 4; j++)
        ck_assert_float_eq(q[j], (float)want[j] - 1);
    ck_assert_int_eq(fit_grid(&ternary, (float[]){0, 0}, 2, &s, &z), PARE_GRID_OK);
    ck_assert_float_eq(pare_grid_decode(&ternary, 0, pare_grid_encode(&ternary, 0, 0, s, z), s, z),
                       0);
}
END_TEST

START_TEST(codebook_takes_the_nearest_entry_of_the_row)
{
    float book[2 * 8];
    for (size_t i = 0; i < 16; i++)
        book[i] = (float)(i < 8 ? i * i : i) - 8;
    const pare_grid g = {.bits = 3, .encoding = PARE_ENCODING_CODEBOOK, .book = book};
    for (uint64_t i = 0; i < 4000; i++) {
        const size_t row = i % 2;
        const float w = draw(i) * 15;
        unsigned best = 0;
        for (unsigned c = 1; c < 8; c++)
            if (fabsf(w - book[row * 8 + c]) < fabsf(w - book[row * 8 + best]))
                best = c;
        const uint8_t code = pare_grid_encode(&g, row, w, 1, 0);
        ck_assert_uint_eq(code, best);
        ck_assert_float_eq(pare_grid_decode(&g, row, code, 1, 0), book[row * 8 + best]);
    }
}
END_TEST

START_TEST(rounding_a_group_equals_fit_encode_decode)
{
    const pare_grid grids[] = {{.bits = 3, .clip = PARE_CLIP_MSE, .f16_scales = true},
                               {.bits = 4, .symmetric = true},
                               nf4,
                               fp8,
                               mxfp4,
                               nvfp4,
                               ternary};
    float w[32], q[32];
    for (size_t i = 0; i < sizeof grids / sizeof *grids; i++) {
        for (size_t j = 0; j < 32; j++)
            w[j] = draw(i * 32 + j);
        float s;
        uint8_t z;
        ck_assert_int_eq(fit_grid(&grids[i], w, 32, &s, &z), PARE_GRID_OK);
        ck_assert_int_eq(round_grid(&grids[i], 0, w, 32, q), PARE_GRID_OK);
        for (size_t j = 0; j < 32; j++) {
            const uint8_t c = pare_grid_encode(&grids[i], 0, w[j], s, z);
            ck_assert_float_eq(q[j], pare_grid_decode(&grids[i], 0, c, s, z));
            ck_assert_float_le(fabsf(q[j] - w[j]), fabsf(w[j]) + s);
        }
    }
    ck_assert_int_eq(round_grid(&fp8, 0, (float[]){NAN}, 1, q), PARE_GRID_NOT_FINITE);
}
END_TEST

START_TEST(values_add_outliers_and_sparse_weights)
{
    const pare_grid g = {.bits = 4, .group = 32};
    pare_codes c = {.n = 2, .k = 4, .groups = 1, .outliers = 1, .sparse = 1};
    c.codes = (uint8_t[]){1, 2, 3, 4, 5, 6, 7, 8};
    c.scales = (float[]){0.5F, 2};
    c.zeros = (uint8_t[]){2, 8};
    c.outlier_column = (uint32_t[]){2};
    c.outlier_weight = (float[]){9, -9};
    c.sparse_start = (uint32_t[]){0, 0, 1};
    c.sparse_column = (uint32_t[]){3};
    c.sparse_value = (float[]){0.25F};
    float dst[8];
    pare_codes_values(&g, &c, dst);
    ck_assert_mem_eq(dst, ((float[]){-0.5F, 0, 9, 1, -6, -4, -9, 0.25F}), sizeof dst);
    c.outlier_weight = NULL;
    c.outlier_code = (int8_t[]){-3, 4};
    c.outlier_scale = (float[]){0.5F, 0.25F};
    pare_codes_values(&g, &c, dst);
    ck_assert_mem_eq(dst, ((float[]){-0.5F, 0, -1.5F, 1, -6, -4, 1, 0.25F}), sizeof dst);

    const pare_grid binary = {.bits = 2, .encoding = PARE_ENCODING_BINARY};
    pare_codes b = {.n = 1, .k = 4, .groups = 1};
    b.codes = (uint8_t[]){0, 3, 1, 2};
    b.book = (float[]){1, 2, 4, 0.5F};
    b.salient = (uint8_t[]){0, 0, 1, 1};
    pare_codes_values(&binary, &b, dst);
    ck_assert_mem_eq(dst, ((float[]){-1, 2, 3.5F, -3.5F}), 4 * sizeof *dst);
}
END_TEST

START_TEST(check_refuses_what_does_not_go_together)
{
    const struct {
        pare_grid g;
        const char *what;
    } bad[] = {
        {{.bits = 3, .encoding = PARE_ENCODING_NF4}, "3 bits"},
        {{.bits = 4, .encoding = PARE_ENCODING_FP8}, "4 bits"},
        {{.bits = 3, .encoding = PARE_ENCODING_TERNARY}, "3 bits"},
        {{.bits = 8, .encoding = PARE_ENCODING_CODEBOOK}, "8 bits"},
        {{.bits = 4, .encoding = PARE_ENCODING_NF4, .clip = PARE_CLIP_MSE}, "clip"},
        {{.bits = 4, .encoding = PARE_ENCODING_MXFP4, .group = 64}, "groups of 32"},
        {{.bits = 4, .encoding = PARE_ENCODING_NVFP4, .group = 32}, "groups of 16"},
        {{.bits = 4, .encoding = PARE_ENCODING_CODEBOOK}, "codebook"},
        {{.bits = 4, .tensor = true}, "ternary"},
    };
    pare_ctx cx;
    pare_ctx_init(&cx);
    const pare_codes c = {.n = 2, .k = 32, .groups = 1};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        ck_assert_int_eq(pare_grid_check(&cx, &bad[i].g, 2, 32, &c), PARE_EINVAL);
        ck_assert_ptr_nonnull(strstr(cx.what, bad[i].what));
        pare_ctx_clear(&cx);
    }
    ck_assert_int_eq(pare_grid_check(&cx, &mxfp4, 2, 32, &c), PARE_OK);
    const pare_codes odd = {.n = 2, .k = 56, .groups = 4}, even = {.n = 2, .k = 48, .groups = 4};
    ck_assert_int_eq(pare_grid_check(&cx, &nvfp4, 2, 48, &even), PARE_OK);
    ck_assert_int_eq(pare_grid_check(&cx, &nvfp4, 2, 56, &odd), PARE_ESHAPE);
    ck_assert_str_eq(cx.what, "NVFP4 needs rows of a multiple of 16 weights, this one has 56: take "
                              "mxfp4"); /* the planner goes on from here */
    pare_ctx_clear(&cx);
}
END_TEST

START_TEST(planes_of_every_encoding_survive_failed_allocations)
{
    static const float book[2 * 16];
    const pare_grid grids[] = {nf4,
                               nvfp4,
                               {.bits = 4, .encoding = PARE_ENCODING_CODEBOOK, .book = book},
                               {.bits = 2, .group = 128, .encoding = PARE_ENCODING_BINARY}};
    for (size_t i = 0; i < sizeof grids / sizeof *grids; i++)
        for (long n = 0, done = 0; !done; n++) {
            pare_ctx cx;
            pare_ctx_init(&cx);
            unit_failing f = {.left = n};
            cx.alloc = (pare_alloc){unit_failing_resize, &f};
            pare_arena a;
            pare_codes c;
            pare_status s = pare_arena_init(&cx, &a, 0);
            if (s == PARE_OK)
                s = pare_codes_take(&a, &grids[i], 3000, 1000, &c);
            done = s == PARE_OK;
            if (!done)
                ck_assert_int_eq(s, PARE_ENOMEM);
            else
                ck_assert(!c.salient == (i != 3) && !c.book == (i < 2) &&
                          !c.scale_codes == (i > 1));
            pare_arena_release(&a);
            ck_assert_int_eq(f.live, 0);
        }
}
END_TEST

int main(void)
{
    Suite *const s = suite_create("grid_levels");
    TCase *const t = tcase_create("grid_levels");
    tcase_add_test(t, nf4_has_the_published_levels_and_takes_the_nearest);
    tcase_add_test(t, fp8_decodes_all_256_patterns);
    tcase_add_test(t, fp8_rounds_half_to_even_and_saturates);
    tcase_add_test(t, fp8_scale_puts_the_largest_weight_on_448);
    tcase_add_test(t, mxfp4_follows_the_rule_of_the_specification);
    tcase_add_loop_test(t, mxfp4_takes_the_power_whose_errors_cost_less, 0, 2);
    tcase_add_loop_test(t, nvfp4_scales_are_small_floats_times_a_power_of_two, 0, 3);
    tcase_add_test(t, nvfp4_says_which_group_is_too_large);
    tcase_add_test(t, ternary_rounds_by_the_mean_magnitude);
    tcase_add_test(t, codebook_takes_the_nearest_entry_of_the_row);
    tcase_add_test(t, rounding_a_group_equals_fit_encode_decode);
    tcase_add_test(t, values_add_outliers_and_sparse_weights);
    tcase_add_test(t, check_refuses_what_does_not_go_together);
    tcase_add_test(t, planes_of_every_encoding_survive_failed_allocations);
    suite_add_tcase(s, t);
    return unit_main(s);
}
