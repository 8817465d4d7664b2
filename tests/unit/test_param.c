#include <math.h>
#include <string.h>

#include "recipes/recipe_internal.h"
#include "tests/unit/recipe_case.h"
#include "tests/unit/unit.h"

static const struct {
    double value;
    const char *text;
} printed[] = {{0, "0"},
               {-0.0, "0"},
               {4, "4"},
               {-17, "-17"},
               {0.01, "0.01"},
               {0.5, "0.5"},
               {1.0 / 3, "0.3333333333333333"},
               {1e-5, "0.00001"},
               {1e-6, "1e-6"},
               {1.5e-7, "1.5e-7"},
               {-2.25, "-2.25"},
               {1e15, "1e15"},
               {1e22, "1e22"},
               {123456.75, "123456.75"},
               {1048576, "1048576"},
               {999999999999999.0, "999999999999999"},
               {1.7976931348623157e308, "1.7976931348623157e308"},
               {5e-324, "5e-324"},
               {INFINITY, "inf"},
               {-INFINITY, "-inf"},
               {NAN, "nan"}};

START_TEST(numbers_are_printed_with_the_fewest_digits)
{
    char text[PARE__NUMBER];
    pare__number_print(printed[_i].value, text);
    ck_assert_str_eq(text, printed[_i].text);
}
END_TEST

static const struct {
    const char *text;
    bool whole;
    pare__decimal kind;
    double value;
} numbers[] = {{"0", true, PARE__DECIMAL, 0},
               {"-0", true, PARE__DECIMAL, 0},
               {"12", true, PARE__DECIMAL, 12},
               {"-12", true, PARE__DECIMAL, -12},
               {"1000", true, PARE__DECIMAL, 1000},
               {"1002003", true, PARE__DECIMAL, 1002003},
               {"0.01", false, PARE__DECIMAL, 0.01},
               {"0.010", false, PARE__DECIMAL, 0.01},
               {"1e-3", false, PARE__DECIMAL, 1e-3},
               {"2.5E+3", false, PARE__DECIMAL, 2500},
               {"1e22", false, PARE__DECIMAL, 1e22},
               {"0e999999999999", false, PARE__DECIMAL, 0},
               {"0.0000000000000000000001", false, PARE__DECIMAL, 1e-22},
               {"123456789012345", true, PARE__DECIMAL, 123456789012345.0},
               {"1234567890123456", true, PARE__DECIMAL_LONG, 0},
               {"0.1000000000000001", false, PARE__DECIMAL_LONG, 0},
               {"1e23", false, PARE__DECIMAL_LONG, 0},
               {"1e-23", false, PARE__DECIMAL_LONG, 0},
               {"1e99999999999999999999", false, PARE__DECIMAL_LONG, 0},
               {"10e22", false, PARE__DECIMAL_LONG, 0},
               {"", true, PARE__DECIMAL_NOT, 0},
               {"-", true, PARE__DECIMAL_NOT, 0},
               {"+1", true, PARE__DECIMAL_NOT, 0},
               {"01", true, PARE__DECIMAL_NOT, 0},
               {"0x10", false, PARE__DECIMAL_NOT, 0},
               {"1_000", true, PARE__DECIMAL_NOT, 0},
               {"1.0", true, PARE__DECIMAL_NOT, 0},
               {"1e6", true, PARE__DECIMAL, 1e6},
               {"1e12", true, PARE__DECIMAL, 1e12},
               {"1.50e3", true, PARE__DECIMAL, 1500},
               {"120e-1", true, PARE__DECIMAL, 12},
               {"0e5", true, PARE__DECIMAL, 0},
               {"1.25e1", true, PARE__DECIMAL_NOT, 0},
               {"1e-1", true, PARE__DECIMAL_NOT, 0},
               {"1.", true, PARE__DECIMAL_NOT, 0},
               {".5", false, PARE__DECIMAL_NOT, 0},
               {"5.", false, PARE__DECIMAL_NOT, 0},
               {"1e", false, PARE__DECIMAL_NOT, 0},
               {"1e+", false, PARE__DECIMAL_NOT, 0},
               {"1e3x", false, PARE__DECIMAL_NOT, 0},
               {"1,5", false, PARE__DECIMAL_NOT, 0},
               {"inf", false, PARE__DECIMAL_NOT, 0},
               {"nan", false, PARE__DECIMAL_NOT, 0},
               {"1 ", true, PARE__DECIMAL_NOT, 0}};

START_TEST(numbers_are_plain_decimals)
{
    double value = 77;
    ck_assert_int_eq(pare__number(numbers[_i].text, numbers[_i].whole, &value), numbers[_i].kind);
    if (numbers[_i].kind == PARE__DECIMAL) {
        ck_assert(value == numbers[_i].value);
        ck_assert(!signbit(value) || value < 0);
    }
}
END_TEST

