/* What stderr shows of a long piece of work, and the time left that it says. The interval of its
 * lines is a member of the screen, so that nobody waits half a minute here. */
#include "compress/cli/screen.h"

#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "runtime/machine.h"
#include "tests/unit/folder.h"

enum { PHASES = 3 };
static pare_phase job[PHASES];

static void setup(void)
{
    job[0] = (pare_phase){.name = "reading", .amount = 10, .steps = 1};
    job[1] = (pare_phase){.name = "blocks", .amount = 80, .steps = 4};
    job[2] = (pare_phase){.name = "writing", .amount = 10, .steps = 1};
}

static void near(double is, double expected)
{
    ck_assert_msg(is > expected * 0.999 - 1e-9 && is < expected * 1.001 + 1e-9, "%g, not %g", is,
                  expected);
}

START_TEST(nothing_is_said_of_a_job_that_nobody_described)
{
    pare_eta e = {0};
    ck_assert(pare_eta_left(&e, 5, 0.5) < 0);
    ck_assert_uint_eq(pare_eta_find(&e, "reading"), 0);
    pare_eta_step(&e, 0, 1);
    ck_assert(pare_eta_left(&e, 5, 0.5) < 0);
}
END_TEST

START_TEST(what_was_expected_is_put_right_by_what_was_measured)
{
    pare_eta e;
    pare_eta_begin(&e, job, PHASES, 1);
    near(pare_eta_left(&e, 100, 0), 100);
    pare_eta_step(&e, pare_eta_find(&e, "reading"), 100);
    near(pare_eta_left(&e, 104, 0), 96);
    /* a share says more than what was expected: 40 s in all, r = (40 + 10) / (10 + 10) */
    near(pare_eta_left(&e, 110, 0.25), 30 + 90 * 2.5);
    pare_eta_step(&e, 1, 120); /* it took 20 s: r = (20 + 10) / (10 + 10) */
    near(pare_eta_left(&e, 120, 0), 90 * 1.5);
    pare_eta_step(&e, 1, 160); /* a block takes 40 s: three of them, r = (60 + 10) / (30 + 10) */
    near(pare_eta_left(&e, 160, 0), 3 * 40 + 10 * 1.75);
    near(pare_eta_left(&e, 190, 0), 2 * 40 + 10 + 10 * 1.75);
    near(pare_eta_share(&e, 190, 90), 0.5);
    /* longer than expected: a quarter of what it took is added */
    near(pare_eta_left(&e, 360, 0), 2 * 40 + 50 + 10 * 1.75);
}
END_TEST

START_TEST(phases_that_are_left_out_do_not_count)
{
    pare_eta e;
    pare_eta_begin(&e, job, PHASES, 1);
    pare_eta_step(&e, 2, 50);
    near(pare_eta_left(&e, 50, 0), 10);
    ck_assert_uint_eq(pare_eta_find(&e, "reading"), 3);
}
END_TEST

START_TEST(a_share_never_goes_back)
{
    pare_eta e;
    double before = 0;
    pare_eta_begin(&e, job, PHASES, 1);
    pare_eta_step(&e, 0, 0);
    pare_eta_step(&e, 1, 10);
    /* the first block takes 200 s instead of 20: what is left grows, time after time */
    for (double now = 10; now < 210; now += 5) {
        const double share = pare_eta_share(&e, now, pare_eta_left(&e, now, 0));
        ck_assert_double_ge(share, before);
        before = share;
    }
    pare_eta_step(&e, 1, 210);
    const double left = pare_eta_left(&e, 210, 0);
    ck_assert_double_gt(left, 3 * 199.0);
    ck_assert_double_ge(pare_eta_share(&e, 210, left), before);
    ck_assert_double_lt(210 / (210 + left), before); /* what it would be without */
}
END_TEST

