/* Whole jobs that prune on a disk that gets full in the middle: the failure is reported with its
 * path, no output appears, and the next run continues to the bytes of a run without a failure. */
#define _DEFAULT_SOURCE
#include "tests/data/families.h"
#include "tests/fault/faults.h"
#include "tests/unit/job.h"

#define HEAD                                                                                       \
    "pare: 1\nmodel: model\nseed: 5\n"                                                             \
    "calibration: {tokens: tokens.i32, samples: 4, window: 32}\n"                                  \
    "evaluate:\n  - perplexity: {tokens: tokens.i32, window: 64}\npasses:\n"

static const struct {
    const char *recipe, *weights, *family;
} jobs[] = {
    {HEAD "  - flap: {ratio: 0.5}\n", "model.safetensors", NULL},
    {HEAD "  - wanda: {pattern: \"2:4\", targets: \"*.mlp.*\"}\n"
          "  - sparsegpt: {sparsity: 0.5, targets: \"*.self_attn.*\"}\n",
     "packed-00001-of-00001.safetensors", NULL},
    {HEAD "  - sparsegpt: {sparsity: 0.5}\n  - gptq: {bits: 4, group: 32}\n",
     "packed-00001-of-00001.safetensors", "mixtral"},
};
enum { JOBS = sizeof jobs / sizeof *jobs, TIMES = 7 };

static bool there(const job_place *p, const char *output)
{
    return access(job_path(p, output), F_OK) == 0;
}

static void check_same_file(const job_place *p, const char *name)
{
    pare_ctx cx;
    pare_arena a;
    char path[128], *text[2];
    size_t len[2];
    pare_ctx_init(&cx);
    ck_assert_int_eq(pare_arena_init(&cx, &a, 0), PARE_OK);
    for (size_t i = 0; i < 2; i++) {
        (void)snprintf(path, sizeof path, "%s/%s", i ? "out" : "whole", name);
        ck_assert_msg(pare_file_read(&cx, &a, job_path(p, path), 1 << 24, &text[i], &len[i]) ==
                          PARE_OK,
                      "%s", cx.what);
    }
    ck_assert_msg(len[0] == len[1] && memcmp(text[0], text[1], len[0]) == 0, "%s differs", name);
    pare_arena_release(&a);
}

static void count_resumed(void *self, const pare_event *e)
{
    *(size_t *)self += e->kind == PARE_EVENT_RESUME;
}

/* The n-th of `calls` calls and all behind it find the disk full. How many times the next run said
 * that it continues. The last call syncs the directory behind the output's new name. */
static size_t fill_the_disk(const job_place *p, const char *weights, long n, long calls)
{
    size_t resumed = 0;
    const pare_events events = {count_resumed, &resumed};
    char what[1024];
    fault_start(NO_SPACE, true, n);
    const pare_status s = job_run(p, (job_opts){.output = "out"}, what);
    ck_assert(fault_stop());
    ck_assert_msg(s == PARE_ENOSPC, "call %ld: status %d, %s", n, (int)s, what);
    ck_assert_msg(strstr(what, p->root), "no path in: %s", what);
    ck_assert_msg(there(p, "out") == (n == calls - 1), "call %ld: %s", n, what);
    if (n < calls - 1)
        ck_assert_int_eq(job_run(p, (job_opts){.output = "out", .events = &events}, NULL), PARE_OK);
    check_same_file(p, weights);
    check_same_file(p, "manifest.json");
    check_same_file(p, "config.json");
    ck_assert(!there(p, "out.partial"));
    job_remove_directory(job_path(p, "out"));
    return resumed;
}

START_TEST(a_full_disk_stops_a_pruning_job_and_costs_nothing)
{
    tiny_model m = tiny_model_default();
    m.vocab = jobs[_i].family ? FAMILY_VOCAB : m.vocab;
    const job_place p = job_make(&m);
    if (jobs[_i].family)
        ck_assert(family_write(family_find(jobs[_i].family), job_path(&p, "model")));
    job_recipe(&p, jobs[_i].recipe);
    fault.calls = 0;
    ck_assert_int_eq(job_run(&p, (job_opts){.output = "whole"}, NULL), PARE_OK);
    const long calls = fault.calls;
    ck_assert_int_gt(calls, 4 * TIMES);
    size_t resumed = 0;
    for (long t = 0; t < TIMES; t++)
        resumed += fill_the_disk(&p, jobs[_i].weights, t * (calls - 1) / (TIMES - 1), calls);
    ck_assert_uint_ge(resumed, 3);
    job_remove_directory(p.root);
}
END_TEST

int main(void)
{
    Suite *const s = suite_create("job_faults");
    TCase *const t = tcase_create("job_faults");
    tcase_set_timeout(t, 240);
    tcase_add_loop_test(t, a_full_disk_stops_a_pruning_job_and_costs_nothing, 0, JOBS);
    suite_add_tcase(s, t);
    return unit_main(s);
}
