/* A plan of a batch looks at finished outputs, and reads their model once for all of them. */
#include "compress/batch/batch_plan.h"
#include "tests/unit/job_tiny.h"

/* How often the model was read to its end. */
static void count_reads(void *self, const char *what, double done, double total)
{
    size_t *const reads = self;
    *reads += strcmp(what, "reading the model") == 0 && done >= total;
}

static void put_file(const char *name, const char *text)
{
    pare_ctx cx;
    pare_ctx_init(&cx);
    ck_assert_int_eq(pare_file_write(&cx, job_path(&place, name), text, strlen(text)), PARE_OK);
}

static void say_nothing(void *self, const char *text)
{
    (void)self;
    (void)text;
}

/* Plans the batch; what becomes of its jobs, and how often it read the model. */
static size_t plan_reads(pare_batch_act act)
{
    size_t reads = 0;
    pare_ctx cx;
    pare_arena a;
    pare_jobs b;
    pare_batch_plan plan;
    pare_ctx_init(&cx);
    ck_assert_int_eq(pare_arena_init(&cx, &a, 0), PARE_OK);
    cx.progress = (pare_progress){.report = count_reads, .self = &reads};
    ck_assert_int_eq(pare_pool_new(&cx, 1, &cx.pool), PARE_OK);
    const pare_batch_opts opts = {.file = job_path(&place, "jobs.yaml"),
                                  .output = job_path(&place, "all"),
                                  .at_once = 1,
                                  .threads = 1,
                                  .shard = 1,
                                  .shards = 1};
    const pare_teller teller = {say_nothing, NULL};
    ck_assert_msg(pare_batch_open(&cx, &a, &opts, &teller, &b) == PARE_OK, "%s", cx.what);
    ck_assert_int_eq(pare_batch_look(&b), PARE_OK);
    ck_assert_int_eq(pare_batch_plan_make(&b, &plan), PARE_OK);
    ck_assert_uint_eq(b.rows, 3);
    for (size_t i = 0; i < b.rows; i++)
        ck_assert_msg(plan.row[i].act == act, "%s: %s", pare_batch_act_name(plan.row[i].act),
                      plan.row[i].why);
    pare_batch_release(&b);
    pare_pool_free(&cx, cx.pool);
    pare_arena_release(&a);
    ck_assert_uint_eq(cx.live_bytes, 0);
    return reads;
}

START_TEST(finished_outputs_share_one_look_at_their_model)
{
    static const char *const bits[] = {"3", "4", "8"};
    char recipe[128], output[32];
    ck_assert_int_eq(mkdir(job_path(&place, "all"), 0777), 0);
    for (size_t i = 0; i < sizeof bits / sizeof *bits; i++) {
        (void)snprintf(recipe, sizeof recipe, "pare: 1\nmodel: model\npasses: [rtn: {bits: %s}]\n",
                       bits[i]);
        (void)snprintf(output, sizeof output, "all/bits%s", bits[i]);
        job_recipe(&place, recipe);
        ck_assert_int_eq(job_run(&place, (job_opts){.output = output}, NULL), PARE_OK);
    }
    put_file("jobs.yaml", "pare: 1\nrecipe: {model: model, passes: [rtn], require: {bytes: \"<= "
                          "9MiB\"}}\nmatrix: {bits: [3, 4, 8]}\n");
    ck_assert_uint_eq(plan_reads(PARE_BATCH_ACT_THERE), 1);
    job_scale(&place, 0, "self_attn.q_proj", JOB_ALL, JOB_ALL, 2); /* another model */
    ck_assert_uint_eq(plan_reads(PARE_BATCH_ACT_STALE), 1);
}
END_TEST

int main(void)
{
    Suite *const s = suite_create("batch_look");
    TCase *const t = tcase_create("batch_look");
    tcase_set_timeout(t, 240);
    tcase_add_checked_fixture(t, setup, teardown);
    tcase_add_test(t, finished_outputs_share_one_look_at_their_model);
    suite_add_tcase(s, t);
    return unit_main(s);
}