START_TEST(amounts_without_a_rate_say_nothing_until_something_is_measured)
{
    pare_eta e;
    pare_phase phase[] = {{.name = "opening", .steps = 1},
                          {.name = "first", .amount = 1000, .steps = 1},
                          {.name = "second", .amount = 2000, .steps = 1}};
    pare_eta_begin(&e, phase, 3, 0);
    pare_eta_step(&e, 0, 0);
    ck_assert(pare_eta_left(&e, 5, 0) < 0);
    ck_assert(pare_eta_left(&e, 5, 0.5) < 0); /* opening says nothing of the others */
    near(pare_eta_share(&e, 5, -1), 0);
    pare_eta_step(&e, 1, 10);
    ck_assert(pare_eta_left(&e, 20, 0) < 0);
    near(pare_eta_left(&e, 20, 0.25), 30 + 2 * 40);
    pare_eta_step(&e, 2, 60); /* 50 s for 1000 */
    near(pare_eta_left(&e, 60, 0), 100);
    near(pare_eta_share(&e, 60, 100), 60 / 160.0);
}
END_TEST

START_TEST(a_job_may_have_any_number_of_phases)
{
    enum { MANY = 200 };
    pare_eta e;
    pare_phase many[MANY];
    for (size_t i = 0; i < MANY; i++)
        many[i] = (pare_phase){.name = i == MANY - 1 ? "last" : "one", .amount = 1, .steps = 1};
    pare_eta_begin(&e, many, MANY, 1);
    near(pare_eta_left(&e, 0, 0), MANY);
    ck_assert_uint_eq(pare_eta_find(&e, "last"), MANY - 1);
    for (size_t i = 0; i < MANY; i++)
        pare_eta_step(&e, i, (double)i * 2);
    near(pare_eta_left(&e, (MANY - 1) * 2, 0.5), 0);
    near(pare_eta_left(&e, (MANY - 1) * 2 + 1, 0.5), 1);
}
END_TEST

/* What goes to stderr while `act` runs; free it. */
static char *stderr_of(void (*act)(void *), void *self)
{
    char name[] = "screen.XXXXXX";
    size_t len;
    const int fd = mkstemp(name), before = dup(STDERR_FILENO);
    ck_assert(fd >= 0 && before >= 0 && dup2(fd, STDERR_FILENO) >= 0);
    act(self);
    (void)fflush(stderr);
    ck_assert(dup2(before, STDERR_FILENO) >= 0 && close(before) == 0 && close(fd) == 0);
    char *const text = folder_get(name, &len);
    ck_assert_int_eq(unlink(name), 0);
    return text;
}

typedef struct scene {
    bool no_progress, whole_job, interrupted;
    double rate; /* of the whole job */
    double quiet, beat;
    double seconds; /* that it computes; 0: half of one */
    const char *log;
    const char *step; /* NULL: block 1 of 4 */
    bool further;     /* the piece is told of as three quarters, without its name */
} scene;

static void rest(double seconds)
{
    const struct timespec t = {(time_t)seconds, (long)((seconds - (double)(time_t)seconds) * 1e9)};
    (void)nanosleep(&t, NULL);
}

/* Half a second, and longer until the screen was due some times more: a busy machine is late. */
static void rest_for_beats(pare_screen *s)
{
    enum { BEATS = 4 };
    const double start = pare_seconds();
    double last = 0;
    for (size_t beats = 0; pare_seconds() < start + (beats < BEATS ? 60 : 0.5); rest(0.01)) {
        (void)pthread_mutex_lock(&s->lock);
        beats += s->beaten > last;
        last = s->beaten;
        (void)pthread_mutex_unlock(&s->lock);
    }
}

