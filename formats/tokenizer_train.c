/* Texts to counted words, their merges, and the files that say it all. */
#include "formats/tokenizer_train.h"

#include <string.h>

#include "formats/tokenizer_encode_internal.h"
#include "formats/tokenizer_learn_internal.h"

enum { BYTES = 256, LOOK = 1 << 16 /* words between two looks at the clock and at signals */ };

typedef struct trainer {
    pare_ctx *cx;
    const pare_tok_train_opts *opts;
    pare_arena arena;    /* lives as long as the training */
    pare_tokenizer *cut; /* the byte alphabet, and the arena of `code` */
    pare_regex *code;    /* of a word */
    pare_arena table;    /* of `words` and `counts` */
    pare_tok_vocab words;
    int64_t *counts;
    uint64_t total, done; /* bytes */
    pare_tok_vocab tokens;
    int32_t byte_ids[BYTES];
    pare_tok_join *joins;
    size_t join_count;
} trainer;

static bool is_utf8(const char *text)
{
    return pare_tokenizer_invalid(text, strlen(text)) == 0;
}

static pare_status check_special(pare_ctx *cx, const pare_tok_train_opts *o, size_t i)
{
    const char *const text = o->special[i];
    if (!*text || !is_utf8(text))
        return pare_fail(cx, PARE_EUSAGE, "special token %zu %s", i + 1,
                         *text ? "is not valid UTF-8" : "is empty");
    if (strlen(text) > PARE_TOK_TRAIN_SPECIALS_MOST)
        return pare_fail(cx, PARE_EUSAGE, "special token %zu has %zu bytes, at most %d are allowed",
                         i + 1, strlen(text), PARE_TOK_TRAIN_SPECIALS_MOST);
    for (size_t j = 0; j < i; j++)
        if (strcmp(o->special[j], text) == 0)
            return pare_fail(cx, PARE_EUSAGE, "the special token \"%s\" is given twice", text);
    return PARE_OK;
}

static pare_status check_named(pare_ctx *cx, const pare_tok_train_opts *o, const char *name,
                               const char *text)
{
    for (size_t i = 0; text && i < o->specials; i++)
        if (strcmp(o->special[i], text) == 0)
            return PARE_OK;
    return text ? pare_fail(cx, PARE_EUSAGE, "the %s token \"%s\" is none of the special tokens",
                            name, text)
                : PARE_OK;
}

static pare_status check(pare_ctx *cx, const pare_tok_train_opts *o)
{
    if (o->specials > PARE_TOK_TRAIN_SPECIALS_MOST)
        return pare_fail(cx, PARE_EUSAGE, "%zu special tokens, at most %d are allowed", o->specials,
                         PARE_TOK_TRAIN_SPECIALS_MOST);
    for (size_t i = 0; i < o->specials; i++)
        PARE_TRY(check_special(cx, o, i));
    PARE_TRY(check_named(cx, o, "BOS", o->bos));
    PARE_TRY(check_named(cx, o, "EOS", o->eos));
    if (o->vocab < BYTES + o->specials)
        return pare_fail(cx, PARE_EUSAGE,
                         "a vocabulary of %zu tokens does not hold the %d bytes and %zu special "
                         "token%s: ask for %zu or more",
                         o->vocab, BYTES, o->specials, pare_plural(o->specials),
                         BYTES + o->specials);
    return o->vocab > PARE_TOK_TRAIN_VOCAB_MOST
               ? pare_fail(cx, PARE_EUSAGE, "a vocabulary of %zu tokens, at most %d are allowed",
                           o->vocab, PARE_TOK_TRAIN_VOCAB_MOST)
               : PARE_OK;
}

