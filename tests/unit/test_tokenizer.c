#include "formats/tokenizer.h"

#include <string.h>

#include "runtime/file.h"
#include "unit.h"

enum { TEXT_MAX = 4096 };

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

/* JSON is written with ' for " here. */
static const char *quoted(const char *json)
{
    static char text[TEXT_MAX];
    ck_assert_uint_lt(strlen(json), sizeof text);
    for (size_t i = 0; i <= strlen(json); i++)
        text[i] = (char)(json[i] == '\'' ? '"' : json[i]);
    return text;
}

static pare_tokenizer *parse(const char *json)
{
    pare_tokenizer *t;
    const char *const text = quoted(json);
    ck_assert_msg(pare_tokenizer_parse(&cx, "t", text, strlen(text), &t) == PARE_OK, "%s", cx.what);
    return t;
}

/* Encodes and compares with ids written as "1 2 3". */
static void expect_bytes(const pare_tokenizer *t, const char *text, size_t len, const char *ids)
{
    int32_t *got;
    size_t count, used = 0;
    char list[TEXT_MAX] = "";
    ck_assert_msg(pare_tokenizer_encode(&cx, t, &arena, text, len, &got, &count) == PARE_OK, "%s",
                  cx.what);
    for (size_t i = 0; i < count && used < sizeof list; i++)
        used += (size_t)snprintf(list + used, sizeof list - used, "%s%d", i ? " " : "", got[i]);
    ck_assert_msg(strcmp(list, ids) == 0, "'%s' gave '%s', not '%s'", text, list, ids);
}

static void expect(const pare_tokenizer *t, const char *text, const char *ids)
{
    expect_bytes(t, text, strlen(text), ids);
}

static void expect_text(const pare_tokenizer *t, const int32_t *ids, size_t count, const char *text)
{
    char *got;
    size_t len;
    ck_assert_msg(pare_tokenizer_decode(&cx, t, &arena, ids, count, &got, &len) == PARE_OK, "%s",
                  cx.what);
    ck_assert_str_eq(got, text);
    ck_assert_uint_eq(len, strlen(text));
}

static void refuse(const char *json, pare_status s, const char *message)
{
    pare_tokenizer *t;
    const char *const text = quoted(json);
    ck_assert_int_eq(pare_tokenizer_parse(&cx, "t", text, strlen(text), &t), s);
    ck_assert_msg(strstr(cx.what, message), "'%s' lacks '%s'", cx.what, message);
    pare_ctx_clear(&cx);
}

#define LETTERS                                                                                    \
    "'vocab':{'a':0,'b':1,'c':2,'ab':3,'bc':4,'abc':5,'aa':6,'aaaa':7},"                           \
    "'merges':['b c','a b','a bc','a a','aa aa']"

START_TEST(lower_ranks_merge_first_and_then_the_leftmost)
{
    pare_tokenizer *const t = parse("{'model':{" LETTERS "}}");
    expect(t, "abc", "5");
    expect(t, "abab", "3 3");
    expect(t, "aaa", "6 0");
    expect(t, "aaaaaa", "7 6");
    expect(t, "aaaab", "6 0 3");
    expect(t, "", "");
    pare_tokenizer_free(t);
}
END_TEST

START_TEST(merges_may_be_pairs_and_the_last_of_equal_ones_counts)
{
    pare_tokenizer *const t = parse("{'model':{'vocab':{'a':0,'b':1,'c':2,'ab':3,'bc':4},"
                                    "'merges':[['a','b'],['b','c'],['a','b']]}}");
    expect(t, "abc", "0 4");
    pare_tokenizer_free(t);
}
END_TEST

START_TEST(merges_with_the_unknown_token_and_with_bytes_happen)
{
    pare_tokenizer *const t =
        parse("{'model':{'unk_token':'u','byte_fallback':true,'vocab':{'a':0,'u':1,'au':2,"
              "'<0x21>':3,'a<0x21>':4,'b':5},'merges':['a u','a <0x21>']}}");
    expect(t, "axb", "2 5");
    expect(t, "ba!a", "5 4 0");
    pare_tokenizer_free(t);
}
END_TEST

