#include <sys/stat.h>

#include "compress/output/inventory.h"
#include "tests/unit/folder.h"

typedef struct seen {
    char text[1024];
    size_t count;
} seen;

static void note(void *self, const char *name, const char *what)
{
    seen *const s = self;
    const size_t used = strlen(s->text);
    (void)snprintf(s->text + used, sizeof s->text - used, "%s %s\n", name, what);
    s->count++;
}

typedef struct fixture {
    folder f;
    pare_ctx cx;
    pare_arena a;
    seen seen;
    pare_inventory_result r;
} fixture;

static void begin(fixture *x)
{
    *x = (fixture){.f = {.path = ""}};
    folder_begin(&x->f, &x->cx, &x->a);
    folder_put_text(&x->f, "one", "first file");
    folder_put_text(&x->f, "two", "second");
    folder_put_text(&x->f, "empty", "");
    ck_assert_int_eq(pare_inventory_write(&x->cx, &x->a, x->f.path, NULL, 0), PARE_OK);
}

static void check(fixture *x)
{
    x->seen = (seen){.count = 0};
    ck_assert_int_eq(pare_inventory_check(&x->cx, &x->a, x->f.path, note, &x->seen, &x->r),
                     PARE_OK);
    ck_assert_uint_eq(x->seen.count, x->r.findings);
}

START_TEST(a_folder_as_it_was_written_has_no_findings)
{
    fixture x;
    begin(&x);
    check(&x);
    ck_assert_uint_eq(x.r.findings, 0);
    ck_assert_uint_eq(x.r.files, 4);
    ck_assert_uint_eq(x.r.bytes, 16);
    folder_end(&x.f, &x.a);
}
END_TEST

START_TEST(sha256sum_agrees)
{
    fixture x;
    char command[256];
    begin(&x);
    (void)snprintf(command, sizeof command,
                   "cd %s && sha256sum --check --strict --quiet SHA256SUMS", x.f.path);
    ck_assert_int_eq(system(command), 0);
    folder_put_text(&x.f, "two", "secone");
    (void)snprintf(command, sizeof command, "cd %s && sha256sum --check --status SHA256SUMS",
                   x.f.path);
    ck_assert_int_ne(system(command), 0);
    folder_end(&x.f, &x.a);
}
END_TEST

START_TEST(what_changed_is_missing_or_new_is_named)
{
    fixture x;
    begin(&x);
    folder_put_text(&x.f, "one", "First file");
    check(&x);
    ck_assert_str_eq(x.seen.text, "one differs from its SHA-256 in SHA256SUMS\n");
    folder_put_text(&x.f, "one", "first file");
    ck_assert_int_eq(unlink(folder_file(&x.f, "two")), 0);
    check(&x);
    ck_assert_str_eq(x.seen.text, "two is missing\n");
    ck_assert_int_eq(symlink("one", folder_file(&x.f, "two")), 0);
    check(&x);
    ck_assert_str_eq(x.seen.text, "two is no regular file\n");
    ck_assert_int_eq(unlink(folder_file(&x.f, "two")), 0);
    folder_put_text(&x.f, "two", "second");
    folder_put_text(&x.f, "notes", "of somebody else");
    check(&x);
    ck_assert_str_eq(x.seen.text, "notes is not listed in SHA256SUMS\n");
    folder_end(&x.f, &x.a);
}
END_TEST

START_TEST(a_folder_inside_is_named_and_refused_when_written)
{
    fixture x;
    begin(&x);
    ck_assert_int_eq(mkdir(folder_file(&x.f, "sub"), 0777), 0);
    check(&x);
    ck_assert_str_eq(x.seen.text, "sub is not listed in SHA256SUMS\n");
    ck_assert_int_eq(pare_inventory_write(&x.cx, &x.a, x.f.path, NULL, 0), PARE_EEXISTS);
    ck_assert_ptr_nonnull(strstr(x.cx.what, "/sub: is no regular file"));
    ck_assert_int_eq(rmdir(folder_file(&x.f, "sub")), 0);
    folder_end(&x.f, &x.a);
}
END_TEST