/* Twice the words; those that are there keep their places. */
static pare_status enlarge(trainer *t)
{
    const size_t count = t->words.count, capacity = count ? 2 * count : 1 << 12;
    pare_arena table = {.cx = t->cx};
    pare_tok_vocab words = {0};
    int64_t *counts = NULL;
    pare_status s = capacity > INT32_MAX / 2 ? PARE_ENOMEM : PARE_OK;
    if (s == PARE_OK)
        s = pare__vocab_init(&table, &words, capacity);
    if (s == PARE_OK)
        counts = pare_arena_take_raw(&table, capacity, sizeof *counts);
    if (!counts) {
        pare_arena_release(&table);
        return pare_fail(t->cx, PARE_ENOMEM, "%zu distinct words", count);
    }
    for (size_t i = 0; i < count; i++) {
        (void)pare__vocab_add(&words, t->words.entries[i].text, (int32_t)i);
        counts[i] = t->counts[i];
    }
    pare_arena_release(&t->table);
    t->table = table;
    t->words = words;
    t->counts = counts;
    return PARE_OK;
}

static pare_status count_word(trainer *t, pare_tok_slice word)
{
    const pare_tok_entry *const there =
        t->words.count ? pare__vocab_by_text(&t->words, word.at, word.len) : NULL;
    if (there) {
        t->counts[there - t->words.entries]++;
        return PARE_OK;
    }
    if (t->words.count == t->words.capacity)
        PARE_TRY(enlarge(t));
    t->counts[t->words.count] = 1;
    (void)pare__vocab_add(&t->words, word, (int32_t)t->words.count);
    return PARE_OK;
}

/* The pattern has a match at every place of a text. */
static pare_status count_words(trainer *t, pare_tok_encoder *e, pare_tok_slice text,
                               pare_tok_trained *out)
{
    PARE_TRY(pare__split_begin(e, text.len));
    for (size_t at = 0, begin, end; at < text.len; at = end) {
        PARE_TRY(pare__pattern_find(e, t->code, text, at, &begin, &end));
        if (begin == SIZE_MAX)
            return PARE_OK;
        PARE_TRY(count_word(t, (pare_tok_slice){text.at + begin, end - begin}));
        if (out->words++ % LOOK == 0) {
            pare_ctx_progress(t->cx, "counting words", (double)(t->done + at), (double)t->total);
            PARE_TRY(pare_ctx_interrupted(t->cx));
        }
    }
    t->done += text.len;
    return PARE_OK;
}

static pare_status count_texts(trainer *t, const pare_tok_train_text *texts, size_t count,
                               pare_tok_trained *out)
{
    for (size_t i = 0; i < count; i++)
        t->total += texts[i].len;
    out->bytes = t->total;
    for (size_t i = 0; i < count; i++) {
        pare_tok_encoder e = {.cx = t->cx};
        pare_tok_slice text;
        if (!texts[i].len)
            continue;
        out->invalid += pare_tokenizer_invalid(texts[i].at, texts[i].len);
        PARE_TRY(pare__text_clean(&t->arena, (pare_tok_slice){texts[i].at, texts[i].len}, &text));
        const pare_status s = count_words(t, &e, text, out);
        pare__split_end(&e);
        PARE_TRY(s);
    }
    out->distinct = t->words.count;
    return out->distinct ? PARE_OK
                         : pare_fail(t->cx, PARE_EUSAGE, "there is no text to learn tokens from");
}

/* Special tokens, then bytes in the order of their characters. */
static pare_status first_tokens(trainer *t, pare_arena *a)
{
    const pare_tok_train_opts *const o = t->opts;
    PARE_TRY(pare__vocab_init(a, &t->tokens, o->vocab));
    for (size_t i = 0; i < o->specials; i++)
        (void)pare__vocab_add(&t->tokens, (pare_tok_slice){o->special[i], strlen(o->special[i])},
                              (int32_t)i);
    for (size_t c = 0; c < sizeof t->cut->text_byte / sizeof *t->cut->text_byte; c++) {
        const int b = t->cut->text_byte[c];
        if (b < 0)
            continue;
        const int32_t id = (int32_t)t->tokens.count;
        char *const text = pare_arena_text(a, t->cut->byte_text[b], t->cut->byte_len[b]);
        if (!text)
            return PARE_ENOMEM;
        const pare_tok_entry *const there =
            pare__vocab_add(&t->tokens, (pare_tok_slice){text, t->cut->byte_len[b]}, id);
        t->byte_ids[b] = there ? there->id : id;
    }
    return PARE_OK;
}

