/* A tokenizer learned from text: against the package tokenizers (trained.json is written by
 * tests/interop/trained.py), and against the rules written down once more, without a heap. */
#include <string.h>

#include "formats/json.h"
#include "formats/tokenizer_train.h"
#include "runtime/file.h"
#include "unit.h"

enum { CAP = 16 * 1024 * 1024, CASES = 13 };

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

static pare_status train(const char *text, const pare_tok_train_opts *o, pare_tok_trained *out)
{
    const pare_tok_train_text one = {text, strlen(text)};
    return pare_tokenizer_train(&cx, &arena, &one, 1, o, out);
}

static pare_json *document(const pare_tok_trained *t)
{
    pare_json *doc = NULL;
    ck_assert_int_eq(pare_json_parse(&cx, "json", t->json, t->json_len, CAP, &doc), PARE_OK);
    return doc;
}

static const pare_json *model_of(const pare_json *doc, const char *key)
{
    return pare_json_get(pare_json_get(doc, "model"), key);
}

static void check_merge(const pare_json *merges, size_t i, const char *left, const char *right)
{
    const pare_json *const m = pare_json_at(merges, i);
    const char *const l = pare_json_text(pare_json_at(m, 0), NULL);
    const char *const r = pare_json_text(pare_json_at(m, 1), NULL);
    ck_assert_msg(l && r && strcmp(l, left) == 0 && strcmp(r, right) == 0,
                  "merge %zu is %s %s, not %s %s", i, l ? l : "none", r ? r : "none", left, right);
}

/* U+0120 stands for the space. */
#define G "\xc4\xa0"

START_TEST(words_give_the_merges_that_were_counted_by_hand)
{
    static const char *const want[][2] = {{"w", "e"},  {"l", "o"},   {"s", "t"},
                                          {"e", "we"}, {"n", "ewe"}, {G, "lo"},
                                          {G, "newe"}, {"d", "e"},   {"i", "de"}};
    static const char *const special[] = {"<s>"};
    const pare_tok_train_opts o = {.vocab = 266, .special = special, .specials = 1};
    pare_tok_trained t;
    ck_assert_msg(train("low lower lowest newer newest wide wider widest low low newest newest", &o,
                        &t) == PARE_OK,
                  "%s", cx.what);
    pare_json *const doc = document(&t);
    const pare_json *const merges = model_of(doc, "merges"), *const vocab = model_of(doc, "vocab");
    ck_assert_uint_eq(pare_json_count(merges), 9);
    for (size_t i = 0; i < 9; i++)
        check_merge(merges, i, want[i][0], want[i][1]);
    ck_assert_int_eq(pare_json_integer(pare_json_get(vocab, "<s>"), -1), 0);
    ck_assert_int_eq(pare_json_integer(pare_json_get(vocab, "!"), -1), 1);
    ck_assert_int_eq(pare_json_integer(pare_json_get(vocab, "\xc5\x83"), -1), 256);
    ck_assert_int_eq(pare_json_integer(pare_json_get(vocab, "we"), -1), 257);
    ck_assert_uint_eq(pare_json_count(vocab), 266);
    ck_assert_uint_eq(t.vocab, 266);
    ck_assert_uint_eq(t.merges, 9);
    ck_assert_uint_eq(t.words, 12);
    ck_assert_uint_eq(t.distinct, 9); /* the first "low" has no space in front */
    pare_json_free(doc);
    pare_tokenizer_free(t.tokenizer);
}
END_TEST

/* A text, or where one lies. */
static pare_tok_train_text text_of(const pare_json *v)
{
    char path[4096], *text;
    pare_tok_train_text t;
    const char *const file = pare_json_text(pare_json_get(v, "file"), NULL);
    if (!file) {
        t.at = pare_json_text(v, &t.len);
        return t;
    }
    (void)snprintf(path, sizeof path, "%s/%s", PARE_SOURCE_DIR, file);
    ck_assert_int_eq(pare_file_read(&cx, &arena, path, CAP, &text, &t.len), PARE_OK);
    t.at = text;
    return t;
}

