#include "recipes/pattern.h"

#include <string.h>

#include "recipes/recipe_internal.h"

enum { PATTERN_MAX = 1000 };

struct pare_pattern {
    pare__expression *expression; /* NULL: a glob */
    const char *glob;
};

/* The character at *s, which moves behind it. A byte that is not UTF-8 stands for itself. */
static unsigned next_character(const char **s)
{
    const unsigned char *const p = (const unsigned char *)*s;
    const size_t n = p[0] < 0xc0 ? 1 : p[0] < 0xe0 ? 2 : p[0] < 0xf0 ? 3 : 4;
    unsigned c = n == 1 ? p[0] : p[0] & (0xffu >> (n + 1));
    for (size_t i = 1; i < n; i++) {
        if ((p[i] & 0xc0) != 0x80) {
            (*s)++;
            return 0x110000u + p[0];
        }
        c = c << 6 | (p[i] & 0x3fu);
    }
    *s += n;
    return c;
}

/* True if c is in the class that stands at s as "alpha:]"; *end behind it, NULL for no class. */
static bool match_class(const char *s, unsigned c, const char **end)
{
    static const struct {
        const char *name, *members;
    } classes[] = {{"alnum:]", "AZaz09"},  {"alpha:]", "AZaz"},   {"digit:]", "09"},
                   {"lower:]", "az"},      {"upper:]", "AZ"},     {"punct:]", "!/:@[`{~"},
                   {"xdigit:]", "09AFaf"}, {"space:]", "\t\r  "}, {"blank:]", "\t\t  "}};
    *end = NULL;
    for (size_t i = 0; i < sizeof classes / sizeof classes[0]; i++) {
        const size_t len = strlen(classes[i].name);
        if (strncmp(s, classes[i].name, len) != 0)
            continue;
        *end = s + len;
        for (const char *m = classes[i].members; *m; m += 2)
            if (c >= (unsigned char)m[0] && c <= (unsigned char)m[1])
                return true;
        return false;
    }
    return false;
}

/* One member: a class, a range or a character. NULL: no such class, or a range backwards. */
static const char *match_member(const char *s, unsigned c, bool *in)
{
    if (s[0] == '[' && s[1] == ':') {
        const char *end;
        *in = match_class(s + 2, c, &end) || *in;
        return end;
    }
    if (s[0] == '[' && (s[1] == '.' || s[1] == '='))
        return NULL;
    const unsigned low = next_character(&s);
    unsigned high = low;
    if (s[0] == '-' && s[1] && s[1] != ']') {
        s++;
        high = next_character(&s);
    }
    *in = *in || (c >= low && c <= high);
    return high < low ? NULL : s;
}

/* Reads a set behind its "[": the text behind its "]", or NULL when it is malformed. A "]" in front
 * is a member. */
static const char *set_matches(const char *s, unsigned c, bool *hit)
{
    const bool invert = *s == '!' || *s == '^';
    s += invert;
    bool in = false;
    const char *const first = s;
    while (s && *s && (*s != ']' || s == first))
        s = match_member(s, c, &in);
    *hit = in != invert;
    return s && *s ? s + 1 : NULL;
}

/* On a mismatch only the last star is tried again one character further: earlier stars need not
 * move, so the work is at most the product of the lengths. */
static bool glob_matches(const char *glob, const char *name)
{
    const char *star = NULL, *from = NULL;
    while (*name) {
        if (*glob == '*') {
            star = ++glob;
            from = name;
            continue;
        }
        const char *g = glob, *n = name;
        bool hit = false;
        if (*g) {
            const unsigned c = next_character(&n);
            if (*g == '[')
                g = set_matches(g + 1, c, &hit);
            else if (*g == '?') {
                hit = true;
                g++;
            } else
                hit = next_character(&g) == c;
        }
        if (hit) {
            glob = g;
            name = n;
        } else if (star) {
            (void)next_character(&from);
            glob = star;
            name = from;
        } else {
            return false;
        }
    }
    while (*glob == '*')
        glob++;
    return *glob == '\0';
}

static pare_status check_glob(pare_ctx *cx, const char *text)
{
    char quoted[PARE__QUOTE];
    for (const char *s = text; *s;) {
        bool hit;
        if (*s != '[') {
            s++;
            continue;
        }
        s = set_matches(s + 1, 0, &hit);
        if (!s)
            return pare_fail(cx, PARE_EUSAGE,
                             "pattern %s: a set [...] without its ], with a range that runs "
                             "backwards or an unknown class",
                             pare__quote(quoted, text));
    }
    return PARE_OK;
}

pare_status pare_pattern_new(pare_ctx *cx, pare_arena *a, const char *text, pare_pattern **out)
{
    *out = NULL;
    const size_t len = strlen(text);
    const bool is_regex = strncmp(text, "re:", 3) == 0;
    if (len == (is_regex ? 3u : 0u))
        return pare_fail(cx, PARE_EUSAGE, "an empty pattern matches nothing");
    if (len > PATTERN_MAX)
        return pare_fail(cx, PARE_EUSAGE, "a pattern of %zu bytes; at most %d", len, PATTERN_MAX);
    pare_pattern *const p = PARE_NEW(a, pare_pattern, 1);
    char *const copy = pare_arena_text(a, text, len);
    if (!p || !copy)
        return PARE_ENOMEM;
    p->glob = copy;
    if (is_regex)
        PARE_TRY(pare__expression_new(cx, a, copy + 3, &p->expression));
    else
        PARE_TRY(check_glob(cx, copy));
    *out = p;
    return PARE_OK;
}

pare_status pare_pattern_matches(pare_ctx *cx, const pare_pattern *p, const char *name, bool *hit)
{
    if (p->expression)
        return pare__expression_matches(cx, p->expression, name, hit);
    *hit = glob_matches(p->glob, name);
    return PARE_OK;
}
