/* Passes that learn on the outputs of a block how it is rounded, from the recipe to the artifact.
 */
#include "tests/data/families.h"
#include "tests/unit/job.h"

static job_place place;

static void setup(void)
{
    tiny_model m = tiny_model_default();
    m.dtype = PARE_F32;
    place = job_make(&m);
}

static void teardown(void)
{
    job_remove_directory(place.root);
}

#define HEAD                                                                                       \
    "pare: 1\nmodel: model\nseed: 5\n"                                                             \
    "calibration: {tokens: tokens.i32, samples: 12, window: 32}\n"                                 \
    "evaluate:\n  - kl: {tokens: tokens.i32, window: 32}\npasses:\n"
#define RTN "  - rtn: {bits: 2, group: 32, symmetric: false}\n"

#define OMNIQUANT                                                                                  \
    "omniquant",                                                                                   \
        HEAD "  - omniquant: {epochs: 8, batch: 2, clip_rate: 0.03, scale_rate: 0.01}\n" RTN
#define SIGNROUND "signround", HEAD "  - signround: {steps: 40, batch: 3}\n" RTN
#define PRUNE     "  - magnitude: {pattern: 2:4}\n"
#define EBFT      "ebft", HEAD PRUNE "  - ebft: {epochs: 30, batch: 3, rate: 3e-3}\n"

/* On the model of setup, or on that of a family; rows: its linears. */
static const struct {
    const char *family, *name, *recipe;
    size_t rows;
    const char *plain; /* without it */
} learns[] = {
    {NULL, OMNIQUANT, 2 * PARE_COMMON_ROLES, HEAD RTN},
    {NULL, SIGNROUND, 2 * PARE_COMMON_ROLES, HEAD RTN},
    {NULL, EBFT, 2 * PARE_COMMON_ROLES, HEAD PRUNE},
    {"qwen3_5_text", OMNIQUANT, 19, HEAD RTN}, /* a state has one linear less than attention */
    {"qwen3_5_text", SIGNROUND, 19, HEAD RTN},
    {"qwen3_5_text", EBFT, 19, HEAD PRUNE},
};
enum { LEARNS = sizeof learns / sizeof *learns };

static void take_model(const char *name)
{
    if (!name)
        return;
    ck_assert(family_write(family_find(name), job_path(&place, "model")));
    ck_assert(tiny_tokens_write(job_path(&place, "tokens.i32"), FAMILY_VOCAB, 64 * 24, 3));
}

/* Runs a job that must work; KL of its evaluation. */
static double run(const char *recipe, const char *output, size_t threads, uint64_t *peak,
                  uint64_t *planned)
{
    pare_ctx cx;
    pare_arena a;
    pare_compress_result result;
    pare_plan plan;
    char path[2][512];
    job_recipe(&place, recipe);
    pare_ctx_init(&cx);
    ck_assert_int_eq(pare_arena_init(&cx, &a, 0), PARE_OK);
    ck_assert_int_eq(pare_pool_new(&cx, threads, &cx.pool), PARE_OK);
    (void)snprintf(path[0], sizeof path[0], "%s", job_path(&place, "recipe.yaml"));
    (void)snprintf(path[1], sizeof path[1], "%s", job_path(&place, output));
    const pare_job job = {.recipe = path[0], .output = path[1]};
    ck_assert_msg(pare_plan_make(&cx, &a, &job, &plan) == PARE_OK, "%s", cx.what);
    *planned = plan.settled.memory.anonymous_bytes;
    pare_plan_close(&plan);
    ck_assert_msg(pare_compress(&cx, &a, &job, NULL, &result) == PARE_OK, "%s", cx.what);
    *peak = cx.peak_bytes;
    const double kl = result.report.evaluation[0].after.kl_mean;
    pare_arena_release(&a);
    pare_pool_free(&cx, cx.pool);
    ck_assert_uint_eq(cx.live_bytes, 0);
    return kl;
}

/* The notes of the step in layers.csv: one loss per block on each of its linears, and it falls. */
static void check_notes(const char *output, const char *pass, size_t linears)
{
    char path[600], line[512], step[32];
    (void)snprintf(step, sizeof step, ",%s,", pass);
    (void)snprintf(path, sizeof path, "%s/layers.csv", job_path(&place, output));
    FILE *const f = fopen(path, "r");
    size_t rows = 0;
    ck_assert_ptr_nonnull(f);
    while (fgets(line, sizeof line, f)) {
        const char *const note = strstr(line, "loss ");
        double before, after;
        if (!strstr(line, step))
            continue;
        ck_assert_ptr_nonnull(note);
        ck_assert_int_eq(sscanf(note, "loss %lf -> %lf", &before, &after), 2);
        ck_assert_msg(after > 0 && after < 0.98 * before, "%s", line);
        rows++;
    }
    ck_assert_int_eq(fclose(f), 0);
    ck_assert_uint_eq(rows, linears);
}

