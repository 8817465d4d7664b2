/* Which name of a pre-tokenizer stands for the rules of a tokenizer, in a GGUF file: the name whose
 * rules give the same ids. Texts of many kinds are encoded by the tokenizer, and by the tokenizer
 * with the rules of each name in place of its own. Where several names give the same ids, as they
 * may with a small vocabulary, one that cuts the same words goes first. */
#include <string.h>

#include "formats/export_gguf.h"
#include "formats/gguf_internal.h"
#include "formats/tokenizer_internal.h"
#include "runtime/random.h"

enum { LINES = 64, PARTS = 24, LINE_ROOM = 2048 };

typedef struct sample {
    const char *what, *text;
} sample;

static const sample samples[] = {
    {"a numbered list",
     "1. First item, 12 pieces\n2. Second item, 3.50 each\n10. Tenth item: 1234567\n"
     "  11) 2024-01-31, 08:15\n\t12 - 99%\n100.\n"},
    {"digits", "7 42 365 1024 65536 299792458 3.14159 1e-10 0x1F 1,000,000 v2.10.3 ½ Ⅷ x² ٣٤ ４２"},
    {"code",
     "def f(x, y=None):\n    if x != y and not x:\n        return [i**2 for i in range(10)]\n\n\n"
     "#include <stdio.h>\nint main(void) { return a->b[0] + c++; } // done\n\t\tx += 1;\t\n"},
    {"Chinese", "你好，世界！今天是2024年1月31日。我有3个苹果。“引号”…\n第二行　全角空格。"},
    {"Japanese and Korean",
     "これはテストです。カタカナとｶﾀｶﾅ、漢字。 안녕하세요 세계, 한국어 123개."},
    {"other scripts",
     "Привет, мир! Ёж. Γειά σου Κόσμε. שלום עולם مرحبا بالعالم ١٢٣ नमस्ते दुनिया สวัสดีชาวโลก "
     "ಕನ್ನಡ ქართული Հայերեն Straße İstanbul ŒUVRE ǅ"},
    {"runs of spaces", "a  b   c    d\n\n\n  e\t\tf \n \n   g  \n\n    \n        h      "},
    {"contractions",
     "I'm you're he's we'll they'd it's don't I've I'M YOU'RE HE'S WE'LL THEY'D DON'T 'tis 's o’s"},
    {"letters of both cases",
     "camelCase PascalCase HTTPServer iPhone McDonald aBcDeF ABCdef XMLHttp"},
    {"emoji", "👍 👍🏽 👨‍👩‍👧 🇩🇪 ❤️ :-) ^_^ 😀😀😀 text🙂text"},
    {"signs", "!!! ... ?! -- --- -> => == != <= && || ::: /* */ // \\\\ ~~ ``` $5.00 €3 #tag @name "
              "a/b/c\n//\n"
              "/\n (x) [y] {z} <w> \"q\" 'r' `s` a_b __c__ d-e ….,!?。，、।۔،|(x"},
    {"ends of lines", "a\r\nb\r\n\r\nc\rd\n\re \r\n  f\r\n"},
    {"marks", "e\xcc\x81 n\xcc\x83 a\xcc\x8a o\xcc\x88\xcc\x84 "
              "\xe0\xa4\x95\xe0\xa5\x8d\xe0\xa4\xb7 Z\xcc\x80\xcc\x81"},
    {"spaces of Unicode", "a\xc2\xa0"
                          "b\xe2\x80\x83"
                          "c\xe3\x80\x80"
                          "d\xe2\x80\xaf"
                          "e\xe2\x80\x8b"
                          "f\xef\xbb\xbfg\xc2\x85h\xe2\x80\xa8i"},
    {"a long text without spaces",
     "ThisIsOneWord_with-many.parts/and\\more1234567890abcdefghijklmnop"},
};
enum { SAMPLES = sizeof samples / sizeof *samples };

/* Parts of the random lines. */
static const char *const parts[] = {
    "a",  "The", " word", "HTML",     "é",   "ß",     "中文", "。", "ありがとう", "한국",
    "Ж",  "١",   "9",     "12",       "345", "67890", " 1",   ".",  ",",          "...",
    "!",  "'s",  "'T",    "-",        "_",   "/",     "//",   "(",  ")",          "$",
    "\"", " ",   "  ",    "   ",      "\n",  "\n\n",  "\r\n", "\t", "🙂",       "\xcc\x81",
    "…",  "½",   "　",    "\xc2\xa0", "#",   "=",     "+",    "<",  "|",          "`",
};

typedef struct chooser {
    pare_ctx *cx;
    const pare_tokenizer *t;
    pare_arena kept, scratch;
    const char *text[SAMPLES + LINES], *what[SAMPLES + LINES];
    int32_t *id[SAMPLES + LINES], *cut[SAMPLES + LINES];
    size_t ids[SAMPLES + LINES], cuts[SAMPLES + LINES];
    const pare__gguf_pre *nearest;
    size_t reached, found; /* by the nearest: texts with the same ids; ids of the next */
} chooser;

