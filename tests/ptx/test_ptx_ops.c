/* The block operations on the interpreter against the CPU (op_rows.h). */
#include "tests/ptx/device_ptx.h"
#include "tests/ptx/op_rows.h"
#include "tests/unit/unit.h"

static pare_ctx cx;
static pare_device *d;

static void begin(void)
{
    pare_ctx_init(&cx);
    ck_assert_msg(pare_device_open(&cx, &d) == PARE_OK, "%s", cx.what);
}

static void end(void)
{
    d->op->close(&cx, d);
    ck_assert_uint_eq(cx.live_bytes, 0);
}

START_TEST(an_operation_gives_the_bits_of_the_cpu)
{
    const op_row *const row = &op_rows[_i];
    for (size_t i = 0; i < row->cases; i++)
        ck_assert_msg(op_row_check(&cx, d, row, i) == PARE_OK, "%s %zu: %s", row->name, i, cx.what);
}
END_TEST

int main(void)
{
    int rows = 0;
    while (op_rows[rows].name)
        rows++;
    Suite *const s = suite_create("ptx.ops");
    TCase *const t = tcase_create("ops");
    tcase_add_checked_fixture(t, begin, end);
    tcase_add_loop_test(t, an_operation_gives_the_bits_of_the_cpu, 0, rows);
    suite_add_tcase(s, t);
    return unit_main(s);
}
