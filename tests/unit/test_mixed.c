/* Calibration on several texts with weights, from the recipe to the manifest. */
#include "calib/tokens.h"
#include "formats/json.h"
#include "runtime/random.h"
#include "tests/unit/job.h"

enum { WINDOW = 32, VOCAB = 4096 };

static const char mixed[] = "pare: 1\n"
                            "model: model\n"
                            "seed: 5\n"
                            "calibration:\n"
                            "  text: [{path: a.txt, weight: 2}, {path: b.txt, weight: 1}]\n"
                            "  samples: 10\n"
                            "  window: 32\n"
                            "passes:\n"
                            "  - gptq: {bits: 4, group: 32}\n"
                            "evaluate:\n"
                            "  - perplexity: {text: a.txt, window: 32}\n"
                            "  - perplexity: {text: b.txt, window: 32}\n";

static job_place place;

static void copy(const char *from, const char *to)
{
    pare_ctx cx;
    pare_arena a;
    char *text;
    size_t len;
    pare_ctx_init(&cx);
    ck_assert_int_eq(pare_arena_init(&cx, &a, 0), PARE_OK);
    ck_assert_msg(pare_file_read(&cx, &a, from, 1 << 24, &text, &len) == PARE_OK, "%s", cx.what);
    ck_assert_int_eq(pare_file_write(&cx, to, text, len), PARE_OK);
    pare_arena_release(&a);
}

/* `words` words, drawn from a few by seed. */
static void write_text(const char *name, uint64_t seed, size_t words)
{
    static const char *const word[] = {"once ", "upon ", "a ", "time ", "there ", "was ", "Lily. "};
    FILE *const f = fopen(job_path(&place, name), "w");
    ck_assert_ptr_nonnull(f);
    for (size_t i = 0; i < words; i++)
        ck_assert_int_ge(fputs(word[pare_random_u64(seed, 1, i) % 7], f), 0);
    ck_assert_int_eq(fclose(f), 0);
}

static void setup(void)
{
    tiny_model m = tiny_model_default();
    m.vocab = VOCAB;
    place = job_make(&m);
    copy(PARE_SOURCE_DIR "/recipes/demo/hedge/tokenizer.json",
         job_path(&place, "model/tokenizer.json"));
    write_text("a.txt", 1, 700);
    write_text("b.txt", 2, 400);
    job_recipe(&place, mixed);
}

static void teardown(void)
{
    job_remove_directory(place.root);
}

/* Windows of one text drawn by the stated rule, put behind those of the text before. */
static size_t expect(pare_ctx *cx, pare_arena *a, const pare_tokenizer *t, const char *name,
                     size_t number, size_t share, int32_t *out)
{
    const char *const path = job_path(&place, name);
    pare_tokens all;
    size_t index[16];
    ck_assert_int_eq(pare_tokens_encode(cx, a, t, &path, 1, -1, 1, &all), PARE_EFORMAT);
    ck_assert_msg(strncmp(cx->what, "the tokenizer makes token ", 26) == 0 &&
                      strstr(cx->what, "is it the tokenizer of another model?"),
                  "%s", cx->what);
    pare_ctx_clear(cx);
    ck_assert_int_eq(pare_tokens_encode(cx, a, t, &path, 1, -1, VOCAB, &all), PARE_OK);
    const uint64_t seed = pare_random_u64(5, pare_random_stream("calibration texts"), number);
    pare_random_choose(seed, pare_random_stream("calibration windows"), all.count / WINDOW, share,
                       index);
    for (size_t i = 0; i < share; i++)
        memcpy(out + i * WINDOW, all.id + index[i] * WINDOW, WINDOW * sizeof *out);
    return share * WINDOW;
}