static void check_case(const pare_json *one, size_t number)
{
    pare_tok_train_text texts[8];
    const char *special[8];
    const pare_json *const t = pare_json_get(one, "texts"), *const s =
                                                                pare_json_get(one, "special");
    const pare_json *const tokens = pare_json_get(one, "tokens"), *const merges =
                                                                      pare_json_get(one, "merges");
    const pare_tok_train_opts o = {
        .vocab = (size_t)pare_json_integer(pare_json_get(one, "vocab"), 0),
        .min_count = (uint64_t)pare_json_integer(pare_json_get(one, "min_count"), 0),
        .special = special,
        .specials = pare_json_count(s)};
    pare_tok_trained out;
    for (size_t i = 0; i < pare_json_count(t); i++)
        texts[i] = text_of(pare_json_at(t, i));
    for (size_t i = 0; i < o.specials; i++)
        special[i] = pare_json_text(pare_json_at(s, i), NULL);
    ck_assert_msg(pare_tokenizer_train(&cx, &arena, texts, pare_json_count(t), &o, &out) == PARE_OK,
                  "case %zu: %s", number, cx.what);
    pare_json *const doc = document(&out);
    const pare_json *const got = model_of(doc, "merges"), *const vocab = model_of(doc, "vocab");
    ck_assert_uint_eq(pare_json_count(vocab), o.vocab);
    for (size_t i = 0; i < pare_json_count(tokens); i++) {
        const char *const text = pare_json_text(pare_json_at(tokens, i), NULL);
        ck_assert_msg(pare_json_integer(pare_json_get(vocab, text), -1) ==
                          (int64_t)(o.specials + i),
                      "case %zu: id of %s", number, text);
    }
    ck_assert_uint_gt(pare_json_count(merges), 0);
    ck_assert_uint_eq(pare_json_count(got), pare_json_count(merges));
    for (size_t i = 0; i < pare_json_count(merges); i++) {
        const pare_json *const m = pare_json_at(merges, i);
        check_merge(got, i, pare_json_text(pare_json_at(m, 0), NULL),
                    pare_json_text(pare_json_at(m, 1), NULL));
    }
    pare_json_free(doc);
    pare_tokenizer_free(out.tokenizer);
}

START_TEST(tokens_and_merges_are_those_of_the_package_tokenizers)
{
    char path[4096], *text;
    size_t len;
    pare_json *doc = NULL;
    (void)snprintf(path, sizeof path, "%s/tests/data/tokenizers/trained.json", PARE_SOURCE_DIR);
    ck_assert_int_eq(pare_file_read(&cx, &arena, path, CAP, &text, &len), PARE_OK);
    ck_assert_int_eq(pare_json_parse(&cx, path, text, len, CAP, &doc), PARE_OK);
    ck_assert_uint_eq(pare_json_count(doc), CASES);
    for (size_t i = 0; i < CASES; i++)
        check_case(pare_json_at(doc, i), i);
    pare_json_free(doc);
}
END_TEST

static size_t encode(const pare_tokenizer *t, const char *text, int32_t **ids)
{
    size_t count;
    ck_assert_int_eq(pare_tokenizer_encode(&cx, t, &arena, text, strlen(text), ids, &count),
                     PARE_OK);
    return count;
}

START_TEST(special_tokens_have_the_first_ids_and_are_matched)
{
    static const char *const special[] = {"</s>", "abc", "x"};
    const pare_tok_train_opts o = {
        .vocab = 260, .special = special, .specials = 3, .bos = "abc", .eos = "</s>"};
    pare_tok_trained t;
    int32_t *ids;
    ck_assert_msg(train("abc abc abc abc", &o, &t) == PARE_OK, "%s", cx.what);
    ck_assert_int_eq(pare_tokenizer_bos(t.tokenizer), 1);
    ck_assert_int_eq(pare_tokenizer_eos(t.tokenizer), 0);
    ck_assert_uint_eq(pare_tokenizer_vocab(t.tokenizer), 260);
    ck_assert_uint_eq(encode(t.tokenizer, "</s>abx", &ids), 3);
    ck_assert_int_eq(ids[0], 0);
    ck_assert_int_eq(ids[1], 3 + 255); /* the byte x is the special one: "ab" is the first merge */
    ck_assert_int_eq(ids[2], 2);
    pare_json *const doc = document(&t);
    /* "ab" "c" makes the text of a token that there is. */
    check_merge(model_of(doc, "merges"), 0, "a", "b");
    check_merge(model_of(doc, "merges"), 1, "ab", "c");
    check_merge(model_of(doc, "merges"), 2, G, "abc");
    ck_assert_int_eq(pare_json_integer(pare_json_get(model_of(doc, "vocab"), "abc"), -1), 1);
    ck_assert_uint_eq(t.merges, 3);
    pare_json_free(doc);
    pare_tokenizer_free(t.tokenizer);
}
END_TEST

