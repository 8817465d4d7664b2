#define _DEFAULT_SOURCE /* MAP_ANONYMOUS, MAP_POPULATE */
/* What pare takes over from the program that starts it: open descriptors, the memory that the other
 * one had. */
#include <sys/mman.h>
#include <unistd.h>

#include "runtime/arena.h"
#include "tests/unit/folder.h"
#include "tests/unit/job_tiny.h"
#include "tests/unit/program.h"

enum { CLOSED_MOST = 8, LARGE = 512 << 20 };

/* Runs the program with arguments in the folder of the job; some of descriptors 0 to 2 are closed,
 * the others read and write `result`. */
static int start(const char *const *arguments, unsigned closed)
{
    char *argv[8] = {(char *)(uintptr_t)PARE_PROGRAM};
    for (size_t i = 0; arguments[i]; i++)
        argv[i + 1] = (char *)(uintptr_t)arguments[i];
    const pid_t child = fork();
    ck_assert_int_ge(child, 0);
    if (child == 0) {
        const int file = open(job_path(&place, "result"), O_RDWR | O_CREAT | O_TRUNC, 0666);
        for (int fd = 0; fd < 3; fd++)
            if (closed & 1u << fd)
                (void)close(fd);
            else
                (void)dup2(file, fd);
        (void)close(file);
        (void)execv(PARE_PROGRAM, argv);
        _exit(127);
    }
    int status = 0;
    ck_assert_int_eq(waitpid(child, &status, 0), child);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

START_TEST(descriptors_that_are_closed_do_not_become_files_of_the_job)
{
    char recipe[512], output[512], name[16];
    job_recipe(&place, "pare: 1\nmodel: model\noutput: out\n"
                       "passes: [{gptq: {bits: 4, group: 32}}]\n"
                       "calibration: {tokens: tokens.i32, samples: 8, window: 32}\n");
    (void)snprintf(recipe, sizeof recipe, "%s", job_path(&place, "recipe.yaml"));
    for (unsigned closed = 0; closed < CLOSED_MOST; closed++) {
        (void)snprintf(name, sizeof name, "closed-%u", closed);
        (void)snprintf(output, sizeof output, "%s", job_path(&place, name));
        const char *const job[] = {"compress", recipe, "--output", output, NULL};
        const char *const check[] = {"verify", output, NULL};
        /* the result is lost where stdout is closed */
        ck_assert_int_eq(start(job, closed), closed & 1u << STDOUT_FILENO ? 1 : 0);
        ck_assert_msg(start(check, 0) == 0, "closed: %u", closed);
        job_check_same(&place, "closed-0", name);
        (void)snprintf(output, sizeof output, "%s/journal", job_path(&place, name));
        ck_assert_int_ne(access(output, F_OK), 0);
    }
}
END_TEST

/* What getrusage knows of the program before exec counts for the one behind it. */
START_TEST(memory_that_is_printed_is_not_that_of_the_program_that_starts_pare)
{
    char model[512], tokens[512];
    (void)snprintf(model, sizeof model, "%s", job_path(&place, "model"));
    (void)snprintf(tokens, sizeof tokens, "%s", job_path(&place, "tokens.i32"));
    const char *const eval[] = {"eval", model, "--tokens", tokens, "--format=json", NULL};
    void *const large = mmap(NULL, LARGE, PROT_READ | PROT_WRITE,
                             MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
    ck_assert(large != MAP_FAILED);
    ck_assert_int_eq(start(eval, 1u << STDERR_FILENO), 0);
    (void)munmap(large, LARGE);
    pare_ctx cx;
    pare_json *json;
    size_t len;
    char *const text = folder_get(job_path(&place, "result"), &len);
    pare_ctx_init(&cx);
    ck_assert_int_eq(pare_json_parse(&cx, "result", text, len, len, &json), PARE_OK);
    const double peak = number_in(json, "memory", "peak_rss_bytes");
    ck_assert_msg(peak > 1 << 20 && peak < LARGE, "%.0f", peak);
    pare_json_free(json);
    free(text);
}
END_TEST

/* Refused in words, and not by SIGSEGV; a little more than what is needed is enough. */
START_TEST(a_stack_that_is_too_small_is_refused)
{
    static const struct {
        int kib, code;
        const char *text;
    } limits[] = {{256, 5, "the stack is limited to 256 KiB (ulimit -s), and 3 MiB is needed"},
                  {3071, 5, "the stack is limited to 3071 KiB (ulimit -s)"},
                  {3200, 0, "doctor"}};
    for (size_t i = 0; i < sizeof limits / sizeof *limits; i++) {
        char line[1024], text[8192];
        (void)snprintf(line, sizeof line, "ulimit -s %d; '%s' help doctor 2>&1", limits[i].kib,
                       PARE_PROGRAM);
        FILE *const f = popen(line, "r");
        ck_assert_ptr_nonnull(f);
        text[fread(text, 1, sizeof text - 1, f)] = '\0';
        ck_assert_msg(WEXITSTATUS(pclose(f)) == limits[i].code && strstr(text, limits[i].text),
                      "%d KiB: %s", limits[i].kib, text);
    }
}
END_TEST

int main(void)
{
    Suite *const s = suite_create("started_by");
    TCase *const c = tcase_create("started_by");
    tcase_add_checked_fixture(c, setup, teardown);
    tcase_set_timeout(c, 120);
    tcase_add_test(c, descriptors_that_are_closed_do_not_become_files_of_the_job);
    tcase_add_test(c, memory_that_is_printed_is_not_that_of_the_program_that_starts_pare);
    tcase_add_test(c, a_stack_that_is_too_small_is_refused);
    suite_add_tcase(s, c);
    return unit_main(s);
}