/* The names of what lies there may be read, and nothing else. */
START_TEST(a_file_that_may_not_be_looked_at_is_an_error)
{
    fixture x;
    begin(&x);
    ck_assert_int_eq(chmod(x.f.path, 0444), 0);
    unit_be_nobody();
    const pare_status s = pare_inventory_write(&x.cx, &x.a, x.f.path, NULL, 0);
    unit_be_again();
    ck_assert_int_eq(chmod(x.f.path, 0700), 0);
    ck_assert_int_eq(s, PARE_EIO);
    ck_assert_msg(strstr(x.cx.what, ": cannot look at: Permission denied"), "%s", x.cx.what);
    folder_end(&x.f, &x.a);
}
END_TEST

START_TEST(digests_come_in_the_order_of_the_names)
{
    static const char *const name[] = {"two", "empty", "one"};
    static const uint64_t bytes[] = {6, 0, 10};
    pare_file_digest file[3];
    char hex[PARE_SHA256_HEX];
    fixture x;
    begin(&x);
    ck_assert_int_eq(pare_inventory_digest(&x.cx, &x.a, x.f.path, name, 3, file), PARE_OK);
    for (size_t i = 0; i < 3; i++) {
        ck_assert_str_eq(file[i].file, name[i]);
        ck_assert_uint_eq(file[i].bytes, bytes[i]);
        const char *const text = (const char *[]){"second", "", "first file"}[i];
        ck_assert_int_eq(pare_sha256_hex(&x.cx, text, bytes[i], hex), PARE_OK);
        ck_assert_str_eq(file[i].sha256, hex);
    }
    folder_end(&x.f, &x.a);
}
END_TEST

START_TEST(known_digests_are_taken_over_and_the_journal_is_left_out)
{
    fixture x;
    begin(&x);
    pare_file_digest known = {.file = "two", .bytes = 6};
    (void)snprintf(known.sha256, sizeof known.sha256, "%064d", 7);
    folder_put_text(&x.f, "journal", "of an unfinished run");
    ck_assert_int_eq(pare_inventory_write(&x.cx, &x.a, x.f.path, &known, 1), PARE_OK);
    check(&x);
    ck_assert_uint_eq(x.seen.count, 2);
    ck_assert_ptr_nonnull(strstr(x.seen.text, "two differs from its SHA-256"));
    ck_assert_ptr_nonnull(strstr(x.seen.text, "journal is not listed"));
    folder_end(&x.f, &x.a);
}
END_TEST

START_TEST(a_list_that_is_missing_or_torn_is_an_error)
{
    fixture x;
    begin(&x);
    folder_put_text(&x.f, PARE_SUMS_NAME, "0123");
    ck_assert_int_eq(pare_inventory_check(&x.cx, &x.a, x.f.path, NULL, NULL, &x.r), PARE_EFORMAT);
    ck_assert_ptr_nonnull(strstr(x.cx.what, "SHA256SUMS:1: the line has no end"));
    pare_ctx_clear(&x.cx);
    ck_assert_int_eq(unlink(folder_file(&x.f, PARE_SUMS_NAME)), 0);
    ck_assert_int_eq(pare_inventory_check(&x.cx, &x.a, x.f.path, NULL, NULL, &x.r), PARE_ENOTFOUND);
    folder_end(&x.f, &x.a);
}
END_TEST

int main(void)
{
    Suite *const s = suite_create("inventory");
    TCase *const t = tcase_create("inventory");
    tcase_add_test(t, a_folder_as_it_was_written_has_no_findings);
    tcase_add_test(t, sha256sum_agrees);
    tcase_add_test(t, what_changed_is_missing_or_new_is_named);
    tcase_add_test(t, a_folder_inside_is_named_and_refused_when_written);
    tcase_add_test(t, a_file_that_may_not_be_looked_at_is_an_error);
    tcase_add_test(t, digests_come_in_the_order_of_the_names);
    tcase_add_test(t, known_digests_are_taken_over_and_the_journal_is_left_out);
    tcase_add_test(t, a_list_that_is_missing_or_torn_is_an_error);
    suite_add_tcase(s, t);
    return unit_main(s);
}
