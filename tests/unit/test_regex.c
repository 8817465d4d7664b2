#include "runtime/regex.h"

#include <string.h>

#include "tests/unit/unit.h"

static pare_ctx cx;
static pare_arena arena;
static pare_regex_matcher *matcher;

static void setup(void)
{
    pare_ctx_init(&cx);
    ck_assert_int_eq(pare_arena_init(&cx, &arena, 0), PARE_OK);
    ck_assert_int_eq(pare_regex_matcher_new(&cx, 1000000, &matcher), PARE_OK);
}

static void teardown(void)
{
    pare_regex_matcher_free(matcher);
    pare_arena_release(&arena);
    ck_assert_uint_eq(cx.live_bytes, 0);
}

static const struct {
    const char *expression, *text;
    size_t at, end;
} rows[] = {
    {"a+", "baab", 0, SIZE_MAX}, {"a+", "baab", 1, 3},      {"(?=b)", "ab", 1, 1},
    {"(?<=a)b", "ab", 1, 2},     {"\\w", "\xc3\xa9", 0, 2}, {".", "\n", 0, SIZE_MAX},
    {".", "\r", 0, 1},           {"(?i)Q", "q", 0, 1},
};

START_TEST(an_expression_is_tried_at_one_place)
{
    pare_regex *e;
    size_t end;
    ck_assert_int_eq(pare_regex_new(&arena, rows[_i].expression, strlen(rows[_i].expression), &e),
                     PARE_OK);
    ck_assert_int_eq(
        pare_regex_match(matcher, e, rows[_i].text, strlen(rows[_i].text), rows[_i].at, &end),
        PARE_OK);
    ck_assert_uint_eq(end, rows[_i].end);
}
END_TEST

START_TEST(a_wrong_expression_says_why_and_where)
{
    pare_regex *e;
    ck_assert_int_eq(pare_regex_new(&arena, "a(b", 3, &e), PARE_EFORMAT);
    ck_assert_str_eq(cx.what, "missing closing parenthesis at byte 3");
}
END_TEST

/* Hundreds of thousands of ways to cut the text; a short one still matches. */
START_TEST(steps_have_an_end)
{
    static const char text[] = "aaaaaaaaaaaaaaaaaaaaaaaaaaaaab";
    pare_regex *e;
    size_t end;
    ck_assert_int_eq(pare_regex_new(&arena, "(a|aa)+$", 8, &e), PARE_OK);
    ck_assert_int_eq(pare_regex_match(matcher, e, text, sizeof text - 1, 0, &end), PARE_ENOTSUP);
    ck_assert_str_eq(cx.what, "too many steps on this text");
    ck_assert_int_eq(pare_regex_match(matcher, e, "ab", 2, 0, &end), PARE_OK);
}
END_TEST

START_TEST(failed_allocations_are_told)
{
    pare_status s = PARE_ENOMEM;
    for (long n = 0; s != PARE_OK; n++) {
        pare_ctx own;
        pare_arena a;
        unit_failing f = {.left = n};
        pare_regex *e;
        pare_regex_matcher *m = NULL;
        size_t end = 0;
        pare_ctx_init(&own);
        own.alloc = (pare_alloc){unit_failing_resize, &f};
        ck_assert_int_eq(pare_arena_init(&own, &a, 0), PARE_OK);
        s = pare_regex_new(&a, "((a)|b)*c", 9, &e);
        if (s == PARE_OK)
            s = pare_regex_matcher_new(&own, 1000, &m);
        if (s == PARE_OK)
            s = pare_regex_match(m, e, "ababc", 5, 0, &end);
        ck_assert(s == PARE_OK ? end == 5 : s == PARE_ENOMEM && own.what[0]);
        pare_regex_matcher_free(m);
        pare_arena_release(&a);
        ck_assert_int_eq(f.live, 0);
        ck_assert_int_lt(n, 100);
    }
}
END_TEST

int main(void)
{
    Suite *const s = suite_create("regex");
    TCase *const c = tcase_create("regex");
    tcase_add_checked_fixture(c, setup, teardown);
    tcase_add_loop_test(c, an_expression_is_tried_at_one_place, 0, sizeof rows / sizeof *rows);
    tcase_add_test(c, a_wrong_expression_says_why_and_where);
    tcase_add_test(c, steps_have_an_end);
    tcase_add_test(c, failed_allocations_are_told);
    suite_add_tcase(s, c);
    return unit_main(s);
}
