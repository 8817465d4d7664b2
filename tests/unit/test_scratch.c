#include "formats/scratch.h"

#include <signal.h>
#include <string.h>
#include <sys/resource.h>

#include "tests/unit/folder.h"

static pare_ctx cx;
static pare_scratch scratch;
static folder dir;

static void begin(void)
{
    pare_ctx_init(&cx);
    pare_scratch_init(&cx, &scratch);
    folder_make(&dir);
    ck_assert_int_eq(setenv("TMPDIR", dir.path, 1), 0);
}

static void end(void)
{
    pare_scratch_close(&scratch);
    pare_scratch_close(&scratch);
    folder_remove(&dir);
    ck_assert_uint_eq(cx.live_bytes, 0);
}

static size_t descriptors(void)
{
    size_t count = 0;
    DIR *const d = opendir("/proc/self/fd");
    ck_assert_ptr_nonnull(d);
    while (readdir(d))
        count++;
    (void)closedir(d);
    return count;
}

static size_t names(void)
{
    size_t count = 0;
    DIR *const d = opendir(dir.path);
    ck_assert_ptr_nonnull(d);
    for (const struct dirent *e = readdir(d); e; e = readdir(d))
        count += e->d_name[0] != '.';
    (void)closedir(d);
    return count;
}

static bool holds(const unsigned char *bytes, size_t count, unsigned char value)
{
    return count == 0 || (bytes[0] == value && memcmp(bytes, bytes + 1, count - 1) == 0);
}

static unsigned char *take(uint64_t bytes)
{
    void *p = NULL;
    ck_assert_msg(pare_scratch_take(&scratch, bytes, &p) == PARE_OK, "%s", cx.what);
    ck_assert_uint_eq((uintptr_t)p % PARE_ALIGN, 0);
    return p;
}

/* Sizes around the edges of a piece, so that both a shared piece and a new one are taken. */
START_TEST(what_is_taken_is_zero_and_its_own)
{
    static const size_t size[] = {
        1,       64,  0,       65, (1 << 20) - 64, (1 << 20) - 63, 70000, (3 << 20) + 1,
        1 << 20, 100, 5 << 20, 7};
    enum { COUNT = sizeof size / sizeof *size };
    unsigned char *object[COUNT];
    for (size_t i = 0; i < COUNT; i++) {
        object[i] = take(size[i]);
        ck_assert(holds(object[i], size[i], 0));
        memset(object[i], (int)i + 1, size[i]);
    }
    for (size_t i = 0; i < COUNT; i++)
        ck_assert(holds(object[i], size[i], (unsigned char)(i + 1)));
    ck_assert_uint_eq(names(), 0);
    ck_assert_uint_eq(cx.live_bytes, 0);
}
END_TEST

START_TEST(closing_returns_the_descriptor_and_it_can_start_again)
{
    const size_t before = descriptors();
    ck_assert_uint_eq(take(10)[0], 0);
    ck_assert_uint_eq(descriptors(), before + 1);
    memset(take(1000), 1, 1000);
    pare_scratch_close(&scratch);
    ck_assert_uint_eq(descriptors(), before);
    ck_assert_uint_eq(take(1000)[999], 0);
}
END_TEST

START_TEST(a_full_disk_is_an_error_with_directory_and_bytes)
{
    void *p;
    ck_assert(signal(SIGXFSZ, SIG_IGN) != SIG_ERR);
    const struct rlimit tight = {2 << 20, 2 << 20};
    ck_assert_int_eq(setrlimit(RLIMIT_FSIZE, &tight), 0);
    unsigned char *const first = take(100000);
    memset(first, 7, 100000);
    ck_assert_int_eq(pare_scratch_take(&scratch, 3 << 20, &p), PARE_ENOSPC);
    ck_assert_ptr_eq(strstr(cx.what, dir.path), cx.what);
    ck_assert_ptr_nonnull(strstr(cx.what,
                                 ": cannot reserve 3211264 bytes for temporary data beside "
                                 "1048576 (TMPDIR names another place): "));
    ck_assert_uint_eq(first[99999], 7);
    pare_ctx_clear(&cx);
    memset(take(50000), 8, 50000); /* what fits is still given */
}
END_TEST

