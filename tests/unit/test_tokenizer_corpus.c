/* The corpora of the tokenizer's fuzz targets reach every message. */
#include <dirent.h>
#include <string.h>

#include "formats/tokenizer.h"
#include "runtime/file.h"
#include "unit.h"

/* Each message of the parser and of both directions, with the status it comes with. */
static const struct wanted {
    pare_status s;
    const char *what;
} json_wanted[] = {
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
    BAD("model.vocab: an array of texts with scores expected"),
    BAD("model.vocab[0]: a text and a score expected"),
    BAD("model.vocab[6]: 'a' is there already, with id 2"),
    BAD("model.unk_id: the id of one of 6 tokens expected"),
    BAD("a character has no token and the model has no unk_id"),
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
    NOT("added_tokens: 'xx' is empty after the normalizers, which is not supported"),
    NOT("normalizer 'Lowercase' is not supported"),
    NOT("normalizer: Replace with a pattern that matches an empty text is not supported"),
    NOT("prepend_scheme first behind a stage that changes the text is not supported"),
    NOT("prepend_scheme first behind another stage and a normalizer is not supported"),
    NOT("first behind a Replace of an expression by nothing is not supported"),
    BAD("normalizer.normalizers: an array expected"),
    NOT("normalizer: more than 8 steps"),
    BAD("normalizer.strip_left: true or false expected"),
    BAD("normalizer.precompiled_charsmap: a string expected"),
    BAD("normalizer.precompiled_charsmap: base64 expected"),
    BAD("precompiled_charsmap: a map of 7 bytes says that its array takes 255 of them"),
    BAD("precompiled_charsmap: text 0 of the map has no end within 1024 bytes"),
    NOT("normalizer.precompiled_charsmap: a second map is not supported"),
    NOT("normalizer: Replace of nothing is not supported"),
    BAD("normalizer.prepend: a string expected"),
    NOT("the normalizers make"),
    NOT("pre_tokenizer 'BertPreTokenizer' is not supported"),
    BAD("pre_tokenizer.replacement: one character expected"),
    BAD("pre_tokenizer: prepend_scheme 'sometimes' with add_prefix_space true"),
    BAD("pre_tokenizer.pretokenizers: an array expected"),
    NOT("pre_tokenizer: more than 8 stages"),
    NOT("pre_tokenizer: Split with behavior 'Sideways' is not supported"),
    NOT("pre_tokenizer: Punctuation with behavior 'Around' is not supported"),
    BAD("pre_tokenizer.invert: true or false expected"),
    NOT("pre_tokenizer: Split at nothing is not supported"),
    NOT("pre_tokenizer: ByteLevel twice is not supported"),
    BAD("pre_tokenizer.add_prefix_space: true or false expected"),
    NOT("pattern: a \\p that is not a general category or a script that is known at byte 0"),
    NOT("pattern: \\u without four digits"),
    NOT("pattern: \\x without {digits}"),
    NOT("pattern: a backslash at the end"),
    NOT("pattern: this escape at byte"),
    NOT("pattern: this escape inside (?i:)"),
    NOT("pattern: a class inside (?i:)"),
    NOT("pattern: this letter inside (?i:)"),
    NOT("pattern: a class that starts with ']'"),
    NOT("pattern: this class in a class"),
    NOT("pattern: && in a class"),
    NOT("pattern: a class without an end"),
    NOT("pattern: a group inside 32 groups"),
    NOT("pattern: this kind of group"),
    NOT("pattern: a verb"),
    NOT("pattern: '{' that is no count"),
    NOT("pattern: a count followed by + or ?"),
    NOT("pattern: a repeated anchor"),
    NOT("pattern: ')' without a group"),
    NOT("pattern: a group without an end"),
    NOT("pattern: 16385 bytes, at most 16384"),
    BAD("pattern 'a**': "),
    NOT("its pattern: too many steps on this text"),
    NOT("decoder 'WordPiece' is not supported"),
    BAD("decoder.decoders: an array expected"),
    NOT("decoder: Replace with a Regex is not supported"),
    NOT("decoder 'Metaspace' at this place is not supported"),
    NOT("decoder 'Replace' at this place is not supported"),
    NOT("decoder 'Strip' at this place is not supported"),
    NOT("decoder: more than 8 Replace"),
    BAD("decoder: Strip needs a character and counts 'start' and 'stop'"),
    BAD("decoder.content: a string expected"),
    NOT("post_processor 'BertProcessing' is not supported"),
    BAD("post_processor.processors: an array expected"),
    BAD("post_processor.single: an array expected"),
    BAD("post_processor: '<s>' has no id of a token"),
};
/* The same of a tokenizer.model. */
static const struct wanted model_wanted[] = {
    BAD("not a SentencePiece model"),
    BAD("a number without an end"),
    BAD("a number of more than 64 bits"),
    BAD("no field has the number 0"),
    BAD("has wire type 3 (0, 1, 2, 5 are read)"),
    BAD("field 2 takes 127 bytes, but 1 are left"),
    BAD("field 9 takes 8 bytes, but 3 are left"),
    BAD("pieces has wire type 0, not 2"),
    BAD("trainer_spec has wire type 0, not 2"),
    BAD("normalizer_spec has wire type 5, not 2"),
    BAD("denormalizer_spec has wire type 0, not 2"),
    NOT("denormalizer_spec is not supported"),
    BAD("trainer_spec.model_type has wire type 2, not 0"),
    BAD("trainer_spec.treat_whitespace_as_suffix has wire type 2, not 0"),
    BAD("trainer_spec.byte_fallback has wire type 5, not 0"),
    BAD("trainer_spec.bos_piece has wire type 0, not 2"),
    BAD("trainer_spec.eos_piece has wire type 0, not 2"),
    BAD("normalizer_spec.precompiled_charsmap has wire type 0, not 2"),
    BAD("normalizer_spec.add_dummy_prefix has wire type 2, not 0"),
    BAD("normalizer_spec.remove_extra_whitespaces has wire type 2, not 0"),
    BAD("normalizer_spec.escape_whitespaces has wire type 2, not 0"),
    BAD("precompiled_charsmap: a map of 7 bytes says that its array takes 16 of them"),
    BAD("text 0 of the map has no end within 1024 bytes"),
    BAD("the text of a piece has wire type 0, not 2"),
    BAD("the score of a piece has wire type 0, not 5"),
    BAD("the type of a piece has wire type 2, not 0"),
    BAD("piece 1: a text in UTF-8, a finite score and a type of 1 to 6 expected"),
    BAD("piece 3: 'a' is there already, as piece 1"),
    BAD("piece 1: a second unknown piece"),
    BAD("none of 8 pieces is the unknown one"),
    NOT("trainer_spec.model_type 4 is not supported"),
    BAD("byte_fallback needs the piece <0x00>"),
    NOT("piece 1 is unused: that is not supported with BPE"),
#undef BAD
#undef NOT
};

