/* The embeddings and the head in few bits, from the recipe to the artifact. */
#include "runtime/linear.h"
#include "tests/unit/job.h"

static job_place place[2]; /* tied, and not */

static void setup(void)
{
    for (int i = 0; i < 2; i++) {
        tiny_model m = tiny_model_default();
        m.tied = i == 0;
        place[i] = job_make(&m);
    }
}

static void teardown(void)
{
    job_remove_directory(place[0].root);
    job_remove_directory(place[1].root);
}

#define HEAD                                                                                       \
    "pare: 1\nmodel: model\noutput: one\nseed: 5\n"                                                \
    "calibration: {tokens: tokens.i32, samples: 16, window: 64}\n"                                 \
    "evaluate:\n  - kl: {tokens: tokens.i32, window: 64}\n"                                        \
    "passes:\n  - rtn: {bits: 8, group: 32}\n"

/* An artifact, open. */
typedef struct opened {
    pare_ctx cx;
    pare_arena a;
    pare_checkpoint ck;
    pare_model m;
} opened;

static void open_artifact(const job_place *p, const char *name, opened *o)
{
    pare_ctx_init(&o->cx);
    ck_assert_int_eq(pare_arena_init(&o->cx, &o->a, 0), PARE_OK);
    ck_assert_int_eq(pare_checkpoint_open(&o->cx, &o->a, job_path(p, name), &o->ck), PARE_OK);
    ck_assert_msg(pare_model_load(&o->cx, &o->a, &o->ck, &o->m) == PARE_OK, "%s", o->cx.what);
}

static void close_artifact(opened *o)
{
    pare_checkpoint_close(&o->ck);
    pare_arena_release(&o->a);
    ck_assert_uint_eq(o->cx.live_bytes, 0);
}

/* Relative error of a packed table against the one of the model. */
static double error_of(opened *is, const pare_linear *w, opened *was, const pare_linear *from)
{
    const size_t count = w->n * w->k;
    float *const x = PARE_NEW(&is->a, float, count), *const y = PARE_NEW(&is->a, float, count);
    double wrong = 0, all = 0;
    ck_assert(x && y);
    pare_linear_to_f32(&is->cx, w, x);
    pare_linear_to_f32(&was->cx, from, y);
    for (size_t i = 0; i < count; i++) {
        wrong += (double)(x[i] - y[i]) * (double)(x[i] - y[i]);
        all += (double)y[i] * (double)y[i];
    }
    return wrong / all;
}

static void check_rows(opened *o)
{
    const pare_linear *const w = &o->m.embed;
    float *const all = PARE_NEW(&o->a, float, w->n * w->k), *const row =
                                                                PARE_NEW(&o->a, float, w->k);
    ck_assert(all && row && pare_linear_has_rows(w));
    pare_linear_to_f32(&o->cx, w, all);
    for (size_t i = 0; i < w->n; i++) {
        pare_linear_row(&o->cx, w, i, row);
        ck_assert_mem_eq(row, all + i * w->k, w->k * sizeof *row);
    }
}

/* What a recipe adds, and bits of embeddings and head. */
static const struct {
    int model;
    const char *keys;
    unsigned embed, head;
    double most; /* of the relative error of what is packed */
} good[] = {
    {0, "embeddings: {rtn: {bits: 8, group: 32}}\n", 8, 8, 1e-4},
    {0, "head: {gptq: {bits: 4, group: 32}}\n", 4, 4, 2e-2},
    {0, "embeddings: {rtn: {bits: 8}}\nhead: {rtn: {bits: 8}}\n", 8, 8, 1e-4},
    {1, "embeddings: {nf4: {group: 32}}\n", 4, 0, 2e-2},
    {1, "embeddings: {mxfp4: {}}\n", 4, 0, 4e-2},
    {1, "embeddings: {fp8: {}}\n", 8, 0, 2e-3},
    {1, "embeddings: {hqq: {bits: 4, group: 32}}\n", 4, 0, 2e-2},
    {1, "embeddings: {ternary: {}}\n", 2, 0, 1},
    {1, "head: {gptq: {bits: 3, group: 32}}\n", 0, 3, 8e-2},
    {1, "embeddings: {rtn: {bits: 8}}\nhead: {rtn: {bits: 4, group: 32}}\n", 8, 4, 2e-2},
};

