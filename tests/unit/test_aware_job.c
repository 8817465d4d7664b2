/* Jobs that train codes in place: what was trained is what is stored. */
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/unit/job_plan.h"
#include "tests/unit/job_train.h"

static const struct {
    const char *passes;
    unsigned bits;
    size_t group; /* 0: row */
    pare_sparsity_store sparsity;
    double rate;
    double gain; /* KL behind the training over that in front, at most */
    bool compensated;
} aware[] = {
    {"  - rtn: {bits: 2, group: 32}\n", 2, 32, PARE_SPARSITY_NONE, 3e-3, .75, false},
    {"  - rtn: {bits: 3, group: row, symmetric: false}\n", 3, 0, PARE_SPARSITY_NONE, 3e-3, .95,
     false},
    {"  - gptq: {bits: 2, group: 32, clip: weighted}\n", 2, 32, PARE_SPARSITY_NONE, 1e-3, .99,
     true},
    {"  - signround: {steps: 30}\n  - rtn: {bits: 2, group: 32}\n", 2, 32, PARE_SPARSITY_NONE, 1e-3,
     .99, true},
    {"  - omniquant: {scales: false, epochs: 2}\n  - rtn: {bits: 2, group: 32}\n", 2, 32,
     PARE_SPARSITY_NONE, 1e-3, .99, true},
    {"  - hqq: {bits: 2, group: 32}\n", 2, 32, PARE_SPARSITY_NONE, 3e-3, .85, false},
    {"  - ternary: {}\n", 2, 0, PARE_SPARSITY_NONE, 3e-3, .75, false},
    {"  - ternary: {group: 32}\n", 2, 32, PARE_SPARSITY_NONE, 3e-3, .75, false},
    {"  - magnitude: {pattern: 2:4}\n  - gptq: {bits: 4, group: 32}\n", 4, 32, PARE_SPARSITY_2_4,
     3e-3, .9, true},
    {"  - sparsegpt_joint: {pattern: 2:4, bits: 4, group: 32}\n", 4, 32, PARE_SPARSITY_2_4, 3e-3,
     .95, true},
    {"  - exl3: {bits: 2, targets: [\"*.mlp.*\"]}\n"
     "  - rtn: {bits: 2, group: 32, skip: [\"*.mlp.*\"]}\n",
     2, 32, PARE_SPARSITY_NONE, 3e-3, .9, false},
};
enum { AWARES = sizeof aware / sizeof *aware };

/* With data enough to gain on windows that nobody trained on. */
static void aware_recipe(size_t at)
{
    char text[1024];
    ck_assert(
        tiny_tokens_write(job_path(&place, "many.i32"), tiny_model_default().vocab, 64 * 112, 4));
    (void)snprintf(text, sizeof text,
                   HEAD "calibration: {tokens: many.i32, samples: 96, window: 64}\npasses:\n%s"
                        "  - distill: {aware: true, tokens: 6144, batch: 4, rate: %g, save: 0}\n",
                   aware[at].passes, aware[at].rate);
    job_recipe(&place, text);
}

static const float *read_floats(pare_ctx *cx, pare_arena *a, const char *name)
{
    char *bytes;
    size_t len;
    ck_assert_int_eq(pare_file_read(cx, a, job_path(&place, name), 1 << 24, &bytes, &len), PARE_OK);
    return (const float *)(const void *)bytes;
}

/* The values that training left, in front of the walk that stores them, are those of the artifact;
 * where its masters were 0 in front of it they still are, if they were pruned. Of each linear n *
 * k, and behind them a scale and a zero point of each group; of EXL3 a scale of each row and each
 * column, and the codes as bytes. */
