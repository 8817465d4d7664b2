/* Values of blocks made by hand, by the formula of each type with one element at a time. */
#include <math.h>
#include <string.h>

#include "formats/ggml_internal.h"
#include "kernels/half.h"
#include "tests/unit/unit.h"

static uint8_t block[256];
static float x[256];

static void put16(size_t at, unsigned v)
{
    block[at] = (uint8_t)v;
    block[at + 1] = (uint8_t)(v >> 8);
}

static void put32(size_t at, uint32_t v)
{
    put16(at, v & 0xffff);
    put16(at + 2, v >> 16);
}

static void put_f16(size_t at, float v)
{
    put16(at, pare_f32_to_f16(v));
}

static void decode(const char *type)
{
    const pare_ggml_type *const t = pare_ggml_type_named(type);
    ck_assert_msg(t && t->codec, "%s", type);
    pare_ggml_decode(t, block, 1, x);
}

static void is(size_t i, double want)
{
    ck_assert_msg((double)x[i] == want, "element %zu is %g, not %g", i, (double)x[i], want);
}

static void begin(void)
{
    memset(block, 0, sizeof block);
}

START_TEST(q2_k_has_a_step_and_an_offset_for_16)
{
    block[0] = 3 | 5 << 4;           /* of elements 0..15 */
    block[9] = 15 | 1 << 4;          /* of elements 144..159 */
    block[16 + 2] = 1 << 0 | 3 << 2; /* elements 2 and 34 */
    block[16 + 32 + 16] = 2;         /* element 144 */
    put_f16(80, 0.5f);
    put_f16(82, 0.25f);
    decode("Q2_K");
    is(2, 0.5 * 3 * 1 - 0.25 * 5);
    is(0, -0.25 * 5);
    is(34, 0); /* its step is 0 */
    is(144, 0.5 * 15 * 2 - 0.25);
    is(145, -0.25);
}
END_TEST

START_TEST(q3_k_has_a_third_bit_and_scales_of_6)
{
    block[5] = 1 << 7;           /* third bit of element 224 + 5 */
    block[32 + 32 + 5] = 2 << 6; /* its lower ones */
    block[96 + 6] = 9 << 4;      /* low bits of scale 14 */
    block[96 + 8 + 2] = 2 << 6;  /* and its high ones: 41 - 32 */
    put_f16(108, 0.5f);
    decode("Q3_K");
    is(229, 0.5 * 9 * (6 - 4));
    is(224, 0.5 * 9 * (0 - 4));
    is(0, 0.5 * -32 * (0 - 4));
}
END_TEST

START_TEST(levels_of_4_bits_are_uneven)
{
    put_f16(0, 2);
    block[2] = 0x0f;
    block[17] = 0x80;
    decode("IQ4_NL");
    is(0, 2 * 113);
    is(16, 2 * -127);
    is(15, 2 * -127);
    is(31, 2 * 1);
    begin();
    put_f16(0, 0.25f);
    put16(2, 3 << 6); /* high bits of scale 3 */
    block[4 + 1] = 7 << 4;
    block[8 + 16 * 3 + 1] = 0x90;
    decode("IQ4_XS");
    is(96 + 16 + 1, 0.25 * (7 + 48 - 32) * 13);
    is(96 + 1, 0.25 * (7 + 48 - 32) * -127);
    is(0, 0.25 * -32 * -127);
}
END_TEST

START_TEST(mxfp4_has_floats_of_4_bits)
{
    static const double level[] = {0, 0.5, 1, 1.5, 2, 3, 4, 6};
    for (unsigned e = 0; e < 256; e++) {
        block[0] = (uint8_t)e;
        for (size_t j = 0; j < 16; j++)
            block[1 + j] = (uint8_t)(j | (15 - j) << 4);
        decode("MXFP4");
        for (size_t j = 0; j < 8; j++) {
            const double v = (double)(float)ldexp(level[j], (int)e - 127);
            is(j, v);
            is(16 + 7 - j, -v);
        }
    }
}
END_TEST

START_TEST(nvfp4_has_a_scale_for_16)
{
    static const double level[] = {0, 0.5, 1, 1.5, 2, 3, 4, 6};
    for (unsigned c = 0; c < 256; c++) { /* no sign; 0x7f is 0, 0xff a number */
        const int exponent = (int)(c % 128 / 8), fraction = (int)(c % 8);
        const double scale = c == 0x7f  ? 0
                             : exponent ? ldexp(8 + fraction, exponent - 10)
                                        : ldexp(fraction, -9);
        begin();
        block[c % 4] = (uint8_t)c;
        for (size_t j = 0; j < 32; j++)
            block[4 + j] = (uint8_t)(j % 8 | (15 - j % 8) << 4);
        decode("NVFP4");
        for (size_t j = 0; j < 64; j++) {
            const double v = j % 16 < 8 ? level[j % 8] : -level[7 - j % 8];
            is(j, j / 16 == c % 4 ? v * scale : 0);
        }
    }
}
END_TEST

