#include "formats/tokenizer.h"

#include <string.h>

#include "formats/tokenizer_encode_internal.h"

enum { FILE_CAP = 256 * 1024 * 1024 };

static pare_status parse_document(pare_ctx *cx, pare_tokenizer *t, const pare_tok_source *from,
                                  const pare_json *doc)
{
    const char *const version = pare_json_text(pare_json_get(doc, "version"), NULL);
    if (version && strcmp(version, "1.0") != 0)
        return pare_fail(cx, PARE_ENOTSUP, "version '%.60s' is not supported (1.0 is)", version);
    PARE_TRY(pare__parse_stages(cx, t, doc));
    PARE_TRY(pare__parse_model(cx, t, doc));
    PARE_TRY(pare__parse_added(cx, t, doc, from->more, from->count));
    PARE_TRY(pare__parse_decoder(cx, t, pare_json_get(doc, "decoder")));
    return pare__parse_post(cx, t, pare_json_get(doc, "post_processor"));
}

static pare_status make(pare_ctx *cx, pare_tokenizer **out)
{
    pare_arena arena;
    const pare_status s = pare_arena_init(cx, &arena, 0);
    pare_tokenizer *const t = s == PARE_OK ? PARE_NEW(&arena, pare_tokenizer, 1) : NULL;
    if (!t) {
        pare_arena_release(&arena);
        return PARE_ENOMEM;
    }
    t->cx = cx;
    t->arena = arena;
    t->unk = t->bos = t->eos = -1;
    *out = t;
    return PARE_OK;
}

static pare_status read_source(pare_ctx *cx, pare_tokenizer *t, const pare_tok_source *from)
{
    if (from->is_model) {
        const pare_status s =
            pare__model_read(cx, t, from->text, from->len, from->more, from->count);
        return s == PARE_OK ? s : pare_fail_context(cx, s, "%s", from->name);
    }
    pare_json *doc = NULL;
    PARE_TRY(pare_json_parse(cx, from->name, from->text, from->len, FILE_CAP, &doc));
    const pare_status s = parse_document(cx, t, from, doc);
    if (s != PARE_OK)
        (void)pare_fail_context(cx, s, "%s", from->name);
    pare_json_free(doc);
    return s;
}

pare_status pare__tokenizer_read(pare_ctx *cx, const pare_tok_source *from, pare_tokenizer **out)
{
    pare_tokenizer *t = NULL;
    PARE_TRY(make(cx, &t));
    const pare_status s = read_source(cx, t, from);
    if (s != PARE_OK) {
        pare_tokenizer_free(t);
        return s;
    }
    *out = t;
    return PARE_OK;
}

pare_status pare_tokenizer_parse(pare_ctx *cx, const char *name, const char *text, size_t len,
                                 pare_tokenizer **out)
{
    const pare_tok_source from = {.name = name, .text = text, .len = len};
    return pare__tokenizer_read(cx, &from, out);
}

pare_status pare_tokenizer_parse_model(pare_ctx *cx, const char *name, const void *bytes,
                                       size_t len, pare_tokenizer **out)
{
    const pare_tok_source from = {.name = name, .text = bytes, .len = len, .is_model = true};
    return pare__tokenizer_read(cx, &from, out);
}

void pare_tokenizer_free(pare_tokenizer *t)
{
    if (!t)
        return;
    pare_arena arena = t->arena; /* holds *t */
    pare_arena_release(&arena);
}

size_t pare_tokenizer_vocab(const pare_tokenizer *t)
{
    return t->size;
}

int32_t pare_tokenizer_bos(const pare_tokenizer *t)
{
    return t->bos;
}

int32_t pare_tokenizer_eos(const pare_tokenizer *t)
{
    return t->eos;
}

const pare_tok_around *pare_tokenizer_around(const pare_tokenizer *t)
{
    return &t->around;
}

/* A part of the text between added tokens that are matched as written: normalized, cut at the added
 * tokens that are matched after that, and split into words. */
static pare_status encode_segment(pare_tok_encoder *e, pare_tok_slice text, bool first)
{
    const pare_tokenizer *const t = e->t;
    pare_tok_cutter c = {.trie = &t->normalized_trie, .held.id = -1};
    bool cut = false;
    PARE_TRY(pare__text_normalize(t, &e->scratch, text, &c.text, &cut));
    if (c.text.len > INT32_MAX)
        return pare_fail(e->cx, PARE_ENOTSUP, "tokenizer: %zu bytes of text at once, at most %ld",
                         c.text.len, (long)INT32_MAX);
    e->start = first && !cut ? c.text.at : NULL;
    for (;;) {
        pare_tok_piece p;
        bool more;
        PARE_TRY(pare__cutter_next(e, &c, &p, &more));
        if (!more)
            return PARE_OK;
        if (p.id >= 0)
            PARE_TRY(pare__encode_id(e, p.id));
        else
            PARE_TRY(
                pare__split_words(e, 0, (pare_tok_slice){c.text.at + p.begin, p.end - p.begin}));
    }
}

static pare_status encode(pare_tok_encoder *e, pare_tok_slice text)
{
    pare_tok_cutter c = {.trie = &e->t->raw_trie, .held.id = -1};
    PARE_TRY(pare__split_begin(e, text.len));
    PARE_TRY(pare__text_clean(&e->keep, text, &c.text));
    for (;;) {
        pare_tok_piece p;
        bool more;
        PARE_TRY(pare__cutter_next(e, &c, &p, &more));
        if (!more)
            return PARE_OK;
        const pare_mark mark = pare_arena_mark(&e->scratch);
        if (p.id >= 0)
            PARE_TRY(pare__encode_id(e, p.id));
        else
            PARE_TRY(encode_segment(e, (pare_tok_slice){c.text.at + p.begin, p.end - p.begin},
                                    p.begin == 0));
        pare_arena_rewind(&e->scratch, mark);
    }
}

static pare_status run(pare_ctx *cx, const pare_tokenizer *t, pare_arena *a, pare_tok_slice text,
                       bool cuts, int32_t **ids, size_t *count)
{
    pare_tok_encoder e = {
        .cx = cx, .t = t, .keep = {.cx = cx}, .scratch = {.cx = cx}, .cuts = cuts};
    const size_t room = text.len < SIZE_MAX - 64 ? text.len + 64 : text.len;
    int32_t *const own = pare_arena_take_raw(a, room, sizeof *own);
    e.ids = own;
    e.ids_capacity = own ? room : 0;
    pare_status s = own ? encode(&e, text) : PARE_ENOMEM;
    if (s == PARE_OK) {
        *ids = e.ids == own ? own : PARE_NEW(a, int32_t, e.count);
        *count = e.count;
        if (*ids && *ids != own)
            memcpy(*ids, e.ids, e.count * sizeof **ids);
        s = *ids ? PARE_OK : PARE_ENOMEM;
    }
    pare__split_end(&e);
    pare_arena_release(&e.scratch);
    pare_arena_release(&e.keep);
    return s;
}

pare_status pare_tokenizer_encode(pare_ctx *cx, const pare_tokenizer *t, pare_arena *a,
                                  const char *text, size_t len, int32_t **ids, size_t *count)
{
    return run(cx, t, a, (pare_tok_slice){text, len}, false, ids, count);
}

pare_status pare__tokenizer_cut(pare_ctx *cx, const pare_tokenizer *t, pare_arena *a,
                                const char *text, size_t len, int32_t **lengths, size_t *count)
{
    return run(cx, t, a, (pare_tok_slice){text, len}, true, lengths, count);
}