/* A piece of work that says once that it is at a quarter, and computes on. */
static void work(void *self)
{
    const scene *const c = self;
    const volatile int signal_number = c->interrupted ? 15 : 0;
    static pare_ctx cx;
    static pare_screen s;
    pare_ctx_init(&cx);
    cx.interrupt = &signal_number;
    pare_screen_init(&s, &cx);
    s.no_progress = c->no_progress;
    s.quiet_seconds = c->quiet;
    s.beat_seconds = c->beat;
    if (c->log)
        ck_assert_int_eq(pare_event_log_open(&cx, c->log, &s.log), PARE_OK);
    s.silent = c->log && !s.log.path;
    if (c->log)
        pare_event_log_end(&s.log, pare_event_log_begin(&s.log, "start", "a scene"));
    if (c->whole_job) {
        pare_ctx_job(&cx, job, PHASES, c->rate);
        pare_ctx_step(&cx, 1, c->step ? c->step : "block 1 of 4");
    }
    pare_ctx_progress(&cx, "gathering", 1, 4);
    if (c->further)
        pare_ctx_further(&cx, 3, 4);
    if (c->seconds > 0 || c->beat > 1)
        rest(c->seconds > 0 ? c->seconds : 0.5);
    else
        rest_for_beats(&s);
    pare_ctx_progress(&cx, "gathering", 4, 4);
    pare_screen_say(&s, "warning: little text");
    pare_ctx_job(&cx, NULL, 0, 0);
    pare_screen_end(&s);
    ck_assert_int_eq(pare_event_log_close(&cx, &s.log), PARE_OK);
}

static size_t count(const char *text, const char *fragment)
{
    size_t n = 0;
    for (const char *p = text; (p = strstr(p, fragment)); p++)
        n++;
    return n;
}

/* "2026-11-22T19:10:33Z " */
static bool is_dated(const char *line)
{
    static const char form[] = "0000-00-00T00:00:00Z ";
    for (size_t i = 0; form[i]; i++)
        if (form[i] == '0' ? line[i] < '0' || line[i] > '9' : line[i] != form[i])
            return false;
    return true;
}

START_TEST(lines_come_while_the_work_says_nothing)
{
    scene c = {.quiet = 0.1, .beat = 0.1};
    char *const text = stderr_of(work, &c);
    ck_assert_msg(count(text, "gathering 25%; about ") >= 3, "%s", text);
    ck_assert_msg(is_dated(text) && count(text, " left\n") >= 3, "%s", text);
    ck_assert_msg(strstr(text, "\nwarning: little text\n"), "%s", text);
    free(text);
}
END_TEST

START_TEST(a_step_of_a_job_is_told_when_it_begins)
{
    scene c = {.whole_job = true, .rate = 1, .quiet = 0, .beat = 0.1};
    char *const text = stderr_of(work, &c);
    ck_assert_msg(is_dated(text) && strstr(text, "Z block 1 of 4; job 0%, about "), "%s", text);
    ck_assert_msg(count(text, "block 1 of 4: gathering 25%; job ") >= 2, "%s", text);
    ck_assert_msg(strstr(text, "Z warning: little text\n"), "%s", text);
    free(text);
}
END_TEST

START_TEST(a_piece_gets_further_without_its_name)
{
    scene c = {.whole_job = true, .rate = 1, .quiet = 0.1, .beat = 0.1, .further = true};
    char *const text = stderr_of(work, &c);
    ck_assert_msg(strstr(text, "block 1 of 4: gathering 75%; job "), "%s", text);
    free(text);
}
END_TEST

START_TEST(a_step_of_one_piece_has_one_name)
{
    scene c = {.whole_job = true, .step = "gathering", .rate = 1, .quiet = 60, .beat = 0.1};
    char *const text = stderr_of(work, &c);
    ck_assert_msg(count(text, "Z gathering 25%; job ") >= 2, "%s", text);
    free(text);
}
END_TEST

