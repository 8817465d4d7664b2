/* The step from OUTPUT.partial to OUTPUT, killed in front of each call that changes a directory, on
 * file systems with and without a way to exchange two directories: the next run finds the old
 * output or the new one, whole, and comes to the same end. */
#define _GNU_SOURCE
#include <errno.h>
#include <signal.h>
#include <sys/wait.h>

#include "tests/unit/outputs.h"

static struct {
    long left;         /* calls until the end; below 0: none */
    bool no_flags;     /* renameat2 has none of its flags */
    int second_fails;  /* errno of the second plain rename, or 0 */
    outputs *intruded; /* somebody puts a directory at `out` in front of that */
    bool unsynced;     /* a file was removed since the last fsync */
    int early;         /* files of `last` that were removed then */
    const char *const *last;
} fault = {.left = -1};

static void step(void)
{
    if (fault.left >= 0 && fault.left-- == 0)
        (void)kill(getpid(), SIGKILL);
}

int __real_renameat2(int from_at, const char *from, int to_at, const char *to, unsigned flags);
int __wrap_renameat2(int from_at, const char *from, int to_at, const char *to, unsigned flags);
int __wrap_renameat2(int from_at, const char *from, int to_at, const char *to, unsigned flags)
{
    step();
    if (!fault.no_flags)
        return __real_renameat2(from_at, from, to_at, to, flags);
    errno = EINVAL;
    return -1;
}

int __real_rename(const char *from, const char *to);
int __wrap_rename(const char *from, const char *to);
int __wrap_rename(const char *from, const char *to)
{
    const size_t len = strlen(from);
    step();
    if (len < 8 || strcmp(from + len - 8, ".partial") != 0)
        return __real_rename(from, to);
    if (fault.intruded) {
        ck_assert_int_eq(mkdir(to, 0777), 0);
        outputs_put(fault.intruded, "out/thesis.tex", "mine");
    }
    if (!fault.second_fails)
        return __real_rename(from, to);
    errno = fault.second_fails;
    return -1;
}

/* What tells that a directory is ours goes behind everything else, on the disk, too. */
static void note_removal(const char *path)
{
    const char *const slash = strrchr(path, '/'), *const name = slash ? slash + 1 : path;
    for (size_t i = 0; fault.last && fault.last[i]; i++)
        fault.early += fault.unsynced && strcmp(name, fault.last[i]) == 0;
    fault.unsynced = true;
}

int __real_unlink(const char *path);
int __wrap_unlink(const char *path);
int __wrap_unlink(const char *path)
{
    step();
    note_removal(path);
    return __real_unlink(path);
}

int __real_unlinkat(int at, const char *path, int flags);
int __wrap_unlinkat(int at, const char *path, int flags);
int __wrap_unlinkat(int at, const char *path, int flags)
{
    step();
    note_removal(path);
    return __real_unlinkat(at, path, flags);
}

int __real_rmdir(const char *path);
int __wrap_rmdir(const char *path);
int __wrap_rmdir(const char *path)
{
    step();
    return __real_rmdir(path);
}

int __wrap_fsync(int fd);
int __wrap_fsync(int fd)
{
    (void)fd;
    step();
    fault.unsynced = false;
    return 0;
}

static void begin(outputs *o, int i)
{
    outputs_begin(o, i % 2 ? PARE_OUTPUT_EXPORT : PARE_OUTPUT_ARTIFACT);
    outputs_finish(o, "out", "old");
    outputs_finish(o, "out.partial", "new");
    outputs_begin_work(o, o->place.partial);
    fault.no_flags = i / 2 % 2;
}

static pare_status publish(outputs *o)
{
    const pare_status s = pare_output_place_check(&o->cx, &o->a, &o->place);
    return s == PARE_OK ? pare_output_place_publish(&o->cx, &o->a, &o->place, true, &o->teller) : s;
}

