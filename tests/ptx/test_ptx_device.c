/* The interpreter behind runtime/device.h, with kernels of pare: they are made where nvcc is. */
#include "tests/ptx/device_ptx.h"

#include "kernels/cuda/cuda_list.h"
#include "tests/unit/unit.h"

#include <math.h>
#include <string.h>

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
}

static pare_address upload(const void *from, size_t bytes)
{
    pare_address at = 0;
    ck_assert_int_eq(d->op->take(&cx, d, bytes, &at), PARE_OK);
    ck_assert_int_eq(d->op->put(&cx, d, at, from, bytes), PARE_OK);
    return at;
}

START_TEST(a_kernel_of_pare_runs_and_its_fault_names_its_line)
{
    enum { N = 1000 };
    float a[N], b[N], y[N];
    for (int k = 0; k < N; k++) {
        a[k] = (float)k / 7;
        b[k] = sinf((float)k);
    }
    const pare_address da = upload(a, sizeof a), db = upload(b, sizeof b);
    void *kernel = NULL;
    ck_assert_int_eq(d->op->kernel(&cx, d, "pare_add_cuda", &kernel), PARE_OK);
    pare_cuda_add args = {.a = (const float *)(uintptr_t)da,
                          .b = (const float *)(uintptr_t)db,
                          .y = (float *)(uintptr_t)da,
                          .n = N};
    const pare_launch l = {.grid = {(N + 255) / 256, 1, 1}, .block = {256, 1, 1}};
    ck_assert_msg(d->op->launch(&cx, d, kernel, &l, &args, sizeof args) == PARE_OK, "%s", cx.what);
    ck_assert_int_eq(d->op->get(&cx, d, y, da, sizeof y), PARE_OK);
    for (int k = 0; k < N; k++)
        ck_assert_float_eq(y[k], a[k] + b[k]);
    args.b += 3; /* so that the last values lie behind the end */
    ck_assert_int_eq(d->op->launch(&cx, d, kernel, &l, &args, sizeof args), PARE_EDEVICE);
    ck_assert_msg(strstr(cx.what, "move.cu:") && strstr(cx.what, "offset 40"), "%s", cx.what);
    pare_ctx_clear(&cx);
    d->op->give(&cx, d, da);
    d->op->give(&cx, d, db);
}
END_TEST

START_TEST(memory_is_counted_and_ends)
{
    size_t left = 0, total = 0, now = 0;
    pare_address at = 0, more = 0;
    ck_assert_int_eq(d->op->memory(&cx, d, &left, &total), PARE_OK);
    ck_assert_uint_eq(left, 1 << 20);
    ck_assert_int_eq(d->op->take(&cx, d, 1000000, &at), PARE_OK);
    ck_assert_int_eq(d->op->memory(&cx, d, &now, &total), PARE_OK);
    ck_assert_uint_eq(now, left - 1000000);
    ck_assert_int_eq(d->op->take(&cx, d, 1000000, &more), PARE_ENOMEM);
    ck_assert_msg(strstr(cx.what, "1000000 bytes, 48576 of 1048576 are free"), "%s", cx.what);
    pare_ctx_clear(&cx);
    d->op->give(&cx, d, at);
}
END_TEST

START_TEST(what_is_not_there_is_said)
{
    void *kernel = NULL;
    ck_assert_int_eq(d->op->kernel(&cx, d, "pare_frob_cuda", &kernel), PARE_EDEVICE);
    ck_assert_msg(strstr(cx.what, "pare_frob_cuda"), "%s", cx.what);
    pare_ctx_clear(&cx);
    ck_assert_int_eq(d->op->fill(&cx, d, 4096, 0, 1), PARE_EDEVICE);
    pare_ctx_clear(&cx);
    const pare_device_ptx_options options = {.memory = 1};
    pare_device *other = NULL;
    ck_assert_int_eq(pare_device_ptx_open(&cx, "no such file", &options, &other), PARE_EINVAL);
    pare_ctx_clear(&cx);
    ck_assert_int_eq(setenv("PARE_PTX_MODEL", "b200", 1), 0);
    ck_assert_int_eq(pare_device_open(&cx, &other), PARE_EINVAL);
    ck_assert_msg(strstr(cx.what, "PARE_PTX_MODEL: 'b200'"), "%s", cx.what);
}
END_TEST

int main(void)
{
    if (setenv("PARE_PTX_MEMORY", "1048576", 1) || setenv("PARE_PTX_CHECKS", "full", 1))
        return 1;
    Suite *const s = suite_create("ptx.device");
    TCase *const t = tcase_create("device");
    tcase_add_checked_fixture(t, begin, end);
    tcase_add_test(t, a_kernel_of_pare_runs_and_its_fault_names_its_line);
    tcase_add_test(t, memory_is_counted_and_ends);
    tcase_add_test(t, what_is_not_there_is_said);
    suite_add_tcase(s, t);
    return unit_main(s);
}
