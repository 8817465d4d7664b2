/* The tokenizer in the metadata of a GGUF file, written as tokenizer.json and
 * tokenizer_config.json.
 *
 * "gpt2" is byte-level BPE: tokens, merges, and the name of the pattern that cuts words. "llama" is
 * the BPE of SentencePiece: pieces with scores, where two neighbours join when their text is a
 * piece, the best score first. As merges that is every way to cut a piece into two pieces, in order
 * of falling score. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "formats/gguf_internal.h"
#include "formats/tokenizer_internal.h"

enum { UNKNOWN = 2, CONTROL = 3, USER = 4, NORMAL = 1, TOKENS_MAX = 1 << 24 };
enum { PIECE_MAX = 1024 }; /* bytes of a piece, which is cut in two at every character */

static const char advice[] = "put the model's tokenizer.json beside the file, or name it with "
                             "--tokenizer";
static const char mark[] = "\xe2\x96\x81"; /* U+2581, stands for a space */

typedef struct piece {
    const char *text; /* NUL behind */
    size_t len;
    double score;
    int64_t type;
} piece;

typedef struct vocabulary {
    pare_ctx *cx;
    pare_arena *arena;
    const char *name;
    const pare_gguf *g;
    pare_json_writer *w;
    piece *token;
    size_t tokens;
    const piece **sorted; /* by text */
    bool sentences;       /* "llama" */
} vocabulary;

static bool says(const vocabulary *v, const char *key, const char *word)
{
    const char *text;
    size_t len;
    return pare_gguf_text(pare_gguf_find(v->g, key), &text, &len) && len == strlen(word) &&
           memcmp(text, word, len) == 0;
}

/* The row of the table, NULL when the file names none or one that is not known. */
static const pare__gguf_pre *pre_of(const vocabulary *v)
{
    const char *text;
    size_t len;
    return pare_gguf_text(pare_gguf_find(v->g, "tokenizer.ggml.pre"), &text, &len)
               ? pare__gguf_pre_named(text, len)
               : NULL;
}

static pare_status need_pre(const vocabulary *v, const pare__gguf_pre **out)
{
    const char *text = NULL;
    size_t len = 0;
    *out = pre_of(v);
    if (*out && !(*out)->refused)
        return PARE_OK;
    if (!pare_gguf_text(pare_gguf_find(v->g, "tokenizer.ggml.pre"), &text, &len))
        return pare_fail(v->cx, PARE_ENOTSUP,
                         "%s: tokenizer.ggml.pre is missing, so how the tokenizer cuts words is "
                         "not known; %s",
                         v->name, advice);
    return pare_fail(v->cx, PARE_ENOTSUP, "%s: tokenizer.ggml.pre %.*s is not supported%s%s; %s",
                     v->name, len < 64 ? (int)len : 64, text, *out ? ": " : "",
                     *out ? (*out)->refused : "", advice);
}

/* UTF-8 without NUL: what JSON can hold. */
static bool is_text(const char *text, size_t len)
{
    bool valid = memchr(text, '\0', len) == NULL;
    for (size_t i = 0; valid && i < len;)
        i += pare__utf8_length(text + i, len - i, &valid);
    return valid;
}

/* Texts in one piece, each with a NUL behind it: the lengths in the file leave room for that. */
static pare_status read_tokens(vocabulary *v)
{
    const pare_gguf_value *const list = pare_gguf_find(v->g, "tokenizer.ggml.tokens");
    const pare_gguf_value *const scores = pare_gguf_find(v->g, "tokenizer.ggml.scores");
    const pare_gguf_value *const types = pare_gguf_find(v->g, "tokenizer.ggml.token_type");
    pare_gguf_texts it = {0};
    const char *text;
    size_t len;
    if (!list || !list->array || list->kind != PARE_GGUF_TEXT || list->count > TOKENS_MAX)
        return pare_fail(v->cx, PARE_EFORMAT,
                         "%s: tokenizer.ggml.tokens is missing or not a list of texts", v->name);
    v->token = PARE_NEW(v->arena, piece, (size_t)list->count);
    char *at = pare_arena_take(v->arena, (size_t)list->bytes, 1);
    if (!v->token || !at)
        return PARE_ENOMEM;
    for (; pare_gguf_next(list, &it, &text, &len); at += len + 1) {
        piece *const p = &v->token[v->tokens];
        memcpy(at, text, len);
        *p = (piece){.text = at, .len = len, .type = NORMAL};
        if (!is_text(text, len))
            return pare_fail(v->cx, PARE_EFORMAT, "%s: token %zu is not UTF-8, or holds a NUL",
                             v->name, v->tokens);
        if ((types && !pare_gguf_integer(types, v->tokens, &p->type)) ||
            (v->sentences && !pare_gguf_number(scores, v->tokens, &p->score)))
            return pare_fail(v->cx, PARE_EFORMAT, "%s: token %zu has no %s", v->name, v->tokens,
                             types ? "type or score" : "score");
        if (!isfinite(p->score))
            return pare_fail(v->cx, PARE_EFORMAT, "%s: the score of token %zu is not finite",
                             v->name, v->tokens);
        if (v->sentences && p->type == NORMAL && len > PIECE_MAX)
            return pare_fail(v->cx, PARE_ENOTSUP,
                             "%s: token %zu of %zu bytes, pieces have at most %d", v->name,
                             v->tokens, len, PIECE_MAX);
        v->tokens++;
    }
    return PARE_OK;
}

