/* Decoders: the section of the file, and ids to text.
 *
 * Three shapes exist: ByteLevel alone, Metaspace alone, and [Replace...] [ByteFallback]
 * [Fuse [Strip]]. Bytes are given back as they are: where they make no UTF-8 the caller decides
 * what to show. */
#include <string.h>

#include "formats/tokenizer_internal.h"

static pare_status parse_strip(pare_ctx *cx, pare_tokenizer *t, const pare_json *v)
{
    pare_tok_decoder *const d = &t->decoder;
    PARE_TRY(
        pare__member_text(cx, &t->arena, v, "decoder", "content", PARE_TOK_REQUIRED, &d->strip));
    const int64_t start = pare_json_integer(pare_json_get(v, "start"), -1);
    const int64_t stop = pare_json_integer(pare_json_get(v, "stop"), -1);
    uint32_t c;
    if (start < 0 || stop < 0 || d->strip.len == 0 ||
        pare__utf8_read(d->strip.at, &c) != d->strip.len)
        return pare_fail(cx, PARE_EFORMAT,
                         "decoder: Strip needs a character and counts 'start' and 'stop'");
    d->strip_start = (size_t)start;
    d->strip_stop = (size_t)stop;
    return PARE_OK;
}

/* Metaspace: marks become spaces, except in the first token, where a mark may not have been in the
 * text: there they go. */
static pare_status parse_metaspace(pare_ctx *cx, pare_tokenizer *t, const pare_json *v)
{
    pare_tok_decoder *const d = &t->decoder;
    pare_tok_prepend prepend = PARE_TOK_ALWAYS;
    if (d->given)
        return pare_fail(cx, PARE_ENOTSUP, "decoder 'Metaspace' at this place is not supported");
    d->given = d->metaspace = true;
    d->replaces = 1;
    d->replace[0].content = (pare_tok_slice){" ", 1};
    PARE_TRY(pare__parse_mark(cx, &t->arena, v, "decoder", &d->replace[0].pattern, &prepend));
    d->mark_first = prepend != PARE_TOK_NEVER;
    return PARE_OK;
}

static pare_status parse_one(pare_ctx *cx, pare_tokenizer *t, const pare_json *v, const char *type)
{
    static const char *const order[] = {"Replace", "ByteFallback", "Fuse", "Strip", "ByteLevel"};
    enum { REPLACE, BYTE_FALLBACK, FUSE, STRIP, BYTE_LEVEL, KINDS };
    pare_tok_decoder *const d = &t->decoder;
    if (strcmp(type, "Metaspace") == 0)
        return parse_metaspace(cx, t, v);
    d->given = true;
    const size_t stage = d->byte_level      ? KINDS
                         : d->metaspace     ? KINDS
                         : d->strip.at      ? KINDS
                         : d->fuse          ? STRIP
                         : d->byte_fallback ? FUSE
                                            : REPLACE;
    size_t kind = 0;
    while (kind < KINDS && strcmp(type, order[kind]) != 0)
        kind++;
    if (kind == KINDS)
        return pare_fail(cx, PARE_ENOTSUP,
                         "decoder '%.60s' is not supported (Sequence, ByteLevel, Metaspace, "
                         "Replace, ByteFallback, Fuse, Strip are)",
                         type);
    if (kind < stage || (kind == STRIP && !d->fuse) ||
        (kind == BYTE_LEVEL && (stage != REPLACE || d->replaces)))
        return pare_fail(cx, PARE_ENOTSUP, "decoder '%s' at this place is not supported", type);
    d->byte_level = kind == BYTE_LEVEL;
    d->byte_fallback = d->byte_fallback || kind == BYTE_FALLBACK;
    d->fuse = d->fuse || kind == FUSE;
    if (kind == STRIP)
        return parse_strip(cx, t, v);
    if (kind != REPLACE)
        return PARE_OK;
    if (d->replaces == PARE_TOK_STEPS_MAX)
        return pare_fail(cx, PARE_ENOTSUP, "decoder: more than %d Replace", PARE_TOK_STEPS_MAX);
    if (pare_json_get(pare_json_get(v, "pattern"), "Regex"))
        return pare_fail(cx, PARE_ENOTSUP, "decoder: Replace with a Regex is not supported");
    return pare__parse_replace(cx, t, v, "decoder", &d->replace[d->replaces++]);
}

pare_status pare__parse_decoder(pare_ctx *cx, pare_tokenizer *t, const pare_json *v)
{
    const pare_json_type json = pare_json_type_of(v);
    if (json == PARE_JSON_ABSENT || json == PARE_JSON_NULL)
        return PARE_OK;
    const char *const type = pare__type_of(v);
    if (strcmp(type, "Sequence") != 0)
        return parse_one(cx, t, v, type);
    const pare_json *const list = pare_json_get(v, "decoders");
    if (pare_json_type_of(list) != PARE_JSON_ARRAY)
        return pare_fail(cx, PARE_EFORMAT, "decoder.decoders: an array expected");
    t->decoder.given = pare_json_count(list) == 0; /* joins tokens without a space */
    for (size_t i = 0; i < pare_json_count(list); i++)
        PARE_TRY(parse_one(cx, t, pare_json_at(list, i), pare__type_of(pare_json_at(list, i))));
    return PARE_OK;
}

