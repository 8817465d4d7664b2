/* One writer for each output. flock is wrapped: it can be missing; pread64, too: a look at the lock
 * is when somebody writes there. */
#define _DEFAULT_SOURCE
#include <errno.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/wait.h>

#include "compress/output/lock.h"
#include "tests/unit/outputs.h"

static int missing; /* errno of a file system without locks, or 0 */

int __real_flock(int fd, int operation);
int __wrap_flock(int fd, int operation);
int __wrap_flock(int fd, int operation)
{
    if (!missing)
        return __real_flock(fd, operation);
    errno = missing;
    return -1;
}

static struct {
    int left;   /* looks until the line is there; below 0: it never comes */
    outputs *o; /* where */
} writer = {.left = -1};
static const char other_line[] = "pare lock: pare other (process 999999999 on h, since t)\n";

ssize_t __real_pread64(int fd, void *bytes, size_t count, off_t at);
ssize_t __wrap_pread64(int fd, void *bytes, size_t count, off_t at);
ssize_t __wrap_pread64(int fd, void *bytes, size_t count, off_t at)
{
    if (writer.left >= 0 && writer.left-- == 0)
        outputs_put(writer.o, "out.lock", other_line);
    return __real_pread64(fd, bytes, count, at);
}

static pare_status take(outputs *o, const char *output, pare_lock *lock)
{
    return pare_lock_take(&o->cx, &o->a, job_path(&o->root, output), "test", &o->teller, lock);
}

/* Exit status of a child that takes the lock: 0 taken, 1 told who has it, 2 anything else. */
static int child_takes(outputs *o, pid_t holder)
{
    const pid_t child = fork();
    if (child == 0) {
        char who[64];
        pare_lock lock;
        (void)snprintf(who, sizeof who, "out: in use by pare test (process %ld on ", (long)holder);
        const pare_status s = take(o, "out", &lock);
        _exit(s == PARE_OK ? 0 : s == PARE_EEXISTS && strstr(o->cx.what, who) ? 1 : 2);
    }
    int status;
    ck_assert_int_eq(waitpid(child, &status, 0), child);
    return WEXITSTATUS(status);
}

START_TEST(the_second_is_told_who_writes)
{
    outputs o;
    pare_lock lock;
    outputs_begin(&o, PARE_OUTPUT_ARTIFACT);
    ck_assert_int_eq(take(&o, "out", &lock), PARE_OK);
    ck_assert_int_eq(child_takes(&o, getpid()), 1);
    pare_lock second;
    outputs_check(&o, take(&o, "out", &second), PARE_EEXISTS, "; wait for it or give another path");
    ck_assert_int_eq(take(&o, "other", &second), PARE_OK);
    pare_lock_release(&second);
    ck_assert(!outputs_has(&o, "other.lock") && outputs_has(&o, "out.lock"));
    pare_lock_release(&lock);
    ck_assert(!outputs_has(&o, "out.lock"));
    ck_assert_int_eq(child_takes(&o, getpid()), 0); /* and leaves its file: it is gone now */
    ck_assert(outputs_has(&o, "out.lock"));
    ck_assert_int_eq(take(&o, "out", &lock), PARE_OK);
    pare_lock_release(&lock);
    ck_assert(!outputs_has(&o, "out.lock"));
    outputs_end(&o);
}
END_TEST

START_TEST(a_file_that_pare_wrote_is_taken_over_and_any_other_is_not)
{
    static const char *const foreign[] = {"a letter", "", "pare block", "p"},
                             *const ours[] = {"pare lock: pare x (process 1 on h, since t)\n",
                                              "pare lock: pare y", "pare lock: pare compress (p",
                                              "pare lock: pare x\nmore"};
    outputs o;
    pare_lock lock;
    outputs_begin(&o, PARE_OUTPUT_ARTIFACT);
    for (size_t i = 0; i < 4; i++) {
        outputs_put(&o, "out.lock", foreign[i]);
        outputs_check(&o, take(&o, "out", &lock), PARE_EEXISTS, "out.lock: is where the lock");
        ck_assert(!lock.held && outputs_holds(&o, "out.lock", foreign[i]));
        outputs_put(&o, "out.lock", ours[i]);
        ck_assert_msg(take(&o, "out", &lock) == PARE_OK, "%s", o.cx.what);
        pare_lock_release(&lock);
        ck_assert(!outputs_has(&o, "out.lock"));
    }
    outputs_put(&o, "letter", "mine");
    ck_assert_int_eq(symlink("letter", job_path(&o.root, "out.lock")), 0);
    outputs_check(&o, take(&o, "out", &lock), PARE_EEXISTS, "out.lock: is where the lock");
    ck_assert(outputs_holds(&o, "letter", "mine"));
    ck_assert_int_eq(unlink(job_path(&o.root, "out.lock")), 0);
    ck_assert_int_eq(mkdir(job_path(&o.root, "out.lock"), 0777), 0);
    outputs_check(&o, take(&o, "out", &lock), PARE_EEXISTS, "out.lock: is where the lock");
    outputs_end(&o);
}
END_TEST