static int by_text(const void *a, const void *b)
{
    return strcmp((*(const piece *const *)a)->text, (*(const piece *const *)b)->text);
}

static pare_status sort_tokens(vocabulary *v)
{
    v->sorted = PARE_NEW(v->arena, const piece *, v->tokens);
    if (!v->sorted)
        return PARE_ENOMEM;
    for (size_t i = 0; i < v->tokens; i++)
        v->sorted[i] = &v->token[i];
    if (v->tokens > 1)
        qsort(v->sorted, v->tokens, sizeof *v->sorted, by_text);
    for (size_t i = 1; i < v->tokens; i++)
        if (by_text(&v->sorted[i - 1], &v->sorted[i]) == 0)
            return pare_fail(v->cx, PARE_ENOTSUP,
                             "%s: tokens %td and %td have the same text, which is not supported; "
                             "%s",
                             v->name, v->sorted[i - 1] - v->token, v->sorted[i] - v->token, advice);
    return PARE_OK;
}

/* NULL when there is no such normal piece. */
static const piece *find_piece(const vocabulary *v, const char *text, size_t len)
{
    size_t low = 0, high = v->tokens;
    while (low < high) {
        const size_t mid = low + (high - low) / 2;
        const int order = strncmp(v->sorted[mid]->text, text, len);
        if (order < 0 || (order == 0 && v->sorted[mid]->len < len))
            low = mid + 1;
        else
            high = mid;
    }
    const piece *const p = low < v->tokens ? v->sorted[low] : NULL;
    return p && p->len == len && memcmp(p->text, text, len) == 0 && p->type == NORMAL ? p : NULL;
}

/* Two pieces that together are a third one. */
typedef struct merge {
    const piece *left, *right, *whole;
} merge;

static size_t characters(const piece *p)
{
    size_t n = 0;
    for (size_t i = 0; i < p->len; i++)
        n += ((unsigned char)p->text[i] & 0xc0) != 0x80;
    return n;
}

/* Best score first; then longer parts; then the order of the vocabulary. */
static int by_score(const void *a, const void *b)
{
    const merge *const x = a, *const y = b;
    if (x->whole->score != y->whole->score)
        return x->whole->score > y->whole->score ? -1 : 1;
    const size_t lx = characters(x->left), ly = characters(y->left);
    if (lx != ly)
        return lx > ly ? -1 : 1;
    const size_t rx = characters(x->right), ry = characters(y->right);
    if (rx != ry)
        return rx > ry ? -1 : 1;
    if (x->whole != y->whole)
        return x->whole < y->whole ? -1 : 1;
    return x->left < y->left ? -1 : x->left > y->left;
}

/* Cuts every normal piece in two; with `out` NULL only counts. */
static size_t cut_pieces(const vocabulary *v, merge *out)
{
    size_t count = 0;
    for (size_t t = 0; t < v->tokens; t++) {
        const piece *const p = &v->token[t];
        for (size_t i = 1; p->type == NORMAL && i < p->len; i++) {
            if (((unsigned char)p->text[i] & 0xc0) == 0x80)
                continue;
            const piece *const left = find_piece(v, p->text, i);
            const piece *const right = left ? find_piece(v, p->text + i, p->len - i) : NULL;
            if (!right)
                continue;
            if (out)
                out[count] = (merge){left, right, p};
            count++;
        }
    }
    return count;
}

