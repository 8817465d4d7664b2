/* The memory that a plan counts: not by the number of blocks; and settings that make a job fit. */
#include "tests/unit/job.h"

static job_place place;

static void setup_blocks(size_t blocks)
{
    tiny_model m = tiny_model_default();
    m.blocks = blocks;
    place = job_make(&m);
    ck_assert(tiny_tokens_write(job_path(&place, "tokens.i32"), m.vocab, (size_t)64 * 300, 3));
}

static void teardown(void)
{
    job_remove_directory(place.root);
}

/* What a plan is asked for, and says. */
typedef struct asked {
    const char *set;
    uint64_t limit;
    size_t threads;
    bool unlimited;
    uint64_t bytes;  /* of memory, the activations in a file */
    uint64_t disk;   /* of that file and others */
    char what[1024]; /* when it is refused */
} asked;

static pare_status ask(asked *x)
{
    pare_ctx cx;
    pare_ctx_init(&cx);
    pare_arena a;
    ck_assert_int_eq(pare_arena_init(&cx, &a, 0), PARE_OK);
    if (x->threads > 1)
        ck_assert_int_eq(pare_pool_new(&cx, x->threads, &cx.pool), PARE_OK);
    const size_t pool = cx.live_bytes;
    char recipe[512], output[512];
    (void)snprintf(recipe, sizeof recipe, "%s", job_path(&place, "recipe.yaml"));
    (void)snprintf(output, sizeof output, "%s", job_path(&place, "out"));
    const pare_job job = {.recipe = recipe,
                          .output = output,
                          .sets = &x->set,
                          .set_count = x->set != NULL,
                          .ram_limit = x->limit,
                          .plan_only = true,
                          .unlimited = x->unlimited};
    pare_plan plan;
    const pare_status s = pare_plan_make(&cx, &a, &job, &plan);
    x->bytes = plan.settled.memory.spilled_bytes;
    x->disk = plan.settled.disk_bytes - plan.settled.packed_bytes - plan.settled.other_bytes;
    (void)snprintf(x->what, sizeof x->what, "%s", cx.what);
    pare_plan_close(&plan);
    pare_arena_release(&a);
    ck_assert_uint_eq(cx.live_bytes, pool);
    pare_pool_free(&cx, cx.pool);
    return s;
}

static uint64_t need(const char *set, size_t threads)
{
    asked x = {.set = set, .threads = threads, .unlimited = true};
    ck_assert_int_eq(ask(&x), PARE_OK);
    return x.bytes;
}

#define HEAD                                                                                       \
    "pare: 1\nmodel: model\n"                                                                      \
    "calibration: {tokens: tokens.i32, samples: 256, window: 64%s}\npasses:\n"

static const struct {
    const char *data, *passes;
} deep[] = {
    {"", "  - gptq: {group: 32}\n"},
    {", token_weights: even", "  - gptq: {group: 32}\n"},
    {"", "  - awq: {}\n  - gptq: {group: 32}\n"},
    {"", "  - rotate: {}\n  - gptq: {group: 32}\n"},
    {"", "  - sparsegpt: {pattern: \"2:4\"}\n"},
};
enum { DEEP = sizeof deep / sizeof *deep };

/* Names and results of its linears are what a block adds: not its tokens' weights, 256 KiB here,
 * nor a matrix. */
START_TEST(a_block_more_adds_no_matrix)
{
    static const size_t blocks[2] = {4, 24};
    asked x[2];
    for (size_t i = 0; i < 2; i++) {
        char text[1024];
        setup_blocks(blocks[i]);
        (void)snprintf(text, sizeof text, HEAD "%s", deep[_i].data, deep[_i].passes);
        job_recipe(&place, text);
        x[i] = (asked){.unlimited = true};
        ck_assert_int_eq(ask(&x[i]), PARE_OK);
        teardown();
    }
    ck_assert_uint_lt((x[1].bytes - x[0].bytes) / (blocks[1] - blocks[0]), 100 << 10);
}
END_TEST

/* The files of the job are counted instead: weights of 16384 tokens at four sites of each block. */
START_TEST(weights_of_tokens_are_counted_on_disk)
{
    char text[1024];
    uint64_t disk[2];
    for (size_t i = 0; i < 2; i++) {
        setup_blocks(8);
        (void)snprintf(text, sizeof text, HEAD "%s", i ? ", token_weights: even" : "",
                       deep[0].passes);
        job_recipe(&place, text);
        asked x = {.unlimited = true};
        ck_assert_int_eq(ask(&x), PARE_OK);
        disk[i] = x.disk;
        teardown();
    }
    ck_assert_uint_gt(disk[0], disk[1] + 8 * 4 * 16384 * sizeof(float));
}
END_TEST

