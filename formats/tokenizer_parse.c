/* Sections model, added_tokens and post_processor of a tokenizer.json. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "formats/tokenizer_internal.h"

pare_status pare__size_grow(pare_ctx *cx, pare_tokenizer *t, int64_t id, const char *token)
{
    if (id < 0 || id >= INT32_MAX)
        return pare_fail(cx, PARE_EFORMAT, "the id of token '%.60s' is not within 0..%ld", token,
                         (long)INT32_MAX - 1);
    if (t->size <= (size_t)id)
        t->size = (size_t)id + 1;
    return PARE_OK;
}

static pare_status parse_vocab(pare_ctx *cx, pare_tokenizer *t, const pare_json *vocab)
{
    if (pare_json_type_of(vocab) != PARE_JSON_OBJECT)
        return pare_fail(cx, PARE_EFORMAT, "model.vocab: an object of tokens and ids expected");
    PARE_TRY(pare__vocab_init(&t->arena, &t->vocab, pare_json_count(vocab)));
    size_t bytes = 0;
    const char *key;
    const pare_json *value;
    for (pare_json_iter it = {0}; pare_json_next(vocab, &it, &key, &value);)
        bytes += strlen(key) + 1;
    char *text = PARE_NEW(&t->arena, char, bytes);
    if (!text)
        return PARE_ENOMEM;
    for (pare_json_iter it = {0}; pare_json_next(vocab, &it, &key, &value);) {
        const int64_t id = pare_json_integer(value, -1);
        PARE_TRY(pare__size_grow(cx, t, id, key));
        const size_t len = strlen(key);
        memcpy(text, key, len + 1);
        const pare_tok_entry *const other =
            pare__vocab_add(&t->vocab, (pare_tok_slice){text, len}, (int32_t)id);
        if (other)
            return pare_fail(cx, PARE_EFORMAT, "model.vocab: '%.60s' and '%.60s' share the id %ld",
                             other->text.at, key, (long)id);
        text += len + 1;
    }
    return PARE_OK;
}

static int32_t id_of(const pare_tok_vocab *v, const char *at, size_t len)
{
    const pare_tok_entry *const entry = pare__vocab_by_text(v, at, len);
    return entry ? entry->id : -1;
}

void pare__ids_fill(pare_tokenizer *t)
{
    pare__byte_alphabet(t);
    for (unsigned b = 0; b < 256; b++) {
        char name[8];
        (void)snprintf(name, sizeof name, "<0x%02X>", b);
        t->fallback_ids[b] = id_of(&t->vocab, name, 6);
        t->byte_ids[b] = id_of(&t->vocab, t->byte_text[b], t->byte_len[b]);
    }
    t->unk = t->unk_text ? id_of(&t->vocab, t->unk_text, strlen(t->unk_text)) : -1;
}

/* The two texts of a merge: "a b" or ["a", "b"]. False for anything else. */
static bool merge_pair(const pare_json *v, pare_tok_slice pair[2])
{
    if (pare_json_type_of(v) == PARE_JSON_ARRAY) {
        pair[0].at = pare_json_text(pare_json_at(v, 0), &pair[0].len);
        pair[1].at = pare_json_text(pare_json_at(v, 1), &pair[1].len);
        return pair[0].at && pair[1].at && pare_json_count(v) == 2;
    }
    size_t len = 0;
    const char *const text = pare_json_text(v, &len);
    const char *const space = text ? memchr(text, ' ', len) : NULL;
    if (!space)
        return false;
    pair[0] = (pare_tok_slice){text, (size_t)(space - text)};
    pair[1] = (pare_tok_slice){space + 1, len - pair[0].len - 1};
    return !memchr(pair[1].at, ' ', pair[1].len);
}

