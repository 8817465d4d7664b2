/* Jobs that train what pruners left. */
#include "formats/checkpoint.h"
#include "runtime/linear.h"
#include "tests/unit/job_tiny.h"

#define DATA  "calibration: {tokens: tokens.i32, samples: 12, window: 64}\n"
#define HEAD  "pare: 1\nmodel: model\n"
#define TRAIN "  - distill: {tokens: 3000, batch: 4, rate: 3e-3, "

static void recipe(const char *passes)
{
    char text[2048];
    (void)snprintf(text, sizeof text, HEAD DATA "passes:\n%s", passes);
    job_recipe(&place, text);
}

/* The number behind a key of a part of run.json. */
static double figure(const char *output, const char *part, const char *key)
{
    char name[64], text[1 << 16], wanted[64];
    const char *at;
    (void)snprintf(name, sizeof name, "%s/run.json", output);
    FILE *const f = fopen(job_path(&place, name), "r");
    ck_assert_ptr_nonnull(f);
    text[fread(text, 1, sizeof text - 1, f)] = '\0';
    ck_assert_int_eq(fclose(f), 0);
    (void)snprintf(wanted, sizeof wanted, "\"%s\": ", part);
    at = strstr(text, wanted);
    ck_assert_msg(at != NULL, "%s has no %s", name, part);
    (void)snprintf(wanted, sizeof wanted, "\"%s\": ", key);
    at = strstr(at, wanted);
    ck_assert_msg(at != NULL, "%s has no %s", name, key);
    return strtod(at + strlen(wanted), NULL);
}

static const char *const passes[] = {
    "  - sparsegpt: {pattern: 2:4}\n" TRAIN "ce: 0.1, temperature: 2}\n",
    "  - magnitude: {sparsity: 0.6}\n" TRAIN "kl: 0, jsd: 1, reverse_kl: 0.5}\n",
    "  - wanda: {pattern: 2:4, skip: [\"*.v_proj\"]}\n" TRAIN "hidden: 1}\n",
};
enum { PASSES = sizeof passes / sizeof *passes };

/* What is stored is what was measured: the packed model has the same KL. */
START_TEST(training_wins_quality_back_and_survives_threads_and_breaks)
{
    recipe(passes[_i]);
    ck_assert_int_eq(job_run(&place, (job_opts){.output = "one"}, NULL), PARE_OK);
    const double before = figure("one", "training", "kl_before"),
                 after = figure("one", "training", "kl_after");
    ck_assert_msg(after < 0.9 * before, "KL %g before, %g after", before, after);
    ck_assert_double_eq_tol(figure("one", "kl", "mean"), after, 1e-4 * after);
    ck_assert_double_eq(figure("one", "training", "steps"), 12);
    ck_assert_double_eq(figure("one", "training", "tokens"), 12 * 4 * 64);
    ck_assert_int_eq(job_run(&place, (job_opts){.output = "five", .threads = 5}, NULL), PARE_OK);
    job_check_same_weights(&place, "one", "five");
    job_break(&place, "two");
    ck_assert_int_eq(job_run(&place, (job_opts){.output = "two", .threads = 2}, NULL), PARE_OK);
    job_check_same(&place, "one", "two");
}
END_TEST

/* Stops a job that begins a step of training. */
static void stop_in_training(void *stop, const pare_event *e)
{
    if (strstr(e->text ? e->text : "", "distill: step 3 of"))
        *(volatile int *)stop = 1;
}

START_TEST(training_that_was_stopped_starts_anew_from_the_pruned_blocks)
{
    volatile int stop = 0;
    const pare_events events = {stop_in_training, (void *)&stop};
    const job_opts opts = {.output = "two", .events = &events, .interrupt = &stop};
    recipe(passes[0]);
    ck_assert_int_eq(job_run(&place, (job_opts){.output = "one"}, NULL), PARE_OK);
    ck_assert_int_eq(job_run(&place, opts, NULL), PARE_EINTERRUPTED);
    ck_assert_int_eq(job_run(&place, (job_opts){.output = "two"}, NULL), PARE_OK);
    job_check_same(&place, "one", "two");
    ck_assert_double_eq(figure("two", "evaluation_seconds", "resumed_blocks"), 2);
}
END_TEST

