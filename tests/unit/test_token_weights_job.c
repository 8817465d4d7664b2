/* Jobs whose Hessians count tokens by the loss. */
#include "compress/artifact/verify.h"
#include "tests/unit/job_tiny.h"

#define DATA(rest) "calibration: {tokens: tokens.i32, " rest "}\npasses:\n"
#define HEAD       "pare: 1\nmodel: model\n"

static void recipe(const char *data, const char *passes)
{
    char text[2048];
    (void)snprintf(text, sizeof text, HEAD "%s%s", data, passes);
    job_recipe(&place, text);
}

static const char *const passes[] = {
    "  - gptq: {bits: 3, group: 32}\n",
    "  - gptq: {bits: 3, group: 32, true_sequential: true}\n",
    "  - awq: {}\n  - gptq: {bits: 4, group: 32}\n",
    "  - rotate: {}\n  - gptq: {bits: 4, group: 32}\n",
    "  - sparsegpt: {sparsity: 0.5}\n",
    "  - wanda: {sparsity: 0.5}\n  - gptq: {bits: 4, group: 32}\n",
};
enum { PASSES = sizeof passes / sizeof *passes };

START_TEST(weights_change_what_comes_out_and_survive_threads_and_breaks)
{
    static const char loss[] = DATA("samples: 12, window: 64, token_weights: loss");
    recipe(DATA("samples: 12, window: 64, token_weights: even"), passes[_i]);
    ck_assert_int_eq(job_run(&place, (job_opts){.output = "even"}, NULL), PARE_OK);
    recipe(loss, passes[_i]);
    ck_assert_int_eq(job_run(&place, (job_opts){.output = "one"}, NULL), PARE_OK);
    ck_assert(!job_same_weights(&place, "even", "one"));
    check_survives();
}
END_TEST

START_TEST(all_samples_and_files_for_activations_do)
{
    recipe(DATA("samples: all, window: 64, token_weights: loss"), passes[0]);
    ck_assert_int_eq(job_run(&place, (job_opts){.output = "one"}, NULL), PARE_OK);
    recipe(DATA("samples: 24, window: 64, token_weights: loss"), passes[0]);
    ck_assert_int_eq(job_run(&place, (job_opts){.output = "two"}, NULL), PARE_OK);
    job_check_same_weights(&place, "one", "two"); /* there are 24 windows */
}
END_TEST

/* Notices of a job about the folder that it shares. */
static char told[512];

static void listen(void *self, const pare_event *e)
{
    (void)self;
    if (e->kind == PARE_EVENT_NOTICE && strstr(e->text, "weights of tokens"))
        (void)snprintf(told, sizeof told, "%s", e->text);
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

static const struct {
    const char *data, *passes, *says;
} refused[] = {
    {DATA("samples: 4, window: 64, token_weights: loss"), "  - rtn: {}\n",
     "no step here uses it; say even"},
    {DATA("samples: 4, window: 64, token_weights: loss"), "  - smoothquant: {}\n  - rtn: {}\n",
     "no step here uses it; say even"},
    {DATA("samples: 4, window: 64, token_weights: loss"),
     "  - outlier_suppression: {}\n  - gptq: {}\n",
     "does not go together with outlier_suppression, which shifts inputs; say even"},
    {DATA("samples: 4, window: 64, token_weights: grad"), "  - gptq: {}\n", "even, loss"},
    {DATA("samples: 4, window: 64, token_weights: 2"), "  - gptq: {}\n", "even, loss"},
};

START_TEST(what_cannot_be_is_refused_with_its_place)
{
    char what[1024];
    recipe(refused[_i].data, refused[_i].passes);
    ck_assert_int_eq(job_run(&place, (job_opts){.output = "out"}, what), PARE_EUSAGE);
    ck_assert_msg(strstr(what, refused[_i].says) && strstr(what, "recipe.yaml:3:"), "%s", what);
}
END_TEST

int main(void)
{
    Suite *const s = suite_create("token_weights_job");
    TCase *const t = tcase_create("token_weights_job");
    tcase_set_timeout(t, 120);
    tcase_add_checked_fixture(t, setup, teardown);
    tcase_add_loop_test(t, weights_change_what_comes_out_and_survive_threads_and_breaks, 0, PASSES);
    tcase_add_loop_test(t, jobs_share_weights_and_come_to_the_same_bytes, 0, PASSES);
    tcase_add_test(t, a_damaged_file_is_not_used_but_made_anew);
    tcase_add_test(t, what_they_depend_on_makes_another_file);
    tcase_add_test(t, all_samples_and_files_for_activations_do);
    tcase_add_loop_test(t, what_cannot_be_is_refused_with_its_place, 0,
                        sizeof refused / sizeof *refused);
    suite_add_tcase(s, t);
    return unit_main(s);
}