START_TEST(what_is_learned_brings_the_model_nearer)
{
    uint64_t peak, planned;
    take_model(learns[_i].family);
    const double plain = run(learns[_i].plain, "plain", 1, &peak, &planned);
    const double learned = run(learns[_i].recipe, "learned", 2, &peak, &planned);
    ck_assert_msg(learned < 0.95 * plain, "%g %g", plain, learned);
    ck_assert_uint_le(peak, planned);
    check_notes("learned", learns[_i].name, learns[_i].rows);
}
END_TEST

/* The row of the first k_proj in layers.csv up to the error of its weights; "" without one. */
static void read_key(const char *output, char line[512])
{
    char path[600];
    size_t at = 0;
    (void)snprintf(path, sizeof path, "%s/layers.csv", job_path(&place, output));
    FILE *const f = fopen(path, "r");
    ck_assert_ptr_nonnull(f);
    while (fgets(line, 512, f) && !strstr(line, "k_proj"))
        line[0] = '\0';
    ck_assert_int_eq(fclose(f), 0);
    for (size_t commas = 0; line[at] && commas < 10; at++)
        commas += line[at] == ',';
    line[at] = '\0';
}

/* Its input does not change, so that one of those that read it may be left as it is. */
START_TEST(a_linear_beside_others_may_be_left_out)
{
#define BUT(what) "{" what "skip: \"*.k_proj\"}\n"
#define OTHERS    "  - rtn: " BUT("bits: 2, group: 32, symmetric: false, ")
#define LEARN     "  - signround: " BUT("steps: 40, batch: 3, ")
    static const char *const behind[] = {OTHERS,
                                         OTHERS "  - rtn: {bits: 8, targets: \"*.k_proj\"}\n"};
    char recipe[1024], key[2][512];
    uint64_t peak, planned;
    (void)snprintf(recipe, sizeof recipe, "%s%s", HEAD, behind[_i]);
    const double plain = run(recipe, "plain", 1, &peak, &planned);
    (void)snprintf(recipe, sizeof recipe, "%s%s%s", HEAD, LEARN, behind[_i]);
    const double learned = run(recipe, "learned", 1, &peak, &planned);
    ck_assert_msg(learned < 0.95 * plain, "%g %g", plain, learned);
    ck_assert_uint_le(peak, planned);
    check_notes("learned", "signround", tiny_model_default().blocks * (PARE_COMMON_ROLES - 1));
    read_key("plain", key[0]);
    read_key("learned", key[1]);
    ck_assert_int_eq(key[0][0] != '\0', _i);
    ck_assert_str_eq(key[0], key[1]);
}
END_TEST

START_TEST(any_thread_count_gives_the_same_artifact)
{
    char one[PARE_SHA256_HEX], two[PARE_SHA256_HEX];
    take_model(learns[_i].family);
    job_recipe(&place, learns[_i].recipe);
    ck_assert_int_eq(job_run(&place, (job_opts){.output = "one"}, NULL), PARE_OK);
    ck_assert_int_eq(job_run(&place, (job_opts){.output = "two", .threads = 3}, NULL), PARE_OK);
    job_hash(&place, "one", one);
    job_hash(&place, "two", two);
    ck_assert_str_eq(one, two);
}
END_TEST

/* What is learned of a block depends on the outputs of those before it, restored or not. */
START_TEST(an_interrupted_job_learns_the_same)
{
    take_model(learns[_i].family);
    job_recipe(&place, learns[_i].recipe);
    ck_assert_int_eq(job_run(&place, (job_opts){.output = "whole"}, NULL), PARE_OK);
    job_break(&place, "broken");
    ck_assert(pare_path_is_directory(job_path(&place, "broken.partial")));
    ck_assert(!pare_path_is_directory(job_path(&place, "broken")));
    ck_assert_int_eq(job_run(&place, (job_opts){.output = "broken", .threads = 2}, NULL), PARE_OK);
    job_check_same(&place, "whole", "broken");
    check_notes("broken", learns[_i].name, learns[_i].rows);
}
END_TEST

