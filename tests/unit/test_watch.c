#include "runtime/watch.h"

#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "tests/unit/folder.h"

static pare_ctx cx;
static pare_arena arena;
static folder dir;

static void begin(void)
{
    folder_begin(&dir, &cx, &arena);
}

static void end(void)
{
    folder_end(&dir, &arena);
}

static const char *path_of(const char *name)
{
    static char path[384];
    (void)snprintf(path, sizeof path, "%s/%s", dir.path, name);
    return path;
}

/* Clocks of file systems tick every few milliseconds. */
static void wait_a_tick(void)
{
    const struct timespec time = {.tv_nsec = 20000000};
    (void)nanosleep(&time, NULL);
}

static void write_byte(const char *name)
{
    const int fd = open(path_of(name), O_WRONLY);
    ck_assert(fd >= 0 && pwrite(fd, "X", 1, 0) == 1 && close(fd) == 0);
}

/* Sets both times back to those of `was`. */
static void set_times(const char *name, const struct stat *was)
{
    const struct timespec times[2] = {was->st_atim, was->st_mtim};
    ck_assert_int_eq(utimensat(AT_FDCWD, path_of(name), times, 0), 0);
}

/* What may happen to the file "a" of six bytes. */
static void replace(const struct stat *was)
{
    (void)was;
    folder_put_text(&dir, "b", "sixsix");
    ck_assert_int_eq(rename(dir.file, path_of("a")), 0);
}

static void rewrite(const struct stat *was)
{
    (void)was;
    write_byte("a");
}

static void rewrite_quietly(const struct stat *was)
{
    write_byte("a");
    set_times("a", was);
}

static void touch(const struct stat *was)
{
    (void)was;
    ck_assert_int_eq(utimensat(AT_FDCWD, path_of("a"), NULL, 0), 0);
}

static void grow(const struct stat *was)
{
    ck_assert_int_eq(truncate(path_of("a"), 9), 0);
    set_times("a", was);
}

static void take_away(const struct stat *was)
{
    (void)was;
    ck_assert_int_eq(unlink(path_of("a")), 0);
}

static void away_and_back(const struct stat *was)
{
    (void)was;
    char other[384];
    (void)snprintf(other, sizeof other, "%s/c", dir.path);
    ck_assert_int_eq(rename(path_of("a"), other), 0);
    ck_assert_int_eq(rename(other, path_of("a")), 0);
}

static void put_missing(const struct stat *was)
{
    (void)was;
    folder_put_text(&dir, "none", "here now");
}

static const struct change {
    void (*make)(const struct stat *was);
    const char *what;
} changes[] = {
    {replace, "a: changed while it was in use: another file has its name"},
    {rewrite, "a: changed while it was in use: it was written to or touched"},
    {rewrite_quietly, "a: changed while it was in use: its time of change moved"},
    {touch, "a: changed while it was in use: it was written to or touched"},
    {grow, "a: changed while it was in use: it had 6 bytes and has 9"},
    {take_away, "a: changed while it was in use: it is gone"},
    {away_and_back, "a: changed while it was in use: its time of change moved"},
    {put_missing, "none: changed while it was in use: it was not there before"},
};
enum { CHANGES = sizeof changes / sizeof *changes };

/* Odd runs watch the mapped file, even ones its path. */
START_TEST(each_change_of_a_file_is_told)
{
    const struct change *const c = &changes[_i / 2];
    pare_watch w = {0};
    pare_file f = {0};
    struct stat was;
    folder_put_text(&dir, "a", "sixsix");
    if (_i % 2) {
        ck_assert_int_eq(pare_file_map(&cx, &arena, path_of("a"), &f), PARE_OK);
        ck_assert_int_eq(pare_watch_mapped(&arena, &w, &f), PARE_OK);
    } else {
        ck_assert_int_eq(pare_watch_path(&arena, &w, path_of("a")), PARE_OK);
    }
    ck_assert_int_eq(pare_watch_path(&arena, &w, path_of("none")), PARE_OK);
    ck_assert_int_eq(stat(path_of("a"), &was), 0);
    wait_a_tick();
    ck_assert_int_eq(pare_watch_check(&cx, &w), PARE_OK);
    c->make(&was);
    ck_assert_int_eq(pare_watch_check(&cx, &w), PARE_EFORMAT);
    ck_assert_msg(strstr(cx.what, c->what), "%s", cx.what);
    pare_file_unmap(&f);
}
END_TEST

START_TEST(a_file_that_is_read_stays_the_same)
{
    pare_watch w = {0};
    char *text;
    size_t len;
    folder_put_text(&dir, "a", "sixsix");
    ck_assert_int_eq(pare_watch_path(&arena, &w, path_of("a")), PARE_OK);
    wait_a_tick();
    ck_assert_int_eq(pare_file_read(&cx, &arena, path_of("a"), 9, &text, &len), PARE_OK);
    ck_assert_int_eq(pare_watch_check(&cx, &w), PARE_OK);
}
END_TEST

int main(void)
{
    Suite *const s = suite_create("watch");
    TCase *const t = tcase_create("watch");
    tcase_add_checked_fixture(t, begin, end);
    tcase_add_loop_test(t, each_change_of_a_file_is_told, 0, 2 * CHANGES);
    tcase_add_test(t, a_file_that_is_read_stays_the_same);
    suite_add_tcase(s, t);
    return unit_main(s);
}