static void put_pair(const vocabulary *v, const char *left, const char *right)
{
    pare_json_open_array(v->w, NULL);
    pare_json_put_text(v->w, NULL, left);
    pare_json_put_text(v->w, NULL, right);
    pare_json_close(v->w);
}

static pare_status put_cuts(vocabulary *v)
{
    const size_t count = cut_pieces(v, NULL);
    merge *const all = PARE_NEW(v->arena, merge, count);
    if (!all)
        return PARE_ENOMEM;
    (void)cut_pieces(v, all);
    if (count > 1)
        qsort(all, count, sizeof *all, by_score);
    for (size_t i = 0; i < count; i++)
        put_pair(v, all[i].left->text, all[i].right->text);
    return PARE_OK;
}

/* "left right", as the file has them. */
static pare_status put_merges(const vocabulary *v)
{
    const pare_gguf_value *const list = pare_gguf_find(v->g, "tokenizer.ggml.merges");
    pare_gguf_texts it = {0};
    const char *text;
    size_t len;
    if (!list || list->kind != PARE_GGUF_TEXT)
        return pare_fail(v->cx, PARE_EFORMAT,
                         "%s: tokenizer.ggml.merges is missing or not a list of texts", v->name);
    while (pare_gguf_next(list, &it, &text, &len)) {
        const pare_mark here = pare_arena_mark(v->arena);
        char *const copy = pare_arena_text(v->arena, text, len);
        char *const space = copy && len > 0 ? strchr(copy + 1, ' ') : NULL;
        if (!copy)
            return PARE_ENOMEM;
        if (!space || !is_text(text, len))
            return pare_fail(v->cx, PARE_EFORMAT,
                             "%s: tokenizer.ggml.merges: entry %llu is not two texts", v->name,
                             (unsigned long long)it.index - 1);
        *space = '\0';
        put_pair(v, copy, space + 1);
        pare_arena_rewind(v->arena, here);
    }
    return PARE_OK;
}

static bool is_special(const piece *p)
{
    return p->type == UNKNOWN || p->type == CONTROL;
}

static void put_added(const vocabulary *v)
{
    pare_json_open_array(v->w, "added_tokens");
    for (size_t i = 0; i < v->tokens; i++) {
        const piece *const p = &v->token[i];
        if (!is_special(p) && p->type != USER)
            continue;
        pare_json_open_object(v->w, NULL);
        pare_json_put_integer(v->w, "id", (int64_t)i);
        pare_json_put_text(v->w, "content", p->text);
        pare_json_put_bool(v->w, "single_word", false);
        pare_json_put_bool(v->w, "lstrip", false);
        pare_json_put_bool(v->w, "rstrip", false);
        pare_json_put_bool(v->w, "normalized", false);
        pare_json_put_bool(v->w, "special", is_special(p));
        pare_json_close(v->w);
    }
    pare_json_close(v->w);
}

static void put_type(const vocabulary *v, const char *key, const char *type)
{
    pare_json_open_object(v->w, key);
    pare_json_put_text(v->w, "type", type);
}

static void put_replace(const vocabulary *v, const char *from, const char *to)
{
    put_type(v, NULL, "Replace");
    pare_json_open_object(v->w, "pattern");
    pare_json_put_text(v->w, "String", from);
    pare_json_close(v->w);
    pare_json_put_text(v->w, "content", to);
    pare_json_close(v->w);
}

/* Spaces become marks; one stands in front of the text unless the file says no. */
static void put_sentence_stages(const vocabulary *v)
{
    int64_t prefix = 1;
    (void)pare_gguf_integer(pare_gguf_find(v->g, "tokenizer.ggml.add_space_prefix"), 0, &prefix);
    put_type(v, "normalizer", "Sequence");
    pare_json_open_array(v->w, "normalizers");
    if (prefix) {
        put_type(v, NULL, "Prepend");
        pare_json_put_text(v->w, "prepend", mark);
        pare_json_close(v->w);
    }
    put_replace(v, " ", mark);
    pare_json_close(v->w);
    pare_json_close(v->w);
    pare_json_put_null(v->w, "pre_tokenizer");
    put_type(v, "decoder", "Sequence");
    pare_json_open_array(v->w, "decoders");
    put_replace(v, mark, " ");
    put_type(v, NULL, "ByteFallback");
    pare_json_close(v->w);
    put_type(v, NULL, "Fuse");
    pare_json_close(v->w);
    if (prefix) {
        put_type(v, NULL, "Strip");
        pare_json_put_text(v->w, "content", " ");
        pare_json_put_integer(v->w, "start", 1);
        pare_json_put_integer(v->w, "stop", 0);
        pare_json_close(v->w);
    }
    pare_json_close(v->w);
    pare_json_close(v->w);
}

