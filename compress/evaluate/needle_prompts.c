/* Prompts of the needle test. Sentences are counted in tokens one by one, which tells about how
 * many fit; whole prompts are tokenized then, and lose sentences until they do. */
#include <stdio.h>
#include <string.h>

#include "calib/tokens.h"
#include "compress/evaluate/needle.h"
#include "runtime/random.h"

static const char announced[] = "A number is hidden in this text. Find it and keep it in mind.\n\n";
static const char asked[] = "\n\nWhat is the hidden number? The hidden number is";

enum {
    SENTENCE_BYTES = 400, /* a longer one is parted at white space */
    NEEDLE_BYTES = 64
};

typedef struct sentence {
    const char *at;
    size_t len, tokens; /* with the space in front */
} sentence;

typedef struct making {
    pare_ctx *cx;
    pare_arena *a;
    pare_arena work; /* rewound after each prompt */
    const pare_tokenizer *t;
    const pare_needle_opts *opts;
    sentence *s;
    size_t count, tokens; /* sentences, and tokens of all */
} making;

static bool is_space(char c)
{
    return c == ' ' || c == '\t' || c == '\n' || c == '\r';
}

/* Bytes of the sentence that text [len] begins with: up to a newline, to white space behind . ! or
 * ?, or to white space once it is long. */
static size_t sentence_length(const char *text, size_t len)
{
    size_t i = 1;
    while (i < len && text[i] != '\n' && text[i] != '\r' &&
           !(is_space(text[i]) && (i >= SENTENCE_BYTES || strchr(".!?", text[i - 1]))))
        i++;
    return i;
}

/* Sentences of text [len] into s, unless NULL; without the last one if the text is `cut`. */
static size_t split(const char *text, size_t len, bool cut, sentence *s)
{
    size_t count = 0;
    for (size_t at = 0; at < len;) {
        if (is_space(text[at])) {
            at++;
            continue;
        }
        const size_t size = sentence_length(text + at, len - at);
        if (cut && at + size == len)
            break;
        if (s)
            s[count] = (sentence){text + at, size, 0};
        count++;
        at += size;
    }
    return count;
}

static pare_status count_tokens(making *m, const char *text, size_t len, size_t *count)
{
    int32_t *id;
    const pare_mark mark = pare_arena_mark(&m->work);
    PARE_TRY(pare_tokenizer_encode(m->cx, m->t, &m->work, text, len, &id, count));
    pare_arena_rewind(&m->work, mark);
    return PARE_OK;
}

static pare_status take_sentences(making *m, const char *text, size_t len, bool cut)
{
    char line[SENTENCE_BYTES];
    m->count = split(text, len, cut, NULL);
    m->s = PARE_NEW(m->a, sentence, m->count);
    if (!m->s)
        return PARE_ENOMEM;
    (void)split(text, len, cut, m->s);
    for (size_t i = 0; i < m->count; i++) {
        sentence *const s = &m->s[i];
        const size_t part = s->len < sizeof line - 1 ? s->len : sizeof line - 1;
        size_t rest = 0;
        line[0] = ' ';
        memcpy(line + 1, s->at, part);
        PARE_TRY(count_tokens(m, line, part + 1, &s->tokens));
        if (part < s->len)
            PARE_TRY(count_tokens(m, s->at + part, s->len - part, &rest));
        s->tokens += rest;
        m->tokens += s->tokens;
    }
    return PARE_OK;
}

/* Where in a prompt the number stands: so many of its sentences are in front. */
static size_t place_of(const making *m, size_t start, size_t n, size_t depth)
{
    uint64_t all = 0, before = 0;
    size_t i = 0;
    for (size_t k = 0; k < n; k++)
        all += m->s[(start + k) % m->count].tokens;
    for (; i < n && before * 100 < all * pare_needle_depth(depth); i++)
        before += m->s[(start + i) % m->count].tokens;
    return i;
}

static char *put(char *at, const char *text, size_t len)
{
    memcpy(at, text, len);
    return at + len;
}

/* The text of a prompt with n sentences; in the work arena. */
static char *write_prompt(making *m, const char *needle, size_t start, size_t n, size_t depth)
{
    const size_t place = place_of(m, start, n, depth);
    size_t size = sizeof announced + sizeof asked + strlen(needle) + n + 1;
    for (size_t i = 0; i < n; i++)
        size += m->s[(start + i) % m->count].len;
    char *const text = PARE_NEW(&m->work, char, size), *at = text;
    if (!text)
        return NULL;
    at = put(at, announced, sizeof announced - 1);
    for (size_t i = 0; i <= n; i++) {
        const sentence *const s = &m->s[(start + i) % m->count];
        if (i == place) {
            at = put(at, needle, strlen(needle));
            at = put(at, " ", i < n);
        }
        if (i == n)
            break;
        at = put(at, s->at, s->len);
        at = put(at, " ", i + 1 < n || place == n);
    }
    at = put(at, asked, sizeof asked - 1);
    *at = '\0';
    return text;
}

