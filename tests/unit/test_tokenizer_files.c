/* Tokenizers of a directory: which files are read, in which order, what the files beside them add;
 * tokenizer.model in detail. */
#include <string.h>
#include <sys/stat.h>

#include "formats/tokenizer.h"
#include "runtime/file.h"
#include "unit.h"

static pare_ctx cx;
static pare_arena arena;
static char folder[32];

static const char *const names[] = {
    "tokenizer.json", "tokenizer.model",       "vocab.json",        "merges.txt",
    "config.json",    "tokenizer_config.json", "added_tokens.json", "special_tokens_map.json"};

static void setup(void)
{
    pare_ctx_init(&cx);
    ck_assert_int_eq(pare_arena_init(&cx, &arena, 0), PARE_OK);
    (void)snprintf(folder, sizeof folder, "tokenizer-XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(folder));
}

static void teardown(void)
{
    char path[512];
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        (void)snprintf(path, sizeof path, "%s/%s", folder, names[i]);
        (void)remove(path);
    }
    (void)remove(folder);
    pare_arena_release(&arena);
    ck_assert_uint_eq(cx.live_bytes, 0);
}

static void put_bytes(const char *name, const char *bytes, size_t len)
{
    char path[512];
    (void)snprintf(path, sizeof path, "%s/%s", folder, name);
    ck_assert_int_eq(pare_file_write(&cx, path, bytes, len), PARE_OK);
}

/* JSON is written with ' for " here. */
static void put(const char *name, const char *text)
{
    char copy[4096];
    const size_t len = strlen(text);
    ck_assert_uint_lt(len, sizeof copy);
    for (size_t i = 0; i < len; i++)
        copy[i] = (char)(text[i] == '\'' ? '"' : text[i]);
    put_bytes(name, copy, len);
}

/* A small tokenizer.model of the repository. */
static void put_model(const char *file)
{
    char path[4096], *bytes;
    size_t len;
    (void)snprintf(path, sizeof path, "%s/tests/data/tokenizers/%s", PARE_SOURCE_DIR, file);
    ck_assert_int_eq(pare_file_read(&cx, &arena, path, 1 << 20, &bytes, &len), PARE_OK);
    put_bytes("tokenizer.model", bytes, len);
}

static pare_tokenizer *open_folder(void)
{
    pare_tokenizer *t;
    ck_assert_msg(pare_tokenizer_open(&cx, folder, &t) == PARE_OK, "%s", cx.what);
    return t;
}

static void refuse(pare_status s, const char *message)
{
    pare_tokenizer *t;
    ck_assert_int_eq(pare_tokenizer_open(&cx, folder, &t), s);
    ck_assert_msg(strstr(cx.what, message), "'%s' lacks '%s'", cx.what, message);
    pare_ctx_clear(&cx);
}

static void expect(const pare_tokenizer *t, const char *text, const char *ids)
{
    int32_t *got;
    size_t count, used = 0;
    char list[4096] = "";
    ck_assert_msg(pare_tokenizer_encode(&cx, t, &arena, text, strlen(text), &got, &count) ==
                      PARE_OK,
                  "%s", cx.what);
    for (size_t i = 0; i < count && used < sizeof list; i++)
        used += (size_t)snprintf(list + used, sizeof list - used, "%s%d", i ? " " : "", got[i]);
    ck_assert_msg(strcmp(list, ids) == 0, "'%s' gave '%s', not '%s'", text, list, ids);
}

#define VOCAB                                                                                      \
    "{'a':0,'b':1,'ab':2,'\xc4\xa0':3,'\xc4\xa0"                                                   \
    "a':4,'1':5,'11':6,'<|endoftext|>':7,'e':8,'\xcc\x81':9,'\xc3\x83':10,'\xc2\xa9':11,'#':12}"
#define MERGES "#version: 0.2\na b\n\xc4\xa0 a\r\n1 1\n\n"