/* Where files cannot be without a name a lock is empty for a moment. */
START_TEST(the_line_of_an_empty_file_is_waited_for)
{
    outputs o;
    pare_lock lock;
    outputs_begin(&o, PARE_OUTPUT_ARTIFACT);
    outputs_put(&o, "out.lock", "");
    writer.o = &o;
    writer.left = 3;
    ck_assert_msg(take(&o, "out", &lock) == PARE_OK, "%s", o.cx.what); /* it was gone again */
    pare_lock_release(&lock);
    outputs_put(&o, "out.lock", "");
    const int fd = open(job_path(&o.root, "out.lock"), O_RDWR);
    ck_assert_int_eq(__real_flock(fd, LOCK_EX), 0);
    writer.left = 3;
    outputs_check(&o, take(&o, "out", &lock), PARE_EEXISTS, "out: in use by pare other (process 9");
    outputs_put(&o, "out.lock", ""); /* who has it is held up */
    outputs_check(&o, take(&o, "out", &lock), PARE_EEXISTS,
                  "may be about to write who it is; give");
    ck_assert_int_eq(close(fd), 0);
    outputs_check(&o, take(&o, "out", &lock), PARE_EEXISTS,
                  "may be about to write who it is; give");
    outputs_end(&o);
}
END_TEST

START_TEST(directories_that_were_made_for_it_go_unless_something_came)
{
    outputs o;
    pare_lock lock;
    outputs_begin(&o, PARE_OUTPUT_ARTIFACT);
    ck_assert_int_eq(take(&o, "new/er/out", &lock), PARE_OK);
    ck_assert(outputs_has(&o, "new/er/out.lock"));
    pare_lock_release(&lock);
    ck_assert(!outputs_has(&o, "new") && outputs_has(&o, "."));
    ck_assert_int_eq(take(&o, "new/er/out", &lock), PARE_OK);
    outputs_put(&o, "new/notes", "mine");
    pare_lock_release(&lock);
    ck_assert(!outputs_has(&o, "new/er") && outputs_has(&o, "new/notes"));
    outputs_end(&o);
}
END_TEST

START_TEST(without_locks_the_process_that_the_file_names_is_looked_for)
{
    static const int codes[] = {ENOLCK, EOPNOTSUPP, ENOSYS, EINVAL};
    outputs o;
    pare_lock lock;
    char host[65], line[256];
    outputs_begin(&o, PARE_OUTPUT_ARTIFACT);
    missing = codes[_i];
    ck_assert_int_eq(take(&o, "out", &lock), PARE_OK);
    ck_assert_msg(strstr(o.told, "cannot lock files"), "%s", o.told);
    ck_assert_int_eq(child_takes(&o, getpid()), 1);
    pare_lock_release(&lock);
    ck_assert_int_eq(child_takes(&o, getpid()), 0);
    ck_assert(outputs_has(&o, "out.lock"));
    ck_assert_int_eq(take(&o, "out", &lock), PARE_OK); /* of a process that is gone */
    pare_lock_release(&lock);
    ck_assert_int_eq(gethostname(host, sizeof host), 0);
    (void)snprintf(line, sizeof line, "pare lock: pare x (process 1 on %s, since then)\n", host);
    outputs_put(&o, "out.lock", line); /* a process that is not ours to signal, perhaps */
    outputs_check(&o, take(&o, "out", &lock), PARE_EEXISTS, "in use by pare x (process 1 on ");
    outputs_put(&o, "out.lock", "pare lock: pare x (process 999999999 on elsewhere, since then)\n");
    outputs_check(&o, take(&o, "out", &lock), PARE_EEXISTS,
                  "on elsewhere, since then); wait for it or give another path; remove ");
    outputs_check(&o, take(&o, "out", &lock), PARE_EEXISTS, "out.lock when that process is gone");
    outputs_put(&o, "out.lock", "");
    outputs_check(&o, take(&o, "out", &lock), PARE_EEXISTS, "out.lock: is where the lock");
    missing = EIO;
    outputs_check(&o, take(&o, "out", &lock), PARE_EIO, "out.lock");
    outputs_end(&o);
}
END_TEST

int main(void)
{
    Suite *const s = suite_create("lock");
    TCase *const t = tcase_create("locks");
    tcase_add_test(t, the_second_is_told_who_writes);
    tcase_add_test(t, a_file_that_pare_wrote_is_taken_over_and_any_other_is_not);
    tcase_add_test(t, the_line_of_an_empty_file_is_waited_for);
    tcase_add_test(t, directories_that_were_made_for_it_go_unless_something_came);
    tcase_add_loop_test(t, without_locks_the_process_that_the_file_names_is_looked_for, 0, 4);
    suite_add_tcase(s, t);
    return unit_main(s);
}
