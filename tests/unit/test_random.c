#include "runtime/random.h"

#include <math.h>
#include <string.h>

#include "tests/unit/unit.h"

/* Known answers published with the generator (philox4x32-10): the first two words of the block for
 * counter and key all zeros, all ones, and the digits of pi. */
START_TEST(numbers_equal_the_published_vectors)
{
    const uint64_t ones = UINT64_MAX;
    ck_assert_uint_eq(pare_random_u64(0, 0, 0), 0xe169c58d6627e8d5u);
    ck_assert_uint_eq(pare_random_u64(ones, ones, ones), 0x41c83b0e408f276du);
    ck_assert_uint_eq(
        pare_random_u64(0x299f31d0a4093822u, 0x0370734413198a2eu, 0x85a308d3243f6a88u),
        0x94fdccebd16cfe09u);
}
END_TEST

START_TEST(uniform_numbers_fill_the_unit_interval_evenly)
{
    enum { DRAWS = 40000, BINS = 20 };
    size_t bin[BINS] = {0};
    double chi2 = 0;
    for (uint64_t i = 0; i < DRAWS; i++) {
        const double u = pare_random_unit(5, pare_random_stream("test"), i);
        ck_assert(u >= 0 && u < 1);
        bin[(size_t)(u * BINS)]++;
    }
    for (size_t i = 0; i < BINS; i++) {
        const double d = (double)bin[i] - DRAWS / BINS;
        chi2 += d * d / (DRAWS / BINS);
    }
    ck_assert_double_le(chi2, 43.8); /* 19 degrees of freedom: above it once in 1,000 */
}
END_TEST

/* Mean, variance, skewness and kurtosis, each within five standard errors. */
START_TEST(normal_numbers_have_the_moments_of_a_normal)
{
    enum { DRAWS = 100000 };
    double m[5] = {0};
    for (uint64_t i = 0; i < DRAWS; i++) {
        double x = pare_random_normal(6, 1, i), p = 1;
        for (size_t k = 1; k < 5; k++)
            m[k] += (p *= x) / DRAWS;
    }
    const double e = 5 / sqrt(DRAWS);
    ck_assert_double_le(fabs(m[1]), e);
    ck_assert_double_le(fabs(m[2] - 1), e * sqrt(2));
    ck_assert_double_le(fabs(m[3]), e * sqrt(15));
    ck_assert_double_le(fabs(m[4] - 3), e * sqrt(96));
}
END_TEST

START_TEST(seed_stream_and_index_all_matter)
{
    const uint64_t base = pare_random_u64(1, 2, 3);
    ck_assert_uint_eq(base, pare_random_u64(1, 2, 3));
    ck_assert_uint_ne(base, pare_random_u64(2, 2, 3));
    ck_assert_uint_ne(base, pare_random_u64(1, 3, 3));
    ck_assert_uint_ne(base, pare_random_u64(1, 2, 4));
    ck_assert_uint_ne(base, pare_random_u64(1ull << 32 | 1, 2, 3));
    ck_assert_uint_ne(base, pare_random_u64(1, 1ull << 32 | 2, 3));
    ck_assert_uint_ne(base, pare_random_u64(1, 2, 1ull << 32 | 3));
}
END_TEST

/* Published FNV-1a values. */
START_TEST(streams_are_hashes_of_names)
{
    ck_assert_uint_eq(pare_random_stream(""), 0xcbf29ce484222325u);
    ck_assert_uint_eq(pare_random_stream("a"), 0xaf63dc4c8601ec8cu);
    ck_assert_uint_eq(pare_random_stream("foobar"), 0x85944171f73967e8u);
}
END_TEST

START_TEST(a_choice_is_ascending_without_repeats_and_fair)
{
    enum { TOTAL = 20, DRAWS = 4000 };
    size_t seen[TOTAL] = {0};
    for (uint64_t d = 0; d < DRAWS; d++) {
        size_t picked[5];
        pare_random_choose(d, 1, TOTAL, 5, picked);
        for (size_t i = 0; i < 5; i++) {
            ck_assert(picked[i] < TOTAL && (i == 0 || picked[i] > picked[i - 1]));
            seen[picked[i]]++;
        }
    }
    /* each item in a quarter of the draws; five standard deviations */
    for (size_t i = 0; i < TOTAL; i++)
        ck_assert_double_le(fabs((double)seen[i] - DRAWS / 4.0), 5 * sqrt(DRAWS * 0.25 * 0.75));
    size_t all[TOTAL];
    pare_random_choose(9, 9, TOTAL, TOTAL, all);
    for (size_t i = 0; i < TOTAL; i++)
        ck_assert_uint_eq(all[i], i);
    pare_random_choose(9, 9, TOTAL, 0, NULL);
}
END_TEST

int main(void)
{
    Suite *const s = suite_create("random");
    TCase *const c = tcase_create("random");
    tcase_set_timeout(c, 60);
    tcase_add_test(c, numbers_equal_the_published_vectors);
    tcase_add_test(c, uniform_numbers_fill_the_unit_interval_evenly);
    tcase_add_test(c, normal_numbers_have_the_moments_of_a_normal);
    tcase_add_test(c, seed_stream_and_index_all_matter);
    tcase_add_test(c, streams_are_hashes_of_names);
    tcase_add_test(c, a_choice_is_ascending_without_repeats_and_fair);
    suite_add_tcase(s, c);
    return unit_main(s);
}
