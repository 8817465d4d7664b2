/* UTF-8, white space, the byte alphabet and the normalizers Prepend, Replace, Strip. */
#include <string.h>

#include "formats/tokenizer_internal.h"

/* Bounds of the second byte after `lead`; they keep out overlong forms, surrogates and code points
 * above U+10FFFF. Returns the length of the sequence, 0 for a byte that starts none. */
static size_t lead_byte(unsigned char lead, unsigned char *low, unsigned char *high)
{
    *low = lead == 0xe0 ? 0xa0 : lead == 0xf0 ? 0x90 : 0x80;
    *high = lead == 0xed ? 0x9f : lead == 0xf4 ? 0x8f : 0xbf;
    if (lead < 0x80)
        return 1;
    if (lead < 0xc2 || lead > 0xf4)
        return 0;
    return lead < 0xe0 ? 2 : lead < 0xf0 ? 3 : 4;
}

size_t pare__utf8_length(const char *at, size_t left, bool *valid)
{
    const unsigned char *const p = (const unsigned char *)at;
    unsigned char low, high;
    const size_t want = lead_byte(p[0], &low, &high);
    size_t have = 1;
    while (have < want && have < left && p[have] >= low && p[have] <= high) {
        low = 0x80;
        high = 0xbf;
        have++;
    }
    *valid = have == want;
    return have;
}

size_t pare_tokenizer_invalid(const char *text, size_t len)
{
    size_t count = 0;
    bool valid;
    for (size_t at = 0; at < len; count += !valid)
        at += pare__utf8_length(text + at, len - at, &valid);
    return count;
}

size_t pare__utf8_read(const char *at, uint32_t *code_point)
{
    const unsigned char *const p = (const unsigned char *)at;
    const size_t n = p[0] < 0x80 ? 1 : p[0] < 0xe0 ? 2 : p[0] < 0xf0 ? 3 : 4;
    uint32_t c = n == 1 ? p[0] : p[0] & (0x7fu >> n);
    for (size_t i = 1; i < n; i++)
        c = c << 6 | (p[i] & 0x3fu);
    *code_point = c;
    return n;
}

bool pare__is_space(uint32_t c)
{
    return (c >= 9 && c <= 13) || c == ' ' || c == 0x85 || c == 0xa0 || c == 0x1680 ||
           (c >= 0x2000 && c <= 0x200a) || c == 0x2028 || c == 0x2029 || c == 0x202f ||
           c == 0x205f || c == 0x3000;
}

/* Bytes that print as themselves in Latin-1 stand for themselves; the others, in order, for
 * U+0100, U+0101, ... */
void pare__byte_alphabet(pare_tokenizer *t)
{
    uint32_t next = 0x100;
    memset(t->text_byte, -1, sizeof t->text_byte);
    for (uint32_t b = 0; b < 256; b++) {
        const bool prints = (b >= '!' && b <= '~') || (b >= 0xa1 && b <= 0xac) || b >= 0xae;
        const uint32_t c = prints ? b : next++;
        t->byte_len[b] = c < 0x80 ? 1 : 2;
        t->byte_text[b][0] = (char)(c < 0x80 ? c : 0xc0 | c >> 6);
        t->byte_text[b][1] = (char)(0x80 | (c & 0x3f));
        t->text_byte[c] = (int16_t)b;
    }
}

size_t pare__text_spell(const pare_tokenizer *t, pare_tok_slice in, char *out)
{
    size_t used = 0;
    for (size_t i = 0; i < in.len; i++) {
        const unsigned char b = (unsigned char)in.at[i];
        memcpy(out + used, t->byte_text[b], t->byte_len[b]);
        used += t->byte_len[b];
    }
    return used;
}

pare_status pare__text_append(pare_tok_text *text, const char *at, size_t len)
{
    if (len > text->capacity - text->len) {
        size_t need;
        if (__builtin_add_overflow(text->len, len, &need) || need > SIZE_MAX / 4)
            return pare_fail(text->arena->cx, PARE_ENOMEM, "text of %zu bytes", text->len);
        const size_t capacity = need * 2 + 256;
        char *const more = pare_arena_take_raw(text->arena, capacity, 1);
        if (!more)
            return PARE_ENOMEM;
        if (text->len)
            memcpy(more, text->at, text->len);
        text->at = more;
        text->capacity = capacity;
    }
    if (len)
        memcpy(text->at + text->len, at, len);
    text->len += len;
    return PARE_OK;
}

pare_status pare__text_clean(pare_arena *a, pare_tok_slice in, pare_tok_slice *out)
{
    size_t bytes = 0;
    bool valid = true, all = true;
    for (size_t i = 0; i < in.len;) {
        i += pare__utf8_length(in.at + i, in.len - i, &valid);
        all = all && valid;
        bytes += valid ? 0 : 3;
    }
    *out = in;
    if (all)
        return PARE_OK;
    char *const text = PARE_NEW(a, char, in.len + bytes);
    if (!text)
        return PARE_ENOMEM;
    size_t used = 0;
    for (size_t i = 0, n; i < in.len; i += n) {
        n = pare__utf8_length(in.at + i, in.len - i, &valid);
        memcpy(text + used, valid ? in.at + i : "\xef\xbf\xbd", valid ? n : 3);
        used += valid ? n : 3;
    }
    *out = (pare_tok_slice){text, used};
    return PARE_OK;
}

