/* Jobs that share what follows from the model and the data alone: the same bytes and figures with
 * the files and without, and none of another job or a damaged one is taken. */
#include "tests/unit/job_weights.h"

/* Notices of the last job. */
static char told[4096];

static void listen(void *self, const pare_event *e)
{
    (void)self;
    const size_t used = strlen(told);
    if (e->kind == PARE_EVENT_NOTICE)
        (void)snprintf(told + used, sizeof told - used, "%s\n", e->text);
}

static void run_shared(const char *output, const char *says)
{
    static const pare_events events = {listen, NULL};
    told[0] = '\0';
    ck_assert_int_eq(
        job_run(&place, (job_opts){.output = output, .share = "share", .events = &events}, NULL),
        PARE_OK);
    ck_assert_msg(strstr(told, says), "%s: \"%s\", not \"%s\"", output, told, says);
}

/* The path of the one file in the folder. */
static const char *kept_file(void)
{
    static char path[1024];
    DIR *const d = opendir(job_path(&place, "share"));
    ck_assert_ptr_nonnull(d);
    path[0] = '\0';
    for (struct dirent *e; (e = readdir(d));) {
        if (e->d_name[0] == '.')
            continue;
        ck_assert_msg(!path[0], "%s and %s", path, e->d_name);
        (void)snprintf(path, sizeof path, "%s/%s", job_path(&place, "share"), e->d_name);
    }
    (void)closedir(d);
    return path;
}

static void change_byte(const char *path, off_t at)
{
    const int fd = open(path, O_RDWR);
    unsigned char byte;
    ck_assert_int_eq(pread(fd, &byte, 1, at), 1);
    byte ^= 1;
    ck_assert_int_eq(pwrite(fd, &byte, 1, at), 1);
    ck_assert_int_eq(close(fd), 0);
}

#define LOSS DATA("samples: 12, window: 64, token_weights: loss")

/* The first job of the model keeps them, whatever its passes are. */
START_TEST(jobs_share_weights_and_come_to_the_same_bytes)
{
    recipe(LOSS, passes[0]);
    run_shared("first", "kept for other jobs");
    recipe(LOSS, passes[_i]);
    ck_assert_int_eq(job_run(&place, (job_opts){.output = "one"}, NULL), PARE_OK);
    run_shared("two", "taken from");
    job_check_same(&place, "one", "two");
    job_break(&place, "three");
    run_shared("three", "taken from");
    job_check_same(&place, "one", "three");
}
END_TEST

START_TEST(a_damaged_file_is_not_used_but_made_anew)
{
    static const off_t at[] = {0, 9, 25, 40, 5000};
    recipe(LOSS, passes[0]);
    run_shared("one", "kept for other jobs");
    for (size_t i = 0; i < sizeof at / sizeof *at; i++) {
        change_byte(kept_file(), at[i]);
        run_shared("two", "kept for other jobs");
        job_check_same(&place, "one", "two");
        job_remove_directory(job_path(&place, "two"));
    }
    ck_assert_int_eq(truncate(kept_file(), 5000), 0);
    run_shared("two", "kept for other jobs");
    job_check_same(&place, "one", "two");
    run_shared("three", "taken from");
}
END_TEST

/* Other windows, another seed, other products, another model: none takes the file of another. */
START_TEST(what_they_depend_on_makes_another_file)
{
    static const char *const other[] = {
        DATA("samples: 11, window: 64, token_weights: loss"),
        DATA("samples: 12, window: 32, token_weights: loss"),
        "seed: 1\n" LOSS,
        DATA("samples: 12, window: 64, token_weights: loss, precision: f32"),
    };
    recipe(DATA("samples: 12, window: 64, token_weights: loss, precision: bf16"), passes[0]);
    run_shared("one", "kept for other jobs");
    for (size_t i = 0; i < sizeof other / sizeof *other; i++) {
        char output[16];
        (void)snprintf(output, sizeof output, "other%zu", i);
        recipe(other[i], passes[0]);
        run_shared(output, "kept for other jobs");
    }
    recipe(DATA("samples: 12, window: 64, token_weights: loss, precision: bf16"), passes[0]);
    job_scale(&place, 0, "mlp.down_proj", 0, JOB_ALL, 2);
    run_shared("last", "kept for other jobs");
}
END_TEST