static pare_status add_merge(pare_ctx *cx, pare_tokenizer *t, const pare_json *v, size_t rank,
                             char *joined)
{
    pare_tok_slice pair[2];
    if (!merge_pair(v, pair))
        return pare_fail(cx, PARE_EFORMAT,
                         "model.merges[%zu]: two tokens expected, as \"a b\" or [\"a\", \"b\"]",
                         rank);
    const pare_tok_entry *part[2];
    for (size_t i = 0; i < 2; i++) {
        part[i] = pare__vocab_by_text(&t->vocab, pair[i].at, pair[i].len);
        if (!part[i])
            return pare_fail(cx, PARE_EFORMAT, "model.merges[%zu]: '%.*s' is not in the vocabulary",
                             rank, (int)(pair[i].len < 60 ? pair[i].len : 60), pair[i].at);
    }
    /* Both are in the vocabulary now, so they fit. */
    memcpy(joined, pair[0].at, pair[0].len);
    memcpy(joined + pair[0].len, pair[1].at, pair[1].len);
    const size_t len = pair[0].len + pair[1].len;
    const pare_tok_entry *const whole = pare__vocab_by_text(&t->vocab, joined, len);
    if (!whole)
        return pare_fail(cx, PARE_EFORMAT, "model.merges[%zu]: '%.*s' is not in the vocabulary",
                         rank, (int)(len < 60 ? len : 60), joined);
    pare__merges_put(&t->merges,
                     (pare_tok_merge){part[0]->id, part[1]->id, (int32_t)rank, whole->id});
    return PARE_OK;
}

static pare_status parse_merges(pare_ctx *cx, pare_tokenizer *t, const pare_json *merges)
{
    if (pare_json_type_of(merges) != PARE_JSON_ARRAY)
        return pare_fail(cx, PARE_EFORMAT, "model.merges: an array expected");
    const size_t count = pare_json_count(merges);
    if (count > INT32_MAX)
        return pare_fail(cx, PARE_ENOTSUP, "model.merges: %zu entries", count);
    size_t longest = 0;
    for (size_t i = 0; i < t->vocab.count; i++)
        if (longest < t->vocab.entries[i].text.len)
            longest = t->vocab.entries[i].text.len;
    char *const joined = PARE_NEW(&t->arena, char, 2 * longest + 1);
    if (!joined)
        return PARE_ENOMEM;
    PARE_TRY(pare__merges_init(&t->arena, &t->merges, count));
    for (size_t i = 0; i < count; i++)
        PARE_TRY(add_merge(cx, t, pare_json_at(merges, i), i, joined));
    return PARE_OK;
}

/* True for tokens that stand for characters other than their own. */
static bool stands_for_others(const pare_tokenizer *t, int32_t id)
{
    bool found = id == t->unk;
    for (size_t b = 0; b < 256 && t->byte_fallback && !found; b++)
        found = id == t->fallback_ids[b];
    return found;
}

/* Id of the first or last character of a token, -1 when that has none. */
static int32_t edge(const pare_tokenizer *t, int32_t id, bool last)
{
    const pare_tok_slice s = pare__vocab_by_id(&t->vocab, id)->text;
    size_t at = last ? s.len : 0;
    uint32_t c;
    while (at > 0 && ((unsigned char)s.at[--at] & 0xc0) == 0x80)
        ;
    return s.len ? id_of(&t->vocab, s.at + at, pare__utf8_read(s.at + at, &c)) : -1;
}

/* Two neighbours that stay apart in every merge can be told before merging: the last character of
 * the left part and the first of the right part of no merge are that pair. It holds while merges
 * know characters by their own tokens; otherwise nothing is recorded. */
static pare_status fill_joins(pare_tokenizer *t, size_t count)
{
    pare_tok_merges joins;
    if (t->byte_level)
        return PARE_OK; /* words are short */
    PARE_TRY(pare__merges_init(&t->arena, &joins, count));
    for (size_t i = 0; i <= t->merges.mask; i++) {
        const pare_tok_merge m = t->merges.slots[i];
        if (m.left < 0)
            continue;
        if (stands_for_others(t, m.left) || stands_for_others(t, m.right))
            return PARE_OK;
        const int32_t left = edge(t, m.left, true), right = edge(t, m.right, false);
        if (left >= 0 && right >= 0)
            pare__merges_put(&joins, (pare_tok_merge){.left = left, .right = right});
    }
    t->joins = joins;
    return PARE_OK;
}

static pare_status refuse_affix(pare_ctx *cx, const pare_json *model, const char *key)
{
    const char *const text = pare_json_text(pare_json_get(model, key), NULL);
    if (text && text[0])
        return pare_fail(cx, PARE_ENOTSUP, "model.%s '%.60s' is not supported", key, text);
    return PARE_OK;
}