/* The first points of the grids of 2 bits are all 8, and of the grid of 1 bit all -1. */
START_TEST(points_of_grids_have_signs_and_scales)
{
    put_f16(0, 4);
    put32(2 + 4, 5u << 28 | 1u << 7); /* run 1: element 0, and by parity element 7, are negative */
    decode("IQ2_XXS");
    is(0, 4 * 5.5 / 4 * 8);
    is(8, -4 * 5.5 / 4 * 8);
    is(9, 4 * 5.5 / 4 * 8);
    is(15, -4 * 5.5 / 4 * 8);
    begin();
    put_f16(0, 4);
    put16(2 + 2 * 31, 127 << 9);
    block[66 + 7] = 2 << 4;
    decode("IQ2_XS");
    is(248, -4 * 2.5 / 4 * 8);
    is(255, -4 * 2.5 / 4 * 8);
    is(0, 4 * 0.5 / 4 * 8);
    begin();
    put_f16(0, 4);
    block[34 + 1] = 1 << 3;
    decode("IQ2_S");
    is(8 + 3, -4 * 0.5 / 4 * 8);
    is(8 + 7, 4 * 0.5 / 4 * 8);
    begin();
    put_f16(0, 4);
    put32(66, 1u << 28 | 1u << 4);
    decode("IQ3_XXS");
    is(4, -4 * 1.5 / 2 * 4);
    is(7, -4 * 1.5 / 2 * 4);
    is(3, 4 * 1.5 / 2 * 4);
    begin();
    put_f16(0, 4);
    block[2 + 1] = 1; /* (3, 1, 1, 1) */
    block[74] = 1 << 4;
    block[106] = 3;
    decode("IQ3_S");
    is(4, -4 * 7 * 3);
    is(5, 4 * 7);
    is(32, 4 * 1);
    begin();
    put_f16(0, 4);
    put16(34, 1 << 15 | 3 << 12);
    decode("IQ1_S");
    is(0, 4 * 7 * (-1 - 0.125));
    is(32, 4 * 1 * (-1 + 0.125));
    begin();
    for (size_t i = 0; i < 4; i++) /* 4 is 0x4400 */
        put16(48 + 2 * i, (0x4400u >> 4 * i & 15) << 12 | (i == 3 ? 6u << 9 : 0));
    block[32 + 15] = 8 << 4;
    decode("IQ1_M");
    is(255, 4 * 13 * (-1 - 0.125));
    is(247, 4 * 13 * (-1 + 0.125));
    is(0, 4 * (-1 + 0.125));
}
END_TEST

static void decode_f64(double v)
{
    memcpy(block, &v, sizeof v);
    decode("F64");
}

START_TEST(doubles_are_rounded)
{
    decode_f64(0.1);
    is(0, (double)0.1f);
    decode_f64(-1e300);
    ck_assert(isinf(x[0]) && x[0] < 0);
    decode_f64((double)NAN);
    ck_assert(isnan(x[0]));
}
END_TEST

/* As many as the formats have. */
START_TEST(grids_have_their_points)
{
    static const struct {
        const pare_ggml_codec *codec;
        size_t points;
    } rows[] = {{&pare__ggml_iq2_xxs, 256}, {&pare__ggml_iq2_xs, 512}, {&pare__ggml_iq2_s, 1024},
                {&pare__ggml_iq3_xxs, 256}, {&pare__ggml_iq3_s, 512},  {&pare__ggml_iq1_s, 2048},
                {&pare__ggml_iq1_m, 2048}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        uint16_t point[PARE__GGML_POINTS + 1] = {0};
        size_t n = 0;
        for (size_t w = 0; w < rows[i].codec->grid_words; w++)
            n += (size_t)__builtin_popcountll(rows[i].codec->grid[w]);
        ck_assert_uint_eq(n, rows[i].points);
        pare__ggml_points(rows[i].codec->grid, rows[i].codec->grid_words, point);
        for (size_t j = 1; j < n; j++)
            ck_assert_uint_gt(point[j], point[j - 1]);
        ck_assert_uint_eq(point[PARE__GGML_POINTS], 0);
        ck_assert_uint_lt(point[n - 1], 6561);
    }
}
END_TEST

int main(void)
{
    Suite *const s = suite_create("ggml_read");
    TCase *const t = tcase_create("ggml_read");
    tcase_add_checked_fixture(t, begin, NULL);
    tcase_add_test(t, q2_k_has_a_step_and_an_offset_for_16);
    tcase_add_test(t, q3_k_has_a_third_bit_and_scales_of_6);
    tcase_add_test(t, levels_of_4_bits_are_uneven);
    tcase_add_test(t, mxfp4_has_floats_of_4_bits);
    tcase_add_test(t, nvfp4_has_a_scale_for_16);
    tcase_add_test(t, points_of_grids_have_signs_and_scales);
    tcase_add_test(t, doubles_are_rounded);
    tcase_add_test(t, grids_have_their_points);
    suite_add_tcase(s, t);
    return unit_main(s);
}