START_TEST(a_word_of_100_kb_takes_no_quadratic_time)
{
    enum { N = 100 * 1024 };
    pare_tokenizer *const t = parse("{'model':{" LETTERS "}}");
    char *const text = malloc(N);
    memset(text, 'a', N);
    int32_t *ids;
    size_t count;
    ck_assert_int_eq(pare_tokenizer_encode(&cx, t, &arena, text, N, &ids, &count), PARE_OK);
    ck_assert_uint_eq(count, N / 4);
    for (size_t i = 0; i < count; i++)
        ck_assert_int_eq(ids[i], 7);
    free(text);
    pare_tokenizer_free(t);
}
END_TEST

START_TEST(ignore_merges_takes_a_word_that_is_a_token)
{
    const char *const model = "{'pre_tokenizer':{'type':'ByteLevel','add_prefix_space':false},"
                              "'model':{%s'vocab':{'a':0,'b':1,'\xc4\xa0':2,'\xc4\xa0"
                              "ab':3},'merges':[]}}";
    char json[TEXT_MAX];
    (void)snprintf(json, sizeof json, model, "");
    pare_tokenizer *t = parse(json);
    expect(t, "ab ab", "0 1 2 0 1");
    pare_tokenizer_free(t);
    (void)snprintf(json, sizeof json, model, "'ignore_merges':true,");
    t = parse(json);
    expect(t, "ab ab", "0 1 3");
    pare_tokenizer_free(t);
}
END_TEST

#define BYTES "'vocab':{'a':0,'?':1,'<0xC3>':2,'<0xA9>':3},'merges':[]"

START_TEST(characters_without_a_token_fall_back_to_bytes_or_unk)
{
    pare_tokenizer *t = parse("{'model':{'unk_token':'?','byte_fallback':true," BYTES "}}");
    expect(t, "a\xc3\xa9xya", "0 2 3 1 1 0");
    pare_tokenizer_free(t);
    t = parse("{'model':{'unk_token':'?','fuse_unk':true," BYTES "}}");
    expect(t, "a\xc3\xa9xya", "0 1 0");
    pare_tokenizer_free(t);
    t = parse("{'model':{" BYTES "}}");
    expect(t, "axya", "0 0");
    pare_tokenizer_free(t);
    t = parse("{'model':{'unk_token':'none'," BYTES "}}");
    int32_t *ids;
    size_t count;
    ck_assert_int_eq(pare_tokenizer_encode(&cx, t, &arena, "x", 1, &ids, &count), PARE_EFORMAT);
    ck_assert_ptr_nonnull(strstr(cx.what, "unk_token 'none' is not in the vocabulary"));
    pare_tokenizer_free(t);
}
END_TEST

START_TEST(normalizers_run_in_every_part_between_added_tokens)
{
    pare_tokenizer *const t =
        parse("{'normalizer':{'type':'Sequence','normalizers':[{'type':'Prepend','prepend':'_'},"
              "{'type':'Replace','pattern':{'String':' '},'content':'_'}]},"
              "'added_tokens':[{'id':9,'content':'<s>','special':true},"
              "{'id':8,'content':'bb','normalized':true}],"
              "'decoder':{'type':'Sequence','decoders':[{'type':'Replace','pattern':{'String':'_'},"
              "'content':' '},{'type':'ByteFallback'},{'type':'Fuse'},"
              "{'type':'Strip','content':' ','start':1,'stop':0}]},"
              "'model':{'vocab':{'_':0,'a':1,'b':2,'<0x21>':3},'merges':[]}}");
    expect(t, "a", "0 1");
    expect(t, "a<s>a a", "0 1 9 0 1 0 1");
    expect(t, "<s>", "9");
    expect(t, "bb bb a", "8 8 0 1");
    expect_text(t, (int32_t[]){0, 1, 3, 0, 2, 8, 9}, 7, "a! b bb<s>");
    expect_text(t, (int32_t[]){0, 0, 1}, 3, " a");
    expect_text(t, NULL, 0, "");
    pare_tokenizer_free(t);
}
END_TEST