static pare_status parse_merges_model(pare_ctx *cx, pare_tokenizer *t, const pare_json *model)
{
    if (pare_json_number(pare_json_get(model, "dropout"), 0) != 0)
        return pare_fail(cx, PARE_ENOTSUP, "model.dropout is not supported: ids would be random");
    PARE_TRY(refuse_affix(cx, model, "continuing_subword_prefix"));
    PARE_TRY(refuse_affix(cx, model, "end_of_word_suffix"));
    PARE_TRY(pare__member_bool(cx, model, "model", "fuse_unk", PARE_TOK_OPTIONAL, &t->fuse_unk));
    PARE_TRY(pare__member_bool(cx, model, "model", "ignore_merges", PARE_TOK_OPTIONAL,
                               &t->ignore_merges));
    pare_tok_slice unk;
    PARE_TRY(
        pare__member_text(cx, &t->arena, model, "model", "unk_token", PARE_TOK_OPTIONAL, &unk));
    t->unk_text = unk.at;
    PARE_TRY(parse_vocab(cx, t, pare_json_get(model, "vocab")));
    pare__ids_fill(t);
    PARE_TRY(parse_merges(cx, t, pare_json_get(model, "merges")));
    return fill_joins(t, pare_json_count(pare_json_get(model, "merges")));
}

/* [[text, score], ...]; the place is the id. */
static pare_status parse_piece(pare_ctx *cx, pare_tokenizer *t, const pare_json *v, size_t i)
{
    pare_tok_slice text = {0};
    const char *const read = pare_json_text(pare_json_at(v, 0), &text.len);
    const double score = pare_json_number(pare_json_at(v, 1), NAN);
    if (!read || !isfinite(score) || pare_json_count(v) != 2)
        return pare_fail(cx, PARE_EFORMAT,
                         "model.vocab[%zu]: a text and a score expected, as [\"a\", -1.5]", i);
    text.at = pare_arena_text(&t->arena, read, text.len);
    if (!text.at)
        return PARE_ENOMEM;
    const pare_tok_entry *const other = pare__vocab_add(&t->vocab, text, (int32_t)i);
    if (other)
        return pare_fail(cx, PARE_EFORMAT,
                         "model.vocab[%zu]: '%.60s' is there already, with id %ld", i, text.at,
                         (long)other->id);
    t->pieces.score[i] = score;
    return PARE_OK;
}

static pare_status parse_unigram_model(pare_ctx *cx, pare_tokenizer *t, const pare_json *model)
{
    const pare_json *const vocab = pare_json_get(model, "vocab");
    const pare_json *const unk = pare_json_get(model, "unk_id");
    const size_t count = pare_json_count(vocab);
    if (pare_json_type_of(vocab) != PARE_JSON_ARRAY || count >= INT32_MAX)
        return pare_fail(cx, PARE_EFORMAT, "model.vocab: an array of texts with scores expected");
    t->model = PARE_TOK_UNIGRAM;
    t->pieces.score = PARE_NEW(&t->arena, double, count);
    if (!t->pieces.score)
        return PARE_ENOMEM;
    PARE_TRY(pare__vocab_init(&t->arena, &t->vocab, count));
    for (size_t i = 0; i < count; i++)
        PARE_TRY(parse_piece(cx, t, pare_json_at(vocab, i), i));
    t->size = count;
    pare__ids_fill(t);
    const int64_t id = pare_json_integer(unk, -1);
    if (pare_json_type_of(unk) > PARE_JSON_NULL && (id < 0 || (uint64_t)id >= count))
        return pare_fail(cx, PARE_EFORMAT, "model.unk_id: the id of one of %zu tokens expected",
                         count);
    t->unk = (int32_t)id;
    return pare__pieces_sort(&t->arena, &t->vocab, &t->pieces);
}

pare_status pare__parse_model(pare_ctx *cx, pare_tokenizer *t, const pare_json *doc)
{
    const pare_json *const model = pare_json_get(doc, "model");
    if (pare_json_type_of(model) != PARE_JSON_OBJECT)
        return pare_fail(cx, PARE_EFORMAT, "model: an object expected");
    const char *const type = pare__type_of(model);
    PARE_TRY(pare__member_bool(cx, model, "model", "byte_fallback", PARE_TOK_OPTIONAL,
                               &t->byte_fallback));
    if (strcmp(type, "Unigram") == 0)
        return parse_unigram_model(cx, t, model);
    /* Files older than the key have no type; merges tell a BPE. */
    if (strcmp(type, "BPE") != 0 && (type[0] || !pare_json_get(model, "merges")))
        return pare_fail(cx, PARE_ENOTSUP,
                         "model of type '%.60s' is not supported (BPE, Unigram are)", type);
    return parse_merges_model(cx, t, model);
}

