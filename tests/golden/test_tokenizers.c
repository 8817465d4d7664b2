/* Token ids against the reference library: whole texts, and short ones full of what goes wrong. */
#include <string.h>

#include "../data/token_lines.h"
#include "../unit/unit.h"
#include "formats/json.h"
#include "formats/tokenizer.h"
#include "runtime/file.h"

enum { CAP = 64 * 1024 * 1024 };

static pare_ctx cx;
static pare_arena arena;

static void setup(void)
{
    pare_ctx_init(&cx);
    ck_assert_int_eq(pare_arena_init(&cx, &arena, 0), PARE_OK);
}

static void teardown(void)
{
    pare_arena_release(&arena);
    ck_assert_uint_eq(cx.live_bytes, 0);
}

static pare_json *read_json(const char *path)
{
    char *text;
    size_t len;
    pare_json *doc;
    ck_assert_msg(pare_file_read(&cx, &arena, path, CAP, &text, &len) == PARE_OK, "%s", cx.what);
    ck_assert_msg(pare_json_parse(&cx, path, text, len, CAP, &doc) == PARE_OK, "%s", cx.what);
    return doc;
}

static void expect(const pare_tokenizer *t, const char *text, size_t len, const pare_json *ids)
{
    int32_t *got;
    size_t count;
    ck_assert_msg(pare_tokenizer_encode(&cx, t, &arena, text, len, &got, &count) == PARE_OK, "%s",
                  cx.what);
    ck_assert_msg(count == pare_json_count(ids), "'%.60s': %zu tokens, %zu expected", text, count,
                  pare_json_count(ids));
    for (size_t i = 0; i < count; i++)
        ck_assert_msg(got[i] == pare_json_integer(pare_json_at(ids, i), -1), "'%.60s': token %zu",
                      text, i);
}

/* decode(encode(x)) == x */
static void expect_round_trip(const pare_tokenizer *t, const char *text, size_t len)
{
    int32_t *ids;
    size_t count, back_len;
    char *back;
    ck_assert_int_eq(pare_tokenizer_encode(&cx, t, &arena, text, len, &ids, &count), PARE_OK);
    ck_assert_int_eq(pare_tokenizer_decode(&cx, t, &arena, ids, count, &back, &back_len), PARE_OK);
    ck_assert_msg(back_len == len && memcmp(back, text, len) == 0, "'%.60s' came back as '%.60s'",
                  text, back);
}

static pare_tokenizer *open_shared(const char *directory)
{
    char name[256];
    pare_tokenizer *t;
    (void)snprintf(name, sizeof name, "models/%s", directory);
    const char *const path = unit_shared(name);
    if (!path)
        return NULL;
    ck_assert_msg(pare_tokenizer_open(&cx, path, &t) == PARE_OK, "%s", cx.what);
    return t;
}

static const struct {
    const char *name, *directory;
    bool byte_level, nfc;
} tokenizers[] = {
    {"gpt2", "tokenizers/gpt2", true, false},      {"hedge", "hedge", true, false},
    {"llama3", "tokenizers/llama3", true, false},  {"qwen3", "tokenizers/qwen3", true, true},
    {"llama2", "tokenizers/llama2", false, false}, {"stories260k", "stories260k", false, false},
};

START_TEST(ids_of_hard_texts_equal_the_reference)
{
    const char *const name = tokenizers[_i].name, *const directory = tokenizers[_i].directory;
    pare_tokenizer *const t = open_shared(directory);
    if (!t)
        return;
    char path[4096];
    (void)snprintf(path, sizeof path, "%s/tests/data/tokenizers/%s.json", PARE_SOURCE_DIR, name);
    pare_json *const doc = read_json(path);
    const pare_json *const cases = pare_json_get(doc, "cases");
    ck_assert_uint_gt(pare_json_count(cases), 80);
    for (size_t i = 0; i < pare_json_count(cases); i++) {
        const pare_json *const one = pare_json_at(cases, i);
        size_t len;
        const char *const text = pare_json_text(pare_json_get(one, "text"), &len);
        expect(t, text, len, pare_json_get(one, "ids"));
        if (tokenizers[_i].byte_level && !tokenizers[_i].nfc)
            expect_round_trip(t, text, len);
    }
    pare_json_free(doc);
    pare_tokenizer_free(t);
}
END_TEST

START_TEST(stories_gives_the_ids_that_came_with_it)
{
    pare_tokenizer *const t = open_shared("stories260k");
    if (!t)
        return;
    ck_assert_int_eq(pare_tokenizer_bos(t), 1);
    ck_assert_int_eq(pare_tokenizer_eos(t), 2);
    ck_assert_uint_eq(pare_tokenizer_around(t)->fronts, 1);
    ck_assert_uint_eq(pare_tokenizer_vocab(t), 512);
    pare_json *const doc = read_json(unit_shared("models/stories260k/tokenizer_expected.json"));
    ck_assert_uint_gt(pare_json_count(doc), 0);
    for (size_t i = 0; i < pare_json_count(doc); i++) {
        const pare_json *const one = pare_json_at(doc, i);
        size_t len;
        const char *const text = pare_json_text(pare_json_get(one, "text"), &len);
        expect(t, text, len, pare_json_get(one, "ids"));
        expect_round_trip(t, text, len);
    }
    pare_json_free(doc);
    pare_tokenizer_free(t);
}
END_TEST