START_TEST(a_missing_directory_is_named)
{
    void *p;
    char path[128];
    (void)snprintf(path, sizeof path, "%s/none", dir.path);
    ck_assert_int_eq(setenv("TMPDIR", path, 1), 0);
    ck_assert_int_eq(pare_scratch_take(&scratch, 1, &p), PARE_EUSAGE);
    ck_assert_ptr_nonnull(strstr(cx.what, "/none: cannot hold temporary data (let TMPDIR name a "
                                          "folder that can be written): "));
    pare_ctx_clear(&cx);
    static char lengthy[5000];
    memset(lengthy, 'x', sizeof lengthy - 1);
    ck_assert_int_eq(setenv("TMPDIR", lengthy, 1), 0);
    ck_assert_int_eq(pare_scratch_take(&scratch, 1, &p), PARE_EINVAL);
    ck_assert_ptr_nonnull(strstr(cx.what, "TMPDIR: a path of more than 4096 bytes"));
    pare_ctx_clear(&cx);
    ck_assert_int_eq(setenv("TMPDIR", "", 1), 0);
    (void)take(1);
}
END_TEST

START_TEST(more_than_an_address_space_is_refused)
{
    static const uint64_t bytes[] = {UINT64_MAX, SIZE_MAX - 10, SIZE_MAX / 4 + 1};
    void *p;
    for (size_t i = 0; i < 3; i++) {
        ck_assert_int_eq(pare_scratch_take(&scratch, bytes[i], &p), PARE_ENOMEM);
        ck_assert_ptr_nonnull(strstr(cx.what, "cannot be mapped"));
        pare_ctx_clear(&cx);
    }
}
END_TEST

START_TEST(what_is_counted_takes_nothing)
{
    static const uint64_t size[] = {0, 1, PARE_ALIGN, PARE_ALIGN + 1, 5 << 20, 1 << 20, 9 << 20};
    pare_scratch taken;
    void *p;
    pare_scratch_init(&cx, &taken);
    for (size_t i = 0; i < sizeof size / sizeof *size; i++) {
        pare_scratch_count(&scratch, size[i]);
        ck_assert_int_eq(pare_scratch_take(&taken, size[i], &p), PARE_OK);
        ck_assert_uint_eq(scratch.counted, taken.reserved);
    }
    pare_scratch_close(&taken);
    ck_assert(!scratch.open && scratch.reserved == 0);
    pare_scratch_count(&scratch, UINT64_MAX);
    ck_assert_uint_eq(scratch.counted, UINT64_MAX);
    pare_scratch_count(&scratch, 1);
    ck_assert_uint_eq(scratch.counted, UINT64_MAX);
}
END_TEST

START_TEST(room_is_looked_at_where_the_file_goes)
{
    ck_assert_int_eq(pare_scratch_check_free(&cx, 1), PARE_OK);
    ck_assert_int_eq(pare_scratch_check_free(&cx, UINT64_MAX), PARE_ENOSPC);
    ck_assert_ptr_eq(strstr(cx.what, dir.path), cx.what);
    ck_assert_ptr_nonnull(strstr(cx.what, "take 18446744073709551615 bytes"));
    ck_assert_ptr_nonnull(strstr(cx.what, "let TMPDIR name a folder with more room"));
    pare_ctx_clear(&cx);
    ck_assert_int_eq(setenv("TMPDIR", "/none/such", 1), 0);
    ck_assert_int_eq(pare_scratch_check_free(&cx, 0), PARE_OK); /* it is not asked for */
    ck_assert_int_eq(pare_scratch_check_free(&cx, 1), PARE_EUSAGE);
    ck_assert_ptr_nonnull(strstr(cx.what, "/none/such: cannot hold temporary data (let TMPDIR "));
    pare_ctx_clear(&cx);
}
END_TEST

int main(void)
{
    Suite *const s = suite_create("scratch");
    TCase *const t = tcase_create("scratch");
    tcase_add_checked_fixture(t, begin, end);
    tcase_add_test(t, what_is_taken_is_zero_and_its_own);
    tcase_add_test(t, closing_returns_the_descriptor_and_it_can_start_again);
    tcase_add_test(t, a_full_disk_is_an_error_with_directory_and_bytes);
    tcase_add_test(t, a_missing_directory_is_named);
    tcase_add_test(t, more_than_an_address_space_is_refused);
    tcase_add_test(t, what_is_counted_takes_nothing);
    tcase_add_test(t, room_is_looked_at_where_the_file_goes);
    suite_add_tcase(s, t);
    return unit_main(s);
}