START_TEST(a_job_without_a_rate_has_no_time_left_in_front)
{
    scene c = {.whole_job = true, .quiet = 0, .beat = 0.1};
    char *const text = stderr_of(work, &c);
    ck_assert_msg(strstr(text, "Z block 1 of 4; job 0%\n"), "%s", text);
    ck_assert_msg(!strstr(text, "left"), "%s", text); /* gathering is one of several pieces */
    free(text);
    setup();
    job[1].piece = "gathering";
    char *const whole = stderr_of(work, &c);
    ck_assert_msg(strstr(whole, "Z block 1 of 4; job 0%\n"), "%s", whole);
    ck_assert_msg(count(whole, "block 1 of 4: gathering 25%; job ") >= 2 &&
                      count(whole, "%, about ") >= 2,
                  "%s", whole);
    free(whole);
}
END_TEST

START_TEST(short_work_is_not_worth_a_line)
{
    scene c = {.quiet = 60, .beat = 60};
    char *const text = stderr_of(work, &c);
    ck_assert_str_eq(text, "warning: little text\n");
    free(text);
    c.whole_job = true;
    char *const job_text = stderr_of(work, &c);
    ck_assert_msg(is_dated(job_text) && strcmp(job_text + 21, "warning: little text\n") == 0, "%s",
                  job_text);
    free(job_text);
}
END_TEST

START_TEST(no_progress_leaves_messages_and_warnings)
{
    scene c = {.no_progress = true, .quiet = 0.05, .beat = 0.05};
    char *const text = stderr_of(work, &c);
    ck_assert_str_eq(text, "warning: little text\n");
    free(text);
}
END_TEST

START_TEST(a_signal_is_told_while_the_work_goes_on)
{
    scene c = {.interrupted = true, .quiet = 60, .beat = 60};
    char *const text = stderr_of(work, &c);
    ck_assert_msg(count(text, "stopping at the next safe place") == 1, "%s", text);
    free(text);
}
END_TEST

/* The events of a log: kind by kind in `kinds`, each well formed. */
static void read_events(const char *text, char *kinds, size_t size)
{
    pare_ctx cx;
    pare_ctx_init(&cx);
    kinds[0] = '\0';
    for (const char *line = text; *line; line += strcspn(line, "\n") + 1) {
        pare_json *e;
        ck_assert_int_eq(pare_json_parse(&cx, "event", line, strcspn(line, "\n"), 1 << 20, &e),
                         PARE_OK);
        const char *const kind = pare_json_text(pare_json_get(e, "event"), NULL);
        ck_assert(kind && pare_json_text(pare_json_get(e, "text"), NULL) &&
                  pare_json_text(pare_json_get(e, "time"), NULL) &&
                  pare_json_number(pare_json_get(e, "seconds"), -1) >= 0);
        const double share = pare_json_number(pare_json_get(e, "share"), -1);
        if (strcmp(kind, "progress") == 0 && share < 1) { /* 1: the work has just ended */
            near(share, 0.25);
            ck_assert(pare_json_number(pare_json_get(e, "left_seconds"), -1) > 0);
        }
        if (strcmp(kind, "interrupted") == 0)
            ck_assert_str_eq(pare_json_text(pare_json_get(e, "signal"), NULL), "SIGTERM");
        (void)snprintf(kinds + strlen(kinds), size - strlen(kinds), "%s ", kind);
        pare_json_free(e);
    }
}

START_TEST(events_take_the_place_of_lines)
{
    scene c = {.interrupted = true, .quiet = 0.1, .beat = 0.1, .log = "json"};
    char kinds[1024];
    char *const text = stderr_of(work, &c);
    read_events(text, kinds, sizeof kinds);
    ck_assert_msg(strncmp(kinds, "start phase interrupted progress progress ", 42) == 0, "%s",
                  kinds);
    ck_assert_msg(strstr(kinds, "progress warning "), "%s", kinds);
    free(text);
}
END_TEST