START_TEST(added_tokens_match_longest_and_take_spaces_as_asked)
{
    pare_tokenizer *const t =
        parse("{'added_tokens':[{'id':10,'content':'<l>','lstrip':true},"
              "{'id':11,'content':'<r>','rstrip':true},{'id':12,'content':'ab','single_word':true},"
              "{'id':13,'content':'aba'},{'id':14,'content':'<l><r>'}],"
              "'model':{'vocab':{'a':0,'b':1,' ':2,'.':3,'_':4,'\xc3\xa9':5},'merges':[]}}");
    expect(t, "a \t\xc2\xa0<l> a", "0 10 2 0");
    expect(t,
           "a <r> \n\xe3\x80\x80"
           "a",
           "0 2 11 0");
    expect(t, "<r>  <l>", "11 10");
    expect(t, "<l><r>", "14");
    expect(t, "ab ab. _ab ab\xc3\xa9 xab ab", "12 2 12 3 2 4 0 1 2 0 1 5 2 0 1 2 12");
    expect(t, "aba abaab", "13 2 13 0 1");
    pare_tokenizer_free(t);
}
END_TEST

START_TEST(nfc_composes_and_orders)
{
    pare_tokenizer *const t = parse(
        "{'normalizer':{'type':'NFC'},'model':{'vocab':{'\xc3\xa9':0,'\xec\xb0\xbf':1,'a':2,"
        "'\xcc\x96':3,'\xcc\x81':4,'\xc3\xa1':5,'\xea\xb0\x81':6,'\xcc\x80':7},'merges':[]}}");
    expect(t, "e\xcc\x81", "0");
    expect(t, "a\xcc\x96\xcc\x81 a\xcc\x81\xcc\x96", "5 3 5 3");
    expect(t, "q\xcc\x81\xcc\x80\xcc\x96", "3 4 7"); /* equal classes keep their order */
    expect(t, "\xe1\x84\x80\xe1\x85\xa1\xe1\x86\xa8", "6");
    pare_tokenizer_free(t);
}
END_TEST

START_TEST(nfc_of_a_long_run_of_marks_takes_no_quadratic_time)
{
    enum { PAIRS = 50000 };
    pare_tokenizer *const t = parse("{'normalizer':{'type':'NFC'},'model':{'vocab':{"
                                    "'\xcc\x96':0,'\xcc\x81':1},'merges':[]}}");
    char *const text = malloc(PAIRS * 4);
    for (size_t i = 0; i < PAIRS; i++)
        memcpy(text + 4 * i, "\xcc\x81\xcc\x96", 4);
    int32_t *ids;
    size_t count;
    ck_assert_int_eq(pare_tokenizer_encode(&cx, t, &arena, text, PAIRS * 4, &ids, &count), PARE_OK);
    ck_assert_uint_eq(count, 2 * PAIRS);
    for (size_t i = 0; i < count; i++)
        ck_assert_int_eq(ids[i], i >= PAIRS);
    free(text);
    pare_tokenizer_free(t);
}
END_TEST

/* Token 1 is U+FFFD. */
static const struct {
    const char *bytes, *ids;
} broken[] = {
    {"a\xff", "0 1"},
    {"\xc3", "1"},
    {"\xc3"
     "a",
     "1 0"},
    {"\xe2\x82"
     "a",
     "1 0"},
    {"\xf0\x9f\x98"
     "a",
     "1 0"},
    {"\x80\x80", "1 1"},
    {"\xc0\xaf", "1 1"},
    {"\xe0\x80\x80", "1 1 1"},
    {"\xed\xa0\x80", "1 1 1"},
    {"\xf4\x90\x80\x80", "1 1 1 1"},
    {"\xf8\x88\x80\x80\x80", "1 1 1 1 1"},
    {"\xf1\x80\xe1\x80\xc2", "1 1 1"},
    {"\xef\xbf\xbd", "1"},
};

