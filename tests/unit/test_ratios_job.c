/* Jobs whose pruners share out their ratio by a rule. */
#include <math.h>

#include "compress/artifact/verify.h"
#include "compress/run/run_internal.h"
#include "formats/checkpoint.h"
#include "runtime/linear.h"
#include "tests/data/families.h"
#include "tests/unit/job_plan.h"

#define HEAD                                                                                       \
    "pare: 1\nmodel: model\n"                                                                      \
    "calibration: {tokens: tokens.i32, samples: 12, window: 64}\npasses:\n"

enum { BLOCKS_MOST = 8 };

static job_place place;
static pare_config config;

static void setup(void)
{
    const tiny_model m = tiny_model_default();
    place = job_make(&m);
    /* the first block has outliers: one input of its MLP is large in every row */
    job_scale(&place, 0, "mlp.up_proj", JOB_ALL, 3, 30.0F);
    job_scale(&place, 0, "mlp.gate_proj", JOB_ALL, 3, 30.0F);
}

static void teardown(void)
{
    job_remove_directory(place.root);
}

static void recipe(const char *passes)
{
    char text[2048];
    (void)snprintf(text, sizeof text, HEAD "%s", passes);
    job_recipe(&place, text);
}

typedef struct counts {
    double zeros[BLOCKS_MOST][PARE_COMMON_ROLES], weights[BLOCKS_MOST][PARE_COMMON_ROLES], total,
        all;
} counts;

static counts count_zeros(const char *output)
{
    counts c = {0};
    pare_ctx cx;
    pare_arena a;
    pare_checkpoint ck;
    pare_model model;
    pare_ctx_init(&cx);
    ck_assert_int_eq(pare_arena_init(&cx, &a, 0), PARE_OK);
    ck_assert_int_eq(pare_checkpoint_open(&cx, &a, job_path(&place, output), &ck), PARE_OK);
    ck_assert_msg(pare_model_load(&cx, &a, &ck, &model) == PARE_OK, "%s", cx.what);
    config = model.config;
    ck_assert_uint_le(config.blocks, BLOCKS_MOST);
    for (size_t i = 0; i < config.blocks * PARE_COMMON_ROLES; i++) {
        const size_t block = i / PARE_COMMON_ROLES, role = i % PARE_COMMON_ROLES;
        const pare_linear *const l = &model.block[block].linear[role];
        float *const w = PARE_NEW(&a, float, l->n * l->k);
        ck_assert_ptr_nonnull(w);
        pare_linear_to_f32(&cx, l, w);
        for (size_t j = 0; j < l->n * l->k; j++)
            c.zeros[block][role] += w[j] == 0;
        c.weights[block][role] = (double)(l->n * l->k);
        c.total += c.zeros[block][role];
        c.all += c.weights[block][role];
    }
    pare_checkpoint_close(&ck);
    pare_arena_release(&a);
    return c;
}

static void complain(void *self, const char *what)
{
    (void)self;
    (void)fprintf(stderr, "verify: %s\n", what);
}

static void check_verified(const char *output)
{
    pare_ctx cx;
    pare_ctx_init(&cx);
    pare_verify_result r;
    ck_assert_int_eq(pare_verify(&cx, job_path(&place, output), complain, NULL, &r), PARE_OK);
    ck_assert_uint_eq(r.findings, 0);
}

static uint64_t written(const char *output)
{
    static const char *const name[] = {"packed-00001-of-00001.safetensors", "packed.index.json"};
    uint64_t bytes = 0;
    struct stat st;
    char path[100];
    for (size_t i = 0; i < 2; i++) {
        (void)snprintf(path, sizeof path, "%s/%s", output, name[i]);
        ck_assert_int_eq(stat(job_path(&place, path), &st), 0);
        bytes += (uint64_t)st.st_size;
    }
    return bytes;
}

/* Bytes that the plan of the recipe in place promises, at most. */
static uint64_t planned(void)
{
    const job_plan p = job_plan_of(&place, 0);
    ck_assert(p.ratios);
    return p.packed_bytes;
}

