/* The rules of tokenizer.ggml.pre: how each cuts words, and which one an export chooses. */
#include <string.h>

#include "formats/gguf_internal.h"
#include "formats/tokenizer_internal.h"
#include "tests/unit/unit.h"

enum { TEXT = 1 << 16 };

static pare_ctx cx;
static pare_arena arena;

static void begin(void)
{
    pare_ctx_init(&cx);
    ck_assert_int_eq(pare_arena_init(&cx, &arena, 0), PARE_OK);
}

static void end(void)
{
    pare_arena_release(&arena);
    ck_assert_uint_eq(cx.live_bytes, 0);
}

static size_t put(char *text, size_t at, const char *what, size_t len)
{
    ck_assert_uint_lt(at + len, TEXT);
    memcpy(text + at, what, len);
    return at + len;
}

static size_t put_text(char *text, size_t at, const char *what)
{
    return put(text, at, what, strlen(what));
}

/* A byte-level BPE with these members in front of its model: the 256 bytes, and words made by
 * merges. "\xc4\xa0" is a space, "\xc4\x8a" a line feed in the byte alphabet. */
static pare_tokenizer *make(const char *members, bool whole)
{
    static const char *const merges[][2] = {{"\xc4\xa0", "\xc4\xa0"},
                                            {"1", "2"},
                                            {"\xc4\xa0", "1"},
                                            {"\xc4\x8a", "\xc4\x8a"},
                                            {"a", "b"},
                                            {"'", "t"},
                                            {"\xc4\xa0", "ab"},
                                            {".", "."},
                                            {"e", "\xcc"},
                                            {"b", "1"},
                                            {"\xc4\x8a", "\xc4\xa0"}};
    static char text[TEXT];
    static pare_tokenizer alphabet;
    pare_tokenizer *t = NULL;
    char piece[64];
    size_t n = put_text(text, 0, "{"), id = 256;
    pare__byte_alphabet(&alphabet);
    n = put_text(text, n, members);
    n = put_text(text, n,
                 ",\"decoder\":{\"type\":\"ByteLevel\",\"add_prefix_space\":true,"
                 "\"trim_offsets\":true,\"use_regex\":true},"
                 "\"model\":{\"type\":\"BPE\",\"ignore_merges\":");
    n = put_text(text, n, whole ? "true,\"vocab\":{" : "false,\"vocab\":{");
    for (size_t b = 0; b < 256; b++) {
        n = put_text(text, n, b ? ",\"" : "\"");
        if (strchr("\"\\", (int)b))
            n = put_text(text, n, b ? "\\" : "");
        n = put(text, n, alphabet.byte_text[b], alphabet.byte_len[b]);
        (void)snprintf(piece, sizeof piece, "\":%zu", b);
        n = put_text(text, n, piece);
    }
    for (size_t i = 0; i < sizeof merges / sizeof *merges; i++) {
        if (strcmp(merges[i][0], "e") == 0)
            continue; /* half a character is no text of JSON */
        (void)snprintf(piece, sizeof piece, ",\"%s%s\":%zu", merges[i][0], merges[i][1], id++);
        n = put_text(text, n, piece);
    }
    n = put_text(text, n, "},\"merges\":[");
    for (size_t i = 0; i < sizeof merges / sizeof *merges; i++) {
        if (strcmp(merges[i][0], "e") == 0)
            continue;
        (void)snprintf(piece, sizeof piece, "%s[\"%s\",\"%s\"]", i ? "," : "", merges[i][0],
                       merges[i][1]);
        n = put_text(text, n, piece);
    }
    n = put_text(text, n, "]}}");
    ck_assert_msg(pare_tokenizer_parse(&cx, "made", text, n, &t) == PARE_OK, "%s", cx.what);
    return t;
}

/* The members that the reader writes for a name. */
static const char *members_of(const char *name)
{
    pare_json_writer *w;
    const char *text;
    size_t len;
    const pare__gguf_pre *const p = pare__gguf_pre_named(name, strlen(name));
    ck_assert_msg(p && !p->refused, "%s", name);
    ck_assert_int_eq(pare_json_writer_new(&cx, &w), PARE_OK);
    pare_json_open_object(w, NULL);
    pare__gguf_put_pre(w, p);
    pare_json_close(w);
    ck_assert_int_eq(pare_json_writer_finish(w, &text, &len), PARE_OK);
    const char *const open = strchr(text, '{') + 1, *const close = strrchr(text, '}');
    char *const members = pare_arena_text(&arena, open, (size_t)(close - open));
    ck_assert_ptr_nonnull(members);
    pare_json_writer_free(w);
    return members;
}