START_TEST(vocab_and_merges_are_gpt2_without_a_class)
{
    put("vocab.json", VOCAB);
    refuse(PARE_ENOTFOUND, "no tokenizer: tokenizer.json, tokenizer.model or vocab.json with "
                           "merges.txt expected");
    ck_assert(!pare_tokenizer_is_in(folder));
    put("merges.txt", MERGES);
    ck_assert(pare_tokenizer_is_in(folder));
    pare_tokenizer *t = open_folder();
    expect(t, "ab a11<|endoftext|>", "2 4 6 7");
    ck_assert_int_eq(pare_tokenizer_bos(t), 7);
    ck_assert_int_eq(pare_tokenizer_eos(t), 7);
    ck_assert_uint_eq(pare_tokenizer_around(t)->fronts, 0);
    pare_tokenizer_free(t);
    put("tokenizer_config.json",
        "{'tokenizer_class':'GPT2TokenizerFast','add_prefix_space':true,'add_bos_token':true,"
        "'bos_token':'#'}");
    t = open_folder();
    expect(t, "a", "4");
    ck_assert_int_eq(pare_tokenizer_bos(t), 12);
    ck_assert_uint_eq(pare_tokenizer_around(t)->fronts, 1);
    pare_tokenizer_free(t);
}
END_TEST

START_TEST(qwen_is_told_by_its_class_or_kind)
{
    put("vocab.json", VOCAB);
    put("merges.txt", MERGES);
    put("config.json", "{'model_type':'qwen3'}");
    pare_tokenizer *t = open_folder();
    expect(t, "11e\xcc\x81", "5 5 10 11"); /* digits apart, NFC */
    ck_assert_int_eq(pare_tokenizer_bos(t), -1);
    ck_assert_int_eq(pare_tokenizer_eos(t), 7);
    pare_tokenizer_free(t);
    put("tokenizer_config.json", "{'tokenizer_class':'GPT2Tokenizer'}");
    t = open_folder();
    expect(t, "11", "6");
    pare_tokenizer_free(t);
    put("tokenizer_config.json", "{'tokenizer_class':'Qwen2Tokenizer'}");
    t = open_folder();
    expect(t, "11", "5 5");
    pare_tokenizer_free(t);
    put("tokenizer_config.json", "{'tokenizer_class':'CLIPTokenizer'}");
    refuse(PARE_ENOTSUP, "tokenizer_config.json: tokenizer_class 'CLIPTokenizer' with vocab.json");
}
END_TEST

START_TEST(files_beside_add_tokens)
{
    put("vocab.json", VOCAB);
    put("merges.txt", MERGES);
    put("tokenizer_config.json",
        "{'added_tokens_decoder':{'20':{'content':'<r>','rstrip':true,'special':true},"
        "'7':{'content':'<|endoftext|>','special':true}},'eos_token':{'content':'<r>'}}");
    put("added_tokens.json", "{'<n>':21,'<r>':20,'<s>':22}");
    put("special_tokens_map.json",
        "{'bos_token':'b','pad_token':{'content':'<s>'},'additional_special_tokens':['#','zz']}");
    pare_tokenizer *const t = open_folder();
    expect(t, "a<r>  a<n> a<s>#", "0 20 0 21 4 22 12");
    ck_assert_int_eq(pare_tokenizer_bos(t), 1);
    ck_assert_int_eq(pare_tokenizer_eos(t), 20);
    ck_assert_uint_eq(pare_tokenizer_vocab(t), 23);
    pare_tokenizer_free(t);
    put("added_tokens.json", "{'<n>':'a'}");
    refuse(PARE_EFORMAT, "added_tokens.json: '<n>': a token and its id expected");
    put("added_tokens.json", "{'<n>':0}");
    refuse(PARE_EFORMAT, "added token '<n>' with id 0, but 'a' has id 0");
    put("tokenizer_config.json", "{'added_tokens_decoder':{'x':{'content':'<r>'}}}");
    refuse(PARE_EFORMAT, "added_tokens_decoder['x']: an id and an object");
}
END_TEST

START_TEST(json_wins_over_model_and_model_over_merges)
{
    put("vocab.json", VOCAB);
    put("merges.txt", MERGES);
    put_model("bpe_bytes.model");
    pare_tokenizer *t = open_folder();
    ck_assert_uint_gt(pare_tokenizer_vocab(t), 256);
    pare_tokenizer_free(t);
    put("tokenizer.json", "{'model':{'vocab':{'a':0},'merges':[]}}");
    t = open_folder();
    ck_assert_uint_eq(pare_tokenizer_vocab(t), 1);
    pare_tokenizer_free(t);
}
END_TEST

