#include <math.h>
#include <string.h>

#include "kernels/half.h"
#include "kernels/kernels.h"
#include "kernels/layout.h"
#include "kernels/levels.h"
#include "tests/unit/unit.h"

enum { ROWS = 37, COLUMNS = 83, LDC = 90, GROUP = 64, GROUPS = 2 };

static const unsigned widths[] = {2, 3, 4, 8};

static uint32_t next(uint32_t *state)
{
    *state = *state * 1664525u + 1013904223u;
    return *state >> 8;
}

static size_t packed_bytes(size_t n, size_t k, unsigned bits)
{
    return pare_round_up(n, PARE_PAD_N) / 8 * (pare_round_up(k, 32) / 32) * pare_atom_bytes(bits);
}

START_TEST(unpacking_gives_back_what_was_packed)
{
    const unsigned bits = widths[_i];
    static uint8_t codes[ROWS * LDC], packed[48 * 96], back[ROWS * LDC];
    uint32_t state = 7;
    for (size_t i = 0; i < sizeof codes; i++)
        codes[i] = (uint8_t)(next(&state) & ((1u << bits) - 1));
    ck_assert_uint_le(packed_bytes(ROWS, COLUMNS, bits), sizeof packed);
    pare_pack_codes(packed, codes, LDC, ROWS, COLUMNS, bits, NULL, 0, 1);
    memset(back, 0xee, sizeof back);
    pare_unpack_codes(back, LDC, packed, ROWS, COLUMNS, bits);
    for (size_t r = 0; r < ROWS; r++)
        for (size_t j = 0; j < LDC; j++)
            ck_assert_uint_eq(back[r * LDC + j], j < COLUMNS ? codes[r * LDC + j] : 0xee);
}
END_TEST

START_TEST(padding_holds_zero_points)
{
    const unsigned bits = widths[_i];
    static uint8_t codes[ROWS * LDC], packed[48 * 96], all[48 * 96];
    uint8_t zeros[ROWS * GROUPS];
    memset(codes, 0, sizeof codes);
    for (size_t i = 0; i < sizeof zeros; i++)
        zeros[i] = (uint8_t)(i % 3 + 1);
    pare_pack_codes(packed, codes, LDC, ROWS, COLUMNS, bits, zeros, GROUPS, 2);
    pare_unpack_codes(all, 96, packed, 48, 96, bits);
    for (size_t r = 0; r < 48; r++)
        for (size_t j = 0; j < 96; j++) {
            const uint8_t pad = r < ROWS ? zeros[r * GROUPS + 1] : 2;
            ck_assert_uint_eq(all[r * 96 + j], r < ROWS && j < COLUMNS ? 0 : pad);
        }
    pare_pack_codes(packed, codes, LDC, ROWS, COLUMNS, bits, NULL, 0, 3);
    pare_unpack_codes(all, 96, packed, 48, 96, bits);
    ck_assert_uint_eq(all[COLUMNS], 3);
    ck_assert_uint_eq(all[ROWS * 96], 3);
}
END_TEST

/* One code that is not zero: where its bits lie, by the drawing in layout.h. */
START_TEST(bits_lie_where_the_drawing_says)
{
    static const struct {
        unsigned bits, code;
        size_t row, column, byte;
        unsigned value;
    } cases[] = {
        {4, 0xb, 3, 6, 1 * 32 + 3 * 4 + 2, 0x0b},
        {4, 0xb, 3, 22, 1 * 32 + 3 * 4 + 2, 0xb0},
        {2, 3, 7, 0, 7 * 4, 0x03},
        {2, 2, 0, 13, 1, 0x80},
        {2, 1, 5, 26, 32 + 5 * 4 + 2, 0x10},
        {3, 3, 0, 4, 0, 0x0c},
        {3, 4, 6, 31, 64 + 6 * 4 + 3, 0x80},
        {3, 4, 1, 0, 64 + 4, 0x01},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        uint8_t codes[16 * 32] = {0}, packed[2 * 128] = {0};
        codes[cases[i].row * 32 + cases[i].column] = (uint8_t)cases[i].code;
        pare_pack_codes(packed, codes, 32, 16, 32, cases[i].bits, NULL, 0, 0);
        for (size_t b = 0; b < sizeof packed; b++)
            ck_assert_msg(packed[b] == (b == cases[i].byte ? cases[i].value : 0),
                          "case %zu: byte %zu is %u", i, b, packed[b]);
    }
    uint8_t codes[16 * 32] = {0}, packed[2 * 256];
    codes[2 * 32 + 9] = 255;
    pare_pack_codes(packed, codes, 32, 16, 32, 8, NULL, 0, 0);
    for (size_t b = 0; b < sizeof packed; b++)
        ck_assert_uint_eq(packed[b], b == 2 * 32 + 2 * 4 + 1 ? 0x7f : 0x80);
}
END_TEST