typedef struct output {
    pare_arena keep, scratch;
    pare_tok_text text;
    bool peeled;
} output;

/* A token whose characters all stand for bytes gives those, any other its own text. */
static pare_status append_byte_level(const pare_tokenizer *t, output *o, pare_tok_slice token)
{
    bool alphabet = true;
    for (size_t i = 0; i < token.len && alphabet;) {
        uint32_t c;
        i += pare__utf8_read(token.at + i, &c);
        alphabet = c < 0x180 && t->text_byte[c] >= 0;
    }
    if (!alphabet)
        return pare__text_append(&o->text, token.at, token.len);
    for (size_t i = 0; i < token.len;) {
        uint32_t c;
        i += pare__utf8_read(token.at + i, &c);
        const char byte = (char)t->text_byte[c];
        PARE_TRY(pare__text_append(&o->text, &byte, 1));
    }
    return PARE_OK;
}

static int hex_digit(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    if (c >= 'a' && c <= 'f')
        return c - 'a' + 10;
    return c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

/* The byte of <0xXX>, -1 for any other token. */
static int fallback_byte(pare_tok_slice token)
{
    if (token.len != 6 || memcmp(token.at, "<0x", 3) != 0 || token.at[5] != '>')
        return -1;
    const int high = hex_digit(token.at[3]), low = hex_digit(token.at[4]);
    return high < 0 || low < 0 ? -1 : high * 16 + low;
}

static pare_status append_token(const pare_tokenizer *t, output *o, pare_tok_slice token,
                                bool first)
{
    const pare_tok_decoder *const d = &t->decoder;
    if (d->byte_level)
        return append_byte_level(t, o, token);
    const pare_tok_slice peel = d->peel;
    if (peel.at && o->text.len == 0 && !o->peeled && token.len >= peel.len &&
        memcmp(token.at, peel.at, peel.len) == 0) {
        token = (pare_tok_slice){token.at + peel.len, token.len - peel.len};
        o->peeled = !d->peel_each;
    }
    const pare_mark mark = pare_arena_mark(&o->scratch);
    for (size_t i = 0; i < d->replaces; i++) {
        pare_tok_step step = d->replace[i];
        if (first && d->mark_first)
            step.content.len = 0;
        PARE_TRY(pare__text_replace(&o->scratch, &step, token, &token));
    }
    const int value = d->byte_fallback ? fallback_byte(token) : -1;
    const char byte = (char)value;
    PARE_TRY(value >= 0 ? pare__text_append(&o->text, &byte, 1)
                        : pare__text_append(&o->text, token.at, token.len));
    pare_arena_rewind(&o->scratch, mark);
    return PARE_OK;
}

static void strip(const pare_tok_decoder *d, pare_tok_text *text)
{
    const pare_tok_slice what = d->strip;
    if (!what.at || !text->at)
        return;
    for (size_t i = 0; i < d->strip_start && text->len >= what.len; i++) {
        if (memcmp(text->at, what.at, what.len) != 0)
            break;
        text->at += what.len;
        text->len -= what.len;
    }
    for (size_t i = 0; i < d->strip_stop && text->len >= what.len; i++) {
        if (memcmp(text->at + text->len - what.len, what.at, what.len) != 0)
            break;
        text->len -= what.len;
    }
}

static const pare_tok_slice *text_of(const pare_tokenizer *t, int32_t id)
{
    const pare_tok_entry *const added = pare__vocab_by_id(&t->added_vocab, id);
    if (added)
        return &t->added[added - t->added_vocab.entries].shown;
    const pare_tok_entry *const entry = pare__vocab_by_id(&t->vocab, id);
    return entry ? &entry->text : NULL;
}

static pare_status decode(const pare_tokenizer *t, output *o, const int32_t *ids, size_t count)
{
    size_t tokens = 0;
    for (size_t i = 0; i < count; i++) {
        const pare_tok_slice *const token = text_of(t, ids[i]);
        if (!token)
            continue;
        if (tokens && !t->decoder.given)
            PARE_TRY(pare__text_append(&o->text, " ", 1));
        PARE_TRY(append_token(t, o, *token, tokens++ == 0));
    }
    strip(&t->decoder, &o->text);
    return PARE_OK;
}

pare_status pare_tokenizer_decode(pare_ctx *cx, const pare_tokenizer *t, pare_arena *a,
                                  const int32_t *ids, size_t count, char **text, size_t *len)
{
    output o = {.keep = {.cx = cx}, .scratch = {.cx = cx}};
    o.text.arena = &o.keep;
    pare_status s = decode(t, &o, ids, count);
    if (s == PARE_OK) {
        *text = pare_arena_text(a, o.text.at ? o.text.at : "", o.text.len);
        *len = o.text.len;
        s = *text ? PARE_OK : PARE_ENOMEM;
    }
    pare_arena_release(&o.scratch);
    pare_arena_release(&o.keep);
    return s;
}