/* Weights of zero stay, and only they. */
START_TEST(zeros_are_those_of_the_pruner)
{
    recipe("  - wanda: {pattern: 2:4}\n");
    ck_assert_int_eq(job_run(&place, (job_opts){.output = "pruned"}, NULL), PARE_OK);
    recipe("  - wanda: {pattern: 2:4}\n" TRAIN "kl: 1}\n");
    ck_assert_int_eq(job_run(&place, (job_opts){.output = "trained"}, NULL), PARE_OK);
    ck_assert(!job_same_weights(&place, "pruned", "trained"));
    pare_ctx cx;
    pare_arena a;
    pare_checkpoint ck[2];
    pare_model m[2];
    pare_ctx_init(&cx);
    ck_assert_int_eq(pare_arena_init(&cx, &a, 0), PARE_OK);
    for (size_t i = 0; i < 2; i++) {
        ck_assert_int_eq(
            pare_checkpoint_open(&cx, &a, job_path(&place, i ? "trained" : "pruned"), &ck[i]),
            PARE_OK);
        ck_assert_int_eq(pare_model_load(&cx, &a, &ck[i], &m[i]), PARE_OK);
    }
    for (size_t i = 0; i < m[0].config.blocks * PARE_ROLES; i++) {
        const pare_linear *const l = &m[0].block[i / PARE_ROLES].linear[i % PARE_ROLES];
        const size_t count = l->n * l->k;
        float *const w = PARE_NEW(&a, float, count), *const v = PARE_NEW(&a, float, count);
        ck_assert(w && v);
        pare_linear_to_f32(&cx, l, w);
        pare_linear_to_f32(&cx, &m[1].block[i / PARE_ROLES].linear[i % PARE_ROLES], v);
        size_t moved = 0;
        for (size_t j = 0; j < count; j++) {
            ck_assert(w[j] != 0 || v[j] == 0);
            moved += w[j] != v[j];
        }
        ck_assert_uint_gt(moved, count / 4);
    }
    for (size_t i = 0; i < 2; i++)
        pare_checkpoint_close(&ck[i]);
    pare_arena_release(&a);
}
END_TEST

START_TEST(what_diverges_stops_with_the_pass)
{
    char what[1024];
    recipe("  - wanda: {pattern: 2:4}\n  - distill: {tokens: 9000, rate: 1, kl: 0, hidden: 1}\n");
    ck_assert_int_eq(job_run(&place, (job_opts){.output = "out"}, what), PARE_ENUMERIC);
    ck_assert_msg(strstr(what, "distill: step") && strstr(what, "smaller rate"), "%s", what);
}
END_TEST

static const struct {
    const char *passes, *says;
    int line;
} refused[] = {
    {"  - wanda: {pattern: 2:4}\n  - distill: {}\n  - rtn: {}\n",
     "must be the last pass, and behind it stands rtn", 6},
    {"  - wanda: {pattern: 2:4}\n  - rtn: {}\n  - distill: {}\n", "leave the quantizer out", 7},
    {"  - distill: {}\n", "no pass in front of it prunes a linear", 5},
    {"  - wanda: {pattern: 2:4}\n  - distill: {targets: [\"*.q_proj\"]}\n", "takes no targets", 6},
    {"  - wanda: {pattern: 2:4}\n  - distill: {kl: 0}\n", "all losses have weight 0", 6},
    {"  - distill: {}\n  - distill: {}\n", "must be the last pass", 5},
    {"  - channels: {}\n  - distill: {}\n", "work on what it wrote with a second recipe", 6},
};

START_TEST(what_cannot_be_is_refused_with_its_place)
{
    char what[1024], line[32];
    recipe(refused[_i].passes);
    (void)snprintf(line, sizeof line, "recipe.yaml:%d:", refused[_i].line);
    ck_assert_int_eq(job_run(&place, (job_opts){.output = "out"}, what), PARE_EUSAGE);
    ck_assert_msg(strstr(what, refused[_i].says) && strstr(what, line), "%s", what);
}
END_TEST

int main(void)
{
    Suite *const s = suite_create("distill_job");
    TCase *const t = tcase_create("distill_job");
    tcase_set_timeout(t, 120);
    tcase_add_checked_fixture(t, setup, teardown);
    tcase_add_loop_test(t, training_wins_quality_back_and_survives_threads_and_breaks, 0, PASSES);
    tcase_add_test(t, training_that_was_stopped_starts_anew_from_the_pruned_blocks);
    tcase_add_test(t, zeros_are_those_of_the_pruner);
    tcase_add_test(t, what_diverges_stops_with_the_pass);
    tcase_add_loop_test(t, what_cannot_be_is_refused_with_its_place, 0,
                        sizeof refused / sizeof *refused);
    suite_add_tcase(s, t);
    return unit_main(s);
}