static void check_stored(const float *masters, const float *trained, const char *output, size_t at)
{
    pare_ctx cx;
    pare_arena a;
    pare_checkpoint ck[2];
    pare_model m[2];
    open_two(&cx, &a, output, output, ck, m);
    for (size_t i = 0; i < m[0].config.blocks * PARE_COMMON_ROLES; i++) {
        const pare_linear *const l =
            &m[0].block[i / PARE_COMMON_ROLES].linear[i % PARE_COMMON_ROLES];
        const size_t count = l->n * l->k, group = aware[at].group ? aware[at].group : l->k;
        const size_t kept = l->encoding == PARE_ENCODING_EXL3
                                ? count + l->n + l->k + (count + 3) / 4
                                : count + 2 * l->n * ((l->k + group - 1) / group);
        float *const w = PARE_NEW(&a, float, count);
        size_t zeros = 0;
        ck_assert_ptr_nonnull(w);
        ck_assert_uint_eq(l->bits, aware[at].bits);
        ck_assert_int_eq(l->sparsity, aware[at].sparsity);
        pare_linear_to_f32(&cx, l, w);
        ck_assert_msg(memcmp(w, trained, count * sizeof *w) == 0, "%s", l->name);
        for (size_t j = 0; j < count; j++) {
            zeros += masters[j] == 0;
            ck_assert(masters[j] != 0 || w[j] == 0);
        }
        if (l->sparsity == PARE_SPARSITY_2_4)
            ck_assert_uint_ge(zeros, count / 2);
        else
            ck_assert_uint_lt(zeros, count / 2);
        masters += kept;
        trained += kept;
    }
    close_two(&a, ck);
}

/* The second job stops behind the training and goes on; the first runs through, in five threads. */
START_TEST(codes_that_were_trained_are_those_that_are_stored)
{
    listener stop = {.at = "after training"},
             again = {.wanted = "continuing: training is done; 0 of 2 blocks are written"};
    pare_ctx cx;
    pare_arena a;
    aware_recipe((size_t)_i);
    ck_assert_int_eq(job_plan_of(&place, 0).compensated, aware[_i].compensated);
    ck_assert_int_eq(job_run(&place, (job_opts){.output = "five", .threads = 5}, NULL), PARE_OK);
    const double before = figure("five", "training", "kl_before"),
                 after = figure("five", "training", "kl_after");
    ck_assert_msg(after < aware[_i].gain * before, "KL %g before, %g after", before, after);
    ck_assert_double_eq_tol(figure("five", "kl", "mean"), after, .02 * after);
    ck_assert_double_eq(figure("five", "training", "aware_linears"), 2 * PARE_COMMON_ROLES);
    ck_assert_int_eq(run_listening(&stop, "two"), PARE_EINTERRUPTED);
    pare_ctx_init(&cx);
    ck_assert_int_eq(pare_arena_init(&cx, &a, 0), PARE_OK);
    const float *const masters = read_floats(&cx, &a, "two.partial/pruned.f32"),
                       *const trained = read_floats(&cx, &a, "two.partial/trained.f32");
    ck_assert_int_eq(run_listening(&again, "two"), PARE_OK);
    ck_assert(again.heard);
    check_stored(masters, trained, "two", (size_t)_i);
    job_check_same_weights(&place, "five", "two");
    pare_arena_release(&a);
}
END_TEST

/* 4 steps */
#define SHORT "  - distill: {tokens: 1024, batch: 4, rate: 3e-3, save: 0}\n"
#define AWARE "  - distill: {aware: true, tokens: 1024, batch: 4, rate: 3e-3, save: 0}\n"

static const halt unharmed[] = {
    {"step 3 of", NULL, "continues after step 3 of 4", NULL},
    {"after training", NULL, "continuing: training is done; 0 of 2 blocks are written", NULL},
};
static const halt no_state[] = {
    {"step 3 of", "two.partial/training.state", "training begins anew", NULL},
    {"after training", "two.partial/trained.f32", "they are trained again", NULL},
};
static const halt no_block[] = {
    {"step 3 of", "two.partial/pruned.f32", "block 2 of 2 of the unfinished run is damaged", NULL},
};

