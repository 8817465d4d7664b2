#include "compress/run/run_lots.h"
#include "tests/unit/unit.h"

enum { LOTS = 6 };

/* What a process has to do. */
static double load(const pare_lot *lot, size_t lots, size_t process, double first)
{
    double sum = process == 0 ? first : 0;
    for (size_t i = 0; i < lots; i++) {
        bool paid = false;
        if (lot[i].owner != process)
            continue;
        for (size_t j = 0; j < i; j++)
            paid |= lot[j].owner == process && lot[j].group == lot[i].group && lot[j].shared > 0;
        sum += lot[i].cost + (paid ? 0 : lot[i].shared);
    }
    return sum;
}

/* 7, 6, 5, 4, 3, 2 by three processes: 7 + 2, 6 + 3, 5 + 4. */
START_TEST(the_dearest_goes_to_who_is_done_first)
{
    static const double cost[LOTS] = {5, 3, 7, 2, 6, 4};
    static const size_t owner[LOTS] = {2, 1, 0, 0, 1, 2};
    pare_lot lot[LOTS];
    for (size_t i = 0; i < LOTS; i++)
        lot[i] = (pare_lot){.cost = cost[i], .group = i};
    pare_lots_deal(lot, LOTS, 3, 0);
    for (size_t i = 0; i < LOTS; i++)
        ck_assert_uint_eq(lot[i].owner, owner[i]);
    for (size_t p = 0; p < 3; p++)
        ck_assert(load(lot, LOTS, p, 0) == 9);
}
END_TEST

START_TEST(process_0_gets_less_by_what_it_has_to_do)
{
    pare_lot lot[LOTS];
    for (size_t i = 0; i < LOTS; i++)
        lot[i] = (pare_lot){.cost = 1, .group = i};
    pare_lots_deal(lot, LOTS, 2, 2);
    ck_assert(load(lot, LOTS, 0, 2) == 4 && load(lot, LOTS, 1, 2) == 4);
    pare_lots_deal(lot, LOTS, 2, 100);
    for (size_t i = 0; i < LOTS; i++)
        ck_assert_uint_eq(lot[i].owner, 1);
    pare_lots_deal(lot, LOTS, 1, 100);
    for (size_t i = 0; i < LOTS; i++)
        ck_assert_uint_eq(lot[i].owner, 0);
}
END_TEST

/* Two groups of three whose shared work is most of it: they stay together. */
START_TEST(shared_work_counts_once_in_a_process)
{
    static const size_t group[LOTS] = {0, 1, 1, 0, 1, 0};
    pare_lot lot[LOTS];
    for (size_t i = 0; i < LOTS; i++)
        lot[i] = (pare_lot){.cost = 1, .shared = 10, .group = group[i]};
    pare_lots_deal(lot, LOTS, 2, 0);
    for (size_t i = 0; i < LOTS; i++)
        ck_assert_uint_eq(lot[i].owner, group[i]);
    ck_assert(load(lot, LOTS, 0, 0) == 13 && load(lot, LOTS, 1, 0) == 13);
}
END_TEST

START_TEST(fewer_lots_than_processes_go_to_one_each)
{
    pare_lot lot[2] = {{.cost = 2, .group = 0}, {.cost = 3, .group = 1}};
    pare_lots_deal(lot, 2, 5, 1);
    ck_assert_uint_eq(lot[1].owner, 1);
    ck_assert_uint_eq(lot[0].owner, 2);
    pare_lots_deal(lot, 0, 5, 1);
}
END_TEST

int main(void)
{
    Suite *const s = suite_create("lots");
    TCase *const c = tcase_create("lots");
    tcase_add_test(c, the_dearest_goes_to_who_is_done_first);
    tcase_add_test(c, process_0_gets_less_by_what_it_has_to_do);
    tcase_add_test(c, shared_work_counts_once_in_a_process);
    tcase_add_test(c, fewer_lots_than_processes_go_to_one_each);
    suite_add_tcase(s, c);
    return unit_main(s);
}
