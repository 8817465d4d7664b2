/* The tokenizer of a model in the metadata of a GGUF file: "gpt2" for byte-level BPE, "llama" for
 * pieces over marked spaces. Merges of the latter become scores: minus the rank of the first merge
 * that makes a piece, so that pairs join in the same order. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "formats/export_gguf.h"
#include "formats/gguf_internal.h"
#include "formats/tokenizer_internal.h"
#include "runtime/small.h"

enum { CHAT_NAME = 64, CHAT_KEY = CHAT_NAME + 32 };

typedef struct writing {
    pare_ctx *cx;
    pare_arena *arena;
    const pare_checkpoint *ck;
    const pare_config *c;
    const pare_tokenizer *t;
    pare_gguf_writer *w;
    bool sentences;
    float *score; /* [c->vocab] */
    pare_tok_merge *merge;
    size_t merges;
} writing;

static pare_status refuse(const writing *x, const char *what)
{
    return pare_fail(x->cx, PARE_ENOTSUP, "%s: gguf: %s, which the format has no word for",
                     x->ck->path, what);
}

static const pare_tok_added *added_of(const pare_tokenizer *t, int32_t id)
{
    for (size_t i = 0; i < t->added_count; i++)
        if (t->added[i].id == id)
            return &t->added[i];
    return NULL;
}

static bool is_byte(const writing *x, const pare_tok_entry *e)
{
    bool is = false;
    for (size_t b = 0; x->sentences && x->t->byte_fallback && b < 256 && !is; b++)
        is = x->t->fallback_ids[b] == e->id;
    return is;
}

static int32_t type_of(const writing *x, const pare_tok_entry *e, const pare_tok_added *added)
{
    const bool unknown = x->sentences && (e ? e->id : added->id) == x->t->unk;
    if (unknown)
        return PARE_TOK_UNKNOWN;
    if (added)
        return added->special ? PARE_TOK_CONTROL : PARE_TOK_USER;
    if (x->t->model == PARE_TOK_SCORES)
        return (int32_t)pare__pieces_type(&x->t->vocab, &x->t->pieces, e);
    return is_byte(x, e) ? PARE_TOK_BYTE : PARE_TOK_NORMAL;
}

/* Texts of all ids; what no token has is called [PADn], as converters do. */
static void put_tokens(const writing *x)
{
    pare_gguf_put_array(x->w, "tokenizer.ggml.tokens", PARE_GGUF_TEXT, x->c->vocab);
    for (size_t i = 0; i < x->c->vocab; i++) {
        const pare_tok_added *const added = added_of(x->t, (int32_t)i);
        const pare_tok_entry *const e = pare__vocab_by_id(&x->t->vocab, (int32_t)i);
        char pad[32];
        const int len = snprintf(pad, sizeof pad, "[PAD%zu]", i);
        if (added)
            pare_gguf_add_text(x->w, added->content.at, added->content.len);
        else if (e)
            pare_gguf_add_text(x->w, e->text.at, e->text.len);
        else
            pare_gguf_add_text(x->w, pad, (size_t)len);
    }
    pare_gguf_put_array(x->w, "tokenizer.ggml.token_type", PARE_GGUF_I32, x->c->vocab);
    for (size_t i = 0; i < x->c->vocab; i++) {
        const pare_tok_added *const added = added_of(x->t, (int32_t)i);
        const pare_tok_entry *const e = pare__vocab_by_id(&x->t->vocab, (int32_t)i);
        pare_gguf_add_i32(x->w, added || e ? type_of(x, e, added) : PARE_TOK_UNUSED);
    }
}

static int by_rank(const void *a, const void *b)
{
    const pare_tok_merge *const x = a, *const y = b;
    return x->rank < y->rank ? -1 : x->rank > y->rank;
}

static pare_status take_merges(writing *x)
{
    const pare_tok_merges *const m = &x->t->merges;
    const size_t slots = m->slots ? m->mask + 1 : 0;
    x->merge = PARE_NEW(x->arena, pare_tok_merge, slots);
    if (!x->merge)
        return PARE_ENOMEM;
    for (size_t i = 0; i < slots; i++)
        if (m->slots[i].left >= 0)
            x->merge[x->merges++] = m->slots[i];
    if (x->merges > 1)
        qsort(x->merge, x->merges, sizeof *x->merge, by_rank);
    return PARE_OK;
}

static pare_status put_merges(const writing *x)
{
    pare_gguf_put_array(x->w, "tokenizer.ggml.merges", PARE_GGUF_TEXT, x->merges);
    for (size_t i = 0; i < x->merges; i++) {
        const pare_tok_entry *const l = pare__vocab_by_id(&x->t->vocab, x->merge[i].left);
        const pare_tok_entry *const r = pare__vocab_by_id(&x->t->vocab, x->merge[i].right);
        if (!l || !r)
            return refuse(x, "a merge of its tokenizer is of a token without text");
        char *const text = PARE_NEW(x->arena, char, l->text.len + r->text.len + 1);
        if (!text)
            return PARE_ENOMEM;
        memcpy(text, l->text.at, l->text.len);
        text[l->text.len] = ' ';
        memcpy(text + l->text.len + 1, r->text.at, r->text.len);
        pare_gguf_add_text(x->w, text, l->text.len + r->text.len + 1);
    }
    return PARE_OK;
}