/* The words of a text, with '|' between them. */
static const char *words_of(const pare_tokenizer *t, const char *text)
{
    static char out[1024];
    int32_t *length;
    size_t count, at = 0, n = 0;
    ck_assert_int_eq(pare__tokenizer_cut(&cx, t, &arena, text, strlen(text), &length, &count),
                     PARE_OK);
    for (size_t i = 0; i < count; i++) {
        if (i)
            out[n++] = '|';
        memcpy(out + n, text + at, (size_t)length[i]);
        n += (size_t)length[i];
        at += (size_t)length[i];
    }
    out[n] = '\0';
    return out;
}

/* Made by hand from the expressions; llama.cpp cuts all of them so but for those marked "other":
 * it has no letters with marks or case beyond ASCII there. */
static const struct {
    const char *name, *text, *words;
} cuts[] = {
    {"gpt-2", "it's  2024\n\n a.b", "it|'s| | 2024|\n\n| a|.|b"},
    {"smollm", "it's  2024\n\n a.b", "it|'s|  |2|0|2|4|\n\n| a|.|b"},
    {"command-r", " 12", " |1|2"},
    {"llama-bpe", "IT'S 12345\r\n\r\n  x...\n", "IT|'S| |123|45|\r\n\r\n| | x|...\n"},
    {"qwen2", "IT'S 12345\r\n\r\n  x", "IT|'S| |1|2|3|4|5|\r\n\r\n| | x"},
    {"qwen35", "ne\xcc\x81 12", "ne\xcc\x81| |1|2"},
    {"hunyuan", "ne\xcc\x81 12", "ne|\xcc\x81| |1|2"},
    {"gpt-4o", "camelCase HTTPServer's //\n/", "camel|Case| HTTPServer's| //\n/"},
    {"gpt-4o", "Ne\xcc\x81 1234", "Ne\xcc\x81| |123|4"}, /* other */
    {"tekken", "camelCase's 12", "camel|Case|'s| |1|2"},
    {"tiny_aya", "1234567 12", "1|234|567| |12"},
    {"kimi-k2",
     "ab\xe4\xb8\xad\xe6\x96\x87"
     "cd 1234",
     "ab|\xe4\xb8\xad\xe6\x96\x87|cd| |123|4"},
    {"deepseek-v3",
     "x+abc \xe4\xb8\xad"
     "1234",
     "x|+abc| |\xe4\xb8\xad|123|4"},
    {"deepseek-coder", " ab, 12\n", " ab|,| |1|2|\n"},
    {"deepseek-llm", " ab, 12\n", " ab|,| |12|\n"},
    {"afmoe", "x 1234567", "x| |1|234|567"},
    {"minicpm5", "12345 a", "123|45| a"},
    {"jais-2", "a     b", "a|    | b"},
    {"laguna", "a \n\n b", "a| |\n\n| b"},
    {"seed-coder", "a..\n\nb", "a|..|\n\n|b"},
    {"exaone-moe", "a b..\n\nc", "a b|..\n|\n|c"},
    {"bailingmoe", "a'Sb\n\nc", "a|'S|b|\n\n|c"},
    {"falcon", "ab, 12345", "ab|,| |123|45"},
    {"superbpe", "ab cd 1234567 e", "ab cd |1|234|567| e"},
    {"bloom", "ab, cd12", "ab|,| cd12"},
    {"viking", "ab cd12", "ab| cd|1|2"},
    {"chameleon", "IMGIMGABZ x  12", "IMGIMGABZ| x|  |1|2"},
    {"default", "ab+ 12345", "ab|+| |123|45"},
    {"youtu",
     "\xed\x95\x9c"
     "a 12",
     "\xed\x95\x9c|a| |1|2"},
};

START_TEST(words_are_cut_as_the_name_says)
{
    begin();
    pare_tokenizer *const t = make(members_of(cuts[_i].name), false);
    ck_assert_str_eq(words_of(t, cuts[_i].text), cuts[_i].words);
    pare_tokenizer_free(t);
    end();
}
END_TEST

/* Each once, and the rules of each compile. */
START_TEST(every_name_has_one_row)
{
    const pare__gguf_pre *p;
    size_t rows = 0, names = 0;
    begin();
    for (; (p = pare__gguf_pre_at(rows)); rows++)
        for (const char *at = p->names; *at; at += strspn(at, " ")) {
            const size_t len = strcspn(at, " ");
            ck_assert_msg(pare__gguf_pre_named(at, len) == p, "%s", at);
            if (!p->refused && at == p->names)
                pare_tokenizer_free(make(members_of(pare_arena_text(&arena, at, len)), false));
            at += len;
            names++;
        }
    ck_assert_uint_ge(rows, 30);
    ck_assert_uint_ge(names, 80);
    ck_assert_ptr_null(pare__gguf_pre_named("gpt", 3));
    ck_assert_ptr_null(pare__gguf_pre_named("", 0));
    end();
}
END_TEST