static pare_status put_model(vocabulary *v, bool whole_words)
{
    const char *unknown = NULL;
    put_type(v, "model", "BPE");
    pare_json_put_null(v->w, "dropout");
    for (size_t i = 0; v->sentences && !unknown && i < v->tokens; i++)
        unknown = v->token[i].type == UNKNOWN ? v->token[i].text : NULL;
    if (unknown)
        pare_json_put_text(v->w, "unk_token", unknown);
    else
        pare_json_put_null(v->w, "unk_token");
    pare_json_put_null(v->w, "continuing_subword_prefix");
    pare_json_put_null(v->w, "end_of_word_suffix");
    pare_json_put_bool(v->w, "fuse_unk", v->sentences);
    pare_json_put_bool(v->w, "byte_fallback", v->sentences);
    pare_json_put_bool(v->w, "ignore_merges", whole_words);
    pare_json_open_object(v->w, "vocab");
    for (size_t i = 0; i < v->tokens; i++) /* merges may make special tokens, too */
        pare_json_put_integer(v->w, v->token[i].text, (int64_t)i);
    pare_json_close(v->w);
    pare_json_open_array(v->w, "merges");
    PARE_TRY(v->sentences ? put_cuts(v) : put_merges(v));
    pare_json_close(v->w);
    pare_json_close(v->w);
    return PARE_OK;
}

/* The id of a token that stands around every text, or -1. Without a word about it, BOS does where
 * the engine takes that for granted. */
static int64_t around(const vocabulary *v, const char *add, int64_t otherwise, const char *key)
{
    int64_t is = otherwise, id = -1;
    (void)pare_gguf_integer(pare_gguf_find(v->g, add), 0, &is);
    (void)pare_gguf_integer(pare_gguf_find(v->g, key), 0, &id);
    return is && id >= 0 && (uint64_t)id < v->tokens ? id : -1;
}

static int64_t front_of(const vocabulary *v)
{
    const pare__gguf_pre *const p = pre_of(v);
    return around(v, "tokenizer.ggml.add_bos_token", v->sentences || (p && p->how & PARE__PRE_BOS),
                  "tokenizer.ggml.bos_token_id");
}

static int64_t behind_of(const vocabulary *v)
{
    return around(v, "tokenizer.ggml.add_eos_token", 0, "tokenizer.ggml.eos_token_id");
}

static pare__gguf_named named(const vocabulary *v, int64_t id)
{
    return (pare__gguf_named){.id = id, .text = id >= 0 ? v->token[id].text : NULL};
}

static pare_status put_tokenizer(vocabulary *v)
{
    const pare__gguf_pre *p = NULL;
    if (!v->sentences)
        PARE_TRY(need_pre(v, &p));
    PARE_TRY(sort_tokens(v));
    pare_json_put_text(v->w, "version", "1.0");
    pare_json_put_null(v->w, "truncation");
    pare_json_put_null(v->w, "padding");
    put_added(v);
    if (v->sentences) {
        put_sentence_stages(v);
    } else {
        pare__gguf_put_pre(v->w, p);
        pare__gguf_put_bytes(v->w, "decoder", true);
    }
    pare__gguf_put_template(v->w, named(v, front_of(v)), named(v, behind_of(v)));
    return put_model(v, p && p->how & PARE__PRE_WHOLE);
}

/* A token that the metadata name by its id. */
static pare_status put_token(const vocabulary *v, const char *key, const char *word)
{
    int64_t id;
    if (!pare_gguf_integer(pare_gguf_find(v->g, key), 0, &id) || id < 0)
        return PARE_OK;
    if ((uint64_t)id >= v->tokens)
        return pare_fail(v->cx, PARE_EFORMAT, "%s: %s is %lld, but there are %zu tokens", v->name,
                         key, (long long)id, v->tokens);
    pare_json_put_text(v->w, word, v->token[id].text);
    return PARE_OK;
}