static pare_status put_scores(writing *x)
{
    x->score = PARE_NEW(x->arena, float, x->c->vocab);
    if (!x->score)
        return PARE_ENOMEM;
    for (size_t i = x->merges; i > 0; i--) /* the first merge of a piece has the last word */
        if ((size_t)x->merge[i - 1].id < x->c->vocab)
            x->score[x->merge[i - 1].id] = -(float)(i - 1);
    for (size_t i = 0; x->t->model == PARE_TOK_SCORES && i < x->t->vocab.count; i++) {
        const int32_t id = x->t->vocab.entries[i].id;
        if (id >= 0 && (size_t)id < x->c->vocab)
            x->score[id] = (float)x->t->pieces.score[i];
    }
    pare_gguf_put_array(x->w, "tokenizer.ggml.scores", PARE_GGUF_F32, x->c->vocab);
    for (size_t i = 0; i < x->c->vocab; i++)
        pare_gguf_add_f32(x->w, x->score[i]);
    return PARE_OK;
}

static pare_status put_pattern(const writing *x)
{
    const pare__gguf_pre *p;
    PARE_TRY(pare__gguf_pre_choose(x->cx, x->ck->path, x->t, &p));
    pare_gguf_put_text(x->w, "tokenizer.ggml.pre", p->names, pare__gguf_pre_first(p));
    return PARE_OK;
}

static bool has_prefix(const pare_tokenizer *t)
{
    bool prefix = t->sentence.dummy_prefix;
    for (size_t i = 0; i < t->step_count; i++)
        prefix |= t->steps[i].kind == PARE_TOK_PREPEND;
    for (size_t i = 0; i < t->stage_count; i++)
        prefix |= t->stages[i].kind == PARE_TOK_MARK && t->stages[i].prepend != PARE_TOK_NEVER;
    return prefix;
}

static void put_id(const writing *x, const char *key, int64_t id)
{
    if (id >= 0)
        pare_gguf_put_u32(x->w, key, (uint32_t)id);
}

/* Generation ends with any of these: eos_token of the tokenizer first, as the converter of
 * llama.cpp writes it, then those that the model names. */
static pare_status put_ends(const writing *x)
{
    static const char *const key[] = {"tokenizer.ggml.eos_token_id", "tokenizer.ggml.eot_token_id",
                                      "tokenizer.ggml.eom_token_id"};
    int64_t end[1 + sizeof x->c->eos_id / sizeof x->c->eos_id[0]];
    size_t ends = 0;
    if (x->t->eos >= 0)
        end[ends++] = x->t->eos;
    for (size_t i = 0; i < x->c->eos_ids; i++) {
        size_t same = 0;
        while (same < ends && end[same] != x->c->eos_id[i])
            same++;
        if (same == ends)
            end[ends++] = x->c->eos_id[i];
    }
    if (ends > sizeof key / sizeof *key)
        return pare_fail(x->cx, PARE_ENOTSUP,
                         "%s: gguf: generation ends with any of %zu tokens, which the format has 3 "
                         "words for; name fewer as eos_token_id of generation_config.json",
                         x->ck->path, ends);
    for (size_t i = 0; i < ends; i++)
        put_id(x, key[i], end[i]);
    return PARE_OK;
}

static pare_status put_ids(const writing *x)
{
    const pare_tok_around *const a = &x->t->around;
    const int32_t bos = a->fronts ? a->front[0] : x->t->bos;
    if (a->fronts > 1 || a->behinds > 1 || (a->behinds && a->behind[0] != x->t->eos))
        return refuse(x, "tokens that its tokenizer puts around a text, other than one BOS in "
                         "front and one EOS behind");
    put_id(x, "tokenizer.ggml.bos_token_id", bos >= 0 ? bos : x->c->bos_id);
    PARE_TRY(put_ends(x));
    if (x->sentences) {
        put_id(x, "tokenizer.ggml.unknown_token_id", x->t->unk);
        pare_gguf_put_bool(x->w, "tokenizer.ggml.add_space_prefix", has_prefix(x->t));
    }
    pare_gguf_put_bool(x->w, "tokenizer.ggml.add_bos_token", a->fronts);
    pare_gguf_put_bool(x->w, "tokenizer.ggml.add_eos_token", a->behinds);
    return PARE_OK;
}

static void put_chat(const writing *x, const pare_json *template, const char *name)
{
    char key[CHAT_KEY];
    size_t len;
    const char *const text = pare_json_text(template, &len);
    (void)snprintf(key, sizeof key, "tokenizer.chat_template%s%s", name[0] ? "." : "", name);
    if (text)
        pare_gguf_put_text(x->w, key, text, len);
}

/* The name of a template in the key that it gets: other characters than letters and digits become
 * underlines, as the converter of llama.cpp has it. False where there is no template. */