START_TEST(activation_groups_divide_weight_groups)
{
    static const size_t cases[][2] = {{32, 32},  {64, 64},    {96, 96},    {128, 128}, {160, 32},
                                      {192, 96}, {256, 128},  {320, 64},   {352, 32},  {384, 128},
                                      {448, 64}, {4096, 128}, {11008, 128}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        ck_assert_uint_eq(pare_x8_group(cases[i][0]), cases[i][1]);
}
END_TEST

enum { N = 16, K = 192, M = 3, X_GROUP = 32 };

typedef struct product {
    uint8_t codes[N * K], packed[N * K], zeros[N * 3], zero_plane[N * 3];
    uint16_t scale_plane[N * 3];
    float scales[N * 3], x[M * K], x_scales[M * 6], y[M * N];
    int8_t x_codes[M * K];
    int32_t sums[M * 6];
} product;

/* Three groups of 64; planes are [row block][group][8 rows]. */
static void fill(product *p, unsigned bits, const pare_kernels *k)
{
    uint32_t state = 11;
    for (size_t i = 0; i < N * K; i++)
        p->codes[i] = (uint8_t)(next(&state) & ((1u << bits) - 1));
    for (size_t r = 0; r < N; r++)
        for (size_t g = 0; g < 3; g++) {
            const uint16_t half = pare_f32_to_f16(0.01f + (float)(next(&state) % 1000) * 1e-4f);
            const size_t at = r / 8 * 24 + g * 8 + r % 8;
            p->zeros[r * 3 + g] = (uint8_t)(next(&state) & ((1u << bits) - 1));
            p->scales[r * 3 + g] = pare_f16_to_f32(half);
            p->zero_plane[at] = p->zeros[r * 3 + g];
            p->scale_plane[at] = half;
        }
    for (size_t i = 0; i < M * K; i++)
        p->x[i] = (float)(next(&state) % 20001) * 1e-4f - 1.0f;
    pare_pack_codes(p->packed, p->codes, K, N, K, bits, p->zeros, 3, 0);
    for (size_t t = 0; t < M; t++)
        k->quant_x8(p->x_codes + t * K, p->x_scales + t * 6, p->sums + t * 6, p->x + t * K, K,
                    X_GROUP, X_GROUP, 127);
}

/* The value a product should have, in double from plain codes; *terms is the sum of |terms|. */
static double expected(const product *p, size_t t, size_t r, bool symmetric, unsigned bits,
                       double *terms)
{
    double sum = 0.0;
    *terms = 0.0;
    for (size_t j = 0; j < K; j++) {
        const int zero = symmetric ? 1 << (bits - 1) : p->zeros[r * 3 + j / 64];
        const double w = (p->codes[r * K + j] - zero) * (double)p->scales[r * 3 + j / 64];
        const double v = p->x_codes[t * K + j] * (double)p->x_scales[t * 6 + j / X_GROUP];
        sum += w * v;
        *terms += fabs(w * v);
    }
    return sum;
}

/* Group sums are exact; then 6 groups, each with a rounded product of scales and one fused step. */
static void check_product(const product *p, bool symmetric, unsigned bits)
{
    for (size_t t = 0; t < M; t++)
        for (size_t r = 0; r < N; r++) {
            double terms = 0.0;
            const double want = expected(p, t, r, symmetric, bits, &terms);
            ck_assert_msg(fabs((double)p->y[t * N + r] - want) <= 8 * 0x1p-24 * terms,
                          "%u bits, token %zu, row %zu: %.9g, not %.9g", bits, t, r,
                          (double)p->y[t * N + r], want);
        }
}

START_TEST(packed_products_are_what_the_codes_mean)
{
    const unsigned bits = widths[_i / 2];
    const bool symmetric = _i % 2 != 0;
    static product p;
    pare_kernels k;
    pare_kernels_init(&k, 0);
    fill(&p, bits, &k);
    const pare_x8 x = {p.x_codes, p.x_scales, p.sums, M, K, X_GROUP};
    const pare_panel w = {.codes = p.packed,
                          .scales = p.scale_plane,
                          .zeros = symmetric ? NULL : p.zero_plane,
                          .n = N,
                          .k = K,
                          .group = 64};
    void (*const gemm[])(float *, size_t, const pare_x8 *, const pare_panel *) = {
        k.gemm_x8_q2, k.gemm_x8_q3, k.gemm_x8_q4, k.gemm_x8_q8};
    gemm[_i / 2](p.y, N, &x, &w);
    check_product(&p, symmetric, bits);
    static float values[N * K];
    k.dequant_f32(values, K, &w, bits);
    for (size_t r = 0; r < N; r++)
        for (size_t j = 0; j < K; j++) {
            const int zero = symmetric ? 1 << (bits - 1) : p.zeros[r * 3 + j / 64];
            const float want = (float)(p.codes[r * K + j] - zero) * p.scales[r * 3 + j / 64];
            ck_assert(memcmp(&values[r * K + j], &want, sizeof want) == 0);
        }
}
END_TEST

START_TEST(activation_codes_are_nearest)
{
    static product p;
    pare_kernels k;
    pare_kernels_init(&k, 0);
    fill(&p, 4, &k);
    for (size_t i = 0; i < M * K; i++) {
        const double scale = (double)p.x_scales[i / X_GROUP];
        ck_assert_int_ge(p.x_codes[i], -127);
        ck_assert(fabs((double)p.x[i] - p.x_codes[i] * scale) <= scale * (0.5 + 1e-4));
    }
}
END_TEST

/* What is not a number must not come out as one: not at any place, with any kernels. */
START_TEST(a_value_that_is_not_finite_reaches_every_output)
{
    static product p;
    pare_kernels k;
    pare_kernels_init(&k, _i % 2 ? pare_cpu_detect() : 0);
    fill(&p, 4, &k);
    const pare_x8 x = {p.x_codes, p.x_scales, p.sums, M, K, X_GROUP};
    const pare_panel w = {.codes = p.packed,
                          .scales = p.scale_plane,
                          .zeros = p.zero_plane,
                          .n = N,
                          .k = K,
                          .group = 64};
    for (size_t at = 0; at < K; at += 7) {
        const float kept = p.x[K + at];
        p.x[K + at] = _i < 2 ? NAN : _i < 4 ? INFINITY : -INFINITY;
        k.quant_x8(p.x_codes + K, p.x_scales + 6, p.sums + 6, p.x + K, K, X_GROUP, X_GROUP, 127);
        k.gemm_x8_q4(p.y, N, &x, &w);
        for (size_t i = 0; i < M * N; i++)
            ck_assert_int_eq(isfinite(p.y[i]) != 0, i / N != 1);
        p.x[K + at] = kept;
    }
}
END_TEST

/* Higham, section 3.1, with k + 3 roundings at most on the way of a term. */
START_TEST(dense_products_stay_within_the_rounding_bound)
{
    static product p;
    pare_kernels k;
    pare_kernels_init(&k, 0);
    fill(&p, 8, &k);
    k.gemm_f32_f32(p.y, N, p.x, K, p.x, 1, M, N, K - N);
    for (size_t t = 0; t < M; t++)
        for (size_t r = 0; r < N; r++) {
            double want = 0.0, terms = 0.0;
            for (size_t j = 0; j < K - N; j++) {
                want += (double)p.x[t * K + j] * (double)p.x[r + j];
                terms += fabs((double)p.x[t * K + j] * (double)p.x[r + j]);
            }
            ck_assert(fabs((double)p.y[t * N + r] - want) <= (K + 3) * 0x1p-24 * terms);
        }
}
END_TEST

/* Sign, exponent and fraction taken apart as the OCP specifications define them. */
static double small_float(unsigned code, int exponent_bits, int fraction_bits, int bias)
{
    const unsigned fraction = code & ((1u << fraction_bits) - 1);
    const int exponent = (int)(code >> fraction_bits & ((1u << exponent_bits) - 1));
    const double significand = (exponent ? 1.0 : 0.0) + ldexp(fraction, -fraction_bits);
    const double value = ldexp(significand, (exponent ? exponent : 1) - bias);
    return code >> (exponent_bits + fraction_bits) ? -value : value;
}

START_TEST(small_floats_have_the_values_of_their_specification)
{
    for (unsigned c = 0; c < 16; c++) {
        const double want = small_float(c, 2, 1, 1);
        ck_assert((double)pare_levels_e2m1[c] == want);
        ck_assert_int_eq(signbit(pare_levels_e2m1[c]) != 0, signbit(want) != 0);
    }
    for (unsigned c = 0; c < 256; c++) {
        const double want = small_float(c, 4, 3, 7);
        if ((c & 127) == 127)
            ck_assert(isnan(pare_levels_e4m3[c]));
        else
            ck_assert((double)pare_levels_e4m3[c] == want);
        ck_assert_int_eq(signbit(pare_levels_e4m3[c]) != 0, c >= 128);
    }
    ck_assert(pare_levels_e4m3[0x7e] == 448.0f && pare_levels_e2m1[7] == 6.0f);
}
END_TEST

static double normal_cdf(double x)
{
    return 0.5 * erfc(-x * sqrt(0.5));
}

static double normal_quantile(double p)
{
    double lo = -10, hi = 10;
    for (int i = 0; i < 100; i++) {
        const double mid = 0.5 * (lo + hi);
        *(normal_cdf(mid) < p ? &lo : &hi) = mid;
    }
    return 0.5 * (lo + hi);
}

/* Quantiles at even steps from the offset of the paper's code to one half, on either side of 0. */
START_TEST(normal_float_levels_are_quantiles_of_the_normal_distribution)
{
    const double offset = 0.9677083, largest = normal_quantile(offset);
    for (int i = 0; i < 16; i++) {
        const double p =
            i < 7 ? 1 - offset + (offset - 0.5) / 7 * i : 0.5 + (offset - 0.5) / 8 * (i - 7);
        const double want = normal_quantile(p) / largest;
        ck_assert_msg(fabs((double)pare_levels_nf4[i] - want) < 1e-5, "%d: %.9g, not %.9g", i,
                      (double)pare_levels_nf4[i], want);
    }
}
END_TEST

int main(void)
{
    Suite *const s = suite_create("layout");
    TCase *const t = tcase_create("layout");
    tcase_add_loop_test(t, unpacking_gives_back_what_was_packed, 0, 4);
    tcase_add_loop_test(t, padding_holds_zero_points, 0, 4);
    tcase_add_test(t, bits_lie_where_the_drawing_says);
    tcase_add_test(t, activation_groups_divide_weight_groups);
    tcase_add_loop_test(t, packed_products_are_what_the_codes_mean, 0, 8);
    tcase_add_test(t, activation_codes_are_nearest);
    tcase_add_loop_test(t, a_value_that_is_not_finite_reaches_every_output, 0, 6);
    tcase_add_test(t, dense_products_stay_within_the_rounding_bound);
    tcase_add_test(t, small_floats_have_the_values_of_their_specification);
    tcase_add_test(t, normal_float_levels_are_quantiles_of_the_normal_distribution);
    suite_add_tcase(s, t);
    return unit_main(s);
}