static const struct {
    const char *recipe, *set;
    const char *says;
    size_t threads;
} helps[] = {
    {"calibration: {tokens: tokens.i32, samples: 64, window: 64, token_weights: even}\n"
     "passes:\n  - gptq: {group: 32}\n",
     "passes.0.gptq.correct=none", "or say correct: none (", 1},
    {"calibration: {tokens: tokens.i32, samples: 256, window: 64}\n"
     "passes:\n  - gptq: {group: 32, correct: none}\n",
     "calibration.token_weights=even", "or say token_weights: even (", 1},
    {"calibration: {tokens: tokens.i32, samples: 16, window: 64}\n"
     "passes:\n  - wanda: {pattern: 2:4}\n  - distill: {batch: 4}\n",
     "passes.1.distill.moments=8bit", "or say moments: 8bit (", 1},
    {"calibration: {tokens: tokens.i32, samples: 40, window: 64}\n"
     "passes:\n  - wanda: {pattern: 2:4}\n  - distill: {batch: 32, moments: 8bit}\n",
     "passes.1.distill.batch=1", " of distill (", 1},
    {"calibration: {tokens: tokens.i32, samples: 40, window: 64}\n"
     "passes:\n  - signround: {batch: 32}\n  - rtn: {group: 32, clip: none}\n",
     "passes.0.signround.batch=1", "or say batch: 1 of signround (", 1},
    {"passes:\n  - rtn: {group: 32}\nevaluate:\n  - kl: {tokens: tokens.i32, window: 64}\n", NULL,
     "or say --threads 1 (", 16},
};
enum { HELPS = sizeof helps / sizeof *helps };

/* A limit that leaves too little, but enough with the setting. */
START_TEST(a_refusal_names_a_setting_that_helps)
{
    char text[1024];
    setup_blocks(2);
    (void)snprintf(text, sizeof text, "pare: 1\nmodel: model\n%s", helps[_i].recipe);
    job_recipe(&place, text);
    const uint64_t with = need(helps[_i].set, helps[_i].set ? helps[_i].threads : 1);
    asked x = {.limit = with + 8192, .threads = helps[_i].threads};
    ck_assert_uint_gt(need(NULL, helps[_i].threads), x.limit);
    ck_assert_int_eq(ask(&x), PARE_ENOMEM);
    ck_assert_msg(strstr(x.what, helps[_i].says) != NULL, "%s", x.what);
    x.set = helps[_i].set;
    x.threads = x.set ? x.threads : 1;
    ck_assert_int_eq(ask(&x), PARE_OK);
    teardown();
}
END_TEST

START_TEST(a_refusal_says_that_no_setting_helps)
{
    char text[1024];
    setup_blocks(2);
    (void)snprintf(text, sizeof text, HEAD "%s", "", deep[0].passes);
    job_recipe(&place, text);
    asked x = {.limit = 1 << 20};
    ck_assert_int_eq(ask(&x), PARE_ENOMEM);
    ck_assert_msg(
        strstr(x.what, "raise the limit; with ") && strstr(x.what, " it still needs ") &&
            strstr(x.what, "; fewer linears in targets or a window below 64 may need less"),
        "%s", x.what);
    /* what is the recipe's is no advice, and how many samples there are decides what is */
    job_recipe(&place, "pare: 1\nmodel: model\n"
                       "calibration: {tokens: tokens.i32, samples: all, window: 64}\n"
                       "passes: [gptq: {bits: 4, group: row, tune: false, correct: none}]\n");
    ck_assert_int_eq(ask(&x), PARE_ENOMEM);
    ck_assert_msg(strstr(x.what, "raise the limit, or give samples a number"), "%s", x.what);
    x.set = "calibration.samples=4";
    ck_assert_int_eq(ask(&x), PARE_ENOMEM);
    ck_assert_msg(strstr(x.what, "raise the limit; with ") && !strstr(x.what, "tune: false"), "%s",
                  x.what);
    x.set = NULL;
    job_recipe(&place, "pare: 1\nmodel: model\n"
                       "calibration: {tokens: tokens.i32, samples: 8, window: 64}\n"
                       "passes: [omniquant: {batch: 4}, signround: {}, rtn: {group: 32}]\n");
    ck_assert_int_eq(ask(&x), PARE_ENOMEM);
    ck_assert_msg(strstr(x.what, "batch: 1 of omniquant and signround"), "%s", x.what);
    /* what takes most is no linear */
    job_recipe(&place, "pare: 1\nmodel: model\n"
                       "calibration: {tokens: tokens.i32, samples: 4, window: 2}\n"
                       "passes: [wanda: {pattern: 2:4}]\n"
                       "evaluate: [kl: {tokens: tokens.i32, window: 64}]\n");
    ck_assert_int_eq(ask(&x), PARE_ENOMEM);
    ck_assert_msg(strstr(x.what, "an evaluation needs ") && !strstr(x.what, "may need less"), "%s",
                  x.what);
    job_recipe(&place, "pare: 1\nmodel: model\npasses: [rtn]\n");
    ck_assert_int_eq(ask(&x), PARE_ENOMEM);
    ck_assert_msg(strstr(x.what, "raise the limit: no setting makes it need less"), "%s", x.what);
    teardown();
}
END_TEST

int main(void)
{
    Suite *const s = suite_create("plan_memory");
    TCase *const t = tcase_create("plan_memory");
    tcase_set_timeout(t, 120);
    tcase_add_loop_test(t, a_block_more_adds_no_matrix, 0, DEEP);
    tcase_add_test(t, weights_of_tokens_are_counted_on_disk);
    tcase_add_loop_test(t, a_refusal_names_a_setting_that_helps, 0, HELPS);
    tcase_add_test(t, a_refusal_says_that_no_setting_helps);
    suite_add_tcase(s, t);
    return unit_main(s);
}