START_TEST(tables_are_stored_as_the_recipe_says)
{
    const job_place *const p = &place[good[_i].model];
    char recipe[1024];
    opened is, was;
    (void)snprintf(recipe, sizeof recipe, HEAD "%s", good[_i].keys);
    job_recipe(p, recipe);
    ck_assert_int_eq(job_run(p, (job_opts){.output = "one"}, NULL), PARE_OK);
    open_artifact(p, "one", &is);
    open_artifact(p, "model", &was);
    ck_assert_uint_eq(is.m.embed.bits, good[_i].embed);
    ck_assert_uint_eq(is.m.head.bits, good[_i].head);
    check_rows(&is);
    if (good[_i].embed)
        ck_assert_double_lt(error_of(&is, &is.m.embed, &was, &was.m.embed), good[_i].most);
    if (good[_i].head)
        ck_assert_double_lt(error_of(&is, &is.m.head, &was, &was.m.head), good[_i].most);
    close_artifact(&was);
    close_artifact(&is);
}
END_TEST

typedef struct stop_at {
    const char *what;
    volatile int stop;
} stop_at;

static void stop(void *self, const char *what, double done, double total)
{
    stop_at *const s = self;
    (void)done;
    (void)total;
    s->stop |= strstr(what, s->what) != NULL;
}

static void run_again(const job_place *p, const char *output, size_t threads)
{
    ck_assert_int_eq(job_run(p, (job_opts){.output = output, .threads = threads}, NULL), PARE_OK);
    job_check_same(p, "one", output);
}

/* Stopped while tables are found, and once they are in the journal. */
START_TEST(bytes_are_the_same_for_any_thread_count_and_after_a_break)
{
    static const char *const at[] = {"gathering statistics of the head", "scoring windows"};
    const job_place *const p = &place[1];
    job_recipe(p, HEAD "embeddings: {rtn: {bits: 4, group: 32}}\n"
                       "head: {gptq: {bits: 4, group: 32}}\n");
    ck_assert_int_eq(job_run(p, (job_opts){.output = "one"}, NULL), PARE_OK);
    run_again(p, "five", 5);
    job_break(p, "two");
    run_again(p, "two", 2);
    for (size_t i = 0; i < sizeof at / sizeof *at; i++) {
        stop_at s = {.what = at[i]};
        const char *const output = i ? "four" : "three";
        ck_assert_int_eq(
            job_run(p,
                    (job_opts){.output = output, .interrupt = &s.stop, .report = stop, .self = &s},
                    (char[1024]){0}),
            PARE_EINTERRUPTED);
        run_again(p, output, 2);
    }
}
END_TEST

/* Codes of the embeddings that change behind the journal's back are made anew. */
START_TEST(a_damaged_table_of_an_unfinished_run_is_made_again)
{
    const job_place *const p = &place[1];
    stop_at s = {.what = "scoring windows"};
    unsigned char byte;
    job_recipe(p, HEAD "head: {gptq: {bits: 4, group: 32}}\n");
    ck_assert_int_eq(job_run(p, (job_opts){.output = "one"}, NULL), PARE_OK);
    ck_assert_int_eq(
        job_run(p, (job_opts){.output = "two", .interrupt = &s.stop, .report = stop, .self = &s},
                (char[1024]){0}),
        PARE_EINTERRUPTED);
    opened o;
    open_artifact(p, "one", &o);
    const pare_tensor *const t = pare_checkpoint_find(&o.ck, "lm_head.codes");
    ck_assert_ptr_nonnull(t);
    const off_t at =
        (off_t)((const unsigned char *)t->data - o.ck.file[o.ck.tensor_file[t - o.ck.tensor]].data);
    close_artifact(&o);
    const int fd = open(job_path(p, "two.partial/packed-00001-of-00001.safetensors"), O_RDWR);
    ck_assert_int_eq(pread(fd, &byte, 1, at), 1);
    byte ^= 1;
    ck_assert_int_eq(pwrite(fd, &byte, 1, at), 1);
    ck_assert_int_eq(close(fd), 0);
    run_again(p, "two", 1);
}
END_TEST