/* As many weights go as with one ratio for all, in files no larger than promised. */
static void check_total(const char *output, double target)
{
    const counts c = count_zeros(output);
    ck_assert_double_le(fabs(c.total - target * c.all), (double)config.intermediate);
    const uint64_t most = planned();
    ck_assert_uint_le(written(output), most);
    ck_assert_uint_ge(written(output) + 16384, most);
}

static const char *const ruled[] = {
    "  - wanda: {sparsity: 0.6, ratios: owl, spread: 0.1, stability: 2}\n",
    "  - magnitude: {sparsity: 0.6, ratios: owl, spread: 0.1}\n",
    "  - sparsegpt: {sparsity: 0.6, ratios: owl, spread: 0.1}\n",
    "  - wanda: {sparsity: 0.6, ratios: search, spread: 0.15}\n",
    "  - wanda: {sparsity: 0.6, ratios: isc}\n",
    "  - magnitude: {sparsity: 0.6, ratios: isc, targets: \"*.mlp.*\"}\n"
    "  - sparsegpt: {sparsity: 0.6, score: isc, ratios: isc, spread: 0.2, targets: "
    "\"*.self_attn.*\"}\n",
    "  - magnitude: {sparsity: 0.6, ratios: search, targets: \"*.mlp.*\"}\n"
    "  - sparsegpt: {sparsity: 0.6, ratios: search, targets: \"*.self_attn.*\"}\n",
    "  - rotate: {}\n  - wanda: {sparsity: 0.6, ratios: owl}\n  - rtn: {bits: 4, group: 32}\n",
};
enum { RULED = sizeof ruled / sizeof *ruled };

START_TEST(ratios_are_the_same_for_any_threads_and_breaks)
{
    recipe(ruled[_i]);
    ck_assert_int_eq(job_run(&place, (job_opts){.output = "one"}, NULL), PARE_OK);
    ck_assert_int_eq(job_run(&place, (job_opts){.output = "five", .threads = 5}, NULL), PARE_OK);
    job_check_same(&place, "one", "five");
    job_break(&place, "two");
    ck_assert_int_eq(job_run(&place, (job_opts){.output = "two", .threads = 2}, NULL), PARE_OK);
    job_check_same(&place, "one", "two");
    check_verified("two");
    if (!strstr(ruled[_i], "rtn")) /* which rounds weights to 0 as well */
        check_total("one", 0.6);
}
END_TEST

START_TEST(a_block_with_outliers_keeps_more)
{
    recipe("  - wanda: {sparsity: 0.6, ratios: owl, spread: 0.1}\n");
    ck_assert_int_eq(job_run(&place, (job_opts){.output = "out"}, NULL), PARE_OK);
    const counts c = count_zeros("out");
    for (size_t block = 0; block < config.blocks; block++)
        for (size_t role = 0; role < PARE_COMMON_ROLES; role++) {
            const double share = c.zeros[block][role] / c.weights[block][role];
            const double unit = 1.0 / (double)config.hidden;
            ck_assert_double_le(fabs(share - 0.6), 0.1 + unit);
            if (block == 0)
                ck_assert_double_lt(share, 0.5 + 2 * unit);
            else
                ck_assert_double_gt(share, 0.6);
        }
}
END_TEST

/* What the large input gives is the input of down. Sites share a sensitivity, and the first of its
 * linears loses most. */