START_TEST(invalid_utf8_becomes_one_replacement_for_each_longest_part)
{
    pare_tokenizer *const t = parse("{'model':{'vocab':{'a':0,'\xef\xbf\xbd':1},'merges':[]}}");
    expect(t, broken[_i].bytes, broken[_i].ids);
    pare_tokenizer_free(t);
}
END_TEST

START_TEST(byte_level_spells_every_byte_and_gives_it_back)
{
    char json[16384] = "{\"pre_tokenizer\":{\"type\":\"ByteLevel\",\"add_prefix_space\":false},"
                       "\"decoder\":{\"type\":\"ByteLevel\"},\"model\":{\"merges\":[],\"vocab\":{";
    size_t used = strlen(json), next = 0x100;
    for (size_t b = 0; b < 256; b++) {
        const bool prints = (b > 32 && b < 127) || (b > 160 && b != 173);
        used += (size_t)snprintf(json + used, sizeof json - used, "%s\"\\u%04zx\":%zu",
                                 b ? "," : "", prints ? b : next, b);
        next += !prints;
    }
    (void)snprintf(json + used, sizeof json - used, "}}}");
    pare_tokenizer *t;
    ck_assert_int_eq(pare_tokenizer_parse(&cx, "t", json, strlen(json), &t), PARE_OK);
    expect_bytes(t, "\0 \x7f\xc3\xa9\n", 6, "0 32 127 195 169 10");
    int32_t ids[256];
    char *text;
    size_t len;
    for (int32_t i = 0; i < 256; i++)
        ids[i] = i;
    ck_assert_int_eq(pare_tokenizer_decode(&cx, t, &arena, ids, 256, &text, &len), PARE_OK);
    ck_assert_uint_eq(len, 256);
    for (size_t i = 0; i < 256; i++)
        ck_assert_int_eq((unsigned char)text[i], (int)i);
    pare_tokenizer_free(t);
}
END_TEST

/* Whether the pattern takes all of the text, and nothing of the '#' around it. */
static const struct {
    const char *pattern, *text;
    bool takes;
} words[] = {
    {"\\\\s\\\\S", "\xe2\x80\x83x", true},
    {"\\\\s\\\\S", "\xe1\xa0\x8ex", false}, /* U+180E is no white space */
    {"(?i:'s)", "'\xc5\xbf", true},         /* long s */
    {"(?i:'S|x)", "'s", true},
    {"'S", "'s", false},
    {"\\\\p{L}{2,3}", "\xce\xa9z", true},
    {"(?<=#)\\\\p{^L}{2}", "12", true},
    {"\\\\u00e9z", "\xc3\xa9z", true},
    {"\\\\x{e9}z", "\xc3\xa9z", true},
    {"[^\\\\P{Lu}\\\\r-]+", "AB", true},
    {"\\\\d\\\\D", "1\xe1\xa0\x8e", true},
    {"(?<=#)(?>a|b)c++(?!x)", "bc", true},
    {"x*", "ab", false},
};

START_TEST(patterns_cut_words)
{
    char json[TEXT_MAX], text[64];
    (void)snprintf(json, sizeof json,
                   "{\"pre_tokenizer\":{\"type\":\"Split\",\"pattern\":{\"Regex\":\"%s\"},"
                   "\"behavior\":\"Isolated\"},\"model\":{\"ignore_merges\":true,\"vocab\":"
                   "{\"%s\":0,\"#\":1},\"merges\":[]}}",
                   words[_i].pattern, words[_i].text);
    (void)snprintf(text, sizeof text, "#%s#", words[_i].text);
    pare_tokenizer *t;
    ck_assert_msg(pare_tokenizer_parse(&cx, "t", json, strlen(json), &t) == PARE_OK, "%s", cx.what);
    expect(t, text, words[_i].takes ? "1 0 1" : "1 1");
    pare_tokenizer_free(t);
}
END_TEST

