/* Jobs that train what pruners and quantizers left of mixtures of experts. */
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/data/families.h"
#include "tests/unit/job_plan.h"
#include "tests/unit/job_train.h"

#define WANDA   "  - wanda: {pattern: 2:4}\n"
#define TRAINS  "  - distill: {tokens: 3000, batch: 4, save: 0, rate: "
#define SHORT   "  - distill: {tokens: 1024, batch: 4, save: 0, rate: " /* 4 steps */
#define EXPERTS "targets: \"*.experts.*\""
#define MINIMUM "experts: {min_tokens: 64}"

static void setup_mixture(void)
{
    setup();
    ck_assert(family_write(family_find("qwen2_moe"), job_path(&place, "mixture")));
    ck_assert(tiny_tokens_write(job_path(&place, "many.i32"), FAMILY_VOCAB, 64 * 40, 4));
}

static void mixture_recipe(const char *passes)
{
    char text[1024];
    (void)snprintf(text, sizeof text,
                   "pare: 1\nmodel: mixture\ncalibration: {tokens: many.i32, samples: 32, window: "
                   "64, " MINIMUM "}\npasses:\n%s",
                   passes);
    job_recipe(&place, text);
}

static const struct {
    const char *passes;
    double gain; /* KL behind the training over that in front, at most */
    bool packs;  /* what was trained is stored as it is */
} jobs[] = {
    {WANDA TRAINS "1e-3}\n", .9, true},
    {"  - sparsegpt: {pattern: 2:4}\n" TRAINS "1e-3}\n  - gptq: {bits: 4, group: 32}\n", .9, false},
    {"  - magnitude: {sparsity: 0.6, " EXPERTS "}\n" TRAINS "1e-3, moments: 8bit}\n", .9, true},
    {"  - rtn: {bits: 2, group: 32}\n" TRAINS "1e-3, aware: true}\n", .9, true},
    {"  - rtn: {bits: 2, group: 32, " EXPERTS "}\n" TRAINS "1e-3, aware: true}\n"
     "  - gptq: {bits: 8, group: 32, skip: [\"*.experts.*\", \"*.mlp.gate\", \"*_gate\"]}\n",
     .97, false},
};
enum { JOBS = sizeof jobs / sizeof *jobs };

/* Weights of a linear of both models, in the arena. */
static size_t take_both(pare_ctx *cx, pare_arena *a, const pare_linear *const l[2], float *w[2])
{
    const size_t count = l[0]->n * l[0]->k;
    for (size_t i = 0; i < 2; i++) {
        w[i] = PARE_NEW(a, float, count);
        ck_assert_ptr_nonnull(w[i]);
        pare_linear_to_f32(cx, l[i], w[i]);
    }
    return count;
}

/* Of two artifacts: zeros of the first are zeros of the second, whose other weights moved; their
 * routers are the same. */
static void check_mixtures(const char *pruned, const char *trained)
{
    pare_ctx cx;
    pare_arena a;
    pare_checkpoint ck[2];
    pare_model m[2];
    float *w[2];
    open_two(&cx, &a, pruned, trained, ck, m);
    const size_t parts = pare_block_parts(&m[0].config);
    for (size_t i = 0; i < m[0].config.blocks * parts * PARE_ROLES; i++) {
        const size_t b = i / PARE_ROLES / parts, part = i / PARE_ROLES % parts;
        const pare_linear *const l[] = {
            pare_block_linear(&m[0].block[b], part, (pare_role)(i % PARE_ROLES)),
            pare_block_linear(&m[1].block[b], part, (pare_role)(i % PARE_ROLES))};
        if (!l[0]->name)
            continue;
        const size_t count = take_both(&cx, &a, l, w);
        size_t moved = 0;
        for (size_t j = 0; j < count; j++) {
            ck_assert(w[0][j] != 0 || w[1][j] == 0);
            moved += w[0][j] != w[1][j];
        }
        ck_assert_msg(moved > count / 4, "%s: %zu of %zu moved", l[0]->name, moved, count);
    }
    for (size_t b = 0; b < m[0].config.blocks; b++) {
        const pare_linear *const router[] = {&m[0].block[b].router, &m[1].block[b].router};
        const size_t count = take_both(&cx, &a, router, w);
        ck_assert_mem_eq(w[0], w[1], count * sizeof *w[0]);
    }
    close_two(&a, ck);
}

/* Of the first, zeros and routers are looked at, too. */
START_TEST(training_wins_quality_back_and_survives_threads_and_breaks)
{
    mixture_recipe(jobs[_i].passes);
    ck_assert_int_eq(job_run(&place, (job_opts){.output = "one"}, NULL), PARE_OK);
    const double before = figure("one", "training", "kl_before"),
                 after = figure("one", "training", "kl_after");
    ck_assert_msg(after < jobs[_i].gain * before, "KL %g before, %g after", before, after);
    if (jobs[_i].packs)
        ck_assert_double_eq_tol(figure("one", "kl", "mean"), after, .02 * after);
    check_survives();
    if (_i)
        return;
    mixture_recipe(WANDA);
    ck_assert_int_eq(job_run(&place, (job_opts){.output = "pruned"}, NULL), PARE_OK);
    check_mixtures("pruned", "one");
}
END_TEST

