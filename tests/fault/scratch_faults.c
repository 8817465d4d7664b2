/* Fails every reservation and write in turn while temporary data is taken: a full disk, a broken
 * one, a file system that reserves nothing. What was taken before stays usable. */
#include <string.h>

#include "formats/scratch.h"
#include "tests/fault/faults.h"
#include "tests/unit/unit.h"

enum { TAKES = 4, PIECES = 3 };
static const uint64_t size[TAKES] = {100000, 300000, 1 << 20, 5 << 20};

/* Takes until one fails, writes all of what it got, and reads it back. */
static pare_status work(pare_ctx *cx)
{
    pare_scratch s;
    unsigned char *got[TAKES];
    size_t count = 0;
    pare_status status = PARE_OK;
    pare_ctx_init(cx);
    pare_scratch_init(cx, &s);
    for (; count < TAKES && status == PARE_OK; count += status == PARE_OK) {
        void *p = NULL;
        status = pare_scratch_take(&s, size[count], &p);
        got[count] = p;
    }
    for (size_t i = 0; i < count; i++) {
        ck_assert(got[i][0] == 0 && memcmp(got[i], got[i] + 1, (size_t)size[i] - 1) == 0);
        memset(got[i], (int)i + 1, (size_t)size[i]);
    }
    for (size_t i = 0; i < count; i++)
        ck_assert_uint_eq(got[i][size[i] - 1], i + 1);
    pare_scratch_close(&s);
    return status;
}

START_TEST(every_call_that_fails_is_reported_with_the_directory)
{
    static const pare_status expected[KINDS] = {PARE_ENOSPC, PARE_EIO, PARE_OK, PARE_OK, PARE_OK};
    const fault_kind kind = (fault_kind)(_i / 2);
    pare_ctx cx;
    ck_assert_int_eq(setenv("TMPDIR", "/tmp/./", 1), 0);
    for (long n = 0;; n++) {
        fault_start(kind, _i % 2, n);
        const pare_status s = work(&cx);
        if (!fault_stop()) {
            ck_assert_int_eq(s, PARE_OK);
            ck_assert_int_ge(n, PIECES);
            return;
        }
        ck_assert_msg(s == expected[kind], "kind %d, call %ld: %s", (int)kind, n, cx.what);
        if (s != PARE_OK)
            ck_assert_msg(strstr(cx.what, "/tmp/./: cannot reserve ") == cx.what, "%s", cx.what);
    }
}
END_TEST

/* No space is held for a reservation that was refused, so the zeros are really written. */
START_TEST(without_reservations_zeros_are_written)
{
    pare_ctx cx;
    fault.calls = 0;
    ck_assert_int_eq(work(&cx), PARE_OK);
    const long calls = fault.calls;
    fault_start(NO_RESERVATION, true, 0);
    fault.calls = 0;
    ck_assert_int_eq(work(&cx), PARE_OK);
    (void)fault_stop();
    ck_assert_int_ge(fault.calls, calls + 20);
}
END_TEST

int main(void)
{
    Suite *const s = suite_create("scratch_faults");
    TCase *const t = tcase_create("scratch_faults");
    tcase_add_loop_test(t, every_call_that_fails_is_reported_with_the_directory, 0, 2 * KINDS);
    tcase_add_test(t, without_reservations_zeros_are_written);
    suite_add_tcase(s, t);
    return unit_main(s);
}
