/* Pages of WikiText as lm_eval detokenizes them (tasks/wikitext). None of its rules makes a text
 * longer. */
#include <string.h>

#include "compress/evaluate/task_internal.h"
#include "formats/unicode.h"

size_t pare__task_words(const char *page)
{
    size_t words = 1;
    bool space = false;
    while (*page) {
        uint32_t c;
        page += pare_unicode_read(page, &c);
        const bool is = pare_unicode_is_space(c);
        words += is && !space;
        space = is;
    }
    return words;
}

void pare__task_replace(char *text, const char *from, const char *to)
{
    const size_t long_one = strlen(from), short_one = strlen(to);
    char *out = text;
    const char *at = text;
    for (const char *hit; (hit = strstr(at, from)); at = hit + long_one) {
        memmove(out, at, (size_t)(hit - at));
        out += hit - at;
        memcpy(out, to, short_one);
        out += short_one;
    }
    memmove(out, at, strlen(at) + 1);
}

/* White space inside of a pair of marks goes; the pair ends at the first `close`. */
static void tighten(char *text, char open, char close)
{
    char *out = text;
    const char *at = text;
    for (;;) {
        const char *const first = strchr(at, open);
        const char *const last = first ? strchr(first + 1, close) : NULL;
        if (!last)
            break;
        const char *from = first + 1, *to = last;
        pare_unicode_strip(&from, &to);
        memmove(out, at, (size_t)(first + 1 - at));
        out += first + 1 - at;
        memmove(out, from, (size_t)(to - from));
        out += to - from;
        *out++ = close;
        at = last + 1;
    }
    memmove(out, at, strlen(at) + 1);
}

/* The harness replaces /' 5/ by what its own pattern says, letter by letter; it does not occur in
 * WikiText, and is left as it is here. */
const char *pare__task_detokenize(pare_arena *a, const char *page)
{
    static const char *const rule[][2] = {
        {"s '", "s'"}, {" @-@ ", "-"}, {" @,@ ", ","}, {" @.@ ", "."}, {" : ", ": "},
        {" ; ", "; "}, {" . ", ". "},  {" ! ", "! "},  {" ? ", "? "},  {" , ", ", "}};
    static const char *const last[][2] = {
        {"= = = =", "===="}, {"= = =", "==="}, {"= =", "=="},  {" \xc2\xb0 ", "\xc2\xb0"},
        {" \n", "\n"},       {"\n ", "\n"},    {" N ", " 1 "}, {" 's", "'s"}};
    char *const text = pare_arena_text(a, page, strlen(page));
    if (!text)
        return NULL;
    for (size_t i = 0; i < sizeof rule / sizeof *rule; i++)
        pare__task_replace(text, rule[i][0], rule[i][1]);
    tighten(text, '(', ')');
    tighten(text, '[', ']');
    tighten(text, '{', '}');
    tighten(text, '"', '"');
    tighten(text, '\'', '\'');
    for (size_t i = 0; i < sizeof last / sizeof *last; i++)
        pare__task_replace(text, last[i][0], last[i][1]);
    return text;
}
