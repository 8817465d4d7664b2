/* Lists in which what is the same in many blocks is one line. */
#include "compress/cli/plan_fold.h"

#include "tests/unit/unit.h"

typedef struct expected {
    const char *name;
    size_t count;
    uint64_t bytes;
} expected;

static void check(const pare_fold_entry *entry, size_t entries, bool all, const expected *want,
                  size_t wanted)
{
    pare_ctx cx;
    pare_arena a;
    pare_fold_line *line;
    size_t lines;
    pare_ctx_init(&cx);
    ck_assert_int_eq(pare_arena_init(&cx, &a, 0), PARE_OK);
    ck_assert_int_eq(pare_fold(&a, entry, entries, all, &line, &lines), PARE_OK);
    ck_assert_uint_eq(lines, wanted);
    for (size_t i = 0; i < lines; i++) {
        ck_assert_str_eq(line[i].name, want[i].name);
        ck_assert_uint_eq(line[i].count, want[i].count);
        ck_assert_uint_eq(line[i].bytes, want[i].bytes);
    }
    pare_arena_release(&a);
    ck_assert_uint_eq(cx.live_bytes, 0);
}

#define ENTRY(name, rest, block, part, bytes)                                                      \
    {                                                                                              \
        name, rest, block, part, bytes                                                             \
    }

START_TEST(equal_blocks_are_one_line_in_the_order_of_the_list)
{
    static const pare_fold_entry entry[] = {
        ENTRY("m.0.q", "int4", 0, 0, 10), ENTRY("m.0.d", "int4", 0, 0, 20),
        ENTRY("m.1.q", "int4", 1, 0, 10), ENTRY("m.1.d", "int8", 1, 0, 40),
        ENTRY("m.2.q", "int4", 2, 0, 10), ENTRY("m.2.d", "int4", 2, 0, 20),
        ENTRY("m.3.q", "int4", 3, 0, 11), ENTRY("m.3.d", "int4", 3, 0, 20),
    };
    static const expected folded[] = {
        {"m.{0..2}.q", 3, 30}, {"m.{0,2,3}.d", 3, 60}, {"m.1.d", 1, 40}, {"m.3.q", 1, 11}};
    static const expected apart[] = {{"m.0.q", 1, 10}, {"m.0.d", 1, 20}, {"m.1.q", 1, 10},
                                     {"m.1.d", 1, 40}, {"m.2.q", 1, 10}, {"m.2.d", 1, 20},
                                     {"m.3.q", 1, 11}, {"m.3.d", 1, 20}};
    check(entry, 8, false, folded, 4);
    check(entry, 8, true, apart, 8);
    check(entry, 0, false, NULL, 0);
}
END_TEST

START_TEST(experts_fold_where_blocks_have_the_same_ones)
{
    static const pare_fold_entry entry[] = {
        ENTRY("m.0.e.0.w", "a", 0, 1, 1), ENTRY("m.0.e.1.w", "a", 0, 2, 1),
        ENTRY("m.0.e.2.w", "a", 0, 3, 1), ENTRY("m.1.e.0.w", "a", 1, 1, 1),
        ENTRY("m.1.e.1.w", "a", 1, 2, 1), ENTRY("m.1.e.2.w", "a", 1, 3, 1),
        ENTRY("m.2.e.0.w", "a", 2, 1, 1), ENTRY("m.2.e.1.w", "b", 2, 2, 1),
        ENTRY("m.2.e.2.w", "a", 2, 3, 1), ENTRY("m.3.e.1.w", "a", 3, 2, 1),
        ENTRY("m.3.e.2.w", "a", 3, 3, 1),
    };
    static const expected folded[] = {{"m.{0,1}.e.{0..2}.w", 6, 6},
                                      {"m.2.e.{0,2}.w", 2, 2},
                                      {"m.2.e.1.w", 1, 1},
                                      {"m.3.e.{1,2}.w", 2, 2}};
    check(entry, 11, false, folded, 4);
}
END_TEST

START_TEST(names_without_the_number_stay_by_themselves)
{
    static const pare_fold_entry entry[] = {
        ENTRY("first", "a", 0, 0, 1), ENTRY("first", "a", 1, 0, 1), ENTRY("m12.x", "a", 12, 0, 1),
        ENTRY("m.10.x", "a", 10, 0, 1), ENTRY("m.11.x", "a", 11, 0, 1)};
    static const expected folded[] = {
        {"first", 1, 1}, {"first", 1, 1}, {"m12.x", 1, 1}, {"m.{10,11}.x", 2, 2}};
    check(entry, 5, false, folded, 4);
}
END_TEST

int main(void)
{
    Suite *const s = suite_create("plan_fold");
    TCase *const t = tcase_create("plan_fold");
    tcase_add_test(t, equal_blocks_are_one_line_in_the_order_of_the_list);
    tcase_add_test(t, experts_fold_where_blocks_have_the_same_ones);
    tcase_add_test(t, names_without_the_number_stay_by_themselves);
    suite_add_tcase(s, t);
    return unit_main(s);
}