static pare_status random_line(chooser *c, size_t line)
{
    char text[LINE_ROOM];
    size_t len = 0;
    for (size_t i = 0; i < PARTS; i++) {
        const uint64_t pick = pare_random_u64(0, line, i) % (sizeof parts / sizeof *parts);
        const size_t n = strlen(parts[pick]);
        memcpy(text + len, parts[pick], n);
        len += n;
    }
    c->what[SAMPLES + line] = "a line of random parts";
    c->text[SAMPLES + line] = pare_arena_text(&c->kept, text, len);
    return c->text[SAMPLES + line] ? PARE_OK : PARE_ENOMEM;
}

static pare_status take_texts(chooser *c)
{
    for (size_t i = 0; i < SAMPLES; i++) {
        c->what[i] = samples[i].what;
        c->text[i] = samples[i].text;
    }
    for (size_t i = 0; i < LINES; i++)
        PARE_TRY(random_line(c, i));
    for (size_t i = 0; i < SAMPLES + LINES; i++) {
        const size_t len = strlen(c->text[i]);
        PARE_TRY(
            pare_tokenizer_encode(c->cx, c->t, &c->kept, c->text[i], len, &c->id[i], &c->ids[i]));
        PARE_TRY(
            pare__tokenizer_cut(c->cx, c->t, &c->kept, c->text[i], len, &c->cut[i], &c->cuts[i]));
    }
    return PARE_OK;
}

/* Whether some word that is a token would have other ids by the merges. */
static pare_status whole_words_matter(chooser *c, bool *matter)
{
    pare_tokenizer bare = *c->t;
    bare.stage_count = bare.step_count = 0;
    bare.raw_trie = bare.normalized_trie = (pare_tok_trie){0};
    bare.ignore_merges = false;
    bare.byte_level = true;
    *matter = false;
    for (size_t i = 0; i < c->t->vocab.count && !*matter; i++) {
        const pare_mark mark = pare_arena_mark(&c->scratch);
        const int32_t id = c->t->vocab.entries[i].id;
        char *text;
        int32_t *ids;
        size_t len, count;
        PARE_TRY(pare_tokenizer_decode(c->cx, c->t, &c->scratch, &id, 1, &text, &len));
        if (len && pare_tokenizer_invalid(text, len) == 0) {
            PARE_TRY(pare_tokenizer_encode(c->cx, &bare, &c->scratch, text, len, &ids, &count));
            *matter = count != 1 || ids[0] != id;
        }
        pare_arena_rewind(&c->scratch, mark);
    }
    return PARE_OK;
}

/* The tokenizer with the rules of a row: what it borrows of `t` stays there. */
static pare_status with_rules(chooser *c, const pare__gguf_pre *p, pare_tokenizer *out)
{
    pare_json_writer *w;
    pare_json *doc = NULL;
    const char *text;
    size_t len;
    *out = *c->t;
    out->arena = c->scratch;
    out->stage_count = out->step_count = 0;
    out->byte_level = false;
    out->ignore_merges = p->how & PARE__PRE_WHOLE;
    PARE_TRY(pare_json_writer_new(c->cx, &w));
    pare_json_open_object(w, NULL);
    pare__gguf_put_pre(w, p);
    pare_json_close(w);
    pare_status s = pare_json_writer_finish(w, &text, &len);
    if (s == PARE_OK)
        s = pare_json_parse(c->cx, "rules", text, len, len, &doc);
    if (s == PARE_OK)
        s = pare__parse_stages(c->cx, out, doc);
    pare_json_free(doc);
    pare_json_writer_free(w);
    c->scratch = out->arena;
    return s;
}

static bool same(const int32_t *a, size_t n, const int32_t *b, size_t m)
{
    return n == m && (n == 0 || memcmp(a, b, n * sizeof *a) == 0);
}

/* How many texts from the first on have the same ids; whether their words are the same, too. */
static pare_status compare(chooser *c, const pare__gguf_pre *p, const pare_tokenizer *t,
                           size_t *agree, bool *words)
{
    int32_t *ids;
    size_t count;
    *words = true;
    for (*agree = 0; *agree < SAMPLES + LINES; (*agree)++) {
        const size_t i = *agree, len = strlen(c->text[i]);
        PARE_TRY(pare_tokenizer_encode(c->cx, t, &c->scratch, c->text[i], len, &ids, &count));
        if (!same(ids, count, c->id[i], c->ids[i])) {
            if (!c->nearest || c->reached < i) {
                c->nearest = p;
                c->reached = i;
                c->found = count;
            }
            return PARE_OK;
        }
        PARE_TRY(pare__tokenizer_cut(c->cx, t, &c->scratch, c->text[i], len, &ids, &count));
        *words = *words && same(ids, count, c->cut[i], c->cuts[i]);
    }
    return PARE_OK;
}