#define BYTES(regex)     "{\"type\":\"ByteLevel\",\"add_prefix_space\":false,\"use_regex\":" regex "}"
#define SEQUENCE(stages) "\"pre_tokenizer\":{\"type\":\"Sequence\",\"pretokenizers\":[" stages "]}"
#define SPLIT(regex)                                                                               \
    "{\"type\":\"Split\",\"pattern\":{\"Regex\":\"" regex                                          \
    "\"},\"behavior\":\"Isolated\",\"invert\":false},"

/* What a tokenizer.json says, and the name whose rules give the same ids. */
static const struct {
    const char *members, *name;
    bool whole;
} chosen[] = {
    {"\"pre_tokenizer\":" BYTES("true"), "gpt-2", false},
    {SEQUENCE("{\"type\":\"Digits\",\"individual_digits\":true}," BYTES("true")), "smollm", false},
    {SEQUENCE(SPLIT("\\\\p{N}") BYTES("true")), "smollm", false},
    {SEQUENCE(SPLIT("(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\\\r\\\\n\\\\p{L}\\\\p{N}]?\\\\p{L}+|\\\\p{N}"
                    "{1,3}| ?[^\\\\s\\\\p{L}\\\\p{N}]+[\\\\r\\\\n]*|\\\\s*[\\\\r\\\\n]+|\\\\s+"
                    "(?!\\\\S)|\\\\s+") BYTES("false")),
     "smaug-bpe", false},
    {SEQUENCE(SPLIT("(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\\\r\\\\n\\\\p{L}\\\\p{N}]?\\\\p{L}+|\\\\p{N}"
                    "{1,3}| ?[^\\\\s\\\\p{L}\\\\p{N}]+[\\\\r\\\\n]*|\\\\s*[\\\\r\\\\n]+|\\\\s+"
                    "(?!\\\\S)|\\\\s+") BYTES("false")),
     "llama-bpe", true},
    {"\"normalizer\":{\"type\":\"NFC\"}," SEQUENCE(
         SPLIT("(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\\\r\\\\n\\\\p{L}\\\\p{N}]?\\\\p{L}+|\\\\p{N}| ?"
               "[^\\\\s\\\\p{L}\\\\p{N}]+[\\\\r\\\\n]*|\\\\s*[\\\\r\\\\n]+|\\\\s+(?!\\\\S)|\\\\s+")
             BYTES("false")),
     "qwen2", false},
    /* whole words make no difference here: every token is made by merges */
    {"\"pre_tokenizer\":" BYTES("true"), "gpt-2", true},
    {"\"pre_tokenizer\":" BYTES("false"), NULL, false},
    {"\"normalizer\":{\"type\":\"NFC\"},\"pre_tokenizer\":" BYTES("true"), NULL, false},
};

START_TEST(an_export_writes_the_name_whose_rules_give_the_same_ids)
{
    const pare__gguf_pre *p = NULL;
    begin();
    pare_tokenizer *const t = make(chosen[_i].members, chosen[_i].whole);
    const pare_status s = pare__gguf_pre_choose(&cx, "model", t, &p);
    if (chosen[_i].name) {
        ck_assert_msg(s == PARE_OK, "%s", cx.what);
        ck_assert_msg(strncmp(p->names, chosen[_i].name, strlen(chosen[_i].name)) == 0, "%s",
                      p->names);
    } else {
        ck_assert_int_eq(s, PARE_ENOTSUP);
        ck_assert_msg(strstr(cx.what, "model: gguf: none of the pre-tokenizers of llama.cpp") &&
                          strstr(cx.what, "the nearest, "),
                      "%s", cx.what);
    }
    pare_tokenizer_free(t);
    end();
}
END_TEST

int main(void)
{
    Suite *const s = suite_create("gguf_pre");
    TCase *const t = tcase_create("gguf_pre");
    tcase_set_timeout(t, 120);
    tcase_add_loop_test(t, words_are_cut_as_the_name_says, 0, sizeof cuts / sizeof *cuts);
    tcase_add_test(t, every_name_has_one_row);
    tcase_add_loop_test(t, an_export_writes_the_name_whose_rules_give_the_same_ids, 0,
                        sizeof chosen / sizeof *chosen);
    suite_add_tcase(s, t);
    return unit_main(s);
}
