#include "tests/unit/pipes.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Two fail: the first of them is heard by all, and from there on nobody waits. */
static int two_fail(pare_ctx *cx)
{
    const size_t rank = pare_world_rank(cx);
    if (pare_world_agree(cx, PARE_OK) != PARE_OK || cx->world->ended)
        return 1;
    pare_status s = PARE_OK;
    if (rank >= 2)
        s = pare_fail(cx, rank == 2 ? PARE_EIO : PARE_ENOMEM, "disk %zu is gone", rank);
    if (pare_world_agree(cx, s) != PARE_EIO)
        return 2;
    if (strcmp(cx->what, rank == 2 ? "disk 2 is gone" : "rank 2: disk 2 is gone") != 0)
        return 3;
    if (!cx->world->ended || pare_world_agree(cx, PARE_ENOTFOUND) != PARE_ENOTFOUND)
        return 4;
    return 0;
}

START_TEST(all_learn_what_the_first_of_them_failed_of)
{
    ck_assert_int_eq(pipes_run(two_fail), 0);
}
END_TEST

static int leader_fails(pare_ctx *cx)
{
    const bool leads = pare_world_rank(cx) == 0;
    const pare_status s = leads ? pare_fail(cx, PARE_ENOSPC, "full") : PARE_OK;
    return pare_world_agree(cx, s) == PARE_ENOSPC && strcmp(cx->what, "full") == 0 ? 0 : 1;
}

START_TEST(a_failure_of_the_leader_is_told_as_it_is)
{
    ck_assert_int_eq(pipes_run(leader_fails), 0);
}
END_TEST

static int pass_round(pare_ctx *cx)
{
    char text[8] = "";
    const size_t rank = pare_world_rank(cx);
    if (rank == 0)
        memcpy(text, "abcdefg", 8);
    pare_world_broadcast(cx, text, sizeof text);
    text[rank] = (char)('0' + (int)rank);
    if (rank > 0)
        pare_world_send(cx, 0, text, sizeof text);
    for (size_t r = 1; rank == 0 && r < PIPES_SIZE; r++) {
        char want[8] = "abcdefg", got[8];
        want[r] = (char)('0' + (int)r);
        pare_world_receive(cx, r, got, sizeof got);
        if (memcmp(got, want, sizeof got) != 0)
            return 1;
    }
    return strncmp(text + PIPES_SIZE, "efg", 4) == 0 ? 0 : 2;
}

START_TEST(bytes_reach_whom_they_are_for)
{
    ck_assert_int_eq(pipes_run(pass_round), 0);
}
END_TEST

START_TEST(one_process_needs_no_world)
{
    pare_ctx cx;
    pare_world world;
    pare_ctx_init(&cx);
    ck_assert_int_eq(unsetenv("OMPI_COMM_WORLD_SIZE"), 0);
    ck_assert_int_eq(setenv("PMI_SIZE", "1", 1), 0);
    ck_assert_uint_eq(pare_world_started(), 1);
    ck_assert_int_eq(pare_world_open(&cx, &world), PARE_OK);
    ck_assert(!cx.world && pare_world_size(&cx) == 1 && pare_world_rank(&cx) == 0);
    ck_assert_int_eq(pare_world_agree(&cx, PARE_EIO), PARE_EIO);
    pare_world_close(&cx);
    ck_assert_int_eq(setenv("OMPI_COMM_WORLD_SIZE", "16", 1), 0);
    ck_assert_uint_eq(pare_world_started(), 16);
    ck_assert_int_eq(setenv("OMPI_COMM_WORLD_SIZE", "many", 1), 0);
    ck_assert_uint_eq(pare_world_started(), 1);
}
END_TEST

int main(void)
{
    Suite *const s = suite_create("world");
    TCase *const c = tcase_create("world");
    tcase_add_test(c, all_learn_what_the_first_of_them_failed_of);
    tcase_add_test(c, a_failure_of_the_leader_is_told_as_it_is);
    tcase_add_test(c, bytes_reach_whom_they_are_for);
    tcase_add_test(c, one_process_needs_no_world);
    suite_add_tcase(s, c);
    return unit_main(s);
}
