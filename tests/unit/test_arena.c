#include "runtime/arena.h"

#include <stdint.h>
#include <string.h>

#include "tests/unit/unit.h"

static pare_ctx cx;
static pare_arena arena;

static void begin(void)
{
    pare_ctx_init(&cx);
    ck_assert_int_eq(pare_arena_init(&cx, &arena, 0), PARE_OK);
}

static void end(void)
{
    pare_arena_release(&arena);
    ck_assert_uint_eq(cx.live_bytes, 0);
}

static bool all_are(const unsigned char *bytes, size_t n, unsigned char value)
{
    size_t i = 0;
    while (i < n && bytes[i] == value)
        i++;
    return i == n;
}

START_TEST(objects_are_aligned_zeroed_and_apart)
{
    unsigned char *object[200];
    for (size_t i = 0; i < 200; i++) {
        const size_t bytes = 1 + i * i % 5000;
        object[i] = pare_arena_take(&arena, bytes, 1);
        ck_assert_ptr_nonnull(object[i]);
        ck_assert_uint_eq((uintptr_t)object[i] % PARE_ALIGN, 0);
        ck_assert(all_are(object[i], bytes, 0));
        memset(object[i], (int)i, bytes);
    }
    for (size_t i = 0; i < 200; i++)
        ck_assert(all_are(object[i], 1 + i * i % 5000, (unsigned char)i));
}
END_TEST

START_TEST(a_rewind_frees_what_came_after_the_mark_and_nothing_else)
{
    char *const kept = pare_arena_text(&arena, "kept", 4);
    const size_t live = cx.live_bytes;
    for (int round = 0; round < 50; round++) {
        const pare_mark mark = pare_arena_mark(&arena);
        unsigned char *const large = pare_arena_take(&arena, 1 << 20, 1);
        unsigned char *const small = pare_arena_take(&arena, 10, 1);
        ck_assert(large && small);
        ck_assert_uint_eq(large[(1 << 20) - 1] + small[9], 0); /* zeroed again */
        memset(large, 1, 1 << 20);
        memset(small, 1, 10);
        pare_arena_rewind(&arena, mark);
        ck_assert_uint_eq(cx.live_bytes, live);
    }
    for (int round = 0; round < 500; round++) { /* far more than one block holds */
        const pare_mark mark = pare_arena_mark(&arena);
        ck_assert_ptr_nonnull(pare_arena_take(&arena, 1000, 1));
        pare_arena_rewind(&arena, mark);
        ck_assert_ptr_eq(pare_arena_mark(&arena).block, mark.block);
        ck_assert_uint_eq(pare_arena_mark(&arena).used, mark.used);
    }
    ck_assert_str_eq(kept, "kept");
}
END_TEST

START_TEST(a_rewind_to_an_empty_arena_frees_all)
{
    const pare_mark mark = pare_arena_mark(&arena);
    ck_assert_ptr_nonnull(pare_arena_take(&arena, 100, 100));
    pare_arena_rewind(&arena, mark);
    ck_assert_uint_eq(cx.live_bytes, 0);
    ck_assert_ptr_nonnull(pare_arena_take(&arena, 1, 1));
}
END_TEST

START_TEST(a_planned_block_serves_what_was_planned)
{
    pare_arena planned;
    ck_assert_int_eq(pare_arena_init(&cx, &planned, 100000), PARE_OK);
    const size_t live = cx.live_bytes;
    for (int i = 0; i < 9; i++)
        ck_assert_ptr_nonnull(pare_arena_take(&planned, 10000, 1));
    ck_assert_uint_eq(cx.live_bytes, live);
    pare_arena_release(&planned);
}
END_TEST

START_TEST(sizes_that_overflow_are_refused_with_a_message)
{
    ck_assert_ptr_null(pare_arena_take(&arena, SIZE_MAX / 4, 8));
    ck_assert_ptr_nonnull(strstr(cx.what, "objects of 8 bytes"));
    pare_ctx_clear(&cx);
    ck_assert_ptr_null(pare_arena_take(&arena, SIZE_MAX - 8, 1));
    ck_assert(cx.what[0]);
    ck_assert_ptr_null(pare_arena_text(&arena, "", SIZE_MAX));
    pare_ctx_clear(&cx);
    ck_assert_int_eq(pare_arena_init(&cx, &arena, SIZE_MAX - 8), PARE_ENOMEM);
    ck_assert(cx.what[0]);
}
END_TEST

START_TEST(the_limit_holds_and_the_message_names_it)
{
    cx.limit_bytes = 200000;
    ck_assert_ptr_nonnull(pare_arena_take(&arena, 100000, 1));
    ck_assert_ptr_null(pare_arena_take(&arena, 150000, 1));
    ck_assert_ptr_nonnull(strstr(cx.what, "limit 200000"));
    ck_assert_uint_le(cx.peak_bytes, 200000);
}
END_TEST

START_TEST(texts_are_copied_with_an_end)
{
    const char text[] = "a\0b";
    const char *const copy = pare_arena_text(&arena, text, 3);
    ck_assert_mem_eq(copy, "a\0b", 4);
    ck_assert_str_eq(pare_arena_text(&arena, "", 0), "");
}
END_TEST

START_TEST(every_refused_allocation_leaves_a_usable_arena)
{
    for (long left = 0; left < 4; left++) {
        unit_failing failing = {.left = left};
        pare_ctx other;
        pare_arena a;
        pare_ctx_init(&other);
        other.alloc = (pare_alloc){unit_failing_resize, &failing};
        const pare_status s = pare_arena_init(&other, &a, 1000);
        ck_assert_int_eq(s, left > 0 ? PARE_OK : PARE_ENOMEM);
        size_t taken = 0;
        while (taken < 3 && pare_arena_take(&a, 100000, 1))
            taken++;
        ck_assert_uint_eq(taken, left > 0 ? (size_t)left - 1 : 0);
        ck_assert((taken == 3) == (other.what[0] == '\0'));
        pare_arena_release(&a);
        ck_assert_int_eq(failing.live, 0);
    }
}
END_TEST

int main(void)
{
    Suite *const s = suite_create("arena");
    TCase *const c = tcase_create("arena");
    tcase_set_timeout(c, 60);
    tcase_add_checked_fixture(c, begin, end);
    tcase_add_test(c, objects_are_aligned_zeroed_and_apart);
    tcase_add_test(c, a_rewind_frees_what_came_after_the_mark_and_nothing_else);
    tcase_add_test(c, a_rewind_to_an_empty_arena_frees_all);
    tcase_add_test(c, a_planned_block_serves_what_was_planned);
    tcase_add_test(c, sizes_that_overflow_are_refused_with_a_message);
    tcase_add_test(c, the_limit_holds_and_the_message_names_it);
    tcase_add_test(c, texts_are_copied_with_an_end);
    tcase_add_test(c, every_refused_allocation_leaves_a_usable_arena);
    suite_add_tcase(s, c);
    return unit_main(s);
}