START_TEST(a_prefix_space_is_added_before_the_pattern_runs)
{
    pare_tokenizer *const t = parse("{'pre_tokenizer':{'type':'ByteLevel','add_prefix_space':true},"
                                    "'model':{'vocab':{'a':0,'\xc4\xa0':1,'\xc4\xa0"
                                    "a':2},'merges':['\xc4\xa0 a']}}");
    expect(t, "a a", "2 2");
    expect(t, " a", "2");
    pare_tokenizer_free(t);
}
END_TEST

START_TEST(stages_of_a_sequence_cut_one_after_the_other)
{
    pare_tokenizer *const t =
        parse("{'pre_tokenizer':{'type':'Sequence','pretokenizers':[{'type':'Split','pattern':"
              "{'Regex':'b'},'behavior':'Isolated'},{'type':'Split','pattern':{'Regex':'a(?=b)'},"
              "'behavior':'Isolated'}]},'model':{'ignore_merges':true,'vocab':{'a':0,'b':1,'aa':2,"
              "'ab':3},'merges':['a b']}}");
    expect(t, "aabaa", "2 1 2");
    pare_tokenizer_free(t);
}
END_TEST

START_TEST(a_hostile_pattern_ends_in_a_message)
{
    pare_tokenizer *const t =
        parse("{'pre_tokenizer':{'type':'Split','pattern':{'Regex':'(?:a|aa)+[bc]'},'behavior':"
              "'Isolated'},'model':{'vocab':{'a':0},'merges':[]}}");
    char text[200];
    int32_t *ids;
    size_t count;
    memset(text, 'a', sizeof text);
    ck_assert_int_eq(pare_tokenizer_encode(&cx, t, &arena, text, sizeof text, &ids, &count),
                     PARE_ENOTSUP);
    ck_assert_ptr_nonnull(strstr(cx.what, "too many steps"));
    pare_tokenizer_free(t);
}
END_TEST

/* Embeddings have more rows than there are tokens. */
START_TEST(an_id_without_a_token_has_no_text)
{
    static const char marked[] = "{'decoder':{'type':'Metaspace','replacement':'_','prepend_scheme'"
                                 ":'always','split':true},'model':{'vocab':{'_a':0,'_b':7},"
                                 "'merges':[]}}";
    pare_tokenizer *t = parse("{'model':{'vocab':{'a':0,'b':7},'merges':[]}}");
    ck_assert_uint_eq(pare_tokenizer_vocab(t), 8);
    expect_text(t, (int32_t[]){0, 7, 7}, 3, "a b b");
    expect_text(t, (int32_t[]){3, 0, 306, 7, -1, INT32_MAX}, 6, "a b");
    expect_text(t, (int32_t[]){3, 8}, 2, "");
    pare_tokenizer_free(t);
    t = parse(marked); /* the first token is the first that has a text */
    expect_text(t, (int32_t[]){5, 0, 6, 7}, 4, "a b");
    pare_tokenizer_free(t);
}
END_TEST

START_TEST(bos_comes_from_the_template)
{
    pare_tokenizer *t =
        parse("{'post_processor':{'type':'Sequence','processors':[{'type':'ByteLevel'},"
              "{'type':'TemplateProcessing','single':[{'SpecialToken':{'id':'s'}}],"
              "'special_tokens':{'s':{'id':'s','ids':[3],'tokens':['s']}}}]},"
              "'model':{'vocab':{'s':3},'merges':[]}}");
    ck_assert_int_eq(pare_tokenizer_bos(t), 3);
    ck_assert_int_eq(pare_tokenizer_eos(t), -1);
    const pare_tok_around *const around = pare_tokenizer_around(t);
    ck_assert(around->fronts == 1 && around->front[0] == 3 && around->behinds == 0);
    pare_tokenizer_free(t);
    t = parse("{'model':{'vocab':{},'merges':[]}}");
    ck_assert_int_eq(pare_tokenizer_bos(t), -1);
    ck_assert_uint_eq(pare_tokenizer_vocab(t), 0);
    pare_tokenizer_free(t);
}
END_TEST

