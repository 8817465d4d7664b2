/* A command at the end of a job: what it is told, how long it may take, what becomes of it. */
#include <signal.h>
#include <string.h>
#include <time.h>

#include "compress/cli/notify.h"
#include "runtime/file.h"
#include "runtime/machine.h"
#include "tests/unit/folder.h"

static pare_ctx cx;
static pare_arena arena;
static folder d;

static void begin(void)
{
    folder_begin(&d, &cx, &arena);
}

static void end(void)
{
    folder_end(&d, &arena);
}

/* Runs it in the folder. */
static bool run(const char *command, const pare_notice *n, double limit, char why[PARE_NOTIFY_WHY])
{
    char line[1024];
    (void)snprintf(line, sizeof line, "cd '%s' && { %s\n}", d.path, command);
    return pare_notify(&arena, line, n, limit, why);
}

static const char *written(const char *name)
{
    char *text;
    size_t len;
    ck_assert_msg(pare_file_read(&cx, &arena, folder_file(&d, name), 4096, &text, &len) == PARE_OK,
                  "%s", cx.what);
    return text;
}

static const pare_notice notice = {.status = "failed",
                                   .code = 4,
                                   .output = "a folder/x",
                                   .seconds = 12.345,
                                   .summary = "it is\nbroken \x1b[1m",
                                   .quiet = true};

START_TEST(it_knows_how_the_job_ended_and_nothing_of_before)
{
    char why[PARE_NOTIFY_WHY];
    begin();
    ck_assert_int_eq(setenv("PARE_STATUS", "old", 1), 0);
    ck_assert_int_eq(setenv("KEPT", "kept", 1), 0);
    ck_assert_msg(run("printf '%s|%s|%s|%s|%s|%s' \"$PARE_STATUS\" $PARE_EXIT \"$PARE_OUTPUT\" "
                      "$PARE_SECONDS \"$PARE_SUMMARY\" $KEPT > told; env | grep -c ^PARE_STATUS= "
                      "> count; cat > input",
                      &notice, 10, why),
                  "%s", why);
    ck_assert_str_eq(written("told"), "failed|4|a folder/x|12.3|it is broken ?[1m|kept");
    ck_assert_str_eq(written("count"), "1\n");
    ck_assert_str_eq(written("input"), "");
    end();
}
END_TEST

static const struct {
    const char *command, *why;
} ends[] = {{"exit 3", "ended with exit code 3"},
            {"no-such-command", "ended with exit code 127"},
            {"kill -TERM $$", "was ended by signal 15"},
            {"kill -PIPE $$", "was ended by signal 13"}};

START_TEST(it_says_how_the_command_failed)
{
    char why[PARE_NOTIFY_WHY];
    begin();
    (void)signal(SIGPIPE, SIG_IGN); /* as the program has it; the command does not */
    ck_assert(!run(ends[_i].command, &notice, 10, why));
    ck_assert_str_eq(why, ends[_i].why);
    end();
}
END_TEST

static bool is_alive(const char *pid)
{
    const struct timespec pause = {.tv_nsec = 20000000};
    for (int i = 0; i < 1500; i++) { /* init has to take what its parent left */
        char path[64], *end;
        (void)snprintf(path, sizeof path, "/proc/%ld/stat", strtol(pid, &end, 10));
        FILE *const f = fopen(path, "r");
        char text[256] = "";
        if (f && fgets(text, sizeof text, f)) {
            (void)fclose(f);
            if (strstr(text, ") Z "))
                return false;
        } else {
            return false;
        }
        (void)nanosleep(&pause, NULL);
    }
    return true;
}

START_TEST(it_is_killed_with_all_that_it_started)
{
    char why[PARE_NOTIFY_WHY];
    begin();
    const double start = pare_seconds();
    ck_assert(!run("sleep 300 & echo $! > pid; trap '' TERM; sleep 300", &notice, 3, why));
    ck_assert(pare_seconds() - start < 60);
    ck_assert_str_eq(why, "was killed after 3 s");
    ck_assert(!is_alive(written("pid")));
    end();
}
END_TEST

START_TEST(it_fails_without_memory_and_starts_nothing)
{
    char why[PARE_NOTIFY_WHY];
    begin();
    cx.limit_bytes = cx.live_bytes + 16;
    pare_arena small;
    ck_assert_int_eq(pare_arena_init(&cx, &small, 0), PARE_OK);
    ck_assert(!pare_notify(&small, "exit 0", &notice, 1, why));
    ck_assert_msg(strstr(why, "could not be started"), "%s", why);
    cx.limit_bytes = 0;
    pare_arena_release(&small);
    end();
}
END_TEST

int main(void)
{
    Suite *const s = suite_create("notify");
    TCase *const t = tcase_create("notify");
    tcase_set_timeout(t, 120);
    tcase_add_test(t, it_knows_how_the_job_ended_and_nothing_of_before);
    tcase_add_loop_test(t, it_says_how_the_command_failed, 0, 4);
    tcase_add_test(t, it_is_killed_with_all_that_it_started);
    tcase_add_test(t, it_fails_without_memory_and_starts_nothing);
    suite_add_tcase(s, t);
    return unit_main(s);
}