/* Else another file would be read in its place. */
START_TEST(a_file_that_may_not_be_looked_at_is_not_taken_for_missing)
{
    static const char *const file[] = {"tokenizer.json", "tokenizer.model", "vocab.json"};
    char path[512], what[64], target[64], closed[] = "closed-XXXXXX";
    put("vocab.json", VOCAB);
    put("merges.txt", MERGES);
    (void)snprintf(path, sizeof path, "%s/%s", folder, file[_i]);
    (void)remove(path);
    ck_assert(mkdtemp(closed) && chmod(closed, 0) == 0 && chmod(folder, 0755) == 0);
    (void)snprintf(target, sizeof target, "../%s/x", closed);
    ck_assert_int_eq(symlink(target, path), 0);
    (void)snprintf(what, sizeof what, "%s: cannot look at: ", file[_i]);
    unit_be_nobody();
    refuse(PARE_EFORMAT, what);
    unit_be_again();
    ck_assert_int_eq(rmdir(closed), 0);
}
END_TEST

START_TEST(merges_are_whole)
{
    put("vocab.json", VOCAB);
    put_bytes("merges.txt", "a b\n\0a b\n", 9);
    refuse(PARE_EFORMAT, "merges.txt: byte 4 is NUL");
    put("merges.txt", "a b\na x\n");
    refuse(PARE_EFORMAT, "model.merges[1]: 'x' is not in the vocabulary");
    put("merges.txt", "a b\na\n");
    refuse(PARE_EFORMAT, "model.merges[1]: two tokens expected");
    put("vocab.json", "[]");
    refuse(PARE_EFORMAT, "model.vocab: an object of tokens and ids expected");
}
END_TEST

START_TEST(a_model_has_its_own_special_tokens)
{
    put_model("bpe_bytes.model");
    pare_tokenizer *t = open_folder();
    ck_assert_int_eq(pare_tokenizer_bos(t), 1);
    ck_assert_int_eq(pare_tokenizer_eos(t), 2);
    ck_assert_uint_eq(pare_tokenizer_around(t)->fronts, 1);
    expect(t, "<unk></s><s>", "0 2 1");
    pare_tokenizer_free(t);
    put("tokenizer_config.json", "{'add_bos_token':false,'added_tokens_decoder':{'1':{'content':"
                                 "'<s>','special':true},'900':{'content':'<|end|>','rstrip':true}},"
                                 "'eos_token':'<|end|>'}");
    t = open_folder();
    ck_assert_uint_eq(pare_tokenizer_around(t)->fronts, 0);
    ck_assert_int_eq(pare_tokenizer_eos(t), 900);
    expect(t, "<s><|end|>  ", "1 900");
    pare_tokenizer_free(t);
}
END_TEST

/* One long text without a place to cut: joins and paths must not take quadratic time. */
START_TEST(long_texts_take_no_quadratic_time)
{
    enum { N = 200 * 1024 };
    static const char *const models[] = {"bpe_bytes.model", "unigram_rules.model"};
    put_model(models[_i]);
    pare_tokenizer *const t = open_folder();
    char *const text = malloc(N), *back;
    for (size_t i = 0; i < N; i++)
        text[i] = "ththellab"[i % 9];
    int32_t *ids;
    size_t count, len;
    ck_assert_int_eq(pare_tokenizer_encode(&cx, t, &arena, text, N, &ids, &count), PARE_OK);
    ck_assert_int_eq(pare_tokenizer_decode(&cx, t, &arena, ids, count, &back, &len), PARE_OK);
    ck_assert_uint_eq(len, N);
    ck_assert_int_eq(memcmp(back, text, N), 0);
    free(text);
    pare_tokenizer_free(t);
}
END_TEST

/* Spaces, line ends and marks survive where the model keeps them, whole and token by token. */
START_TEST(texts_come_back)
{
    static const char *const texts[] = {
        " a",          "a  b \n\n\tc ", "\xf0\x9f\x98\x80 \xe4\xbd\xa0",
        "x<s> y</s>z", "   ",           "e\xcc\x81 \xef\xac\x81"};
    put_model("bpe_bytes.model");
    pare_tokenizer *const t = open_folder();
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        int32_t *ids;
        size_t count, len;
        char *back;
        ck_assert_int_eq(
            pare_tokenizer_encode(&cx, t, &arena, texts[i], strlen(texts[i]), &ids, &count),
            PARE_OK);
        ck_assert_int_eq(pare_tokenizer_decode(&cx, t, &arena, ids, count, &back, &len), PARE_OK);
        if (!strchr(texts[i], '<'))
            ck_assert_str_eq(back, texts[i]);
        else
            ck_assert_str_eq(back, "x<s>  y</s> z"); /* a mark behind every special token */
    }
    pare_tokenizer_free(t);
}
END_TEST