#define TEMPLATE(single)                                                                           \
    "{'post_processor':{'type':'TemplateProcessing','single':[" single                             \
    "],'special_tokens':{'s':{'ids':[3]},'e':{'ids':[5,4]}}},"                                     \
    "'model':{'vocab':{'s':3,'e':4,'f':5},'merges':[]}}"
#define PIECE(id) "{'SpecialToken':{'id':'" id "','type_id':0}}"
#define TEXT      "{'Sequence':{'id':'A','type_id':0}}"

START_TEST(a_template_says_what_stands_around_a_text)
{
    pare_tokenizer *t = parse(TEMPLATE(PIECE("s") "," TEXT "," PIECE("e")));
    const pare_tok_around *a = pare_tokenizer_around(t);
    ck_assert(a->fronts == 1 && a->front[0] == 3);
    ck_assert(a->behinds == 2 && a->behind[0] == 5 && a->behind[1] == 4);
    ck_assert_int_eq(pare_tokenizer_bos(t), 3);
    pare_tokenizer_free(t);
    t = parse(TEMPLATE(TEXT));
    a = pare_tokenizer_around(t);
    ck_assert(a->fronts == 0 && a->behinds == 0 && pare_tokenizer_bos(t) == -1);
    pare_tokenizer_free(t);
    refuse(TEMPLATE(PIECE("e") "," PIECE("e") "," PIECE("s") "," TEXT), PARE_ENOTSUP,
           "post_processor: more than 4 tokens on one side of a text");
    refuse(TEMPLATE(PIECE("x") "," TEXT), PARE_EFORMAT, "post_processor: 'x' has no id of a token");
}
END_TEST

START_TEST(messages_start_with_the_file)
{
    refuse("{'model':{'type':'WordLevel'}}", PARE_ENOTSUP,
           "t: model of type 'WordLevel' is not supported (BPE, Unigram are)");
    refuse("{'model':{'vocab':{'a':0,'b':1},'merges':['a b']}}", PARE_EFORMAT,
           "t: model.merges[0]: 'ab' is not in the vocabulary");
    refuse("[", PARE_EFORMAT, "t:1:");
}
END_TEST

static void write_file(const char *directory, const char *name, const char *json)
{
    char path[512];
    const char *const text = quoted(json);
    (void)snprintf(path, sizeof path, "%s/%s", directory, name);
    ck_assert_int_eq(pare_file_write(&cx, path, text, strlen(text)), PARE_OK);
}

