/* The program with --log: what a run, a mistake, a refusal and a signal leave as events. */
#include <signal.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "formats/json.h"
#include "tests/unit/folder.h"
#include "tests/unit/job.h"

static job_place place;
static char log_path[512];

static void setup(void)
{
    const tiny_model m = tiny_model_default();
    place = job_make(&m);
    job_recipe(&place, "pare: 1\nmodel: model\npasses:\n  - rtn: {bits: 4, group: 32}\n"
                       "evaluate:\n  - kl: {tokens: tokens.i32, window: 32}\n");
    (void)snprintf(log_path, sizeof log_path, "%s", job_path(&place, "log.jsonl"));
}

static void teardown(void)
{
    job_remove_directory(place.root);
}

/* Runs the program in a shell; %s of `arguments` is the root. Its exit code. */
static int call(const char *before, const char *arguments)
{
    char words[1024], command[2048];
    (void)snprintf(words, sizeof words, arguments, place.root, place.root, place.root, place.root);
    (void)snprintf(command, sizeof command, "%s '%s' %s >'%s' 2>'%s'", before, PARE_PROGRAM, words,
                   job_path(&place, "out.txt"), job_path(&place, "err.txt"));
    const int status = system(command);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

/* The kinds of events in a file, each with its code or signal: "start refused=2 done=2 ". */
static const char *kinds_in(const char *path)
{
    static char kinds[4096];
    size_t len;
    pare_ctx cx;
    pare_ctx_init(&cx);
    char *const text = folder_get(path, &len);
    size_t used = 0;
    kinds[0] = '\0';
    for (const char *line = text; *line; line += strcspn(line, "\n") + 1) {
        pare_json *e = NULL;
        ck_assert_msg(pare_json_parse(&cx, "event", line, strcspn(line, "\n"), 1 << 20, &e) ==
                          PARE_OK,
                      "%s: %s", cx.what, line);
        const int64_t code = pare_json_integer(pare_json_get(e, "exit_code"), -1);
        const char *const signal = pare_json_text(pare_json_get(e, "signal"), NULL);
        used += (size_t)snprintf(kinds + used, sizeof kinds - used, "%s",
                                 pare_json_text(pare_json_get(e, "event"), NULL));
        if (code >= 0)
            used += (size_t)snprintf(kinds + used, sizeof kinds - used, "=%d", (int)code);
        if (signal)
            used += (size_t)snprintf(kinds + used, sizeof kinds - used, "=%s", signal);
        used += (size_t)snprintf(kinds + used, sizeof kinds - used, " ");
        pare_json_free(e);
    }
    free(text);
    return kinds;
}

static const struct {
    const char *before, *arguments;
    int code;
    const char *kinds;
} endings[] = {
    {"", "eval %s/absent --speed --log json", 4, "start phase error=4 done=4 "},
    {"", "eval --log json %s/model --baselin x", 2, "start refused=2 done=2 "},
    {"", "eval %s/model --log json", 2, "start refused=2 done=2 "},
    {"", "doctor --log json", 0, "start done=0 "},
    {"", "verify %s/model --log json --threads 1", 0, "start phase done=0 "},
    {"", "compress %s/recipe.yaml --output %s/model --log json", 2, "start refused=2 done=2 "},
    {"", "compress %s/recipe.yaml --output %s/o --ram-limit 1MiB --log json", 5,
     "start refused=5 done=5 "},
};

START_TEST(the_end_of_a_command_is_an_event)
{
    const int code = call(endings[_i].before, endings[_i].arguments);
    const char *const kinds = kinds_in(job_path(&place, "err.txt"));
    ck_assert_msg(code == endings[_i].code && strcmp(kinds, endings[_i].kinds) == 0,
                  "%s: exit code %d, %s", endings[_i].arguments, code, kinds);
}
END_TEST

/* Another run writes to the output. */
START_TEST(a_lock_is_a_refusal)
{
    char lock[512];
    (void)snprintf(lock, sizeof lock, "flock '%s'", job_path(&place, "o.lock"));
    ck_assert_int_eq(call(lock, "compress %s/recipe.yaml --output %s/o --threads 1 --log json"), 2);
    ck_assert_str_eq(kinds_in(job_path(&place, "err.txt")), "start refused=2 done=2 ");
}
END_TEST

START_TEST(a_job_tells_its_phases_and_a_second_run_is_appended)
{
    static const char run[] = "compress %s/recipe.yaml --output %s/o --threads 1 --log json:%s/"
                              "log.jsonl";
    size_t len;
    ck_assert_int_eq(call("", run), 0);
    const char *const kinds = kinds_in(log_path);
    ck_assert_msg(strncmp(kinds, "start plan phase ", 17) == 0, "%s", kinds);
    ck_assert_msg(strstr(kinds, "phase block phase block phase "), "%s", kinds);
    ck_assert_msg(strcmp(kinds + strlen(kinds) - 7, "done=0 ") == 0, "%s", kinds);
    char *const log = folder_get(log_path, &len);
    ck_assert(strstr(log, "\"text\": \"evaluating kl on tokens.i32\""));
    ck_assert(strstr(log, "\"text\": \"block 2 of 2\",\"block\": 1,\"blocks\": 2,\"linears\": ["));
    free(log);
    char *const err = folder_get(job_path(&place, "err.txt"), &len);
    ck_assert_msg(strstr(err, "Z 14 linears in 2 blocks") && !strstr(err, "block 1 of 2"), "%s",
                  err);
    free(err);
    ck_assert_int_eq(call("", run), 0);
    const char *const more = kinds_in(log_path);
    ck_assert_msg(strstr(more, "done=0 start phase phase "), "%s", more);
    ck_assert_msg(strcmp(more + strlen(more) - 20, "phase notice done=0 ") == 0, "%s", more);
}
END_TEST

START_TEST(a_job_without_progress_says_nothing_of_its_blocks)
{
    size_t len;
    ck_assert_int_eq(call("", "compress %s/recipe.yaml --output %s/o --threads 1"), 0);
    char *err = folder_get(job_path(&place, "err.txt"), &len);
    ck_assert_ptr_nonnull(strstr(err, "14 linears in 2 blocks"));
    free(err);
    ck_assert_int_eq(call("", "compress %s/recipe.yaml --output %s/quiet --threads 1 "
                              "--no-progress"),
                     0);
    err = folder_get(job_path(&place, "err.txt"), &len);
    ck_assert_str_eq(err, "");
    free(err);
}
END_TEST

START_TEST(a_log_that_cannot_be_written_is_told)
{
    size_t len;
    ck_assert_int_eq(call("", "compress %s/recipe.yaml --output %s/o --log json:/dev/full"), 5);
    char *const err = folder_get(job_path(&place, "err.txt"), &len);
    ck_assert_msg(strstr(err, "/dev/full: cannot write the log (what the command did is done"),
                  "%s", err);
    free(err);
    ck_assert_int_eq(call("", "verify %s/o --threads 1"), 0);
    ck_assert_int_eq(call("", "verify %s/o --log json:%s/tokens.i32"), 2);
}
END_TEST

static void put(const char *path, const char *text)
{
    FILE *const f = fopen(path, "w");
    ck_assert(f && fputs(text, f) >= 0 && fclose(f) == 0);
}

/* Calls doctor with a log at `name` of the root, and expects what becomes of it. */
static void check_log(const char *name, int code, const char *before, const char *fragment)
{
    char arguments[600];
    size_t len;
    (void)snprintf(arguments, sizeof arguments, "doctor --log json:%%s/%s", name);
    ck_assert_int_eq(call("", arguments), code);
    char *const err = folder_get(job_path(&place, "err.txt"), &len);
    ck_assert_msg(strstr(err, fragment), "%s: %s", name, err);
    free(err);
    ck_assert_int_eq(access(job_path(&place, name), F_OK) == 0, before != NULL);
    if (!before)
        return;
    char *const after = folder_get(job_path(&place, name), &len);
    ck_assert_str_eq(after, before);
    free(after);
}

START_TEST(only_a_log_is_added_to)
{
    static const char foreign[] = "is no log of pare";
    size_t len;
    char *const config = folder_get(job_path(&place, "model/config.json"), &len);
    ck_assert_int_eq(config[0], '{');
    check_log("model/config.json", 2, config, "only files of a model belong there");
    put(job_path(&place, "mine.json"), "{\"event\": \"phase\"}\n");
    check_log("mine.json", 2, "{\"event\": \"phase\"}\n", foreign);
    put(job_path(&place, "half"), "{\"event\": \"start");
    check_log("half", 2, "{\"event\": \"start", foreign);
    ck_assert_int_eq(call("", "verify %s/model --log json:%s/model/log"), 2);
    ck_assert_int_ne(access(job_path(&place, "model/log"), F_OK), 0);
    ck_assert_int_eq(call("", "compress %s/recipe.yaml --output %s/o"), 0);
    check_log("o/log", 2, NULL, "only files of a model belong there");
    check_log("model/log", 2, NULL, "only files of a model belong there");
    check_log("tokenizer.json", 2, NULL, "only files of a model belong there");
    ck_assert_int_eq(call("", "verify %s/o"), 0);
    free(config);
}
END_TEST

/* The log of a run that was killed within a line: the next run begins one of its own. */
START_TEST(a_line_that_was_cut_stays_alone)
{
    static const char cut[] = "{\"event\": \"start\"}\n{\"event\": \"pha";
    size_t len;
    put(log_path, cut);
    ck_assert_int_eq(call("", "doctor --log json:%s/log.jsonl"), 0);
    char *const text = folder_get(log_path, &len);
    ck_assert_int_eq(strncmp(text, cut, sizeof cut - 1), 0);
    ck_assert_msg(strncmp(text + sizeof cut - 1, "\n{\"event\": \"start\",", 19) == 0, "%s", text);
    put(log_path, text + sizeof cut);
    ck_assert_str_eq(kinds_in(log_path), "start done=0 ");
    ck_assert_int_eq(call("", "doctor --log json:%s/log.jsonl"), 0); /* no line between */
    ck_assert_str_eq(kinds_in(log_path), "start done=0 start done=0 ");
    free(text);
}
END_TEST

/* What is wrong with the options, seen once the files have been read, is no refusal. */
START_TEST(a_mistake_that_is_found_after_work_is_an_error)
{
    ck_assert_int_eq(call("", "compress %s/recipe.yaml --output %s/o"), 0);
    ck_assert_int_eq(call("", "eval %s/o --tokens %s/tokens.i32 --window 9999 --log json"), 2);
    const char *const kinds = kinds_in(job_path(&place, "err.txt"));
    ck_assert_msg(strstr(kinds, "phase error=2 done=2 "), "%s", kinds);
}
END_TEST

/* Signals that stop a command in order, and what nohup does. */
static const struct {
    int number;
    bool ignored;
    const char *end;
} stops[] = {
    {SIGINT, false, "interrupted=SIGINT done=130 "},
    {SIGTERM, false, "interrupted=SIGTERM done=130 "},
    {SIGHUP, false, "interrupted=SIGHUP done=130 "},
    {SIGXCPU, false, "interrupted=SIGXCPU done=130 "},
    {SIGHUP, true, "interrupted=SIGTERM done=130 "}, /* the SIGTERM behind it stops the command */
};

/* Sampling that would take hours is stopped once its event is there. SIGHUP and SIGXCPU come twice.
 */
START_TEST(a_signal_is_an_event)
{
    char model[512], output[512], form[600];
    const struct timespec moment = {0, 20 * 1000 * 1000};
    struct stat st;
    int status;
    (void)snprintf(model, sizeof model, "%s", job_path(&place, "model"));
    (void)snprintf(output, sizeof output, "%s", job_path(&place, "much.i32"));
    (void)snprintf(form, sizeof form, "json:%s", log_path);
    const pid_t child = fork();
    ck_assert_int_ge(child, 0);
    if (child == 0) {
        /* not what a shell or nohup left behind */
        (void)signal(stops[_i].number, stops[_i].ignored ? SIG_IGN : SIG_DFL);
        (void)execl(PARE_PROGRAM, PARE_PROGRAM, "generate", model, "--count", "300000", "--tokens",
                    "32", "--output", output, "--threads", "1", "--log", form, (char *)NULL);
        _exit(127);
    }
    for (size_t i = 0; i < 3000; i++, (void)nanosleep(&moment, NULL))
        if (stat(log_path, &st) == 0 && strstr(kinds_in(log_path), "phase "))
            break;
    ck_assert_int_eq(kill(child, stops[_i].number), 0);
    if (stops[_i].number == SIGHUP || stops[_i].number == SIGXCPU)
        (void)kill(child, stops[_i].number);
    for (size_t i = 0; stops[_i].ignored && i < 25; i++) /* half a second in which nothing ends */
        (void)nanosleep(&moment, NULL);
    if (stops[_i].ignored)
        ck_assert_int_eq(kill(child, SIGTERM), 0);
    ck_assert_int_eq(waitpid(child, &status, 0), child);
    ck_assert(WIFEXITED(status) && WEXITSTATUS(status) == 130);
    const char *const kinds = kinds_in(log_path);
    ck_assert_msg(strstr(kinds, stops[_i].end), "%s", kinds);
}
END_TEST

/* The phases of a log, as text and share, each said once. */
static void check_phases(const char *const *text, size_t texts)
{
    size_t len, n = 0;
    double before = 0;
    pare_ctx cx;
    pare_ctx_init(&cx);
    char *const log = folder_get(log_path, &len);
    for (const char *line = log; *line; line += strcspn(line, "\n") + 1) {
        pare_json *e = NULL;
        ck_assert_int_eq(pare_json_parse(&cx, "event", line, strcspn(line, "\n"), 1 << 20, &e),
                         PARE_OK);
        if (strcmp(pare_json_text(pare_json_get(e, "event"), NULL), "phase") == 0) {
            const double share = pare_json_number(pare_json_get(e, "job_share"), -1);
            const double left = pare_json_number(pare_json_get(e, "left_seconds"), -1);
            ck_assert_msg(n < texts, "one more: %s", line);
            ck_assert_str_eq(pare_json_text(pare_json_get(e, "text"), NULL), text[n]);
            ck_assert_double_ge(share, before);
            before = share;
            /* a text is measured first */
            const bool measured = n > 0 && (strstr(text[n - 1], " on ") || before > 0);
            ck_assert_msg(measured ? left >= 0 : left < 0, "%s: %g", text[n], left);
            n++;
        }
        pare_json_free(e);
    }
    ck_assert_uint_eq(n, texts);
    free(log);
}

START_TEST(phases_of_eval_and_compare_name_the_model_and_the_data)
{
    static const char *const eval[] = {"o: reading", "model: reading",
                                       "o: perplexity and KL on tokens.i32", "o: speed",
                                       "model: speed"};
    static const char *const compare[] = {
        "model: reading", "model: perplexity on tokens.i32",
        "o: reading",     "o: perplexity and KL on tokens.i32",
        "model: reading", "model: perplexity and KL on tokens.i32"};
    ck_assert_int_eq(call("", "compress %s/recipe.yaml --output %s/o"), 0);
    char words[1024];
    (void)snprintf(words, sizeof words,
                   "eval %%s/o --baseline %%s/model --tokens %%s/tokens.i32 --window 32 --speed "
                   "--log 'json:%s'",
                   log_path);
    ck_assert_int_eq(call("", words), 0);
    check_phases(eval, sizeof eval / sizeof *eval);
    ck_assert_int_eq(unlink(log_path), 0);
    (void)snprintf(words, sizeof words,
                   "compare %%s/model %%s/o %%s/model/ --tokens %%s/tokens.i32 --window 32 "
                   "--log 'json:%s'",
                   log_path);
    ck_assert_int_eq(call("", words), 0);
    check_phases(compare, sizeof compare / sizeof *compare);
}
END_TEST

int main(void)
{
    Suite *const s = suite_create("events");
    TCase *const t = tcase_create("all");
    tcase_add_checked_fixture(t, setup, teardown);
    tcase_set_timeout(t, 240);
    tcase_add_loop_test(t, the_end_of_a_command_is_an_event, 0, sizeof endings / sizeof *endings);
    tcase_add_test(t, a_lock_is_a_refusal);
    tcase_add_test(t, a_job_tells_its_phases_and_a_second_run_is_appended);
    tcase_add_test(t, a_job_without_progress_says_nothing_of_its_blocks);
    tcase_add_test(t, a_log_that_cannot_be_written_is_told);
    tcase_add_test(t, only_a_log_is_added_to);
    tcase_add_test(t, a_line_that_was_cut_stays_alone);
    tcase_add_test(t, a_mistake_that_is_found_after_work_is_an_error);
    tcase_add_loop_test(t, a_signal_is_an_event, 0, sizeof stops / sizeof *stops);
    tcase_add_test(t, phases_of_eval_and_compare_name_the_model_and_the_data);
    suite_add_tcase(s, t);
    return unit_main(s);
}