static pare_status learn(trainer *t, pare_arena *a)
{
    const pare_tok_train_opts *const o = t->opts;
    const size_t count = t->words.count;
    pare_tok_counted *const words = PARE_NEW(&t->arena, pare_tok_counted, count);
    if (!words)
        return PARE_ENOMEM;
    for (size_t i = 0; i < count; i++)
        words[i] = (pare_tok_counted){t->words.entries[i].text, t->counts[i]};
    pare_arena_release(&t->table);
    PARE_TRY(first_tokens(t, a));
    const int64_t least = o->min_count > INT64_MAX ? INT64_MAX : (int64_t)o->min_count;
    PARE_TRY(pare__learn_merges(t->cx, a, words, count, least, t->byte_ids, &t->tokens, &t->joins,
                                &t->join_count));
    return t->tokens.count == o->vocab
               ? PARE_OK
               : pare_fail(t->cx, PARE_EUSAGE,
                           "the text gives %zu tokens, %zu are asked for (pairs counted fewer "
                           "than %llu time%s are not merged): ask for fewer, or give more text",
                           t->tokens.count, o->vocab,
                           (unsigned long long)(o->min_count ? o->min_count : 1),
                           pare_plural(o->min_count ? o->min_count : 1));
}

static void put_byte_level(pare_json_writer *w, const char *key)
{
    pare_json_open_object(w, key);
    pare_json_put_text(w, "type", "ByteLevel");
    pare_json_put_bool(w, "add_prefix_space", false);
    pare_json_put_bool(w, "trim_offsets", true);
    pare_json_put_bool(w, "use_regex", true);
    pare_json_close(w);
}

static void put_added(pare_json_writer *w, const pare_tok_train_opts *o)
{
    pare_json_open_array(w, "added_tokens");
    for (size_t i = 0; i < o->specials; i++) {
        pare_json_open_object(w, NULL);
        pare_json_put_integer(w, "id", (int64_t)i);
        pare_json_put_text(w, "content", o->special[i]);
        pare_json_put_bool(w, "single_word", false);
        pare_json_put_bool(w, "lstrip", false);
        pare_json_put_bool(w, "rstrip", false);
        pare_json_put_bool(w, "normalized", false);
        pare_json_put_bool(w, "special", true);
        pare_json_close(w);
    }
    pare_json_close(w);
}

static void put_model(pare_json_writer *w, const trainer *t)
{
    const pare_tok_entry *const token = t->tokens.entries;
    pare_json_open_object(w, "model");
    pare_json_put_text(w, "type", "BPE");
    pare_json_put_null(w, "dropout");
    pare_json_put_null(w, "unk_token");
    pare_json_put_null(w, "continuing_subword_prefix");
    pare_json_put_null(w, "end_of_word_suffix");
    pare_json_put_bool(w, "fuse_unk", false);
    pare_json_put_bool(w, "byte_fallback", false);
    pare_json_put_bool(w, "ignore_merges", false);
    pare_json_open_object(w, "vocab");
    for (size_t i = 0; i < t->tokens.count; i++)
        pare_json_put_integer(w, token[i].text.at, token[i].id);
    pare_json_close(w);
    pare_json_open_array(w, "merges");
    for (size_t i = 0; i < t->join_count; i++) {
        pare_json_open_array(w, NULL);
        pare_json_put_text(w, NULL, token[t->joins[i].left].text.at);
        pare_json_put_text(w, NULL, token[t->joins[i].right].text.at);
        pare_json_close(w);
    }
    pare_json_close(w);
    pare_json_close(w);
}