/* Publishes in a child that is killed in front of the n-th call; true when it came to its end. */
static bool publish_until(outputs *o, long n)
{
    const pid_t child = fork();
    if (child == 0) {
        fault.left = n;
        _exit(publish(o) == PARE_OK ? 0 : 1);
    }
    int status;
    ck_assert_int_eq(waitpid(child, &status, 0), child);
    ck_assert_msg(WIFSIGNALED(status) || WEXITSTATUS(status) == 0, "%ld", n);
    return WIFEXITED(status);
}

/* The next run, which may be killed as well. */
static bool mend_until(outputs *o, long n)
{
    const pid_t child = fork();
    bool unfinished;
    if (child == 0) {
        fault.left = n;
        _exit(pare_output_place_mend(&o->cx, &o->a, &o->place, &o->teller, &unfinished) == PARE_OK
                  ? 0
                  : 1);
    }
    int status;
    ck_assert_int_eq(waitpid(child, &status, 0), child);
    ck_assert_msg(WIFSIGNALED(status) || WEXITSTATUS(status) == 0, "%ld", n);
    return WIFEXITED(status);
}

static bool is_clean(const outputs *o)
{
    return !outputs_has(o, "out.partial") && !outputs_has(o, "out.replaced") &&
           !outputs_has(o, "out/journal");
}

/* The old output or the new one is there; returns whether it is the new one. */
static bool check_mended(outputs *o, long n)
{
    bool unfinished;
    ck_assert_msg(pare_output_place_mend(&o->cx, &o->a, &o->place, &o->teller, &unfinished) ==
                      PARE_OK,
                  "%ld: %s", n, o->cx.what);
    ck_assert_msg(pare_output_place_check(&o->cx, &o->a, &o->place) == PARE_OK, "%ld: %s", n,
                  o->cx.what);
    const bool is_new = outputs_holds(o, "out/config.json", "new");
    ck_assert(is_new || outputs_holds(o, "out/config.json", "old"));
    const bool goes_on = !is_new && o->place.kind == PARE_OUTPUT_ARTIFACT;
    ck_assert_msg(unfinished == goes_on && (goes_on || is_clean(o)), "%ld", n);
    if (goes_on) {
        ck_assert(outputs_holds(o, "out.partial/config.json", "new"));
        ck_assert_msg(publish(o) == PARE_OK, "%ld: %s", n, o->cx.what);
        ck_assert(outputs_holds(o, "out/config.json", "new") && is_clean(o));
    }
    return is_new;
}

START_TEST(a_kill_between_any_two_steps_is_mended_by_the_next_run)
{
    size_t found[2] = {0};
    bool done = false;
    for (long n = 0; !done; n++) {
        outputs o;
        begin(&o, _i);
        done = publish_until(&o, n);
        found[check_mended(&o, n)]++;
        outputs_end(&o);
    }
    ck_assert_uint_ge(found[0], _i / 2 ? 8 : 6); /* the old one, in its place or moved away */
    ck_assert_uint_ge(found[1], 7);
}
END_TEST

/* A kill at the worst moment, and another one at every moment of the run that mends. */
START_TEST(a_kill_of_the_run_that_mends_is_mended_too)
{
    enum { WORST = 7 }; /* two steps: OUTPUT is away, its place empty */
    bool done = false;
    size_t count = 0;
    for (long n = 0; !done; n++, count++) {
        outputs o;
        begin(&o, _i);
        fault.no_flags = true;
        ck_assert(!publish_until(&o, WORST));
        ck_assert(!outputs_has(&o, "out") && outputs_has(&o, "out.replaced/config.json"));
        done = mend_until(&o, n);
        ck_assert(!check_mended(&o, n));
        outputs_end(&o);
    }
    ck_assert_uint_ge(count, 4);
}
END_TEST