START_TEST(what_is_no_utf8_is_learned_as_encoding_reads_it)
{
    static const char *const texts[] = {"\xff\xff a\xe2\x82 \xff\xff",
                                        "\xef\xbf\xbd\xef\xbf\xbd a\xef\xbf\xbd "
                                        "\xef\xbf\xbd\xef\xbf\xbd"};
    const pare_tok_train_opts o = {.vocab = 260};
    pare_tok_trained t[2];
    for (size_t i = 0; i < 2; i++)
        ck_assert_msg(train(texts[i], &o, &t[i]) == PARE_OK, "%s", cx.what);
    ck_assert_uint_eq(t[0].invalid, 5);
    ck_assert_uint_eq(t[1].invalid, 0);
    ck_assert_str_eq(t[0].json, t[1].json);
    for (size_t i = 0; i < 2; i++)
        pare_tokenizer_free(t[i].tokenizer);
}
END_TEST

START_TEST(no_token_reaches_over_the_end_of_a_text)
{
    const pare_tok_train_text apart[] = {{"ab", 2}, {"", 0}, {"cd", 2}, {"ab", 2}};
    const pare_tok_train_opts o = {.vocab = 258}, more = {.vocab = 259};
    pare_tok_trained t;
    ck_assert_int_eq(pare_tokenizer_train(&cx, &arena, apart, 4, &o, &t), PARE_OK);
    pare_tokenizer_free(t.tokenizer);
    ck_assert_int_eq(pare_tokenizer_train(&cx, &arena, apart, 4, &more, &t), PARE_EUSAGE);
    ck_assert_ptr_null(t.tokenizer);
}
END_TEST

START_TEST(the_count_of_a_pair_decides_whether_it_merges)
{
    const pare_tok_train_opts o = {.vocab = 257, .min_count = 3},
                              more = {.vocab = 258, .min_count = 3};
    pare_tok_trained t;
    ck_assert_int_eq(train("ab cd ab cd ab", &o, &t), PARE_OK);
    pare_tokenizer_free(t.tokenizer);
    ck_assert_int_eq(train("ab cd ab cd ab", &more, &t), PARE_EUSAGE);
    ck_assert_msg(strstr(cx.what, "gives 257 tokens, 258 are asked for"), "%s", cx.what);
    ck_assert_msg(strstr(cx.what, "fewer than 3 times"), "%s", cx.what);
}
END_TEST