static void put_tokenizer(pare_json_writer *w, const trainer *t)
{
    pare_json_open_object(w, NULL);
    pare_json_put_text(w, "version", "1.0");
    pare_json_put_null(w, "truncation");
    pare_json_put_null(w, "padding");
    put_added(w, t->opts);
    pare_json_put_null(w, "normalizer");
    put_byte_level(w, "pre_tokenizer");
    pare_json_put_null(w, "post_processor");
    put_byte_level(w, "decoder");
    put_model(w, t);
    pare_json_close(w);
}

static void put_config(pare_json_writer *w, const trainer *t)
{
    pare_json_open_object(w, NULL);
    pare_json_put_text(w, "tokenizer_class", "PreTrainedTokenizerFast");
    pare_json_put_bool(w, "add_prefix_space", false);
    pare_json_put_bool(w, "clean_up_tokenization_spaces", false);
    if (t->opts->bos)
        pare_json_put_text(w, "bos_token", t->opts->bos);
    if (t->opts->eos)
        pare_json_put_text(w, "eos_token", t->opts->eos);
    pare_json_close(w);
}

static pare_status write_json(pare_arena *a, const trainer *t,
                              void (*put)(pare_json_writer *w, const trainer *t), const char **text,
                              size_t *len)
{
    pare_json_writer *w;
    const char *made;
    PARE_TRY(pare_json_writer_new(t->cx, &w));
    put(w, t);
    pare_status s = pare_json_writer_finish(w, &made, len);
    *text = s == PARE_OK ? pare_arena_text(a, made, *len) : NULL;
    if (s == PARE_OK && !*text)
        s = PARE_ENOMEM;
    pare_json_writer_free(w);
    return s;
}

static pare_status give(trainer *t, pare_arena *a, pare_tok_trained *out)
{
    PARE_TRY(write_json(a, t, put_tokenizer, &out->json, &out->json_len));
    PARE_TRY(write_json(a, t, put_config, &out->config, &out->config_len));
    out->vocab = t->tokens.count;
    out->merges = t->join_count;
    PARE_TRY(
        pare_tokenizer_parse(t->cx, "tokenizer.json", out->json, out->json_len, &out->tokenizer));
    const pare_status s = pare_tokenizer_configure(t->cx, out->tokenizer, "tokenizer_config.json",
                                                   out->config, out->config_len);
    if (s != PARE_OK) {
        pare_tokenizer_free(out->tokenizer);
        out->tokenizer = NULL;
    }
    return s;
}

static pare_status train(trainer *t, pare_arena *a, const pare_tok_train_text *texts, size_t count,
                         pare_tok_trained *out)
{
    const pare_tok_slice pattern = {pare__gpt2_pattern, strlen(pare__gpt2_pattern)};
    PARE_TRY(check(t->cx, t->opts));
    t->cut = PARE_NEW(&t->arena, pare_tokenizer, 1);
    if (!t->cut)
        return PARE_ENOMEM;
    t->cut->arena = (pare_arena){.cx = t->cx};
    pare__byte_alphabet(t->cut);
    PARE_TRY(pare__pattern_compile(t->cx, t->cut, pattern, &t->code));
    PARE_TRY(count_texts(t, texts, count, out));
    PARE_TRY(learn(t, a));
    return give(t, a, out);
}

pare_status pare_tokenizer_train(pare_ctx *cx, pare_arena *a, const pare_tok_train_text *texts,
                                 size_t count, const pare_tok_train_opts *opts,
                                 pare_tok_trained *out)
{
    trainer t = {.cx = cx, .opts = opts, .arena = {.cx = cx}, .table = {.cx = cx}};
    *out = (pare_tok_trained){0};
    const pare_status s = train(&t, a, texts, count, out);
    if (t.cut)
        pare_arena_release(&t.cut->arena);
    pare_arena_release(&t.table);
    pare_arena_release(&t.arena);
    return s;
}
