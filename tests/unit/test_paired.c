#include "compress/evaluate/evaluate.h"
#include "compress/evaluate/paired.h"
#include "tests/unit/unit.h"

/* By whole numbers: 2 (sum of C(n, k)) / 2^n. */
static const struct {
    size_t gained, lost;
    double p;
} known[] = {
    {0, 0, 1},
    {1, 0, 1},
    {0, 5, 2.0 / 32},
    {1, 7, 2.0 * (1 + 8) / 256},
    {7, 1, 2.0 * (1 + 8) / 256},
    {4, 4, 1},
    {3, 9, 2.0 * (1 + 12 + 66 + 220) / 4096},
    {5, 15, 2.0 * (1 + 20 + 190 + 1140 + 4845 + 15504) / 1048576},
};

START_TEST(small_tables_have_the_exact_probability)
{
    ck_assert_double_eq_tol(pare_mcnemar(known[_i].gained, known[_i].lost), known[_i].p, 1e-14);
}
END_TEST

/* By the same sum in whole numbers of a thousand bits. */
START_TEST(large_tables_neither_overflow_nor_vanish)
{
    ck_assert_double_eq_tol(pare_mcnemar(480, 520), 0.21744829320414094, 1e-11);
    ck_assert_double_eq_tol(pare_mcnemar(50000, 50000), 1, 1e-9);
    const double p = pare_mcnemar(100, 300);
    ck_assert_double_eq_tol(p, 2.5918869069720767e-24, 1e-34);
    ck_assert_double_eq(p, pare_mcnemar(300, 100));
    ck_assert(pare_mcnemar(0, 5000) >= 0 && pare_mcnemar(0, 5000) < 1e-300);
}
END_TEST

START_TEST(items_of_both_are_compared_by_the_bit_asked_for)
{
    enum { A = PARE_CHOICE_ASKED, R = PARE_CHOICE_RIGHT, N = PARE_CHOICE_RIGHT_NORM };
    static const unsigned char now[] = {A | R, A | R | N, A, A | N, A | R, 0, A | R};
    static const unsigned char baseline[] = {A | R, A, A | R, A, A | N, A | R, 0};
    pare_paired r = pare_choice_paired(now, baseline, 7, PARE_CHOICE_RIGHT);
    ck_assert_uint_eq(r.gained, 2);
    ck_assert_uint_eq(r.lost, 1);
    ck_assert_double_eq(r.p, 1);
    r = pare_choice_paired(now, baseline, 7, PARE_CHOICE_RIGHT_NORM);
    ck_assert_uint_eq(r.gained, 2);
    ck_assert_uint_eq(r.lost, 1);
    r = pare_choice_paired(now, baseline, 2, PARE_CHOICE_RIGHT_NORM);
    ck_assert_uint_eq(r.gained, 1);
    ck_assert_uint_eq(r.lost, 0);
}
END_TEST

int main(void)
{
    Suite *const s = suite_create("paired");
    TCase *const c = tcase_create("paired");
    tcase_add_loop_test(c, small_tables_have_the_exact_probability, 0,
                        sizeof known / sizeof *known);
    tcase_add_test(c, large_tables_neither_overflow_nor_vanish);
    tcase_add_test(c, items_of_both_are_compared_by_the_bit_asked_for);
    suite_add_tcase(s, c);
    return unit_main(s);
}