size_t pare__text_find(pare_tok_slice in, size_t from, pare_tok_slice what)
{
    while (in.len - from >= what.len) {
        const size_t room = in.len - from - what.len + 1;
        const char *const hit = memchr(in.at + from, what.at[0], room);
        if (!hit)
            break;
        from = (size_t)(hit - in.at);
        if (memcmp(hit, what.at, what.len) == 0)
            return from;
        from++;
    }
    return in.len;
}

pare_status pare__text_replace(pare_arena *a, const pare_tok_step *step, pare_tok_slice in,
                               pare_tok_slice *out)
{
    size_t hits = 0;
    for (size_t i = pare__text_find(in, 0, step->pattern); i < in.len; hits++)
        i = pare__text_find(in, i + step->pattern.len, step->pattern);
    *out = in;
    if (hits == 0)
        return PARE_OK;
    size_t grown;
    if (__builtin_mul_overflow(hits, step->content.len, &grown) ||
        __builtin_add_overflow(grown, in.len - hits * step->pattern.len, &grown))
        return pare_fail(a->cx, PARE_ENOMEM, "text of %zu replacements", hits);
    char *const text = PARE_NEW(a, char, grown);
    if (!text)
        return PARE_ENOMEM;
    size_t used = 0;
    for (size_t i = 0; i < in.len;) {
        const size_t hit = pare__text_find(in, i, step->pattern);
        memcpy(text + used, in.at + i, hit - i);
        used += hit - i;
        if (hit < in.len && step->content.len) {
            memcpy(text + used, step->content.at, step->content.len);
            used += step->content.len;
        }
        i = hit < in.len ? hit + step->pattern.len : in.len;
    }
    *out = (pare_tok_slice){text, used};
    return PARE_OK;
}

static pare_status prepend(pare_arena *a, pare_tok_slice what, pare_tok_slice in,
                           pare_tok_slice *out)
{
    *out = in;
    if (in.len == 0 || what.len == 0)
        return PARE_OK;
    char *const text = PARE_NEW(a, char, in.len + what.len);
    if (!text)
        return PARE_ENOMEM;
    memcpy(text, what.at, what.len);
    memcpy(text + what.len, in.at, in.len);
    *out = (pare_tok_slice){text, in.len + what.len};
    return PARE_OK;
}

/* White space at the asked ends goes. */
static pare_tok_slice stripped(const pare_tok_step *step, pare_tok_slice in)
{
    uint32_t c;
    while (step->left && in.len) {
        const size_t n = pare__utf8_read(in.at, &c);
        if (!pare__is_space(c))
            break;
        in.at += n;
        in.len -= n;
    }
    while (step->right && in.len) {
        size_t last = in.len - 1;
        while (last > 0 && ((unsigned char)in.at[last] & 0xc0) == 0x80)
            last--;
        (void)pare__utf8_read(in.at + last, &c);
        if (!pare__is_space(c))
            break;
        in.len = last;
    }
    return in;
}

static pare_status apply(const pare_tokenizer *t, pare_arena *a, const pare_tok_step *step,
                         pare_tok_slice in, pare_tok_slice *out)
{
    switch (step->kind) {
    case PARE_TOK_PREPEND: return prepend(a, step->content, in, out);
    case PARE_TOK_REPLACE:
        return step->code ? pare__text_replace_matches(t, a, step, in, out)
                          : pare__text_replace(a, step, in, out);
    case PARE_TOK_COMPOSE: return pare__text_compose(a, step, in, out);
    case PARE_TOK_CHARSMAP: return pare__text_charsmap(t, a, in, out);
    case PARE_TOK_SENTENCE: return pare__text_sentence(t, a, in, out);
    case PARE_TOK_STRIP: break;
    }
    *out = stripped(step, in);
    return PARE_OK;
}

/* Whether a step takes away the character at the start of a text. */
static bool takes_first(const pare_tokenizer *t, const pare_tok_step *step, pare_tok_slice in)
{
    pare_tok_slice text;
    uint32_t c;
    if (in.len == 0)
        return false;
    const pare_tok_slice first = {in.at, pare__utf8_read(in.at, &c)};
    switch (step->kind) {
    case PARE_TOK_STRIP: return step->left && pare__is_space(c);
    case PARE_TOK_CHARSMAP:
        return pare__charsmap_find(&t->charsmap, first, false, &text) > 0 && text.len == 0;
    case PARE_TOK_REPLACE:
        return !step->code && step->content.len == 0 && pare__text_find(in, 0, step->pattern) == 0;
    case PARE_TOK_PREPEND:
    case PARE_TOK_COMPOSE:
    case PARE_TOK_SENTENCE: break;
    }
    return false;
}

pare_status pare__text_normalize(const pare_tokenizer *t, pare_arena *a, pare_tok_slice in,
                                 pare_tok_slice *out, bool *cut)
{
    const size_t most =
        in.len > SIZE_MAX / 2 / PARE_TOK_GROWTH ? SIZE_MAX / 2 : in.len * PARE_TOK_GROWTH + 4096;
    pare_tok_slice now = in;
    for (size_t i = 0; i < t->step_count; i++) {
        if (cut && takes_first(t, &t->steps[i], now))
            *cut = true;
        PARE_TRY(apply(t, a, &t->steps[i], now, &now));
        if (now.len > most)
            return pare_fail(a->cx, PARE_ENOTSUP,
                             "tokenizer: the normalizers make %zu bytes of text longer than %zu",
                             in.len, most);
    }
    *out = now;
    return PARE_OK;
}