static pare_status put_settings(vocabulary *v)
{
    const pare__gguf_pre *const p = pre_of(v);
    int64_t context = 0;
    const char *chat;
    size_t len;
    pare_json_put_bool(v->w, "add_bos_token", front_of(v) >= 0);
    pare_json_put_bool(v->w, "add_eos_token", behind_of(v) >= 0);
    PARE_TRY(put_token(v, "tokenizer.ggml.bos_token_id", "bos_token"));
    PARE_TRY(put_token(v, "tokenizer.ggml.eos_token_id", "eos_token"));
    PARE_TRY(put_token(v, "tokenizer.ggml.unknown_token_id", "unk_token"));
    PARE_TRY(put_token(v, "tokenizer.ggml.padding_token_id", "pad_token"));
    if (pare_gguf_text(pare_gguf_find(v->g, "tokenizer.chat_template"), &chat, &len)) {
        char *const copy = pare_arena_text(v->arena, chat, len);
        if (!copy)
            return PARE_ENOMEM;
        if (!is_text(chat, len))
            return pare_fail(v->cx, PARE_EFORMAT, "%s: tokenizer.chat_template is not UTF-8",
                             v->name);
        pare_json_put_text(v->w, "chat_template", copy);
    }
    pare_json_put_bool(v->w, "clean_up_tokenization_spaces", p && p->how & PARE__PRE_CLEAN);
    if (pare__gguf_integer(v->g, "context_length", &context))
        pare_json_put_integer(v->w, "model_max_length", context);
    pare_json_put_text(v->w, "tokenizer_class", "PreTrainedTokenizerFast");
    return PARE_OK;
}

static pare_status write_text(vocabulary *v, bool settings, pare_arena *a, char **text, size_t *len)
{
    const char *written;
    PARE_TRY(read_tokens(v));
    PARE_TRY(pare_json_writer_new(v->cx, &v->w));
    pare_json_open_object(v->w, NULL);
    pare_status s = settings ? put_settings(v) : put_tokenizer(v);
    if (s == PARE_OK) {
        pare_json_close(v->w);
        s = pare_json_writer_finish(v->w, &written, len);
    }
    if (s == PARE_OK && !(*text = pare_arena_text(a, written, *len)))
        s = PARE_ENOMEM;
    pare_json_writer_free(v->w);
    return s;
}

pare_status pare__gguf_tokenizer(pare_ctx *cx, pare_arena *a, const char *name, const pare_gguf *g,
                                 bool settings, char **text, size_t *len)
{
    static const char key[] = "tokenizer.ggml.model";
    vocabulary v = {.cx = cx, .name = name, .g = g};
    const char *model;
    size_t model_len;
    *text = NULL;
    *len = 0;
    if (!pare_gguf_text(pare_gguf_find(g, key), &model, &model_len) || says(&v, key, "none") ||
        says(&v, key, "no_vocab"))
        return PARE_OK;
    v.sentences = says(&v, key, "llama");
    if (!v.sentences && !says(&v, key, "gpt2"))
        return pare_fail(cx, PARE_ENOTSUP, "%s: %s %.*s is not supported (llama and gpt2 are)",
                         name, key, model_len < 64 ? (int)model_len : 64, model);
    pare_arena scratch;
    pare_status s = pare_arena_init(cx, &scratch, 0);
    v.arena = &scratch;
    if (s == PARE_OK)
        s = write_text(&v, settings, a, text, len);
    pare_arena_release(&scratch);
    return s;
}

pare_status pare__gguf_companion(const pare_checkpoint *ck, pare_arena *a, const char *name,
                                 char **text, size_t *len)
{
    const bool settings = strcmp(name, "tokenizer_config.json") == 0;
    pare_arena scratch;
    pare_gguf g;
    *text = NULL;
    *len = 0;
    if (!settings && strcmp(name, "tokenizer.json") != 0)
        return PARE_OK;
    pare_status s = pare_arena_init(ck->cx, &scratch, 0);
    const pare_file *const f = ck->file;
    if (s == PARE_OK)
        s = pare_gguf_parse(ck->cx, &scratch, f->path, f->data, f->bytes, &g);
    if (s == PARE_OK)
        s = pare__gguf_tokenizer(ck->cx, a, f->path, &g, settings, text, len);
    pare_arena_release(&scratch);
    return s;
}