START_TEST(opening_a_directory_reads_both_files)
{
    char directory[] = "tokenizer-XXXXXX", path[512];
    ck_assert_ptr_nonnull(mkdtemp(directory));
    pare_tokenizer *t;
    ck_assert_int_eq(pare_tokenizer_open(&cx, directory, &t), PARE_ENOTFOUND);
    ck_assert_ptr_nonnull(strstr(cx.what, "tokenizer.json"));
    pare_ctx_clear(&cx);
    write_file(directory, "tokenizer.json",
               "{'added_tokens':[{'id':1,'content':'<e>'}],'model':{'vocab':{'a':0},'merges':[]}}");
    ck_assert_int_eq(pare_tokenizer_open(&cx, directory, &t), PARE_OK);
    ck_assert_int_eq(pare_tokenizer_bos(t), -1);
    pare_tokenizer_free(t);
    write_file(directory, "tokenizer_config.json",
               "{'add_bos_token':true,'bos_token':{'content':'<e>'},'eos_token':'a'}");
    ck_assert_int_eq(pare_tokenizer_open(&cx, directory, &t), PARE_OK);
    ck_assert_int_eq(pare_tokenizer_bos(t), 1);
    ck_assert_int_eq(pare_tokenizer_eos(t), 0);
    ck_assert_uint_eq(pare_tokenizer_around(t)->fronts, 0); /* no template says so */
    pare_tokenizer_free(t);
    write_file(directory, "tokenizer_config.json", "{'bos_token':'b'}");
    ck_assert_int_eq(pare_tokenizer_open(&cx, directory, &t), PARE_EFORMAT);
    ck_assert_ptr_nonnull(strstr(cx.what, "tokenizer_config.json: bos_token 'b' is not a token"));
    const char *const names[] = {"tokenizer.json", "tokenizer_config.json"};
    for (size_t i = 0; i < 2; i++) {
        (void)snprintf(path, sizeof path, "%s/%s", directory, names[i]);
        (void)remove(path);
    }
    (void)remove(directory);
}
END_TEST

/* As transformers adds them: tokens of added_tokens_decoder, and special ones of the vocabulary. */
START_TEST(a_tokenizer_config_adds_tokens_and_says_how_they_are_found)
{
    static const int32_t want[] = {0, 2, 0, 1, 3, 0};
    char directory[] = "tokenizer-XXXXXX", path[512];
    pare_tokenizer *t;
    int32_t *ids;
    size_t count;
    ck_assert_ptr_nonnull(mkdtemp(directory));
    write_file(directory, "tokenizer.json",
               "{'added_tokens':[{'id':1,'content':'<e>'}],"
               "'model':{'vocab':{'a':0,' ':4,'bb':3,'b':5},'merges':[]}}");
    write_file(directory, "tokenizer_config.json",
               "{'pad_token':'bb','added_tokens_decoder':{'1':{'content':'<e>','lstrip':true},"
               "'2':{'content':'<f>','rstrip':true,'special':true}}}");
    ck_assert_msg(pare_tokenizer_open(&cx, directory, &t) == PARE_OK, "%s", cx.what);
    ck_assert_int_eq(pare_tokenizer_encode(&cx, t, &arena, "a<f> a <e>bba", 13, &ids, &count),
                     PARE_OK);
    ck_assert_uint_eq(count, sizeof want / sizeof *want);
    ck_assert_mem_eq(ids, want, sizeof want);
    pare_tokenizer_free(t);
    write_file(directory, "tokenizer_config.json",
               "{'added_tokens_decoder':{'3':{'content':'<f>'}}}");
    ck_assert_int_eq(pare_tokenizer_open(&cx, directory, &t), PARE_EFORMAT);
    ck_assert_ptr_nonnull(strstr(cx.what, "added token '<f>' with id 3, but 'bb' has id 3"));
    const char *const names[] = {"tokenizer.json", "tokenizer_config.json"};
    for (size_t i = 0; i < 2; i++) {
        (void)snprintf(path, sizeof path, "%s/%s", directory, names[i]);
        (void)remove(path);
    }
    (void)remove(directory);
}
END_TEST

/* Parse, encode and decode with every stage in use. */
static pare_status run_all(pare_ctx *walk, const char *json)
{
    static const char text[] = "xx <a> e\xcc\x81\xcc\x96 \xff word word's";
    pare_tokenizer *t = NULL;
    pare_arena a = {.cx = walk};
    int32_t *ids;
    size_t count, len;
    char *back;
    pare_status s = pare_tokenizer_parse(walk, "t", json, strlen(json), &t);
    if (s == PARE_OK)
        s = pare_tokenizer_encode(walk, t, &a, text, sizeof text - 1, &ids, &count);
    if (s == PARE_OK)
        s = pare_tokenizer_decode(walk, t, &a, ids, count, &back, &len);
    pare_arena_release(&a);
    pare_tokenizer_free(t);
    return s;
}

