/* Recipes that choose the form of the key/value cache: interrupted and continued, and whether what
 * the report says of it is what the evaluation ran. */
#include "compress/evaluate/evaluate.h"
#include "tests/unit/job.h"

static const char recipe[] = "pare: 1\nmodel: model\nseed: 5\n"
                             "calibration: {tokens: tokens.i32, samples: 8, window: 48}\n"
                             "passes:\n  - rtn: {bits: 4, group: 32}\n"
                             "kv_cache: {method: kvquant, sink: 2}\n"
                             "evaluate:\n  - perplexity: {tokens: tokens.i32, window: 48}\n";

/* Stops at the event number `left` of those that matter. */
typedef struct stopper {
    int left;
    volatile int stop;
} stopper;

static void hear(void *self, const pare_event *e)
{
    stopper *const s = self;
    if ((e->kind == PARE_EVENT_BLOCK || e->kind == PARE_EVENT_EVALUATE) && s->left-- == 0)
        s->stop = 1;
}

START_TEST(an_interrupted_run_finds_the_same_levels)
{
    const tiny_model m = tiny_model_default();
    const job_place place = job_make(&m);
    char first[PARE_SHA256_HEX], other[PARE_SHA256_HEX];
    job_recipe(&place, recipe);
    ck_assert_int_eq(job_run(&place, (job_opts){.output = "first"}, NULL), PARE_OK);
    job_hash(&place, "first", first);
    for (int at = 0; at <= (int)m.blocks; at++) { /* behind each block, then with all of them */
        stopper s = {.left = at};
        const pare_events events = {hear, &s};
        const job_opts o = {.output = "other", .events = &events, .interrupt = &s.stop};
        ck_assert_int_eq(job_run(&place, o, NULL), PARE_EINTERRUPTED);
        ck_assert_int_eq(job_run(&place, (job_opts){.output = "other", .threads = 2}, NULL),
                         PARE_OK);
        job_hash(&place, "other", other);
        ck_assert_str_eq(first, other);
        job_remove_directory(job_path(&place, "other"));
    }
    job_remove_directory(place.root);
}
END_TEST

static const struct {
    const char *name, *settings;
    pare_kv_format format;
} methods[] = {
    {"int8", "", {.method = PARE_KV_INT8}},
    {"int4", ", group: 8", {.method = PARE_KV_INT4, .group = 8}},
    {"kivi", ", group: 8, window: 4", {.method = PARE_KV_KIVI, .group = 8, .window = 4}},
    {"kvquant", ", sink: 2", {.method = PARE_KV_KVQUANT, .sink = 2}},
};
enum { METHODS = sizeof methods / sizeof *methods, WINDOW = 48 };

/* The method that a file of the artifact names between two texts; its number in the table. */
static int named(pare_arena *a, const job_place *place, const char *file, const char *before,
                 const char *behind)
{
    char *text;
    size_t len;
    ck_assert_int_eq(pare_file_read(a->cx, a, job_path(place, file), 1 << 24, &text, &len),
                     PARE_OK);
    for (int i = 0; i < METHODS; i++) {
        char line[128];
        (void)snprintf(line, sizeof line, "%s%s%s", before, methods[i].name, behind);
        if (strstr(text, line))
            return i;
    }
    ck_abort_msg("%s names no method", file);
    return -1;
}

/* Perplexity of the artifact with keys and values in one form. */
static double perplexity(pare_ctx *cx, pare_arena *a, pare_model *m, const pare_kv_format *format,
                         const char *path)
{
    pare_tokens tokens;
    pare_forward f;
    pare_eval_result r;
    const pare_eval_opts opts = {.window = WINDOW};
    if (format)
        m->kv = *format;
    ck_assert_int_eq(pare_tokens_read(cx, a, path, m->config.vocab, &tokens), PARE_OK);
    ck_assert_int_eq(pare_forward_init(cx, a, m, WINDOW, false, &f), PARE_OK);
    ck_assert_msg(pare_evaluate(cx, &f, NULL, &opts, tokens.id, tokens.count, &r) == PARE_OK, "%s",
                  cx->what);
    return r.ppl;
}

START_TEST(the_form_that_the_report_names_is_the_one_that_was_evaluated)
{
    tiny_model m = tiny_model_default();
    m.head_dim = 16;
    const job_place place = job_make(&m);
    char text[1024], path[2][512], tokens[512];
    pare_ctx cx;
    pare_arena a;
    pare_compress_result result;
    pare_checkpoint ck;
    pare_model loaded;
    (void)snprintf(text, sizeof text,
                   "pare: 1\nmodel: model\n"
                   "calibration: {tokens: tokens.i32, samples: 8, window: 48}\n"
                   "passes:\n  - rtn: {bits: 8, group: 32}\nkv_cache: {method: %s%s}\n"
                   "evaluate:\n  - perplexity: {tokens: tokens.i32, window: 48}\n",
                   methods[_i].name, methods[_i].settings);
    job_recipe(&place, text);
    (void)snprintf(path[0], sizeof path[0], "%s", job_path(&place, "recipe.yaml"));
    (void)snprintf(path[1], sizeof path[1], "%s", job_path(&place, "out"));
    (void)snprintf(tokens, sizeof tokens, "%s", job_path(&place, "tokens.i32"));
    const pare_job job = {.recipe = path[0], .output = path[1]};
    pare_ctx_init(&cx);
    ck_assert_int_eq(pare_arena_init(&cx, &a, 0), PARE_OK);
    ck_assert_msg(pare_compress(&cx, &a, &job, NULL, &result) == PARE_OK, "%s", cx.what);
    const double told = result.report.evaluation[0].after.ppl;
    const int card = named(&a, &place, "out/README.md", "key/value cache (", ")");
    ck_assert_int_eq(named(&a, &place, "out/report.html", "key/value cache</td><td>", ", "), card);
    ck_assert_int_eq(pare_checkpoint_open(&cx, &a, path[1], &ck), PARE_OK);
    ck_assert_int_eq(pare_model_load(&cx, &a, &ck, &loaded), PARE_OK);
    const int other = card == 0 ? 1 : 0;
    ck_assert_double_eq(perplexity(&cx, &a, &loaded, NULL, tokens), told);
    ck_assert_double_eq(perplexity(&cx, &a, &loaded, &methods[card].format, tokens), told);
    ck_assert_double_ne(perplexity(&cx, &a, &loaded, &methods[other].format, tokens), told);
    ck_assert_int_eq(card, _i);
    pare_checkpoint_close(&ck);
    pare_arena_release(&a);
    job_remove_directory(place.root);
}
END_TEST

int main(void)
{
    Suite *const s = suite_create("kv_recipe");
    TCase *const t = tcase_create("kv_recipe");
    tcase_set_timeout(t, 240);
    tcase_add_loop_test(t, the_form_that_the_report_names_is_the_one_that_was_evaluated, 0,
                        METHODS);
    tcase_add_test(t, an_interrupted_run_finds_the_same_levels);
    suite_add_tcase(s, t);
    return unit_main(s);
}