/* Two grids of steps, codes that stay, scales that follow: all of their state is found again. */
START_TEST(codes_that_were_stopped_go_on_to_the_same_bytes)
{
    recipe("  - gptq: {bits: 2, group: 32, targets: [\"*.q_proj\"]}\n"
           "  - exl3: {bits: 2, targets: [\"*.gate_proj\"]}\n"
           "  - ternary: {group: row, targets: [\"*.o_proj\"]}\n"
           "  - rtn: {bits: 3, group: 32, symmetric: false, skip: [\"*.q_proj\", \"*.gate_proj\", "
           "\"*.o_proj\", \"*.v_proj\"]}\n" AWARE
           "  - rtn: {bits: 8, group: 32, targets: [\"*.v_proj\"]}\n");
    ck_assert_int_eq(job_run(&place, (job_opts){.output = "one"}, NULL), PARE_OK);
    ck_assert_double_eq(figure("one", "training", "aware_linears"), 2 * (PARE_COMMON_ROLES - 1));
    check_halts(unharmed, 2);
    check_halts(no_state, 2);
    check_halts(no_block, 1);
}
END_TEST

/* A process that dies as SIGKILL ends it, when its job goes on to an MLP for the `left`th time. */
static void die_midway(void *left, const char *what, double done, double total)
{
    (void)total;
    if (done == 0 && strcmp(what, "carrying activations to the MLP") == 0 && --*(int *)left == 0)
        (void)kill(getpid(), SIGKILL);
}

static const char *const midway[] = {
    "  - gptq: {bits: 3, group: 32, correct: gptaq}\n" AWARE,
    "  - wanda: {pattern: 2:4, skip: [\"*.v_proj\"]}\n" SHORT
    "  - gptq: {bits: 8, group: 32, correct: qronos, targets: [\"*.v_proj\"]}\n",
    "  - gptq: {bits: 3, group: 32, correct: gptaq, skip: [\"*.v_proj\"]}\n" AWARE
    "  - gptq: {bits: 8, group: 32, correct: gptaq, targets: [\"*.v_proj\"]}\n",
};
enum { MIDWAY = sizeof midway / sizeof *midway, WALK = 2 /* blocks */ };

/* Killed in the middle of each block of each walk that halts there, one run behind the other. */
START_TEST(a_job_that_is_killed_between_the_halves_of_a_block_goes_on_to_the_same_bytes)
{
    const int walks = _i == 0 ? 1 : 2; /* behind the training nothing is calibrated, or gptq */
    recipe(midway[_i]);
    ck_assert_int_eq(job_run(&place, (job_opts){.output = "one"}, NULL), PARE_OK);
    for (int block = 0; block < walks * WALK; block++) {
        int left = block == 0 ? 1 : 2, status; /* the block of the last run is done again */
        const pid_t child = fork();
        ck_assert_int_ge(child, 0);
        if (child == 0) {
            const job_opts opts = {.output = "two", .report = die_midway, .self = &left};
            _exit(job_run(&place, opts, NULL) == PARE_OK ? 0 : 1);
        }
        ck_assert_int_eq(waitpid(child, &status, 0), child);
        ck_assert_msg(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL, "block %d: %d", block,
                      status);
    }
    ck_assert_int_eq(job_run(&place, (job_opts){.output = "two", .threads = 2}, NULL), PARE_OK);
    job_check_same(&place, "one", "two");
}
END_TEST

int main(void)
{
    Suite *const s = suite_create("aware_job");
    TCase *const t = tcase_create("aware_job");
    tcase_set_timeout(t, 240);
    tcase_add_checked_fixture(t, setup, teardown);
    tcase_add_loop_test(t, codes_that_were_trained_are_those_that_are_stored, 0, AWARES);
    tcase_add_test(t, codes_that_were_stopped_go_on_to_the_same_bytes);
    tcase_add_loop_test(
        t, a_job_that_is_killed_between_the_halves_of_a_block_goes_on_to_the_same_bytes, 0, MIDWAY);
    suite_add_tcase(s, t);
    return unit_main(s);
}