START_TEST(hedge_counts_the_tokens_of_its_evaluation_texts)
{
    pare_tokenizer *const t = open_shared("hedge");
    if (!t)
        return;
    pare_json *const doc = read_json(unit_shared("models/hedge/eval/expected.json"));
    const pare_json *const sentence = pare_json_get(doc, "sentence");
    size_t len;
    const char *text = pare_json_text(pare_json_get(sentence, "text"), &len);
    expect(t, text, len, pare_json_get(sentence, "token_ids_all"));
    const pare_json *const files = pare_json_get(pare_json_get(doc, "perplexity"), "files");
    const char *name;
    const pare_json *facts;
    size_t seen = 0;
    for (pare_json_iter it = {0}; pare_json_next(files, &it, &name, &facts); seen++) {
        char path[256], *read;
        int32_t *ids;
        size_t count;
        (void)snprintf(path, sizeof path, "models/hedge/eval/%s", name);
        ck_assert_int_eq(pare_file_read(&cx, &arena, unit_shared(path), CAP, &read, &len), PARE_OK);
        ck_assert_int_eq(pare_tokenizer_encode(&cx, t, &arena, read, len, &ids, &count), PARE_OK);
        ck_assert_int_eq((int64_t)count, pare_json_integer(pare_json_get(facts, "tokens"), -1));
        const pare_json *const first = pare_json_get(facts, "first_16_token_ids");
        for (size_t i = 0; i < pare_json_count(first); i++)
            ck_assert_int_eq(ids[i], pare_json_integer(pare_json_at(first, i), -1));
        expect_round_trip(t, read, len);
    }
    ck_assert_uint_gt(seen, 0);
    pare_json_free(doc);
    pare_tokenizer_free(t);
}
END_TEST

/* Ids of 10,000 random lines, as interop.tokenizers compares them with the packages tokenizers and,
 * for a tokenizer.model, sentencepiece; here by their hash. */
static const struct {
    const char *directory, *model;
    uint64_t digest;
} random_lines[] = {
    {"tokenizers/gpt2", NULL, UINT64_C(0x111942f177d54299)},
    {"tokenizers/llama2", NULL, UINT64_C(0x66e7768b3c938757)},
    {"tokenizers/llama2", "tokenizers/llama2/tokenizer.model", UINT64_C(0xc2cfb9d5c48debaa)},
    {"tokenizers/llama3", NULL, UINT64_C(0xc27f18f934264baa)},
    {"tokenizers/qwen3", NULL, UINT64_C(0x5a259f307452d615)},
};

static pare_tokenizer *open_model(const char *name)
{
    char file[256], *bytes;
    size_t len;
    pare_tokenizer *t;
    (void)snprintf(file, sizeof file, "models/%s", name);
    const char *const path = unit_shared(file);
    if (!path)
        return NULL;
    ck_assert_msg(pare_file_read(&cx, &arena, path, CAP, &bytes, &len) == PARE_OK, "%s", cx.what);
    ck_assert_msg(pare_tokenizer_parse_model(&cx, path, bytes, len, &t) == PARE_OK, "%s", cx.what);
    return t;
}

START_TEST(random_lines_have_the_ids_of_the_reference)
{
    static token_line line;
    const char *const model = random_lines[_i].model;
    pare_tokenizer *const t = model ? open_model(model) : open_shared(random_lines[_i].directory);
    if (!t)
        return;
    uint64_t hash = UINT64_C(0xcbf29ce484222325);
    for (uint32_t i = 0; i < TOKEN_LINES; i++) {
        const pare_mark mark = pare_arena_mark(&arena);
        int32_t *ids;
        size_t count;
        token_line_make(&line, i);
        ck_assert_msg(pare_tokenizer_encode(&cx, t, &arena, line.text, line.len, &ids, &count) ==
                          PARE_OK,
                      "line %u: %s", i, cx.what);
        for (size_t j = 0; j <= count; j++)
            hash = (hash ^ (j < count ? (uint32_t)ids[j] : count)) * UINT64_C(0x100000001b3);
        pare_arena_rewind(&arena, mark);
    }
    ck_assert_msg(hash == random_lines[_i].digest, "%s: digest %016llx, not %016llx",
                  model ? model : random_lines[_i].directory, (unsigned long long)hash,
                  (unsigned long long)random_lines[_i].digest);
    pare_tokenizer_free(t);
}
END_TEST

int main(void)
{
    if (!unit_shared("models"))
        return 77;
    Suite *const s = suite_create("tokenizers");
    TCase *const c = tcase_create("golden");
    tcase_set_timeout(c, 900);
    tcase_add_checked_fixture(c, setup, teardown);
    tcase_add_loop_test(c, ids_of_hard_texts_equal_the_reference, 0,
                        sizeof tokenizers / sizeof *tokenizers);
    tcase_add_test(c, stories_gives_the_ids_that_came_with_it);
    tcase_add_test(c, hedge_counts_the_tokens_of_its_evaluation_texts);
    tcase_add_loop_test(c, random_lines_have_the_ids_of_the_reference, 0,
                        sizeof random_lines / sizeof *random_lines);
    suite_add_tcase(s, c);
    return unit_main(s);
}