START_TEST(what_has_large_inputs_keeps_more)
{
    recipe("  - magnitude: {sparsity: 0.6, ratios: isc, spread: 0.1}\n");
    ck_assert_int_eq(job_run(&place, (job_opts){.output = "out"}, NULL), PARE_OK);
    const counts c = count_zeros("out");
    double share[BLOCKS_MOST * PARE_COMMON_ROLES], least = 1, most = 0;
    const size_t count = config.blocks * PARE_COMMON_ROLES;
    for (size_t i = 0; i < count; i++) {
        share[i] = c.zeros[i / PARE_COMMON_ROLES][i % PARE_COMMON_ROLES] /
                   c.weights[i / PARE_COMMON_ROLES][i % PARE_COMMON_ROLES];
        least = fmin(least, share[i]);
        most = fmax(most, share[i]);
    }
    const double unit = 1 / c.weights[0][PARE_ROLE_K], step = (most - least) / (double)(count - 1);
    ck_assert_double_gt(step, 3 * unit);
    ck_assert_double_eq(share[PARE_ROLE_DOWN], least);
    for (size_t i = 0; i < count; i++) {
        const double place_of = (share[i] - least) / step;
        ck_assert_double_le(fabs(place_of - nearbyint(place_of)) * step, 3 * unit);
        for (size_t j = 0; j < i; j++)
            ck_assert_double_gt(fabs(share[i] - share[j]), step - 3 * unit);
    }
    for (size_t b = 0; b < count; b += PARE_COMMON_ROLES) {
        ck_assert_double_gt(share[b + PARE_ROLE_Q], share[b + PARE_ROLE_K]);
        ck_assert_double_gt(share[b + PARE_ROLE_K], share[b + PARE_ROLE_V]);
        ck_assert_double_gt(share[b + PARE_ROLE_GATE], share[b + PARE_ROLE_UP]);
    }
}
END_TEST

/* The first block adds nearly all there is to the stream: what it gives wrong stays there. */
START_TEST(a_search_takes_from_where_it_costs_least)
{
    recipe("  - wanda: {sparsity: 0.6, ratios: search, spread: 0.1}\n");
    ck_assert_int_eq(job_run(&place, (job_opts){.output = "out"}, NULL), PARE_OK);
    const counts c = count_zeros("out");
    const double unit = 1.0 / (double)config.hidden;
    for (size_t role = 0; role < PARE_COMMON_ROLES; role++) {
        ck_assert_double_le(fabs(c.zeros[0][role] / c.weights[0][role] - 0.5), unit);
        ck_assert_double_le(fabs(c.zeros[1][role] / c.weights[1][role] - 0.7), 2 * unit);
    }
}
END_TEST

/* Channels of what out_proj reads are written larger by powers of two, and its columns smaller: the
 * same model. Blocks with a state have more of them than o has inputs. */
START_TEST(a_search_weighs_all_that_a_block_with_a_state_adds)
{
    enum { HEADS = 4, WIDTH = 20 };
    char norm[128], out[128];
    job_remove_directory(job_path(&place, "model"));
    ck_assert(family_write(family_find("qwen3_5_text"), job_path(&place, "model")));
    ck_assert(tiny_tokens_write(job_path(&place, "tokens.i32"), FAMILY_VOCAB, 64 * 24, 3));
    recipe("  - wanda: {sparsity: 0.6, ratios: search, spread: 0.2}\n");
    ck_assert_int_eq(job_run(&place, (job_opts){.output = "out"}, NULL), PARE_OK);
    const counts before = count_zeros("out");
    for (int i = 0; i < 2 * WIDTH; i++) {
        const int block = i / WIDTH * 2, channel = i % WIDTH;
        const float factor = channel % 3 ? 1 : 16;
        (void)snprintf(norm, sizeof norm, "model.layers.%d.linear_attn.norm.weight", block);
        (void)snprintf(out, sizeof out, "model.layers.%d.linear_attn.out_proj.weight", block);
        job_change(&place, norm, JOB_ALL, channel, factor, 0);
        for (int head = 0; head < HEADS; head++)
            job_change(&place, out, JOB_ALL, head * WIDTH + channel, 1 / factor, 0);
    }
    ck_assert_int_eq(job_run(&place, (job_opts){.output = "same"}, NULL), PARE_OK);
    const counts after = count_zeros("same");
    for (size_t i = 0; i < config.blocks * PARE_COMMON_ROLES; i++) {
        const size_t block = i / PARE_COMMON_ROLES, role = i % PARE_COMMON_ROLES;
        ck_assert_double_eq(before.zeros[block][role], after.zeros[block][role]);
    }
}
END_TEST