static pare_status try_row(chooser *c, const pare__gguf_pre *p, bool *ids, bool *words)
{
    const pare_mark mark = pare_arena_mark(&c->scratch);
    pare_tokenizer t;
    size_t agree = 0;
    pare_status s = with_rules(c, p, &t);
    if (s == PARE_OK)
        s = compare(c, p, &t, &agree, words);
    *ids = agree == SAMPLES + LINES;
    pare_arena_rewind(&c->scratch, mark);
    return s;
}

static bool composes(const pare_tokenizer *t)
{
    bool nfc = false;
    for (size_t i = 0; i < t->step_count; i++)
        nfc |= t->steps[i].kind == PARE_TOK_COMPOSE;
    return nfc;
}

/* Rows that treat whole words as `t` does stand before those where that makes no difference. */
static pare_status choose(chooser *c, const char *name, const pare__gguf_pre **out)
{
    const pare__gguf_pre *p, *by_ids = NULL;
    bool matter;
    *out = NULL;
    PARE_TRY(take_texts(c));
    PARE_TRY(whole_words_matter(c, &matter));
    for (int other = 0; other <= !matter && !*out; other++)
        for (size_t i = 0; !*out && (p = pare__gguf_pre_at(i)); i++) {
            const bool whole = p->how & PARE__PRE_WHOLE, nfc = p->how & PARE__PRE_NFC;
            bool ids, words;
            if (p->refused || p->how & PARE__PRE_READ || nfc != composes(c->t) ||
                (whole == c->t->ignore_merges) != !other)
                continue;
            PARE_TRY(try_row(c, p, &ids, &words));
            if (ids && words)
                *out = p;
            else if (ids && !by_ids)
                by_ids = p;
        }
    *out = *out ? *out : by_ids;
    if (*out)
        return PARE_OK;
    if (!c->nearest)
        return pare_fail(c->cx, PARE_ENOTSUP,
                         "%s: gguf: its tokenizer composes texts (NFC) or takes whole words before "
                         "merges as none of llama.cpp does",
                         name);
    return pare_fail(
        c->cx, PARE_ENOTSUP,
        "%s: gguf: none of the pre-tokenizers of llama.cpp cuts texts as its tokenizer "
        "does; the nearest, %.*s, makes %zu tokens of %s, not %zu, or other ones",
        name, (int)pare__gguf_pre_first(c->nearest), c->nearest->names, c->found,
        c->what[c->reached], c->ids[c->reached]);
}

pare_status pare__gguf_pre_choose(pare_ctx *cx, const char *name, const pare_tokenizer *t,
                                  const pare__gguf_pre **out)
{
    chooser c = {.cx = cx, .t = t, .kept = {.cx = cx}, .scratch = {.cx = cx}};
    const pare_status s = choose(&c, name, out);
    pare_arena_release(&c.kept);
    pare_arena_release(&c.scratch);
    return s;
}

/* The texts by the tokenizer that readers of the file get. */
static pare_status compare_texts(chooser *c, const char *name, const pare_tokenizer *is)
{
    int32_t *ids;
    size_t count;
    PARE_TRY(take_texts(c));
    for (size_t i = 0; i < SAMPLES + LINES; i++) {
        const size_t len = strlen(c->text[i]);
        PARE_TRY(pare_tokenizer_encode(c->cx, is, &c->scratch, c->text[i], len, &ids, &count));
        if (!same(ids, count, c->id[i], c->ids[i]))
            return pare_fail(c->cx, PARE_ENOTSUP,
                             "%s: gguf: readers of the file would make %zu tokens of %s, not %zu, "
                             "or other ones",
                             name, count, c->what[i], c->ids[i]);
    }
    return PARE_OK;
}

static pare_status check_texts(chooser *c, const pare_checkpoint *ck, const pare_gguf *g)
{
    static const char name[] = "the GGUF file";
    char *text;
    size_t len;
    pare_tokenizer *was = NULL, *is = NULL;
    PARE_TRY(pare__gguf_tokenizer(c->cx, &c->kept, name, g, false, &text, &len));
    if (!text)
        return PARE_OK;
    PARE_TRY(pare_tokenizer_parse(c->cx, name, text, len, &is));
    pare_status s = pare_checkpoint_tokenizer(ck, &was);
    c->t = was;
    if (s == PARE_OK)
        s = compare_texts(c, ck->path, is);
    pare_tokenizer_free(was);
    pare_tokenizer_free(is);
    return s;
}

pare_status pare_gguf_check_texts(pare_ctx *cx, const pare_checkpoint *ck,
                                  const pare_gguf_writer *w)
{
    chooser c = {.cx = cx, .kept = {.cx = cx}, .scratch = {.cx = cx}};
    pare_gguf g;
    pare_status s = pare_gguf_parse_head(cx, &c.kept, ck->path, w->head, w->len, w->bytes, &g);
    if (s == PARE_OK)
        s = check_texts(&c, ck, &g);
    pare_arena_release(&c.kept);
    pare_arena_release(&c.scratch);
    return s;
}
