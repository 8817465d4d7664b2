/* The corpus of the tokenizer's fuzz target reaches every message. */
#include <dirent.h>
#include <string.h>

#include "formats/tokenizer.h"
#include "runtime/file.h"
#include "unit.h"

/* Each message of the parser and of both directions, with the status it comes with. */
static const struct {
    pare_status s;
    const char *what;
} wanted[] = {
#define BAD(text)                                                                                  \
    {                                                                                              \
        PARE_EFORMAT, text                                                                         \
    }
#define NOT(text)                                                                                  \
    {                                                                                              \
        PARE_ENOTSUP, text                                                                         \
    }
    BAD("corpus:1:"),
    NOT("version '2.0' is not supported"),
    BAD("model: an object expected"),
    NOT("model of type 'WordPiece' is not supported"),
    NOT("model of type '' is not supported"),
    NOT("model.dropout is not supported"),
    NOT("model.continuing_subword_prefix '##' is not supported"),
    NOT("model.end_of_word_suffix '</w>' is not supported"),
    BAD("model.byte_fallback: true or false expected"),
    BAD("model.unk_token: a string expected"),
    BAD("model.vocab: an object of tokens and ids expected"),
    BAD("the id of token 'a' is not within 0..2147483646"),
    BAD("model.vocab: 'a' and 'b' share the id 0"),
    BAD("model.merges: an array expected"),
    BAD("model.merges[0]: two tokens expected"),
    BAD("model.merges[0]: 'c' is not in the vocabulary"),
    BAD("model.merges[0]: 'ba' is not in the vocabulary"),
    BAD("unk_token '<none>' is not in the vocabulary"),
    BAD("added_tokens: an array expected"),
    BAD("added_tokens[0].content: a string expected"),
    BAD("added_tokens[0]: the content is empty"),
    BAD("added_tokens[0].lstrip: true or false expected"),
    BAD("added_tokens[1]: 'x' with id 11, but 'x' has id 10"),
    BAD("added_tokens[0]: 'a' with id 10, but 'a' has id 0"),
    NOT("added_tokens: 'xx' is empty after the normalizers"),
    NOT("normalizer 'Lowercase' is not supported"),
    BAD("normalizer.normalizers: an array expected"),
    NOT("normalizer: more than 8 steps"),
    NOT("normalizer: Replace with a Regex is not supported"),
    NOT("normalizer: Replace of nothing is not supported"),
    BAD("normalizer.prepend: a string expected"),
    NOT("the normalizers make"),
    NOT("pre_tokenizer 'Metaspace' is not supported"),
    BAD("pre_tokenizer.pretokenizers: an array expected"),
    NOT("pre_tokenizer: more than 8 stages"),
    NOT("pre_tokenizer: Split with behavior 'Removed' is not supported"),
    NOT("pre_tokenizer: Split with invert is not supported"),
    NOT("pre_tokenizer: Split with a String is not supported"),
    NOT("pre_tokenizer 'Split' behind ByteLevel is not supported"),
    BAD("pre_tokenizer.add_prefix_space: true or false expected"),
    NOT("pattern: a \\p that is not a general category at byte 0 is not supported"),
    NOT("pattern: \\u without four digits"),
    NOT("pattern: \\x without {digits}"),
    NOT("pattern: a backslash at the end"),
    NOT("pattern: this escape at byte"),
    NOT("pattern: this escape inside (?i:)"),
    NOT("pattern: a class inside (?i:)"),
    NOT("pattern: this letter inside (?i:)"),
    NOT("pattern: a class that starts with ']'"),
    NOT("pattern: a class in a class"),
    NOT("pattern: && in a class"),
    NOT("pattern: a class without an end"),
    NOT("pattern: a group inside 32 groups"),
    NOT("pattern: this kind of group"),
    NOT("pattern: a verb"),
    NOT("pattern: '{' that is no count"),
    NOT("pattern: a count followed by + or ?"),
    NOT("pattern: an anchor"),
    NOT("pattern: ')' without a group"),
    NOT("pattern: a group without an end"),
    NOT("pattern: 16385 bytes, at most 16384"),
    BAD("of 'a**')"),
    NOT("its pattern takes too many steps on this text"),
    NOT("decoder 'WordPiece' is not supported"),
    BAD("decoder.decoders: an array expected"),
    NOT("decoder 'Replace' at this place is not supported"),
    NOT("decoder 'Strip' at this place is not supported"),
    NOT("decoder: more than 8 Replace"),
    BAD("decoder: Strip needs a character and counts 'start' and 'stop'"),
    BAD("decoder.content: a string expected"),
    NOT("post_processor 'BertProcessing' is not supported"),
    BAD("post_processor.processors: an array expected"),
    BAD("post_processor.single: an array expected"),
    BAD("post_processor: '<s>' has no id of a token"),
#undef BAD
#undef NOT
};
enum { WANTED = sizeof wanted / sizeof *wanted };

static pare_ctx cx;
static pare_arena arena;

/* Parses a file of the corpus; encodes its last bytes where it is a tokenizer. */
static pare_status run_corpus_file(const char *path)
{
    char *text;
    size_t len, count;
    int32_t *ids;
    pare_tokenizer *t;
    ck_assert_int_eq(pare_file_read(&cx, &arena, path, 1 << 20, &text, &len), PARE_OK);
    pare_status s = pare_tokenizer_parse(&cx, "corpus", text, len, &t);
    if (s != PARE_OK)
        return s;
    const size_t tail = len < 256 ? len : 256;
    s = pare_tokenizer_encode(&cx, t, &arena, text + len - tail, tail, &ids, &count);
    pare_tokenizer_free(t);
    return s;
}

START_TEST(the_corpus_reaches_every_message)
{
    pare_ctx_init(&cx);
    ck_assert_int_eq(pare_arena_init(&cx, &arena, 0), PARE_OK);
    const char *const folder = PARE_SOURCE_DIR "/tests/fuzz/corpus/tokenizer";
    bool seen[WANTED] = {false};
    DIR *const dir = opendir(folder);
    ck_assert_ptr_nonnull(dir);
    size_t files = 0;
    for (struct dirent *d; (d = readdir(dir));) {
        char path[4096];
        if (d->d_name[0] == '.')
            continue;
        (void)snprintf(path, sizeof path, "%s/%s", folder, d->d_name);
        const pare_status s = run_corpus_file(path);
        for (size_t i = 0; i < WANTED; i++)
            seen[i] = seen[i] || (s == wanted[i].s && strstr(cx.what, wanted[i].what));
        pare_ctx_clear(&cx);
        files++;
    }
    (void)closedir(dir);
    pare_arena_release(&arena);
    ck_assert_uint_eq(cx.live_bytes, 0);
    ck_assert_uint_ge(files, 30);
    for (size_t i = 0; i < WANTED; i++)
        ck_assert_msg(seen[i], "no file gives '%s'", wanted[i].what);
}
END_TEST

int main(void)
{
    Suite *const s = suite_create("tokenizer_corpus");
    TCase *const c = tcase_create("messages");
    tcase_set_timeout(c, 60);
    tcase_add_test(c, the_corpus_reaches_every_message);
    suite_add_tcase(s, c);
    return unit_main(s);
}
