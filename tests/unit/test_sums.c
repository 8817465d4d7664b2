#include "formats/sums.h"
#include "tests/unit/folder.h"

static const char digest_a[] = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";
static const char digest_b[] = "ffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff";

static const char *const messages[] = {
    "SHA256SUMS:1: expected 64 lower-case hex digits and two blanks",
    "SHA256SUMS:2: expected 64 lower-case hex digits and two blanks",
    "SHA256SUMS:1: expected a plain file name",
    "SHA256SUMS:2: names do not ascend",
    "SHA256SUMS:3: names do not ascend",
    "SHA256SUMS:1: the line has no end",
    "SHA256SUMS:2: the line has no end",
};

static pare_status parse_bytes(pare_ctx *cx, const void *bytes, size_t len)
{
    pare_arena a;
    pare_sums sums;
    ck_assert_int_eq(pare_arena_init(cx, &a, 0), PARE_OK);
    const pare_status s = pare_sums_parse(cx, &a, PARE_SUMS_NAME, bytes, len, &sums);
    pare_arena_release(&a);
    return s;
}

START_TEST(the_corpus_reaches_every_message)
{
    corpus_reaches("sums", parse_bytes, messages, sizeof messages / sizeof *messages);
}
END_TEST

static pare_sum sum(const char *name, const char *digest)
{
    pare_sum s = {.name = name};
    (void)snprintf(s.sha256, sizeof s.sha256, "%s", digest);
    return s;
}

START_TEST(what_is_written_is_sorted_and_read_again)
{
    pare_ctx cx;
    pare_arena a;
    pare_sums read;
    char *text;
    size_t len;
    pare_ctx_init(&cx);
    ck_assert_int_eq(pare_arena_init(&cx, &a, 0), PARE_OK);
    pare_sum item[] = {sum("run.json", digest_a), sum("README.md", digest_b)};
    pare_sums sums = {item, 2};
    ck_assert_int_eq(pare_sums_text(&cx, &a, &sums, &text, &len), PARE_OK);
    char want[256];
    (void)snprintf(want, sizeof want, "%s  README.md\n%s  run.json\n", digest_b, digest_a);
    ck_assert_str_eq(text, want);
    ck_assert_uint_eq(len, strlen(want));
    ck_assert_int_eq(pare_sums_parse(&cx, &a, PARE_SUMS_NAME, text, len, &read), PARE_OK);
    ck_assert_uint_eq(read.count, 2);
    ck_assert_str_eq(pare_sums_find(&read, "run.json")->sha256, digest_a);
    ck_assert_str_eq(pare_sums_find(&read, "README.md")->sha256, digest_b);
    ck_assert_ptr_null(pare_sums_find(&read, "config.json"));
    pare_arena_release(&a);
    ck_assert_uint_eq(cx.live_bytes, 0);
}
END_TEST

START_TEST(what_could_not_be_read_is_not_written)
{
    static const struct {
        const char *first, *second, *digest;
    } wrong[] = {{"a", "a", digest_a},
                 {"a", "b/c", digest_a},
                 {"a", "", digest_a},
                 {"a", ".b", digest_a},
                 {"a", "b\n", digest_a},
                 {"a", "b", "0123"},
                 {"a", "b", "G123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"}};
    pare_ctx cx;
    pare_arena a;
    char *text;
    size_t len;
    pare_ctx_init(&cx);
    ck_assert_int_eq(pare_arena_init(&cx, &a, 0), PARE_OK);
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        pare_sum item[] = {sum(wrong[i].first, digest_b), sum(wrong[i].second, wrong[i].digest)};
        pare_sums sums = {item, 2};
        ck_assert_int_eq(pare_sums_text(&cx, &a, &sums, &text, &len), PARE_EINVAL);
        ck_assert_ptr_nonnull(strstr(cx.what, "cannot be listed"));
        pare_ctx_clear(&cx);
    }
    pare_arena_release(&a);
}
END_TEST

START_TEST(every_failed_allocation_is_told)
{
    static const char text[] =
        "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef  a\n";
    pare_status s = PARE_ENOMEM;
    for (long n = 0; s == PARE_ENOMEM; n++) {
        unit_failing f = {.left = n};
        pare_ctx cx;
        pare_ctx_init(&cx);
        cx.alloc = (pare_alloc){unit_failing_resize, &f};
        pare_arena a;
        pare_sums sums;
        s = pare_arena_init(&cx, &a, 0);
        if (s == PARE_OK)
            s = pare_sums_parse(&cx, &a, PARE_SUMS_NAME, text, sizeof text - 1, &sums);
        pare_arena_release(&a);
        ck_assert_int_eq(f.live, 0);
    }
    ck_assert_int_eq(s, PARE_OK);
}
END_TEST

int main(void)
{
    Suite *const s = suite_create("sums");
    TCase *const t = tcase_create("sums");
    tcase_add_test(t, the_corpus_reaches_every_message);
    tcase_add_test(t, what_is_written_is_sorted_and_read_again);
    tcase_add_test(t, what_could_not_be_read_is_not_written);
    tcase_add_test(t, every_failed_allocation_is_told);
    suite_add_tcase(s, t);
    return unit_main(s);
}