START_TEST(events_in_a_file_leave_the_lines_and_are_appended)
{
    scene c = {.quiet = 0.1, .beat = 0.1, .log = "json:screen.jsonl"};
    char kinds[1024];
    size_t len;
    (void)unlink("screen.jsonl");
    for (size_t i = 0; i < 2; i++) {
        char *const text = stderr_of(work, &c);
        ck_assert_msg(strstr(text, "gathering 25%"), "%s", text);
        free(text);
    }
    char *const events = folder_get("screen.jsonl", &len);
    read_events(events, kinds, sizeof kinds);
    ck_assert_msg(count(kinds, "phase progress ") == 2 && count(kinds, "warning ") == 2, "%s",
                  kinds);
    free(events);
    ck_assert_int_eq(unlink("screen.jsonl"), 0);
}
END_TEST

/* The line that comes after two seconds is an event, too, long before the first half minute. */
START_TEST(work_that_takes_long_is_an_event)
{
    scene c = {.quiet = 0.1, .beat = 60, .seconds = 2, .log = "json"};
    char kinds[1024];
    char *const text = stderr_of(work, &c);
    read_events(text, kinds, sizeof kinds);
    ck_assert_str_eq(kinds, "start phase progress warning ");
    free(text);
}
END_TEST

START_TEST(no_progress_leaves_the_events)
{
    scene c = {.no_progress = true, .quiet = 0.1, .beat = 0.1, .log = "json:screen.jsonl"};
    char kinds[1024];
    size_t len;
    (void)unlink("screen.jsonl");
    char *const text = stderr_of(work, &c);
    ck_assert_str_eq(text, "warning: little text\n");
    char *const events = folder_get("screen.jsonl", &len);
    read_events(events, kinds, sizeof kinds);
    ck_assert_msg(strncmp(kinds, "start phase progress progress ", 30) == 0, "%s", kinds);
    free(events);
    free(text);
    ck_assert_int_eq(unlink("screen.jsonl"), 0);
}
END_TEST

START_TEST(other_words_are_no_log)
{
    static const char *const words[] = {"", "text", "jsonl", "json:"};
    for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
        pare_event_log log = {0};
        pare_ctx cx;
        pare_ctx_init(&cx);
        ck_assert_int_eq(pare_event_log_open(&cx, words[i], &log), PARE_EUSAGE);
        ck_assert_msg(strstr(cx.what, "expected json (events on stderr) or json:FILE"), "%s",
                      cx.what);
    }
}
END_TEST

int main(void)
{
    Suite *const s = suite_create("screen");
    TCase *const t = tcase_create("all");
    tcase_add_checked_fixture(t, setup, NULL);
    tcase_add_test(t, nothing_is_said_of_a_job_that_nobody_described);
    tcase_add_test(t, what_was_expected_is_put_right_by_what_was_measured);
    tcase_add_test(t, phases_that_are_left_out_do_not_count);
    tcase_add_test(t, a_share_never_goes_back);
    tcase_add_test(t, amounts_without_a_rate_say_nothing_until_something_is_measured);
    tcase_add_test(t, a_job_may_have_any_number_of_phases);
    tcase_add_test(t, a_piece_gets_further_without_its_name);
    tcase_add_test(t, a_step_of_one_piece_has_one_name);
    tcase_add_test(t, a_job_without_a_rate_has_no_time_left_in_front);
    tcase_add_test(t, lines_come_while_the_work_says_nothing);
    tcase_add_test(t, a_step_of_a_job_is_told_when_it_begins);
    tcase_add_test(t, short_work_is_not_worth_a_line);
    tcase_add_test(t, no_progress_leaves_messages_and_warnings);
    tcase_add_test(t, a_signal_is_told_while_the_work_goes_on);
    tcase_add_test(t, events_take_the_place_of_lines);
    tcase_add_test(t, events_in_a_file_leave_the_lines_and_are_appended);
    tcase_add_test(t, work_that_takes_long_is_an_event);
    tcase_add_test(t, no_progress_leaves_the_events);
    tcase_add_test(t, other_words_are_no_log);
    suite_add_tcase(s, t);
    return unit_main(s);
}