static const struct {
    int model;
    const char *keys, *what;
} bad[] = {
    {0, "passes: [rtn]\nembeddings: {rtn: {bits: 8}}\nhead: {rtn: {bits: 4}}\n",
     "recipe.yaml:5:8: head: the model ties its head to the embeddings: they are one matrix; leave "
     "\"head\" or \"embeddings\" out"},
    {1, "passes: [rtn]\nembeddings: {gptq: {bits: 4}}\n",
     "embeddings: gptq goes by inputs, and embeddings have none; take rtn, hqq or nf4"},
    {0, "passes: [rtn]\nembeddings: {gptq: {bits: 4}}\n",
     "embeddings: gptq needs calibration data; add \"calibration:\" with text, tokens or generate"},
    {1, "passes: [rtn]\nhead: {gptq: {correct: gptaq}}\n",
     "head: gptq runs no float model there and holds nothing out; leave correct and tune out"},
    {1, "passes: [rtn]\nhead: {wanda: {sparsity: 0.5}}\n",
     "head: wanda is no quantizer of one matrix; take rtn, hqq or nf4"},
    {1, "passes: [rtn]\nhead: {llm_int8: {columns: 0.02}}\n", "head: llm_int8 "},
    {1, "passes: [rotate, rtn]\nhead: {rtn: {bits: 8}}\n", "head: rotate rotates them"},
    {1,
     "calibration: {tokens: tokens.i32, samples: 4, window: 64}\n"
     "passes: [channels: {ratio: 0.5}]\nhead: {rtn: {bits: 8}}\n",
     "head: channels leaves a plain checkpoint"},
    {1, "passes: [rtn]\nembeddings: {rtn: {grid: q4_k}}\n",
     "inputs of a row; take bits: 8, group: 32 (Q8_0 of GGUF) or bits: 4, group: 32 (Q4_0) for "
     "them"},
    {1, "passes: [rtn]\nhead: [rtn]\n",
     "\"head\" takes one quantizer, as in \"head: {rtn: {bits: 8}}\""},
    {1, "passes: [rtn]\nhead: {rtn: {targets: lm_head}}\n",
     "\"head\" is one matrix: leave targets and skip out"},
    {1, "passes: [rtn: {targets: lm_head}]\n",
     "targets: \"lm_head\" names lm_head, which has a key of its own: \"head: {rtn: {bits: 8}}\""},
};

START_TEST(what_cannot_be_is_refused_with_its_place)
{
    char recipe[1024], what[1024];
    const job_place *const p = &place[bad[_i].model];
    (void)snprintf(recipe, sizeof recipe, "pare: 1\nmodel: model\n%s", bad[_i].keys);
    job_recipe(p, recipe);
    ck_assert_int_eq(job_run(p, (job_opts){.output = "no"}, what), PARE_EUSAGE);
    ck_assert_msg(strstr(what, bad[_i].what) && strstr(what, "recipe.yaml:"), "%s", what);
    ck_assert_msg(!strstr(what, "with targets"), "no advice for one matrix: %s", what);
}
END_TEST

int main(void)
{
    Suite *const s = suite_create("tables job");
    TCase *const tc = tcase_create("jobs");
    tcase_add_checked_fixture(tc, setup, teardown);
    tcase_set_timeout(tc, 120);
    tcase_add_loop_test(tc, tables_are_stored_as_the_recipe_says, 0, sizeof good / sizeof *good);
    tcase_add_test(tc, bytes_are_the_same_for_any_thread_count_and_after_a_break);
    tcase_add_test(tc, a_damaged_table_of_an_unfinished_run_is_made_again);
    tcase_add_loop_test(tc, what_cannot_be_is_refused_with_its_place, 0, sizeof bad / sizeof *bad);
    suite_add_tcase(s, tc);
    return unit_main(s);
}