/* Every number of 15 digits that can be read is printed as text that reads back as the same. */
START_TEST(numbers_survive_being_printed_and_read)
{
    uint64_t state = 12345;
    for (int i = 0; i < 20000; i++) {
        state = state * 6364136223846793005u + 1442695040888963407u;
        const uint64_t digits = (state >> 11) % 1000000000000000u;
        char text[64], back[PARE__NUMBER];
        (void)snprintf(text, sizeof text, "%llue%d", (unsigned long long)digits,
                       (int)(state % 42) - 21);
        double value, again;
        if (pare__number(text, false, &value) != PARE__DECIMAL)
            continue;
        ck_assert(value == strtod(text, NULL));
        pare__number_print(value, back);
        ck_assert_msg(pare__number(back, false, &again) == PARE__DECIMAL, "%s %s", text, back);
        ck_assert_msg(again == value, "%s %s", text, back);
    }
}
END_TEST

START_TEST(values_are_printed_as_a_recipe_would_write_them)
{
    const struct {
        const pare_param *p;
        double value;
        const char *text;
    } rows[] = {{&recipe_gptq[0], 4, "4"},      {&recipe_gptq[1], 0, "row"},
                {&recipe_gptq[1], 128, "128"},  {&recipe_gptq[2], 1, "true"},
                {&recipe_gptq[2], 0, "false"},  {&recipe_gptq[3], 1, "mse"},
                {&recipe_gptq[7], 0.01, "0.01"}};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        char text[32];
        pare_param_print(rows[i].p, rows[i].value, text, sizeof text);
        ck_assert_str_eq(text, rows[i].text);
    }
    ck_assert_uint_eq(pare_param_count(recipe_rtn), 5);
    ck_assert_uint_eq(pare_param_count(recipe_gptq), 12);
    char small[3];
    pare_param_print(&recipe_gptq[1], 128, small, sizeof small);
    ck_assert_str_eq(small, "12");
}
END_TEST

static const struct {
    const char *text;
    uint64_t bytes; /* 0: refused */
} sizes[] = {{"8GiB", UINT64_C(8) << 30},
             {"1B", 1},
             {"4096", 4096},
             {"3KB", 3000},
             {"3MB", 3000000},
             {"3GB", 3000000000},
             {"3KiB", 3072},
             {"3MiB", 3145728},
             {"18446744073709551615", UINT64_MAX},
             {"17179869183GiB", UINT64_C(17179869183) << 30},
             {"17179869184GiB", 0},
             {"18446744073709551616", 0},
             {"0", 0},
             {"", 0},
             {"GiB", 0},
             {"8 GiB", 0},
             {"8gib", 0},
             {"-8GiB", 0},
             {"08GiB", 0},
             {"1.5GiB", 0},
             {"8GiBs", 0},
             {"0000000000000000000000000000000000000008", 0}};

START_TEST(sizes_take_a_unit)
{
    uint64_t bytes = 0;
    ck_assert(pare_bytes_parse(sizes[_i].text, &bytes) == (sizes[_i].bytes != 0));
    if (sizes[_i].bytes)
        ck_assert_uint_eq(bytes, sizes[_i].bytes);
}
END_TEST

START_TEST(quoted_texts_and_lists_are_cut)
{
    char text[200], quoted[PARE__QUOTE], list[PARE__LIST];
    memset(text, '\x01', sizeof text - 1);
    text[sizeof text - 1] = '\0';
    ck_assert_uint_lt(strlen(pare__quote(quoted, text)), PARE__QUOTE);
    ck_assert_str_eq(quoted + strlen(quoted) - 8, "\\x01...\"");
    ck_assert_str_eq(pare__quote(quoted, ""), "\"\"");
    memset(text, 'a', sizeof text - 1);
    const char *const words[] = {text, text, text, "b"};
    ck_assert_str_eq(pare__list(list, words + 3, 1), "b");
    ck_assert_str_eq(pare__list(list, words, 0), "");
    ck_assert_uint_eq(strlen(pare__list(list, words, 4)), 199 + 2 + 199 + 5);
    ck_assert_str_eq(list + 400, ", ...");
}
END_TEST

int main(void)
{
    Suite *const s = suite_create("param");
    TCase *const t = tcase_create("param");
    tcase_add_loop_test(t, numbers_are_printed_with_the_fewest_digits, 0,
                        sizeof printed / sizeof printed[0]);
    tcase_add_loop_test(t, numbers_are_plain_decimals, 0, sizeof numbers / sizeof numbers[0]);
    tcase_add_test(t, numbers_survive_being_printed_and_read);
    tcase_add_test(t, values_are_printed_as_a_recipe_would_write_them);
    tcase_add_loop_test(t, sizes_take_a_unit, 0, sizeof sizes / sizeof sizes[0]);
    tcase_add_test(t, quoted_texts_and_lists_are_cut);
    suite_add_tcase(s, t);
    return unit_main(s);
}