typedef struct refusal {
    const char *passes, *reason;
} refusal;

static const refusal refusals[] = {
    {"  - omniquant: {}\n  - rtn: {bits: 3, clip: mse}\n",
     "put rtn or gptq with the uniform grid and clip: none there"},
    {"  - omniquant: {}\n", "no pass behind it quantizes"},
    {"  - omniquant: {}\n  - gptq: {bits: 3, true_sequential: true}\n", "true_sequential"},
    {"  - rotate: {online: true}\n  - omniquant: {scales: false}\n  - rtn: {bits: 4}\n",
     "use online: false"},
    {RTN "  - omniquant: {}\n", "must stand in front of it"},
    {"  - omniquant: {epochs: 0}\n" RTN, "epochs"},
    {"  - signround: {}\n  - rtn: {bits: 3, clip: mse}\n", "put rtn there, with clip: none"},
    {"  - signround: {}\n  - rtn: {bits: 3, clip: weighted}\n", "put rtn there, with clip: none"},
    {"  - signround: {}\n  - wanda: {pattern: 2:4}\n" RTN, "put it in front of signround"},
    {"  - signround: {}\n  - smoothquant: {}\n" RTN, "put it in front of signround"},
    {"  - signround: {}\n  - signround: {}\n" RTN, "put it in front of signround"},
    {"  - signround: {}\n", "no pass behind it quantizes"},
    {"  - signround: {}\n  - gptq: {bits: 3, correct: none}\n", "choose that anew; put rtn there"},
    {"  - signround: {}\n  - hqq: {bits: 3}\n", "choose that anew; put rtn there"},
    {"  - signround: {}\n  - nf4\n", "put rtn there"},
    {"  - rotate: {online: true}\n  - signround: {}\n  - rtn: {bits: 4}\n", "use online: false"},
    {RTN "  - signround: {}\n", "must stand in front of it"},
    {"  - signround: {steps: 0}\n" RTN, "steps"},
    {"  - signround: {}\n  - rtn: {bits: 3, skip: \"*.k_proj\"}\n",
     "no pass behind it quantizes model.layers.0.self_attn.k_proj"},
    {"  - ebft: {}\n" RTN, "ebft: no pass in front of it prunes a linear that it works on"},
    {"  - wanda: {targets: \"*.k_proj\"}\n  - ebft: {skip: \"*.k_proj\"}\n",
     "ebft: no pass in front of it prunes a linear that it works on"},
    {"  - ebft: {}\n" PRUNE, "put a pruner there"},
    {PRUNE RTN "  - ebft: {}\n", "must stand in front of it"},
    {PRUNE "  - ebft: {}\n  - gptq: {bits: 3, true_sequential: true}\n", "true_sequential"},
    {PRUNE "  - ebft: {epochs: 0}\n", "epochs"},
    {"  - omniquant: {skip: \"*.k_proj\"}\n" RTN, "k_proj reads the same input as"},
};

START_TEST(what_it_cannot_do_is_refused_before_any_work)
{
    char recipe[1024], what[1024];
    (void)snprintf(recipe, sizeof recipe, "%s%s", HEAD, refusals[_i].passes);
    job_recipe(&place, recipe);
    ck_assert_int_ne(job_run(&place, (job_opts){.output = "out"}, what), PARE_OK);
    ck_assert_msg(strstr(what, refusals[_i].reason) != NULL, "%s", what);
    ck_assert_msg(strstr(what, "recipe.yaml:") != NULL, "%s", what);
    ck_assert(!pare_path_is_directory(job_path(&place, "out")));
}
END_TEST

int main(void)
{
    Suite *const s = suite_create("learned_job");
    TCase *const t = tcase_create("job");
    tcase_set_timeout(t, 240);
    tcase_add_checked_fixture(t, setup, teardown);
    tcase_add_loop_test(t, what_is_learned_brings_the_model_nearer, 0, LEARNS);
    tcase_add_loop_test(t, a_linear_beside_others_may_be_left_out, 0, 2);
    tcase_add_loop_test(t, any_thread_count_gives_the_same_artifact, 0, LEARNS);
    tcase_add_loop_test(t, an_interrupted_job_learns_the_same, 0, LEARNS);
    tcase_add_loop_test(t, what_it_cannot_do_is_refused_before_any_work, 0,
                        (int)(sizeof refusals / sizeof *refusals));
    suite_add_tcase(s, t);
    return unit_main(s);
}