START_TEST(what_no_tokenizer_can_have_is_refused)
{
    static char longest[PARE_TOK_TRAIN_SPECIALS_MOST + 2];
    memset(longest, 'x', sizeof longest - 1);
    static const char *const twice[] = {"a", "b", "a"}, *const empty[] = {""},
                             *const broken[] = {"\xff"}, *const large[] = {longest};
    const struct {
        const char *text;
        pare_tok_train_opts o;
        const char *says;
    } rows[] = {
        {"", {.vocab = 300}, "there is no text"},
        {"ab", {.vocab = 255}, "ask for 256 or more"},
        {"ab", {.vocab = 258, .special = twice, .specials = 3}, "\"a\" is given twice"},
        {"ab", {.vocab = 257, .special = twice, .specials = 2}, "ask for 258 or more"},
        {"ab", {.vocab = 300, .special = empty, .specials = 1}, "special token 1 is empty"},
        {"ab", {.vocab = 300, .special = broken, .specials = 1}, "is not valid UTF-8"},
        {"ab", {.vocab = 300, .special = large, .specials = 1}, "has 1025 bytes"},
        {"ab", {.vocab = 300, .special = twice, .specials = 2, .bos = "c"}, "the BOS token \"c\""},
        {"ab", {.vocab = 300, .special = twice, .specials = 2, .eos = "c"}, "the EOS token \"c\""},
        {"ab", {.vocab = 5000, .special = twice, .specials = 1025}, "1025 special tokens"},
        {"ab", {.vocab = PARE_TOK_TRAIN_VOCAB_MOST + 1}, "at most 1048576"},
        {"a", {.vocab = 257}, "gives 256 tokens, 257 are asked for"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        pare_tok_trained t;
        pare_ctx_clear(&cx);
        ck_assert_int_eq(train(rows[i].text, &rows[i].o, &t), PARE_EUSAGE);
        ck_assert_msg(strstr(cx.what, rows[i].says), "%s", cx.what);
        ck_assert_ptr_null(t.tokenizer);
    }
    pare_tok_trained t;
    pare_ctx_clear(&cx);
    ck_assert_int_eq(
        pare_tokenizer_train(&cx, &arena, NULL, 0, &(pare_tok_train_opts){.vocab = 300}, &t),
        PARE_EUSAGE);
    ck_assert_msg(strstr(cx.what, "there is no text"), "%s", cx.what);
}
END_TEST

/* A signal comes while a piece of work is done. */
typedef struct signalled {
    const char *during, *last;
    volatile int interrupt;
} signalled;

static void report(void *self, const char *what, double done, double total)
{
    signalled *const s = self;
    s->last = what;
    ck_assert(done <= total);
    if (strcmp(what, s->during) == 0)
        s->interrupt = 2;
}

START_TEST(a_signal_stops_the_work)
{
    static const char *const work[] = {"counting words", "learning merges"};
    const pare_tok_train_opts o = {.vocab = 257};
    for (size_t i = 0; i < 2; i++) {
        signalled s = {.during = work[i], .last = ""};
        pare_tok_trained t;
        cx.progress.report = report;
        cx.progress.self = &s;
        cx.interrupt = &s.interrupt;
        ck_assert_int_eq(train("ab ab", &o, &t), PARE_EINTERRUPTED);
        ck_assert_str_eq(s.last, work[i]);
        ck_assert_ptr_null(t.tokenizer);
    }
}
END_TEST

START_TEST(every_failed_allocation_is_told_and_leaves_nothing)
{
    static const char *const special[] = {"<s>"};
    const pare_tok_train_opts o = {
        .vocab = 262, .special = special, .specials = 1, .bos = "<s>", .eos = "<s>"};
    const pare_tok_train_text text = {"low lower \xff lowest newest", 25};
    pare_status s = PARE_ENOMEM;
    for (long n = 0; s != PARE_OK; n++) {
        unit_failing f = {.left = n};
        pare_ctx c;
        pare_arena a;
        pare_tok_trained t;
        pare_ctx_init(&c);
        c.alloc = (pare_alloc){unit_failing_resize, &f};
        ck_assert_int_eq(pare_arena_init(&c, &a, 0), PARE_OK);
        s = pare_tokenizer_train(&c, &a, &text, 1, &o, &t);
        ck_assert_msg(s == PARE_OK || s == PARE_ENOMEM, "request %ld: %s", n, c.what);
        pare_tokenizer_free(t.tokenizer);
        pare_arena_release(&a);
        ck_assert_int_eq(f.live, 0);
        ck_assert_int_lt(n, 2000);
    }
}
END_TEST

int main(void)
{
    Suite *const s = suite_create("tokenizer_train");
    TCase *const t = tcase_create("tokenizer_train");
    tcase_add_checked_fixture(t, setup, teardown);
    tcase_set_timeout(t, 60);
    tcase_add_test(t, words_give_the_merges_that_were_counted_by_hand);
    tcase_add_test(t, tokens_and_merges_are_those_of_the_package_tokenizers);
    tcase_add_test(t, special_tokens_have_the_first_ids_and_are_matched);
    tcase_add_test(t, what_is_no_utf8_is_learned_as_encoding_reads_it);
    tcase_add_test(t, no_token_reaches_over_the_end_of_a_text);
    tcase_add_test(t, the_count_of_a_pair_decides_whether_it_merges);
    tcase_add_test(t, what_no_tokenizer_can_have_is_refused);
    tcase_add_test(t, a_signal_stops_the_work);
    tcase_add_test(t, every_failed_allocation_is_told_and_leaves_nothing);
    suite_add_tcase(s, t);
    return unit_main(s);
}