static bool name_chat(const pare_json *choice, char name[CHAT_NAME])
{
    const char *const is = pare_json_text(pare_json_get(choice, "name"), NULL);
    const bool has = is && is[0] && pare_json_text(pare_json_get(choice, "template"), NULL);
    (void)snprintf(name, CHAT_NAME, "%s", has ? is : "");
    for (char *c = name; *c; c++)
        if (!pare_is_digit(*c) && !((*c | 0x20) >= 'a' && (*c | 0x20) <= 'z'))
            *c = '_';
    return has;
}

/* Of templates whose names come to one key the last counts, as in a list read in order. */
static bool is_replaced(const pare_json *list, size_t at, const char *name)
{
    char other[CHAT_NAME];
    for (size_t i = at + 1; i < pare_json_count(list); i++)
        if (name_chat(pare_json_at(list, i), other) && strcmp(name, other) == 0)
            return true;
    return false;
}

/* [{"name": NAME, "template": TEXT}, ...]: engines take the one called default unless they are
 * asked for another by its name. */
static void put_templates(const writing *x, const pare_json *list)
{
    static const char usual[] = "default";
    char name[CHAT_NAME];
    size_t others = 0;
    for (size_t i = 0; i < pare_json_count(list); i++) {
        const pare_json *const choice = pare_json_at(list, i);
        const bool has = name_chat(choice, name) && !is_replaced(list, i, name),
                   is_usual = strcmp(name, usual) == 0;
        if (has)
            put_chat(x, pare_json_get(choice, "template"), is_usual ? "" : name);
        others += has && !is_usual;
    }
    if (others == 0)
        return;
    pare_gguf_put_array(x->w, "tokenizer.chat_templates", PARE_GGUF_TEXT, others);
    for (size_t i = 0; i < pare_json_count(list); i++)
        if (name_chat(pare_json_at(list, i), name) && strcmp(name, usual) != 0 &&
            !is_replaced(list, i, name))
            pare_gguf_add_text(x->w, name, strlen(name));
}

static pare_status put_template(const writing *x)
{
    char *text;
    size_t len;
    pare_json *doc = NULL;
    PARE_TRY(pare_checkpoint_companion(x->ck, x->arena, "chat_template.jinja", &text, &len));
    if (text) {
        pare_gguf_put_text(x->w, "tokenizer.chat_template", text, len);
        return PARE_OK;
    }
    PARE_TRY(pare_checkpoint_companion(x->ck, x->arena, "tokenizer_config.json", &text, &len));
    if (!text)
        return PARE_OK;
    PARE_TRY(pare_json_parse(x->cx, "tokenizer_config.json", text, len, len, &doc));
    const pare_json *const chat = pare_json_get(doc, "chat_template");
    if (pare_json_type_of(chat) == PARE_JSON_ARRAY)
        put_templates(x, chat);
    else
        put_chat(x, chat, "");
    pare_json_free(doc);
    return PARE_OK;
}

static pare_status put_all(writing *x)
{
    const pare_tokenizer *const t = x->t;
    const char *const model = x->sentences ? "llama" : "gpt2";
    if (t->model == PARE_TOK_UNIGRAM || t->step_count > 2)
        return refuse(x, t->step_count > 2 ? "how its tokenizer changes texts"
                                           : "a tokenizer that chooses the best sum of scores");
    if (t->size > x->c->vocab)
        return pare_fail(x->cx, PARE_ENOTSUP,
                         "%s: gguf: its tokenizer has %zu tokens, the embedding %zu rows",
                         x->ck->path, t->size, x->c->vocab);
    pare_gguf_put_text(x->w, "tokenizer.ggml.model", model, strlen(model));
    if (x->sentences)
        pare_gguf_put_text(x->w, "tokenizer.ggml.pre", "default", 7);
    else
        PARE_TRY(put_pattern(x));
    put_tokens(x);
    PARE_TRY(take_merges(x));
    PARE_TRY(x->sentences ? put_scores(x) : put_merges(x));
    PARE_TRY(put_ids(x));
    return put_template(x);
}

pare_status pare_gguf_describe_tokenizer(pare_ctx *cx, pare_arena *scratch,
                                         const pare_checkpoint *ck, const pare_config *c,
                                         pare_gguf_writer *w, bool *has)
{
    pare_tokenizer *t;
    const pare_status looked = pare_checkpoint_has_tokenizer(ck, has);
    if (looked == PARE_ENOTSUP) { /* an artifact of it has none */
        pare_ctx_clear(cx);
        *has = false;
    } else {
        PARE_TRY(looked);
    }
    if (!*has) {
        pare_gguf_put_text(w, "tokenizer.ggml.model", "none", 4);
        return PARE_OK;
    }
    PARE_TRY(pare_checkpoint_tokenizer(ck, &t));
    writing x = {.cx = cx, .arena = scratch, .ck = ck, .c = c, .t = t, .w = w};
    x.sentences = !pare__spells_bytes(t);
    const pare_status s = put_all(&x);
    pare_tokenizer_free(t);
    return s;
}
