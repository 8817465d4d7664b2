/* Regular expressions over names, as Python's re.match takes them: they must match the beginning of
 * a name. PCRE2 knows what Python knows; the one difference is written out below. */
#include <stdint.h>
#include <string.h>

#include "recipes/recipe_internal.h"
#include "runtime/regex.h"

/* Steps for one name; Python would go on for ever. */
enum { BUDGET = 1000000 };

struct pare__expression {
    const char *text;
    const pare_regex *regex;
};

static bool is_open_count(const char *s)
{
    return strncmp(s, "{,", 2) == 0 && s[2 + strspn(s + 2, "0123456789")] == '}';
}

/* "x{,2}" as "x{0,2}": a count in Python, plain text in PCRE2 before 10.43. */
static char *with_counts(pare_arena *a, const char *text)
{
    char *const out = PARE_NEW(a, char, 2 * strlen(text) + 1);
    const char *set = NULL; /* the first member of the class [...] that is open, "]" may be one */
    size_t n = 0;
    for (const char *s = text; out && *s; s++) {
        const bool count = !set && is_open_count(s);
        if (set && *s == ']' && s > set)
            set = NULL;
        else if (!set && *s == '[')
            set = s + (s[1] == '^' ? 2 : 1);
        else if (*s == '\\' && s[1])
            out[n++] = *s++;
        out[n++] = *s;
        if (count)
            out[n++] = '0';
    }
    return out;
}

pare_status pare__expression_new(pare_ctx *cx, pare_arena *a, const char *text,
                                 pare__expression **out)
{
    char quoted[PARE__QUOTE];
    pare__expression *const e = PARE_NEW(a, pare__expression, 1);
    const char *const theirs = with_counts(a, text);
    if (!e || !theirs)
        return PARE_ENOMEM;
    pare_regex *regex;
    const pare_status s = pare_regex_new(a, theirs, strlen(theirs), &regex);
    if (s == PARE_EFORMAT)
        return pare_fail_context(cx, PARE_EUSAGE, "regular expression %s",
                                 pare__quote(quoted, text));
    PARE_TRY(s);
    *e = (pare__expression){text, regex};
    *out = e;
    return PARE_OK;
}

pare_status pare__expression_matches(pare_ctx *cx, const pare__expression *e, const char *name,
                                     bool *hit)
{
    char quoted[PARE__QUOTE], text[PARE__QUOTE];
    pare_regex_matcher *m;
    size_t end = SIZE_MAX;
    *hit = false;
    if (!pare__is_utf8(name))
        return pare_fail(
            cx, PARE_EUSAGE,
            "regular expression %s: the name %s is not valid UTF-8; take a glob instead",
            pare__quote(quoted, e->text), pare__quote(text, name));
    PARE_TRY(pare_regex_matcher_new(cx, BUDGET, &m));
    const pare_status s = pare_regex_match(m, e->regex, name, strlen(name), 0, &end);
    pare_regex_matcher_free(m);
    *hit = end != SIZE_MAX;
    if (s != PARE_ENOTSUP)
        return s;
    return pare_fail_context(cx, PARE_EUSAGE,
                             "regular expression %s on %s (write it without repeats of repeats)",
                             pare__quote(quoted, e->text), pare__quote(text, name));
}