START_TEST(every_allocation_may_fail)
{
    const char *const json = quoted(
        "{'normalizer':{'type':'Sequence','normalizers':[{'type':'NFC'},{'type':'Replace',"
        "'pattern':{'String':'x'},'content':'yyy'},{'type':'Prepend','prepend':'_'}]},"
        "'added_tokens':[{'id':20,'content':'<a>','single_word':true,'lstrip':true}],"
        "'pre_tokenizer':{'type':'Sequence','pretokenizers':[{'type':'Split','pattern':{'Regex':"
        "'\\\\p{L}+|\\\\s+'},'behavior':'Isolated'},{'type':'ByteLevel','add_prefix_space':true}]},"
        "'decoder':{'type':'Sequence','decoders':[{'type':'Replace','pattern':{'String':'r'},"
        "'content':'RR'}]},"
        "'model':{'unk_token':'?','ignore_merges':true,"
        "'vocab':{'o':0,'r':1,'or':2,'?':3},'merges':['o r']}}");
    pare_status s = PARE_ENOMEM;
    long n = 0;
    for (; s == PARE_ENOMEM && n < 1000; n++) {
        unit_failing f = {.left = n};
        pare_ctx walk;
        pare_ctx_init(&walk);
        walk.alloc = (pare_alloc){unit_failing_resize, &f};
        s = run_all(&walk, json);
        ck_assert_int_eq(f.live, 0);
        ck_assert_msg(s == PARE_OK || walk.what[0], "allocation %ld fails without a message", n);
    }
    ck_assert_int_eq(s, PARE_OK);
    ck_assert_int_gt(n, 10);
}
END_TEST

int main(void)
{
    Suite *const s = suite_create("tokenizer");
    TCase *const c = tcase_create("tokenizer");
    tcase_set_timeout(c, 60);
    tcase_add_checked_fixture(c, setup, teardown);
    tcase_add_test(c, lower_ranks_merge_first_and_then_the_leftmost);
    tcase_add_test(c, merges_may_be_pairs_and_the_last_of_equal_ones_counts);
    tcase_add_test(c, merges_with_the_unknown_token_and_with_bytes_happen);
    tcase_add_test(c, a_word_of_100_kb_takes_no_quadratic_time);
    tcase_add_test(c, ignore_merges_takes_a_word_that_is_a_token);
    tcase_add_test(c, characters_without_a_token_fall_back_to_bytes_or_unk);
    tcase_add_test(c, normalizers_run_in_every_part_between_added_tokens);
    tcase_add_test(c, added_tokens_match_longest_and_take_spaces_as_asked);
    tcase_add_test(c, nfc_composes_and_orders);
    tcase_add_test(c, nfc_of_a_long_run_of_marks_takes_no_quadratic_time);
    tcase_add_loop_test(c, invalid_utf8_becomes_one_replacement_for_each_longest_part, 0,
                        sizeof broken / sizeof *broken);
    tcase_add_test(c, byte_level_spells_every_byte_and_gives_it_back);
    tcase_add_loop_test(c, patterns_cut_words, 0, sizeof words / sizeof *words);
    tcase_add_test(c, a_prefix_space_is_added_before_the_pattern_runs);
    tcase_add_test(c, stages_of_a_sequence_cut_one_after_the_other);
    tcase_add_test(c, a_hostile_pattern_ends_in_a_message);
    tcase_add_test(c, an_id_without_a_token_has_no_text);
    tcase_add_test(c, bos_comes_from_the_template);
    tcase_add_test(c, a_template_says_what_stands_around_a_text);
    tcase_add_test(c, messages_start_with_the_file);
    tcase_add_test(c, opening_a_directory_reads_both_files);
    tcase_add_test(c, a_tokenizer_config_adds_tokens_and_says_how_they_are_found);
    tcase_add_test(c, every_allocation_may_fail);
    suite_add_tcase(s, c);
    return unit_main(s);
}
