/* Files that jobs keep for each other: one writer at a time, and nothing that is damaged. */
#include <sys/file.h>

#include "formats/kept_file.h"
#include "tests/unit/job.h"

static const char bytes[] = "what took long to find";
enum { BYTES = sizeof bytes };

static pare_ctx cx;
static pare_arena arena;
static job_place place;
static int from;

static void setup(void)
{
    pare_ctx_init(&cx);
    ck_assert_int_eq(pare_arena_init(&cx, &arena, 0), PARE_OK);
    (void)snprintf(place.root, sizeof place.root, "kept.XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(place.root));
    from = open(job_path(&place, "from"), O_RDWR | O_CREAT, 0666);
    ck_assert_int_eq(write(from, bytes, BYTES), BYTES);
}

static void teardown(void)
{
    (void)close(from);
    job_remove_directory(place.root);
    pare_arena_release(&arena);
    ck_assert_uint_eq(cx.live_bytes, 0);
}

static bool put(const char *key)
{
    bool kept;
    ck_assert_int_eq(
        pare_kept_put(&cx, &arena, from, "from", BYTES, job_path(&place, "kept"), key, &kept),
        PARE_OK);
    return kept;
}

/* Why there is nothing to take; NULL: there was, and it is what was put. */
static const char *take(const char *key)
{
    const char *why;
    char is[BYTES];
    int fd;
    ck_assert_int_eq(pare_kept_open(&cx, &arena, job_path(&place, "kept"), key, BYTES, &fd, &why),
                     PARE_OK);
    ck_assert((fd < 0) == (why != NULL));
    if (fd >= 0) {
        ck_assert_int_eq(pread(fd, is, BYTES, PARE_KEPT_HEAD), BYTES);
        ck_assert_mem_eq(is, bytes, BYTES);
        (void)close(fd);
    }
    return why;
}

START_TEST(what_is_kept_is_taken_by_its_key)
{
    ck_assert_str_eq(take("key"), "there is no such file yet");
    ck_assert(put("key"));
    ck_assert_ptr_null(take("key"));
    ck_assert_str_eq(take("another"), "it is of another job");
    ck_assert(put("another"));
    ck_assert_ptr_null(take("another"));
}
END_TEST

START_TEST(two_do_not_write_at_once)
{
    const int other = open(job_path(&place, "kept.tmp"), O_RDWR | O_CREAT, 0666);
    ck_assert_int_eq(flock(other, LOCK_EX), 0);
    ck_assert(!put("key"));
    ck_assert_str_eq(take("key"), "there is no such file yet");
    (void)close(other);
    ck_assert(put("key"));
    ck_assert_ptr_null(take("key"));
}
END_TEST

/* Of two that found the same, the second was killed while it wrote. */
START_TEST(what_a_killed_writer_left_goes_once_the_file_is_whole)
{
    ck_assert(put("key"));
    const int other = open(job_path(&place, "kept.tmp"), O_RDWR | O_CREAT, 0666);
    ck_assert_int_eq(flock(other, LOCK_EX), 0);
    ck_assert_ptr_null(take("key"));
    ck_assert_int_eq(access(job_path(&place, "kept.tmp"), F_OK), 0); /* it is being written */
    (void)close(other);
    ck_assert_str_eq(take("another"), "it is of another job");
    ck_assert_int_eq(access(job_path(&place, "kept.tmp"), F_OK), 0);
    ck_assert_ptr_null(take("key"));
    ck_assert_int_ne(access(job_path(&place, "kept.tmp"), F_OK), 0);
}
END_TEST

/* Any byte of the file, and its length. */
START_TEST(damage_is_seen)
{
    ck_assert(put("key"));
    const int fd = open(job_path(&place, "kept"), O_RDWR);
    for (off_t at = 0; at < PARE_KEPT_HEAD + BYTES; at++) {
        unsigned char was, is;
        ck_assert_int_eq(pread(fd, &was, 1, at), 1);
        is = was ^ 16;
        ck_assert_int_eq(pwrite(fd, &is, 1, at), 1);
        ck_assert_ptr_nonnull(take("key"));
        ck_assert_int_eq(pwrite(fd, &was, 1, at), 1);
    }
    ck_assert_ptr_null(take("key"));
    ck_assert_int_eq(ftruncate(fd, PARE_KEPT_HEAD + BYTES - 1), 0);
    ck_assert_str_eq(take("key"), "it has another length");
    (void)close(fd);
}
END_TEST

int main(void)
{
    Suite *const s = suite_create("kept_file");
    TCase *const t = tcase_create("kept_file");
    tcase_add_checked_fixture(t, setup, teardown);
    tcase_add_test(t, what_is_kept_is_taken_by_its_key);
    tcase_add_test(t, two_do_not_write_at_once);
    tcase_add_test(t, what_a_killed_writer_left_goes_once_the_file_is_whole);
    tcase_add_test(t, damage_is_seen);
    suite_add_tcase(s, t);
    return unit_main(s);
}