static pare_status run_all(pare_ctx *walk)
{
    static const char text[] = "\xef\xac\x81 hello  <s> xx \xff the \xe4\xbd\xa0 a11<r> ";
    pare_tokenizer *t = NULL;
    pare_arena a = {.cx = walk};
    int32_t *ids;
    size_t count, len;
    char *back;
    pare_status s = pare_tokenizer_open(walk, folder, &t);
    if (s != PARE_OK)
        return s;
    s = pare_tokenizer_encode(walk, t, &a, text, sizeof text - 1, &ids, &count);
    if (s == PARE_OK)
        s = pare_tokenizer_decode(walk, t, &a, ids, count, &back, &len);
    pare_arena_release(&a);
    pare_tokenizer_free(t);
    return s;
}

START_TEST(every_allocation_may_fail)
{
    if (_i == 0) {
        put("vocab.json", VOCAB);
        put("merges.txt", MERGES);
        put("config.json", "{'model_type':'qwen2'}");
    } else if (_i < 3) {
        put_model(_i == 1 ? "bpe_bytes.model" : "unigram_rules.model");
    } else {
        put("tokenizer.json",
            "{'normalizer':{'type':'Sequence','normalizers':[{'type':'NFKD'},{'type':'Replace',"
            "'pattern':{'Regex':'x+'},'content':'yy'},{'type':'Strip','strip_left':true,"
            "'strip_right':true}]},'pre_tokenizer':{'type':'Sequence','pretokenizers':[{'type':"
            "'Metaspace','replacement':'_','prepend_scheme':'first'},{'type':'Digits'},{'type':"
            "'ByteLevel','add_prefix_space':true},{'type':'Whitespace'}]},'decoder':{'type':"
            "'Metaspace','replacement':'_'},'model':{'type':'Unigram','unk_id':0,'vocab':"
            "[['<unk>',0],['a',-1.5],['11',-2],['_',-3]]}}");
    }
    put("tokenizer_config.json", "{'added_tokens_decoder':{'900':{'content':'<r>'}}}");
    put("added_tokens.json", "{'<q>':901}");
    put("special_tokens_map.json", "{'additional_special_tokens':['a']}");
    pare_status s = PARE_ENOMEM;
    long n = 0;
    for (; s == PARE_ENOMEM && n < 3000; n++) {
        unit_failing f = {.left = n};
        pare_ctx walk;
        pare_ctx_init(&walk);
        walk.alloc = (pare_alloc){unit_failing_resize, &f};
        s = run_all(&walk);
        ck_assert_int_eq(f.live, 0);
        ck_assert_msg(s == PARE_OK || walk.what[0], "allocation %ld fails without a message", n);
    }
    ck_assert_msg(s == PARE_OK, "%d", s);
    ck_assert_int_gt(n, 10);
}
END_TEST

int main(void)
{
    Suite *const s = suite_create("tokenizer_files");
    TCase *const c = tcase_create("files");
    tcase_set_timeout(c, 120);
    tcase_add_checked_fixture(c, setup, teardown);
    tcase_add_test(c, vocab_and_merges_are_gpt2_without_a_class);
    tcase_add_test(c, qwen_is_told_by_its_class_or_kind);
    tcase_add_test(c, files_beside_add_tokens);
    tcase_add_test(c, json_wins_over_model_and_model_over_merges);
    tcase_add_loop_test(c, a_file_that_may_not_be_looked_at_is_not_taken_for_missing, 0, 3);
    tcase_add_test(c, merges_are_whole);
    tcase_add_test(c, a_model_has_its_own_special_tokens);
    tcase_add_loop_test(c, long_texts_take_no_quadratic_time, 0, 2);
    tcase_add_test(c, texts_come_back);
    tcase_add_loop_test(c, every_allocation_may_fail, 0, 4);
    suite_add_tcase(s, c);
    return unit_main(s);
}