/* Enters a token among the added ones. Returns the token that has its text or id, but not both. */
static const pare_tok_entry *add_token(pare_tokenizer *t, const pare_tok_added *token)
{
    const pare_tok_entry *const other = pare__vocab_add(&t->added_vocab, token->content, token->id);
    const pare_tok_entry *const same_id = pare__vocab_by_id(&t->vocab, token->id);
    const pare_tok_entry *const same_text =
        pare__vocab_by_text(&t->vocab, token->content.at, token->content.len);
    if (other || same_id == same_text)
        return other;
    return same_id ? same_id : same_text;
}

static pare_status parse_added_token(pare_ctx *cx, pare_tokenizer *t, const pare_json *v, size_t i,
                                     pare_tok_added *token)
{
    char where[48];
    (void)snprintf(where, sizeof where, "added_tokens[%zu]", i);
    PARE_TRY(
        pare__member_text(cx, &t->arena, v, where, "content", PARE_TOK_REQUIRED, &token->content));
    if (token->content.len == 0)
        return pare_fail(cx, PARE_EFORMAT, "%s: the content is empty", where);
    const int64_t id = pare_json_integer(pare_json_get(v, "id"), -1);
    PARE_TRY(pare__size_grow(cx, t, id, token->content.at));
    token->id = (int32_t)id;
    PARE_TRY(
        pare__member_bool(cx, v, where, "single_word", PARE_TOK_OPTIONAL, &token->single_word));
    PARE_TRY(pare__member_bool(cx, v, where, "lstrip", PARE_TOK_OPTIONAL, &token->lstrip));
    PARE_TRY(pare__member_bool(cx, v, where, "rstrip", PARE_TOK_OPTIONAL, &token->rstrip));
    PARE_TRY(pare__member_bool(cx, v, where, "special", PARE_TOK_OPTIONAL, &token->special));
    token->normalized = !token->special;
    PARE_TRY(pare__member_bool(cx, v, where, "normalized", PARE_TOK_OPTIONAL, &token->normalized));
    const pare_tok_entry *const other = add_token(t, token);
    if (other)
        return pare_fail(cx, PARE_EFORMAT, "%s: '%.60s' with id %ld, but '%.60s' has id %ld", where,
                         token->content.at, (long)token->id, other->text.at, (long)other->id);
    return PARE_OK;
}

/* A token from another place than added_tokens, whose first `here` are from there: it keeps the id
 * there, and is found as the other place says where that has an id of its own. */
static pare_status add_more(pare_ctx *cx, pare_tokenizer *t, const pare_tok_added *token,
                            size_t here)
{
    const pare_tok_slice text = token->content;
    const pare_tok_entry *const known = pare__vocab_by_text(&t->added_vocab, text.at, text.len);
    const size_t at = known ? (size_t)(known - t->added_vocab.entries) : t->added_count;
    pare_tok_added *const place = &t->added[at];
    if (at < here && token->id >= 0) {
        const pare_tok_added was = *place;
        *place = *token;
        place->content = was.content;
        place->id = was.id;
    }
    if (text.len == 0 || known)
        return PARE_OK;
    *place = *token;
    if (place->id < 0)
        place->id = id_of(&t->vocab, text.at, text.len);
    if (place->id < 0)
        return PARE_OK;
    place->content.at = pare_arena_text(&t->arena, text.at, text.len);
    if (!place->content.at)
        return PARE_ENOMEM;
    PARE_TRY(pare__size_grow(cx, t, place->id, text.at));
    const pare_tok_entry *const other = add_token(t, place);
    if (other)
        return pare_fail(cx, PARE_EFORMAT,
                         "added token '%.60s' with id %ld, but '%.60s' has id %ld", text.at,
                         (long)place->id, other->text.at, (long)other->id);
    t->added_count++;
    return PARE_OK;
}

/* Words as \w means them, to tell where a token of a single word stands alone. */
static pare_status compile_word(pare_ctx *cx, pare_tokenizer *t)
{
    static const char word[] = "[\\p{Alphabetic}\\p{M}\\p{Nd}\\p{Pc}\\p{Join_Control}]";
    bool needed = false;
    for (size_t i = 0; i < t->added_count; i++)
        needed = needed || t->added[i].single_word;
    return needed
               ? pare__code_compile(cx, t, (pare_tok_slice){word, sizeof word - 1}, &t->word_code)
               : PARE_OK;
}