/* Its statistics have the widths of that block, not of one with attention. */
START_TEST(a_choice_in_a_block_with_a_state_is_repeated)
{
    job_remove_directory(job_path(&place, "model"));
    ck_assert(family_write(family_find("qwen3_5_text"), job_path(&place, "model")));
    ck_assert(tiny_tokens_write(job_path(&place, "tokens.i32"), FAMILY_VOCAB, 64 * 24, 3));
    recipe("  - wanda: {sparsity: 0.5}\n");
    ck_assert_int_eq(job_run(&place, (job_opts){.output = "plain"}, NULL), PARE_OK);
    recipe("  - wanda: {sparsity: 0.5, stability: 3}\n");
    ck_assert_int_eq(job_run(&place, (job_opts){.output = "repeated"}, NULL), PARE_OK);
    job_check_same_weights(&place, "plain", "repeated");
}
END_TEST

/* Sites whose inner products the plan of the recipe collects, one bit each. */
static unsigned sites_with_products(void)
{
    pare_ctx cx;
    pare_arena a;
    pare_plan plan;
    char from[512], to[512];
    unsigned sites = 0;
    pare_ctx_init(&cx);
    ck_assert_int_eq(pare_arena_init(&cx, &a, 0), PARE_OK);
    (void)snprintf(from, sizeof from, "%s", job_path(&place, "recipe.yaml"));
    (void)snprintf(to, sizeof to, "%s", job_path(&place, "elsewhere"));
    const pare_job job = {.recipe = from, .output = to};
    ck_assert_msg(pare_plan_make(&cx, &a, &job, &plan) == PARE_OK, "%s", cx.what);
    for (size_t site = 0; site < PARE_SITES; site++)
        sites |= (plan.kinds[site] & PARE_STATS_HESSIAN ? 1u : 0u) << site;
    pare_plan_close(&plan);
    pare_arena_release(&a);
    return sites;
}

/* The inputs of linears that are not pruned tell what their halves of a block weigh; of a half that
 * loses nothing nobody asks. */
START_TEST(a_search_may_prune_few_linears_only)
{
    const unsigned attention = 1u << PARE_SITE_ATTENTION | 1u << PARE_SITE_ATTENDED;
    const unsigned mlp = 1u << PARE_SITE_MLP | 1u << PARE_SITE_ACTIVATED;
    recipe("  - wanda: {sparsity: 0.6, ratios: search, targets: \"*.up_proj\"}\n");
    ck_assert_uint_eq(sites_with_products(), mlp);
    recipe("  - wanda: {sparsity: 0.6, ratios: search, spread: 0.1, targets: \"*.q_proj\"}\n");
    ck_assert_uint_eq(sites_with_products(), attention);
    ck_assert_int_eq(job_run(&place, (job_opts){.output = "out"}, NULL), PARE_OK);
    const counts c = count_zeros("out");
    const size_t q = PARE_ROLE_Q;
    ck_assert_double_lt(c.zeros[0][q] / c.weights[0][q], 0.6);
    ck_assert_double_gt(c.zeros[1][q] / c.weights[1][q], 0.6);
}
END_TEST

START_TEST(other_steps_keep_their_ratio)
{
    recipe("  - wanda: {sparsity: 0.6, ratios: owl, targets: \"*.mlp.*\"}\n"
           "  - magnitude: {sparsity: 0.25, targets: \"*.self_attn.*\"}\n");
    ck_assert_int_eq(job_run(&place, (job_opts){.output = "out"}, NULL), PARE_OK);
    const counts c = count_zeros("out");
    double gone = 0, all = 0;
    for (size_t block = 0; block < config.blocks; block++)
        for (size_t role = 0; role < PARE_COMMON_ROLES; role++) {
            const bool mlp =
                role == PARE_ROLE_GATE || role == PARE_ROLE_UP || role == PARE_ROLE_DOWN;
            gone += mlp ? c.zeros[block][role] : 0;
            all += mlp ? c.weights[block][role] : 0;
            if (!mlp)
                ck_assert_double_eq(c.zeros[block][role], 0.25 * c.weights[block][role]);
        }
    ck_assert_double_le(fabs(gone - 0.6 * all), (double)config.intermediate);
}
END_TEST