START_TEST(windows_of_each_text_are_drawn_by_its_weight)
{
    pare_ctx cx;
    pare_arena a;
    pare_tokenizer *t;
    pare_json *doc = NULL;
    char *text, hex[PARE_SHA256_HEX];
    size_t len;
    int32_t want[10 * WINDOW];
    ck_assert_int_eq(job_run(&place, (job_opts){.output = "out"}, NULL), PARE_OK);
    pare_ctx_init(&cx);
    ck_assert_int_eq(pare_arena_init(&cx, &a, 0), PARE_OK);
    ck_assert_int_eq(pare_tokenizer_open(&cx, job_path(&place, "model"), &t), PARE_OK);
    size_t at = expect(&cx, &a, t, "a.txt", 0, 7, want); /* 6.67 and 3.33 */
    at += expect(&cx, &a, t, "b.txt", 1, 3, want + at);
    ck_assert_uint_eq(at, 10 * WINDOW);
    ck_assert_int_eq(pare_sha256_hex(&cx, want, sizeof want, hex), PARE_OK);
    ck_assert_int_eq(
        pare_file_read(&cx, &a, job_path(&place, "out/manifest.json"), 1 << 24, &text, &len),
        PARE_OK);
    ck_assert_int_eq(pare_json_parse(&cx, "manifest.json", text, len, 1 << 24, &doc), PARE_OK);
    const pare_json *const c = pare_json_get(doc, "calibration");
    ck_assert_str_eq(pare_json_text(pare_json_get(c, "tokens_sha256"), NULL), hex);
    ck_assert_ptr_nonnull(strstr(text, "\"windows_of_texts\""));
    ck_assert_ptr_nonnull(strstr(pare_json_text(pare_json_get(doc, "recipe"), NULL),
                                 "[{path: \"data\", weight: 2}, {path: \"data\", weight: 1}]"));
    pare_json_free(doc);
    ck_assert_int_eq(
        pare_file_read(&cx, &a, job_path(&place, "out/README.md"), 1 << 24, &text, &len), PARE_OK);
    ck_assert_ptr_nonnull(
        strstr(text, "Calibrated on 10 windows of 32 tokens: 7 of a.txt, 3 of b.txt.\n"));
    const char *const first = strstr(text, "| a.txt | 32 |");
    ck_assert(first && strstr(first, "| b.txt | 32 |"));
    pare_tokenizer_free(t);
    pare_arena_release(&a);
    ck_assert_uint_eq(cx.live_bytes, 0);
}
END_TEST

/* Without weights the files are one stream, as they always were. */
START_TEST(names_alone_keep_one_stream)
{
    char weighted[PARE_SHA256_HEX], plain[PARE_SHA256_HEX], named[PARE_SHA256_HEX];
    const job_opts by_name = {
        .output = "plain", .sets = {"calibration.text=[a.txt, b.txt]"}, .set_count = 1};
    const job_opts by_path = {
        .output = "named", .sets = {"calibration.text=[{path: a.txt}, b.txt]"}, .set_count = 1};
    ck_assert_int_eq(job_run(&place, (job_opts){.output = "out"}, NULL), PARE_OK);
    ck_assert_int_eq(job_run(&place, by_name, NULL), PARE_OK);
    ck_assert_int_eq(job_run(&place, by_path, NULL), PARE_OK);
    job_hash(&place, "out", weighted);
    job_hash(&place, "plain", plain);
    job_hash(&place, "named", named);
    ck_assert_str_eq(plain, named);
    ck_assert_str_ne(plain, weighted);
}
END_TEST

START_TEST(a_text_that_is_too_short_for_its_share_is_named)
{
    char what[1024];
    write_text("b.txt", 2, 40);
    ck_assert_int_eq(job_run(&place, (job_opts){.output = "out"}, what), PARE_EUSAGE);
    ck_assert_msg(strstr(what, "recipe.yaml:5:43: the share of b.txt by weight is 3 windows of 32 "
                               "tokens, and it has ") != NULL,
                  "%s", what);
    ck_assert(!pare_path_is_directory(job_path(&place, "out")));
}
END_TEST

START_TEST(shares_add_up_and_nobody_is_left_out)
{
    static const struct {
        double weight[3];
        size_t samples, share[3];
    } cases[] = {
        {{1, 1, 1}, 9, {3, 3, 3}},     {{1, 1, 1}, 10, {4, 3, 3}},     {{2, 1, 1}, 6, {3, 2, 1}},
        {{1, 2, 4}, 7, {1, 2, 4}},     {{1, 1000, 1}, 12, {1, 10, 1}}, {{5, 3, 1}, 10, {6, 3, 1}},
        {{0.001, 1, 1}, 3, {1, 1, 1}},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        size_t share[3];
        pare_tokens_share(cases[i].weight, 3, cases[i].samples, share);
        for (size_t j = 0; j < 3; j++)
            ck_assert_msg(share[j] == cases[i].share[j], "case %zu, text %zu: %zu", i, j, share[j]);
    }
}
END_TEST

int main(void)
{
    Suite *const s = suite_create("mixed");
    TCase *const tc = tcase_create("texts");
    tcase_add_checked_fixture(tc, setup, teardown);
    tcase_set_timeout(tc, 120);
    tcase_add_test(tc, windows_of_each_text_are_drawn_by_its_weight);
    tcase_add_test(tc, names_alone_keep_one_stream);
    tcase_add_test(tc, a_text_that_is_too_short_for_its_share_is_named);
    tcase_add_test(tc, shares_add_up_and_nobody_is_left_out);
    suite_add_tcase(s, tc);
    return unit_main(s);
}
