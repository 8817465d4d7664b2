/* Limits of the shell: what they leave, who is refused, and that nothing is taken before. */
#include "runtime/room.h"

#include <string.h>
#include <sys/resource.h>

#include "compress/plan/plan_limits.h"
#include "runtime/linalg.h"
#include "runtime/machine.h"
#include "runtime/threads.h"
#include "tests/unit/unit.h"

static const uint64_t MIB = (uint64_t)1 << 20;

/* Leaves `left` bytes of the limit; UINT64_MAX takes the limit away. */
static void leave(size_t which, uint64_t left)
{
    static const char *const keys[] = {"VmSize:", "VmData:"};
    const int resource[] = {RLIMIT_AS, RLIMIT_DATA};
    struct rlimit r;
    ck_assert_int_eq(getrlimit(resource[which], &r), 0);
    r.rlim_cur = left == UINT64_MAX
                     ? r.rlim_max
                     : pare_machine_number("/proc/self/status", keys[which]) * 1024 + left;
    ck_assert_int_eq(setrlimit(resource[which], &r), 0);
}

START_TEST(a_limit_leaves_what_is_not_used)
{
    const size_t which = (size_t)_i;
    pare_room room[PARE_ROOMS];
    leave(which, 100 * MIB);
    pare_room_read(room);
    const uint64_t left = pare_room_left(&room[which]);
    ck_assert_uint_le(left, 100 * MIB);
    ck_assert_uint_ge(left, 99 * MIB);
    ck_assert_ptr_eq(pare_room_least(room), &room[which]);
    leave(which, UINT64_MAX);
    pare_room_read(room);
    ck_assert_uint_eq(pare_room_left(&room[which]), UINT64_MAX);
    ck_assert_ptr_null(pare_room_least(room));
}
END_TEST

START_TEST(what_does_not_fit_is_refused_with_both_figures)
{
    static const char *const names[] = {"limit of the address space (ulimit -v) is ",
                                        "limit of the data segment (ulimit -d) is "};
    pare_ctx cx;
    pare_ctx_init(&cx);
    leave((size_t)_i, 100 * MIB);
    ck_assert_int_eq(pare_room_check(&cx, 90 * MIB, "it", NULL), PARE_OK);
    ck_assert_int_eq(pare_room_check(&cx, 110 * MIB, "it", "wait"), PARE_ENOMEM);
    ck_assert_msg(strstr(cx.what, "it: ") == cx.what, "%s", cx.what);
    ck_assert_msg(strstr(cx.what, names[_i]) != NULL, "%s", cx.what);
    ck_assert_msg(strstr(cx.what, "; raise it, or wait") != NULL, "%s", cx.what);
    double need = 0, limit = 0;
    ck_assert_int_eq(sscanf(cx.what, "it: %lf MiB are needed", &need), 1);
    ck_assert_int_eq(sscanf(strstr(cx.what, ") is ") + 5, "%lf MiB", &limit), 1);
    ck_assert_double_ge(need - limit, 9.0);
    ck_assert_double_le(need - limit, 11.0);
    leave((size_t)_i, UINT64_MAX);
}
END_TEST

START_TEST(threads_are_refused_before_they_start)
{
    pare_ctx cx;
    pare_pool *pool;
    pare_ctx_init(&cx);
    leave(PARE_ROOM_ADDRESS, pare_pool_room(100));
    ck_assert_int_eq(pare_pool_new(&cx, 200, &pool), PARE_ENOMEM);
    ck_assert_msg(strstr(cx.what, "200 threads: ") == cx.what, "%s", cx.what);
    ck_assert_msg(strstr(cx.what, "give a smaller --threads") != NULL, "%s", cx.what);
    ck_assert_uint_eq(cx.live_bytes, 0);
    leave(PARE_ROOM_ADDRESS, UINT64_MAX);
}
END_TEST

/* BLAS would wait without end for what it does not get. */
START_TEST(blas_is_refused_before_it_is_called)
{
    pare_ctx cx;
    pare_arena arena;
    double a[4] = {2, 0, 1, 2}, value[2];
    pare_ctx_init(&cx);
    ck_assert_int_eq(pare_arena_init(&cx, &arena, 0), PARE_OK);
    leave(PARE_ROOM_ADDRESS, pare_blas_room(1) - 8 * MIB);
    ck_assert_int_eq(pare_eigen_f64(&cx, &arena, a, 2, value), PARE_ENOMEM);
    ck_assert_msg(strstr(cx.what, "eigenvalues by BLAS: ") == cx.what, "%s", cx.what);
    leave(PARE_ROOM_ADDRESS, pare_blas_room(1) + 8 * MIB);
    pare_ctx_clear(&cx);
    ck_assert_int_eq(pare_eigen_f64(&cx, &arena, a, 2, value), PARE_OK);
    ck_assert_double_eq_tol(value[0], 1, 1e-12);
    leave(PARE_ROOM_ADDRESS, UINT64_MAX);
    pare_arena_release(&arena);
}
END_TEST

START_TEST(the_smallest_limit_counts)
{
    const pare_memory_limit asked = {"what was asked for", 64 * MIB};
    pare_memory_limit limit = pare_memory_limit_find((pare_memory_limit){0}, 0, 0);
    const uint64_t whole = limit.bytes;
    ck_assert_uint_gt(whole, 64 * MIB);
    limit = pare_memory_limit_find(asked, 0, 0);
    ck_assert_str_eq(limit.name, asked.name);
    ck_assert_uint_eq(limit.bytes, 64 * MIB);
    leave(PARE_ROOM_DATA, 50 * MIB);
    limit = pare_memory_limit_find(asked, 10 * MIB, 1000 * MIB);
    ck_assert_str_eq(limit.name, "data segment (ulimit -d)");
    ck_assert_uint_le(limit.bytes, 60 * MIB);
    ck_assert_uint_ge(limit.bytes, 40 * MIB);
    leave(PARE_ROOM_ADDRESS, 80 * MIB);
    limit = pare_memory_limit_find(asked, 10 * MIB, 40 * MIB); /* files count as addresses */
    ck_assert_str_eq(limit.name, "address space (ulimit -v)");
    ck_assert_uint_le(limit.bytes, 50 * MIB - 16 * MIB);
    ck_assert_uint_ge(limit.bytes, 33 * MIB);
    limit = pare_memory_limit_find(asked, 10 * MIB, 1000 * MIB);
    ck_assert_uint_eq(limit.bytes, 10 * MIB);
    leave(PARE_ROOM_ADDRESS, UINT64_MAX);
    leave(PARE_ROOM_DATA, UINT64_MAX);
}
END_TEST

int main(void)
{
    Suite *const s = suite_create("room");
    TCase *const t = tcase_create("room");
    tcase_add_loop_test(t, a_limit_leaves_what_is_not_used, 0, PARE_ROOMS);
    tcase_add_loop_test(t, what_does_not_fit_is_refused_with_both_figures, 0, PARE_ROOMS);
    tcase_add_test(t, threads_are_refused_before_they_start);
    tcase_add_test(t, blas_is_refused_before_it_is_called);
    tcase_add_test(t, the_smallest_limit_counts);
    suite_add_tcase(s, t);
    return unit_main(s);
}
