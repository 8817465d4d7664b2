#include "compress/text/warnings.h"

#include <stdio.h>

#include "tests/unit/unit.h"

START_TEST(each_warning_is_kept_once_in_its_order)
{
    enum { MANY = 40 };
    pare_ctx cx;
    pare_arena a;
    pare_warnings all = {0};
    const char **list;
    char text[64];
    pare_ctx_init(&cx);
    ck_assert_int_eq(pare_arena_init(&cx, &a, 0), PARE_OK);
    ck_assert_int_eq(pare_warnings_list(&all, &a, &list), PARE_OK);
    ck_assert_uint_eq(all.count, 0);
    for (size_t turn = 0; turn < 2; turn++)
        for (size_t i = 0; i < MANY; i++) {
            (void)snprintf(text, sizeof text, "warning: number %zu", i);
            pare_warnings_keep(&all, &a, text);
            (void)snprintf(text, sizeof text, "number %zu, warning: none", i);
            pare_warnings_keep(&all, &a, text);
        }
    ck_assert_int_eq(pare_warnings_list(&all, &a, &list), PARE_OK);
    ck_assert_uint_eq(all.count, MANY);
    for (size_t i = 0; i < MANY; i++) {
        (void)snprintf(text, sizeof text, "number %zu", i);
        ck_assert_str_eq(list[i], text);
    }
    pare_arena_release(&a);
}
END_TEST

/* A report does not keep silent about one. */
START_TEST(a_warning_that_memory_had_no_room_for_is_missed)
{
    pare_ctx cx;
    pare_arena a;
    pare_warnings all = {0};
    const char **list;
    pare_ctx_init(&cx);
    ck_assert_int_eq(pare_arena_init(&cx, &a, 0), PARE_OK);
    all.lost = true;
    pare_warnings_keep(&all, &a, "warning: a later one");
    ck_assert_int_eq(pare_warnings_list(&all, &a, &list), PARE_ENOMEM);
    pare_arena_release(&a);
}
END_TEST

int main(void)
{
    Suite *const s = suite_create("warnings");
    TCase *const t = tcase_create("warnings");
    tcase_add_test(t, each_warning_is_kept_once_in_its_order);
    tcase_add_test(t, a_warning_that_memory_had_no_room_for_is_missed);
    suite_add_tcase(s, t);
    return unit_main(s);
}