static const struct {
    const char *folder;
    bool model;
    const struct wanted *wanted;
    size_t count;
} corpora[] = {
    {"tokenizer", false, json_wanted, sizeof json_wanted / sizeof *json_wanted},
    {"tokenizer_model", true, model_wanted, sizeof model_wanted / sizeof *model_wanted},
};
enum { WANTED_MAX = 256 };

static pare_ctx cx;
static pare_arena arena;

/* Parses a file of the corpus; encodes its last bytes where it is a tokenizer. */
static pare_status run_corpus_file(const char *path, bool model)
{
    char *text;
    size_t len, count;
    int32_t *ids;
    pare_tokenizer *t;
    ck_assert_int_eq(pare_file_read(&cx, &arena, path, 1 << 20, &text, &len), PARE_OK);
    pare_status s = model ? pare_tokenizer_parse_model(&cx, "corpus", text, len, &t)
                          : pare_tokenizer_parse(&cx, "corpus", text, len, &t);
    if (s != PARE_OK)
        return s;
    const size_t tail = len < 256 ? len : 256;
    s = pare_tokenizer_encode(&cx, t, &arena, text + len - tail, tail, &ids, &count);
    pare_tokenizer_free(t);
    return s;
}

START_TEST(the_corpus_reaches_every_message)
{
    const struct wanted *const wanted = corpora[_i].wanted;
    const size_t count = corpora[_i].count;
    bool seen[WANTED_MAX] = {false};
    char folder[4096];
    pare_ctx_init(&cx);
    ck_assert_int_eq(pare_arena_init(&cx, &arena, 0), PARE_OK);
    ck_assert_uint_le(count, WANTED_MAX);
    (void)snprintf(folder, sizeof folder, "%s/tests/fuzz/corpus/%s", PARE_SOURCE_DIR,
                   corpora[_i].folder);
    DIR *const dir = opendir(folder);
    ck_assert_ptr_nonnull(dir);
    size_t files = 0;
    for (struct dirent *d; (d = readdir(dir));) {
        char path[8192];
        if (d->d_name[0] == '.')
            continue;
        (void)snprintf(path, sizeof path, "%s/%s", folder, d->d_name);
        const pare_status s = run_corpus_file(path, corpora[_i].model);
        ck_assert_msg(s == PARE_OK || strncmp(d->d_name, "good", 4) != 0, "%s: %s", path, cx.what);
        for (size_t i = 0; i < count; i++)
            seen[i] = seen[i] || (s == wanted[i].s && strstr(cx.what, wanted[i].what));
        pare_ctx_clear(&cx);
        files++;
    }
    (void)closedir(dir);
    pare_arena_release(&arena);
    ck_assert_uint_eq(cx.live_bytes, 0);
    ck_assert_uint_ge(files, 30);
    for (size_t i = 0; i < count; i++)
        ck_assert_msg(seen[i], "no file gives '%s'", wanted[i].what);
}
END_TEST

int main(void)
{
    Suite *const s = suite_create("tokenizer_corpus");
    TCase *const c = tcase_create("messages");
    tcase_set_timeout(c, 60);
    tcase_add_loop_test(c, the_corpus_reaches_every_message, 0, sizeof corpora / sizeof *corpora);
    suite_add_tcase(s, c);
    return unit_main(s);
}