/* The prompt with what the tokenizer puts in front, and the answer behind it, as ids of `all`. */
static pare_status encode(making *m, const char *prompt, const char *answer, int32_t **all,
                          size_t *context, size_t *count)
{
    const pare_tok_around *const around = pare_tokenizer_around(m->t);
    const size_t len = strlen(prompt), more = strlen(answer);
    int32_t *id;
    char *const text = PARE_NEW(&m->work, char, len + more + 1);
    if (!text)
        return PARE_ENOMEM;
    (void)put(put(text, prompt, len), answer, more + 1);
    PARE_TRY(pare_tokenizer_encode(m->cx, m->t, &m->work, prompt, len, &id, context));
    PARE_TRY(pare_tokenizer_encode(m->cx, m->t, &m->work, text, len + more, &id, count));
    *all = PARE_NEW(&m->work, int32_t, around->fronts + *count);
    if (!*all)
        return PARE_ENOMEM;
    memcpy(*all, around->front, around->fronts * sizeof **all);
    memcpy(*all + around->fronts, id, *count * sizeof **all);
    *context += around->fronts;
    *count += around->fronts;
    return *count > *context
               ? PARE_OK
               : pare_fail(m->cx, PARE_EFORMAT,
                           "needle: the number of an answer has no tokens of its own");
}

static pare_status keep(making *m, const int32_t *all, size_t context, size_t count,
                        pare_choice_item *out)
{
    int32_t *const id = PARE_NEW(m->a, int32_t, count);
    const int32_t **const choice = PARE_NEW(m->a, const int32_t *, 1);
    size_t *const size = PARE_NEW(m->a, size_t, 2);
    if (!id || !choice || !size)
        return PARE_ENOMEM;
    memcpy(id, all, count * sizeof *id);
    choice[0] = id + context;
    size[0] = count - context;
    size[1] = 1; /* of no use: nothing is divided by it */
    *out = (pare_choice_item){.context = id,
                              .context_count = context,
                              .choice = choice,
                              .choice_count = size,
                              .choice_bytes = size + 1,
                              .choices = 1};
    return PARE_OK;
}

/* Sentences that fit about, from `start` on. */
static size_t guess(const making *m, size_t start, size_t room)
{
    size_t n = 0, used = 0;
    while (n < m->count && used + m->s[(start + n) % m->count].tokens <= room)
        used += m->s[(start + n++) % m->count].tokens;
    return n;
}

static pare_status make(making *m, size_t length, size_t depth, size_t key, pare_choice_item *out)
{
    const uint64_t seed = m->opts->seed;
    const unsigned number = 10000 + (unsigned)(pare_random_u64(seed, key, 0) % 90000);
    const size_t start = (size_t)(pare_random_u64(seed, key, 1) % m->count);
    char needle[NEEDLE_BYTES], answer[NEEDLE_BYTES];
    int32_t *all;
    size_t context, count;
    (void)snprintf(needle, sizeof needle, "The hidden number is %u.", number);
    (void)snprintf(answer, sizeof answer, " %u", number);
    for (size_t n = guess(m, start, length); n >= PARE_NEEDLE_DEPTHS - 1; n--) {
        const pare_mark mark = pare_arena_mark(&m->work);
        const char *const text = write_prompt(m, needle, start, n, depth);
        if (!text)
            return PARE_ENOMEM;
        PARE_TRY(encode(m, text, answer, &all, &context, &count));
        if (count <= length)
            PARE_TRY(keep(m, all, context, count, out));
        pare_arena_rewind(&m->work, mark);
        if (count <= length)
            return PARE_OK;
    }
    return pare_fail(m->cx, PARE_EUSAGE,
                     "%s: its sentences are too long for prompts of %zu tokens, which need %d of "
                     "them; give larger lengths or another text",
                     m->opts->file, length, PARE_NEEDLE_DEPTHS - 1);
}

static pare_status make_all(making *m, pare_choice_item *item)
{
    for (size_t l = 0; l < m->opts->lengths; l++) {
        const size_t length = m->opts->length[l];
        if (m->tokens < length)
            return pare_fail(m->cx, PARE_EUSAGE,
                             "%s: its sentences have %zu tokens, fewer than a prompt of %zu; give "
                             "a longer text or smaller lengths",
                             m->opts->file, m->tokens, length);
        for (size_t i = 0; i < PARE_NEEDLE_DEPTHS * m->opts->keys; i++)
            PARE_TRY(make(m, length, i / m->opts->keys, i % m->opts->keys, item++));
    }
    return PARE_OK;
}

pare_status pare_needle_load(pare_ctx *cx, pare_arena *a, const pare_tokenizer *t,
                             const pare_needle_opts *opts, pare_choice_item **item)
{
    making m = {.cx = cx, .a = a, .work = {.cx = cx}, .t = t, .opts = opts};
    pare_text_file f;
    size_t longest = 0;
    for (size_t i = 0; i < opts->lengths; i++)
        longest = opts->length[i] > longest ? opts->length[i] : longest;
    *item = PARE_NEW(a, pare_choice_item, pare_needle_items(opts));
    if (!*item)
        return PARE_ENOMEM;
    PARE_TRY(pare_text_map(cx, a, opts->file, &f));
    const bool cut = f.len / PARE_NEEDLE_READS > longest;
    pare_status s = take_sentences(&m, f.at, cut ? longest * PARE_NEEDLE_READS : f.len, cut);
    if (s == PARE_OK)
        s = make_all(&m, *item);
    pare_arena_release(&m.work);
    pare_file_unmap(&f.file);
    return s;
}