/* Figures of the evaluations of an output. */
static char *figures(pare_ctx *cx, pare_arena *a, const char *output)
{
    char path[64], *text;
    size_t len;
    (void)snprintf(path, sizeof path, "%s/run.json", output);
    ck_assert_int_eq(pare_file_read(cx, a, job_path(&place, path), 1 << 20, &text, &len), PARE_OK);
    char *const from = strstr(text, "\"evaluations\""), *const to = strstr(text, "\"warnings\"");
    ck_assert(from && to && from < to && strstr(from, "\"ppl\""));
    *to = '\0';
    return from;
}

static void check_same_figures(const char *first, const char *second)
{
    pare_ctx cx;
    pare_arena a;
    pare_ctx_init(&cx);
    ck_assert_int_eq(pare_arena_init(&cx, &a, 0), PARE_OK);
    ck_assert_str_eq(figures(&cx, &a, first), figures(&cx, &a, second));
    pare_arena_release(&a);
}

#define EVALUATED(kind, rest)                                                                      \
    DATA("samples: 4, window: 64")                                                                 \
    "  - rtn: {bits: 3, group: 32}\nevaluate: [" kind ": {tokens: tokens.i32, " rest "}]\n"

/* 24 windows of 64, in several batches with short ones; the same file for both kinds. */
START_TEST(the_original_is_evaluated_once)
{
    static const char *const kind[] = {EVALUATED("kl", "window: 48, limit: 7"),
                                       EVALUATED("perplexity", "window: 48, limit: 7")};
    recipe(kind[_i], "");
    ck_assert_int_eq(job_run(&place, (job_opts){.output = "one"}, NULL), PARE_OK);
    run_shared("two", "the original on the text: kept for other jobs");
    run_shared("three", "the original on the text: taken from");
    check_same_figures("one", "two");
    check_same_figures("one", "three");
    job_check_same(&place, "one", "three");
    recipe(kind[1 - _i], "");
    run_shared("other", "the original on the text: taken from");
    change_byte(kept_file(), 1000);
    recipe(kind[_i], "");
    run_shared("four", "the original on the text: computed now");
    check_same_figures("one", "four");
}
END_TEST

START_TEST(another_text_is_another_file)
{
    recipe(EVALUATED("kl", "window: 48, limit: 7"), "");
    run_shared("one", "kept for other jobs");
    recipe(EVALUATED("kl", "window: 48, limit: 8"), "");
    run_shared("two", "kept for other jobs");
    recipe(EVALUATED("kl", "window: 32, limit: 7"), "");
    run_shared("three", "kept for other jobs");
    job_scale(&place, 0, "mlp.down_proj", 0, JOB_ALL, 2);
    run_shared("four", "kept for other jobs");
}
END_TEST

int main(void)
{
    Suite *const s = suite_create("shared_job");
    TCase *const t = tcase_create("shared_job");
    tcase_set_timeout(t, 120);
    tcase_add_checked_fixture(t, setup, teardown);
    tcase_add_loop_test(t, jobs_share_weights_and_come_to_the_same_bytes, 0, PASSES);
    tcase_add_test(t, a_damaged_file_is_not_used_but_made_anew);
    tcase_add_test(t, what_they_depend_on_makes_another_file);
    tcase_add_loop_test(t, the_original_is_evaluated_once, 0, 2);
    tcase_add_test(t, another_text_is_another_file);
    suite_add_tcase(s, t);
    return unit_main(s);
}