/* So the look at the float model leaves nothing behind. */
START_TEST(without_outliers_it_is_as_uniform)
{
    recipe("  - sparsegpt: {sparsity: 0.5, ratios: owl, outlier: 1000}\n");
    ck_assert_int_eq(job_run(&place, (job_opts){.output = "owl"}, NULL), PARE_OK);
    recipe("  - sparsegpt: {sparsity: 0.5}\n");
    ck_assert_int_eq(job_run(&place, (job_opts){.output = "uniform"}, NULL), PARE_OK);
    job_check_same_weights(&place, "owl", "uniform");
}
END_TEST

START_TEST(ratios_that_cannot_be_are_refused)
{
    static const struct {
        const char *passes, *fragment;
    } wrong[] = {
        {"  - wanda: {pattern: \"2:4\", ratios: owl}\n",
         "5:5: wanda: pattern 2:4 takes the same share of every linear"},
        {"  - sparsegpt: {sparsity: 0.95, ratios: owl}\n",
         "5:5: sparsegpt: ratios: owl takes sparsity 0.95 - spread 0.08 to sparsity + spread"},
        {"  - sparsegpt: {pattern: \"4:8\", ratios: isc}\n",
         "leave out ratios: isc, or the pattern"},
        {"  - wanda: {ratios: isc, outlier: 7}\n",
         "outlier 7 is for ratios: owl, not for ratios: isc"},
        {"  - magnitude: {sparsity: 0.1, ratios: owl, spread: 0.1}\n", "lower spread"},
        {"  - wanda: {spread: 0.05}\n",
         "spread 0.05 is for ratios: owl, isc or search, not for ratios: uniform"},
        {"  - wanda: {ratios: search, outlier: 7}\n",
         "outlier 7 is for ratios: owl, not for ratios: search"},
        {"  - ria: {tie_width: 0.2}\n", "tie_width 0.2 is for ties: random, not for ties: first"},
        /* defaults that are written have no effect either */
        {"  - wanda: {ties: first, tie_width: 0.05}\n",
         "5:37: wanda: tie_width 0.05 is for ties: random, not for ties: first; leave it out or "
         "write ties: random"},
        {"  - wanda: {spread: 0.08}\n", "spread 0.08 is for ratios: owl, isc or search"},
        {"  - wanda: {ratios: search, outlier: 5}\n", "outlier 5 is for ratios: owl"},
        {"  - sparsegpt_joint: {ratios: owl}\n", "unknown key \"ratios\""},
    };
    char what[1024];
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        recipe(wrong[i].passes);
        ck_assert_int_eq(job_run(&place, (job_opts){.output = "out"}, what), PARE_EUSAGE);
        ck_assert_msg(strstr(what, wrong[i].fragment), "\"%s\" lacks \"%s\"", what,
                      wrong[i].fragment);
    }
    job_recipe(&place, "pare: 1\nmodel: model\npasses:\n  - magnitude: {ratios: owl}\nevaluate:\n"
                       "  - perplexity: {tokens: tokens.i32, window: 32}\n");
    ck_assert_int_eq(job_run(&place, (job_opts){.output = "out"}, what), PARE_EUSAGE);
    ck_assert_ptr_nonnull(strstr(what, "magnitude with ratios: owl needs calibration data"));
}
END_TEST

int main(void)
{
    Suite *const s = suite_create("ratios_job");
    TCase *const t = tcase_create("ratios_job");
    tcase_add_checked_fixture(t, setup, teardown);
    tcase_set_timeout(t, 240);
    tcase_add_loop_test(t, ratios_are_the_same_for_any_threads_and_breaks, 0, RULED);
    tcase_add_test(t, a_block_with_outliers_keeps_more);
    tcase_add_test(t, what_has_large_inputs_keeps_more);
    tcase_add_test(t, a_search_takes_from_where_it_costs_least);
    tcase_add_test(t, a_search_weighs_all_that_a_block_with_a_state_adds);
    tcase_add_test(t, a_choice_in_a_block_with_a_state_is_repeated);
    tcase_add_test(t, a_search_may_prune_few_linears_only);
    tcase_add_test(t, other_steps_keep_their_ratio);
    tcase_add_test(t, without_outliers_it_is_as_uniform);
    tcase_add_test(t, ratios_that_cannot_be_are_refused);
    suite_add_tcase(s, t);
    return unit_main(s);
}