START_TEST(what_tells_that_a_directory_is_ours_is_the_last_that_goes)
{
    static const char *const old[] = {"manifest.json", "pare-export.json", "SHA256SUMS", "journal",
                                      NULL},
                             *const work[] = {"journal", NULL};
    outputs o;
    begin(&o, _i);
    if (o.place.kind == PARE_OUTPUT_ARTIFACT)
        outputs_put(&o, "out.partial/training.state", "steps");
    fault.last = old;
    ck_assert_int_eq(publish(&o), PARE_OK);
    ck_assert(fault.unsynced && fault.early == 0);
    ck_assert(!outputs_has(&o, "out/training.state"));
    fault.last = work;
    outputs_finish(&o, "out.partial", "work");
    outputs_begin_work(&o, o.place.partial);
    ck_assert_int_eq(pare_owned_discard(&o.cx, o.place.partial, o.place.kind, PARE_OWNED_ALL),
                     PARE_OK);
    ck_assert(is_clean(&o) && fault.early == 0);
    outputs_end(&o);
}
END_TEST

START_TEST(two_steps_are_told_and_undone_when_the_second_fails)
{
    outputs o;
    begin(&o, 2 + _i);
    fault.second_fails = EIO;
    outputs_check(&o, publish(&o), PARE_EIO, "put the finished files in place");
    ck_assert(outputs_holds(&o, "out/config.json", "old"));
    ck_assert(outputs_holds(&o, "out.partial/config.json", "new"));
    ck_assert(!outputs_has(&o, "out.replaced"));
    fault.second_fails = 0;
    bool unfinished;
    ck_assert_int_eq(pare_output_place_mend(&o.cx, &o.a, &o.place, &o.teller, &unfinished),
                     PARE_OK);
    if (_i == 0) {
        ck_assert_int_eq(publish(&o), PARE_OK);
        ck_assert_msg(strstr(o.told, "cannot exchange two directories"), "%s", o.told);
        ck_assert(outputs_holds(&o, "out/config.json", "new"));
    }
    ck_assert(is_clean(&o));
    outputs_end(&o);
}
END_TEST

START_TEST(what_comes_between_the_two_steps_costs_neither_output)
{
    outputs o;
    bool unfinished;
    begin(&o, 2 + _i);
    fault.intruded = &o;
    outputs_check(&o, publish(&o), PARE_EEXISTS, "out.replaced");
    for (int i = 0; i < 2; i++) {
        ck_assert(outputs_holds(&o, "out/thesis.tex", "mine"));
        ck_assert(outputs_holds(&o, "out.replaced/config.json", "old"));
        ck_assert(outputs_holds(&o, "out.partial/config.json", "new"));
        outputs_check(&o, pare_output_place_mend(&o.cx, &o.a, &o.place, &o.teller, &unfinished),
                      PARE_EEXISTS, "out.replaced is an old output");
    }
    outputs_end(&o);
}
END_TEST

START_TEST(what_came_to_the_place_of_a_new_output_is_not_replaced)
{
    outputs o;
    begin(&o, 2 * _i);
    outputs_check(&o, pare_output_place_publish(&o.cx, &o.a, &o.place, false, &o.teller),
                  PARE_EEXISTS,
                  "out: something was put there meanwhile; once that is moved away, the same "
                  "command ends the run");
    ck_assert(outputs_holds(&o, "out/config.json", "old"));
    job_remove_directory(o.place.output);
    ck_assert_int_eq(pare_output_place_publish(&o.cx, &o.a, &o.place, false, &o.teller), PARE_OK);
    ck_assert(outputs_holds(&o, "out/config.json", "new") && is_clean(&o));
    outputs_end(&o);
}
END_TEST

int main(void)
{
    Suite *const s = suite_create("place_faults");
    TCase *const t = tcase_create("places");
    tcase_set_timeout(t, 120);
    tcase_add_loop_test(t, a_kill_between_any_two_steps_is_mended_by_the_next_run, 0, 4);
    tcase_add_loop_test(t, a_kill_of_the_run_that_mends_is_mended_too, 0, 2);
    tcase_add_loop_test(t, what_tells_that_a_directory_is_ours_is_the_last_that_goes, 0, 4);
    tcase_add_loop_test(t, two_steps_are_told_and_undone_when_the_second_fails, 0, 2);
    tcase_add_loop_test(t, what_comes_between_the_two_steps_costs_neither_output, 0, 2);
    tcase_add_loop_test(t, what_came_to_the_place_of_a_new_output_is_not_replaced, 0, 2);
    suite_add_tcase(s, t);
    return unit_main(s);
}
