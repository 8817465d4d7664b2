/* What a tokenizer.model does to a text before it is cut into pieces: the rules of its charsmap,
 * spaces squeezed and marked, a space in front or behind.
 *
 * Source   Kudo and Richardson, EMNLP 2018, section 3.2; the order of steps is that of the
 *          published program. */
#include <string.h>

#include "formats/tokenizer_internal.h"

static const char mark[] = "\xe2\x96\x81"; /* U+2581 */

/* What the text starts with: a piece of the user as it is, a rule's text, or one character. Returns
 * how much it takes. */
static size_t take(const pare_tokenizer *t, pare_tok_slice in, pare_tok_slice *out)
{
    const pare_tok_entry *const user =
        t->pieces.user.count ? pare__sorted_longest(&t->pieces.user, in.at, in.len) : NULL;
    size_t n = user ? user->text.len : 0;
    if (n == 0 && t->charsmap.count) {
        n = pare__charsmap_find(&t->charsmap, in, true, out);
        if (n)
            return n;
    }
    bool valid = true; /* a rule may have taken a part of a character */
    if (n == 0)
        n = pare__utf8_length(in.at, in.len, &valid);
    *out = valid ? (pare_tok_slice){in.at, n} : (pare_tok_slice){"\xef\xbf\xbd", 3};
    return n;
}

static pare_status put_space(const pare_tokenizer *t, pare_tok_text *out)
{
    return t->sentence.escape ? pare__text_append(out, mark, 3) : pare__text_append(out, " ", 1);
}

static pare_status put(const pare_tokenizer *t, pare_tok_text *out, pare_tok_slice part)
{
    for (size_t i = 0; i < part.len;) {
        const char *const space = memchr(part.at + i, ' ', part.len - i);
        const size_t n = space ? (size_t)(space - part.at) - i : part.len - i;
        PARE_TRY(pare__text_append(out, part.at + i, n));
        if (space)
            PARE_TRY(put_space(t, out));
        i += n + (space ? 1 : 0);
    }
    return PARE_OK;
}

static void drop_spaces_behind(const pare_tokenizer *t, pare_tok_text *out)
{
    const pare_tok_slice space =
        t->sentence.escape ? (pare_tok_slice){mark, 3} : (pare_tok_slice){" ", 1};
    while (out->len >= space.len &&
           memcmp(out->at + out->len - space.len, space.at, space.len) == 0)
        out->len -= space.len;
}

pare_status pare__text_sentence(const pare_tokenizer *t, pare_arena *a, pare_tok_slice in,
                                pare_tok_slice *out)
{
    const pare_tok_sentence *const how = &t->sentence;
    pare_tok_text text = {.arena = a};
    pare_tok_slice part;
    size_t i = 0;
    for (size_t n; how->squeeze && i < in.len; i += n) {
        n = take(t, (pare_tok_slice){in.at + i, in.len - i}, &part);
        if (part.len != 1 || part.at[0] != ' ')
            break;
    }
    *out = (pare_tok_slice){in.at, 0};
    if (i == in.len)
        return PARE_OK;
    if (how->dummy_prefix && !how->suffix)
        PARE_TRY(put_space(t, &text));
    for (bool spaced = how->squeeze; i < in.len;) {
        i += take(t, (pare_tok_slice){in.at + i, in.len - i}, &part);
        for (; spaced && part.len && part.at[0] == ' '; part.at++)
            part.len--;
        PARE_TRY(put(t, &text, part));
        if (part.len)
            spaced = how->squeeze && part.at[part.len - 1] == ' ';
    }
    if (how->squeeze)
        drop_spaces_behind(t, &text);
    if (how->dummy_prefix && how->suffix)
        PARE_TRY(put_space(t, &text));
    return pare__text_clean(a, (pare_tok_slice){text.at, text.len}, out);
}