#define CHAIN "  - sparsegpt: {pattern: 2:4}\n" SHORT "1e-3}\n  - gptq: {bits: 4, group: 32}\n"
#define AWARE "  - gptq: {bits: 2, group: 32}\n" SHORT "1e-3, aware: true}\n"

static const halt unharmed[] = {
    {"step 3 of", NULL, "continues after step 3 of 4", NULL},
    {"after training", NULL, "continuing: training is done; 0 of 3 blocks are written", NULL},
};
static const halt damaged[] = {
    {"step 3 of", "two.partial/pruned.f32", "block 2 of 3 of the unfinished run is damaged", NULL},
    {"after training", "two.partial/trained.f32", "they are trained again", NULL},
};

/* A process that dies as SIGKILL ends it, at the `left`th pass of the wave over experts. */
static void die_at_experts(void *left, const char *what, double done, double total)
{
    (void)total;
    if (done == 0 && strcmp(what, "gathering statistics of experts") == 0 && --*(int *)left == 0)
        (void)kill(getpid(), SIGKILL);
}

/* Killed among the experts of the walk in front, and of the one behind. */
static void check_kills(void)
{
    for (int walk = 0; walk < 2; walk++) {
        int left = walk ? 4 : 2, status; /* the second block; one that is left, then three more */
        const pid_t child = fork();
        ck_assert_int_ge(child, 0);
        if (child == 0) {
            (void)job_run(
                &place, (job_opts){.output = "two", .report = die_at_experts, .self = &left}, NULL);
            _exit(1);
        }
        ck_assert_int_eq(waitpid(child, &status, 0), child);
        ck_assert(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
    }
    ck_assert_int_eq(job_run(&place, (job_opts){.output = "two"}, NULL), PARE_OK);
    job_check_same(&place, "one", "two");
}

START_TEST(a_chain_that_was_stopped_or_killed_goes_on_to_the_same_bytes)
{
    mixture_recipe(CHAIN);
    ck_assert_int_eq(job_run(&place, (job_opts){.output = "one"}, NULL), PARE_OK);
    check_kills();
    check_halts(unharmed, 2);
    check_halts(damaged, 2);
}
END_TEST

START_TEST(codes_that_were_stopped_go_on_to_the_same_bytes)
{
    mixture_recipe(AWARE);
    ck_assert_int_eq(job_run(&place, (job_opts){.output = "one"}, NULL), PARE_OK);
    check_halts(damaged, 1);
    check_halts(damaged + 1, 1);
}
END_TEST

/* Experts eight times as wide: what is trained of them is more than all that a plan rounds up. */
static void widen_experts(void)
{
    enum { WIDTH = 10, WIDE = 256 }; /* letter X of tests/data/family_table.h */
    static const char key[] = "\"moe_intermediate_size\":";
    family wide = *family_find("qwen2_moe");
    const char *const at = strstr(wide.config, key);
    char config[2048];
    ck_assert_ptr_nonnull(at);
    (void)snprintf(config, sizeof config, "%.*s%s%d%s", (int)(at - wide.config), wide.config, key,
                   WIDE, strchr(at, ','));
    wide.config = config;
    wide.size[WIDTH] = WIDE;
    ck_assert(family_write(&wide, job_path(&place, "mixture")));
}

/* Steps come after each other in the same memory: four need what twelve do. */
START_TEST(a_job_fits_into_what_its_plan_says)
{
    static const char usual[] = "tokens: 3000", few[] = "tokens: 1024";
    char passes[512];
    widen_experts();
    (void)snprintf(passes, sizeof passes, "%s", jobs[_i].passes);
    char *const at = strstr(passes, usual);
    ck_assert_ptr_nonnull(at);
    memcpy(at, few, sizeof few - 1);
    mixture_recipe(passes);
    ck_assert_int_eq(job_run(&place,
                             (job_opts){.output = "out",
                                        .ram_limit = job_plan_of(&place, 0).memory.anonymous_bytes},
                             NULL),
                     PARE_OK);
}
END_TEST

static TCase *add_case(Suite *s, const char *name)
{
    TCase *const t = tcase_create(name);
    tcase_set_timeout(t, 240);
    tcase_add_checked_fixture(t, setup_mixture, teardown);
    suite_add_tcase(s, t);
    return t;
}

int main(void)
{
    Suite *const s = suite_create("moe_distill_job");
    TCase *const gains = add_case(s, "gains"), *const stops_at = add_case(s, "stops"),
                 *const plans = add_case(s, "plans");
    tcase_add_loop_test(gains, training_wins_quality_back_and_survives_threads_and_breaks, 0, JOBS);
    tcase_add_test(stops_at, a_chain_that_was_stopped_or_killed_goes_on_to_the_same_bytes);
    tcase_add_test(stops_at, codes_that_were_stopped_go_on_to_the_same_bytes);
    tcase_add_loop_test(plans, a_job_fits_into_what_its_plan_says, 0, JOBS);
    return unit_main(s);
}