pare_status pare__parse_added(pare_ctx *cx, pare_tokenizer *t, const pare_json *doc,
                              const pare_tok_added *more, size_t count)
{
    const pare_json *const list = pare_json_get(doc, "added_tokens");
    if (list && pare_json_type_of(list) != PARE_JSON_ARRAY)
        return pare_fail(cx, PARE_EFORMAT, "added_tokens: an array expected");
    const size_t here = pare_json_count(list);
    PARE_TRY(pare__vocab_init(&t->arena, &t->added_vocab, here + count));
    t->added = PARE_NEW(&t->arena, pare_tok_added, here + count);
    if (!t->added)
        return PARE_ENOMEM;
    for (size_t i = 0; i < here; i++) {
        PARE_TRY(parse_added_token(cx, t, pare_json_at(list, i), i, &t->added[i]));
        t->added_count++;
    }
    for (size_t i = 0; i < count; i++)
        PARE_TRY(add_more(cx, t, &more[i], here));
    PARE_TRY(compile_word(cx, t));
    return pare__tries_build(cx, t);
}

/* The ids of a special token of a template, behind those that are there. */
static pare_status add_around(pare_ctx *cx, const pare_tokenizer *t, const pare_json *ids,
                              const char *name, int32_t list[PARE_TOK_AROUND_MAX], size_t *count)
{
    const size_t more = pare_json_count(ids);
    if (more > PARE_TOK_AROUND_MAX - *count)
        return pare_fail(cx, PARE_ENOTSUP,
                         "post_processor: more than %d tokens on one side of a text",
                         PARE_TOK_AROUND_MAX);
    for (size_t i = 0; i < more || i == 0; i++) {
        const int64_t id = pare_json_integer(pare_json_at(ids, i), -1);
        if (id < 0 || id >= INT32_MAX ||
            (!pare__vocab_by_id(&t->added_vocab, (int32_t)id) &&
             !pare__vocab_by_id(&t->vocab, (int32_t)id)))
            return pare_fail(cx, PARE_EFORMAT, "post_processor: '%.60s' has no id of a token",
                             name);
        list[(*count)++] = (int32_t)id;
    }
    return PARE_OK;
}

/* A TemplateProcessing: special tokens in front of a single text and behind it. The first one in
 * front is BOS. */
static pare_status parse_template(pare_ctx *cx, pare_tokenizer *t, const pare_json *v)
{
    const pare_json *const single = pare_json_get(v, "single");
    pare_tok_around *const a = &t->around;
    bool behind = false;
    if (pare_json_type_of(single) != PARE_JSON_ARRAY)
        return pare_fail(cx, PARE_EFORMAT, "post_processor.single: an array expected");
    if (a->fronts || a->behinds)
        return pare_fail(cx, PARE_ENOTSUP,
                         "post_processor: one TemplateProcessing behind another is not supported");
    for (size_t i = 0; i < pare_json_count(single); i++) {
        const pare_json *const piece = pare_json_at(single, i);
        const char *const name =
            pare_json_text(pare_json_get(pare_json_get(piece, "SpecialToken"), "id"), NULL);
        const pare_json *const token = pare_json_get(pare_json_get(v, "special_tokens"), name);
        behind |= pare_json_get(piece, "Sequence") != NULL;
        if (name)
            PARE_TRY(add_around(cx, t, pare_json_get(token, "ids"), name,
                                behind ? a->behind : a->front, behind ? &a->behinds : &a->fronts));
    }
    if (a->fronts)
        t->bos = a->front[0];
    return PARE_OK;
}

pare_status pare__parse_post(pare_ctx *cx, pare_tokenizer *t, const pare_json *v)
{
    const pare_json_type json = pare_json_type_of(v);
    if (json == PARE_JSON_ABSENT || json == PARE_JSON_NULL)
        return PARE_OK;
    const char *const type = pare__type_of(v);
    if (strcmp(type, "ByteLevel") == 0)
        return PARE_OK;
    if (strcmp(type, "TemplateProcessing") == 0)
        return parse_template(cx, t, v);
    if (strcmp(type, "Sequence") != 0)
        return pare_fail(cx, PARE_ENOTSUP,
                         "post_processor '%.60s' is not supported (Sequence, ByteLevel, "
                         "TemplateProcessing are)",
                         type);
    const pare_json *const list = pare_json_get(v, "processors");
    if (pare_json_type_of(list) != PARE_JSON_ARRAY)
        return pare_fail(cx, PARE_EFORMAT, "post_processor.processors: an array expected");
    for (size_t i = 0; i < pare_json_count(list); i++)
        PARE_TRY(pare__parse_post(cx, t, pare_json_at(list, i)));
    return PARE_OK;
}
