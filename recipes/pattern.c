#include "recipes/pattern.h"

#include <regex.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "recipes/recipe_internal.h"

/* regcomp copies the automaton of what is repeated, so nested counts multiply, and its tables can
 * grow with the square of the copies; the cost of an expression, in characters after expansion, is
 * bounded before it is compiled. */
enum { PATTERN_MAX = 1000, REPEAT_MAX = 255, NESTING_MAX = 64, COST_MAX = 2000, WORD_MAX = 64 };

struct pare_pattern {
    bool is_regex;
    regex_t regex;
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

/* Reads a set behind its "[": the end, behind "]", or NULL. A "]" in front is a member. */
static const char *match_set(const char *s, unsigned c, bool *hit)
{
    const bool invert = *s == '!' || *s == '^';
    s += invert;
    bool in = false, first = true;
    while (*s && (*s != ']' || first)) {
        const unsigned low = next_character(&s);
        unsigned high = low;
        if (s[0] == '-' && s[1] && s[1] != ']') {
            s++;
            high = next_character(&s);
            if (high < low)
                return NULL;
        }
        in = in || (c >= low && c <= high);
        first = false;
    }
    *hit = in != invert;
    return *s == ']' ? s + 1 : NULL;
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
                g = match_set(g + 1, c, &hit);
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
        s = match_set(s + 1, 0, &hit);
        if (!s)
            return pare_fail(cx, PARE_EUSAGE,
                             "pattern %s: a set [...] has no end or a range that runs "
                             "backwards",
                             pare__quote(quoted, text));
    }
    return PARE_OK;
}

/* Reads "{2}", "{2,}", "{,3}", "{2,3}": the length, with the copies it stands for; else 0. */
static size_t read_repeat(const char *s, size_t *copies)
{
    size_t bound[2] = {0, 0}, i = 1, which = 0;
    for (; s[i] && s[i] != '}'; i++) {
        if (s[i] == ',' && which == 0)
            which = 1;
        else if (s[i] >= '0' && s[i] <= '9')
            bound[which] =
                bound[which] > REPEAT_MAX ? bound[which] : bound[which] * 10 + (size_t)(s[i] - '0');
        else
            return 0;
    }
    *copies = bound[0] > bound[1] ? bound[0] + which : bound[1];
    return s[i] == '}' ? i + 1 : 0;
}

/* Behind a bracket expression that begins at s, or at the end of the text. */
static const char *skip_bracket(const char *s)
{
    s++;
    s += *s == '^';
    s += *s == ']';
    while (*s && *s != ']') {
        const char kind = s[1];
        if (s[0] == '[' && (kind == ':' || kind == '.' || kind == '=')) {
            for (s += 2; *s && !(s[0] == kind && s[1] == ']'); s++)
                ;
            s += *s ? 2 : 0;
        } else {
            s++;
        }
    }
    return *s ? s + 1 : s;
}

/* What is known of an expression up to some point: `cost` of each group that is open, `atom` the
 * cost of what a repeat would multiply. */
typedef struct estimate {
    size_t cost[NESTING_MAX + 1], depth, atom;
} estimate;

static void add_atom(estimate *e, size_t cost)
{
    e->atom = cost;
    e->cost[e->depth] += cost;
}

static void repeat_atom(estimate *e, size_t copies)
{
    e->cost[e->depth] += e->atom * copies;
    e->atom *= copies + 1;
}

/* Takes one "(", ")" or repeat into account; NULL, or why it is refused. */
static const char *take_operator(estimate *e, char c, size_t copies)
{
    switch (c) {
    case '(':
        if (e->depth == NESTING_MAX)
            return "groups are nested too deep";
        e->cost[++e->depth] = 0;
        e->atom = 0;
        return NULL;
    case ')':
        if (e->depth == 0)
            return "a ) without its (";
        e->depth--;
        add_atom(e, e->cost[e->depth + 1] + 1);
        return NULL;
    case '{':
        if (copies > REPEAT_MAX)
            return "a repeat count above 255";
        repeat_atom(e, copies);
        return NULL;
    /* "*" and "?" copy nothing, but stacked ones make the closure of every state grow */
    case '*':
    case '?':
    case '+': repeat_atom(e, 1); return NULL;
    default: return NULL;
    }
}

/* NULL, or why the expression is not taken. */
static const char *check_regex(const char *s)
{
    estimate e = {0};
    while (*s) {
        const char *why = NULL;
        size_t copies = 0, n = *s == '{' ? read_repeat(s, &copies) : 1;
        if (*s == '\\' && s[1] >= '0' && s[1] <= '9')
            return "back references are not supported";
        if (n && strchr("(){+*?", *s)) {
            why = take_operator(&e, *s, copies);
        } else {
            n = *s == '[' ? (size_t)(skip_bracket(s) - s) : 1 + (size_t)(*s == '\\' && s[1]);
            add_atom(&e, n);
        }
        if (why)
            return why;
        if (e.cost[e.depth] > COST_MAX || e.atom > COST_MAX)
            return "repeats make it too large";
        s += n;
    }
    return e.depth ? "a ( without its )" : NULL;
}

/* In brackets and anchored: the whole name or nothing. */
static pare_status compile_regex(pare_ctx *cx, const char *text, regex_t *out)
{
    char quoted[PARE__QUOTE];
    const char *const why = check_regex(text);
    if (why)
        return pare_fail(cx, PARE_EUSAGE, "regular expression %s: %s", pare__quote(quoted, text),
                         why);
    char whole[PATTERN_MAX + 5];
    (void)snprintf(whole, sizeof whole, "^(%s)$", text);
    const int code = regcomp(out, whole, REG_EXTENDED | REG_NOSUB);
    if (code == 0)
        return PARE_OK;
    char reason[128];
    (void)regerror(code, out, reason, sizeof reason);
    return pare_fail(cx, code == REG_ESPACE ? PARE_ENOMEM : PARE_EUSAGE,
                     "regular expression %s: %s", pare__quote(quoted, text), reason);
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
        PARE_TRY(compile_regex(cx, copy + 3, &p->regex));
    else
        PARE_TRY(check_glob(cx, copy));
    p->is_regex = is_regex;
    *out = p;
    return PARE_OK;
}

bool pare_pattern_matches(const pare_pattern *p, const char *name)
{
    if (p->is_regex)
        return regexec(&p->regex, name, 0, NULL, 0) == 0;
    return glob_matches(p->glob, name);
}

void pare_pattern_free(pare_pattern *p)
{
    if (p && p->is_regex)
        regfree(&p->regex);
}

static char lower(char c)
{
    if (c < 'A' || c > 'Z')
        return c;
    return (char)(c - 'A' + 'a');
}

static size_t least(size_t x, size_t y)
{
    return x < y ? x : y;
}

/* Optimal string alignment: insertions, deletions, replacements and swaps of neighbours, no part
 * edited twice. Rows i - 2, i - 1 and i of the table are kept. */
static size_t distance(const char *a, size_t n, const char *b, size_t m)
{
    size_t rows[3][WORD_MAX + 1];
    size_t *before = rows[0], *last = rows[1], *row = rows[2];
    for (size_t j = 0; j <= m; j++)
        last[j] = before[j] = j;
    for (size_t i = 1; i <= n; i++) {
        row[0] = i;
        for (size_t j = 1; j <= m; j++) {
            const char x = lower(a[i - 1]), y = lower(b[j - 1]);
            row[j] = least(least(last[j], row[j - 1]) + 1, last[j - 1] + (x != y));
            if (i > 1 && j > 1 && x == lower(b[j - 2]) && lower(a[i - 2]) == y)
                row[j] = least(row[j], before[j - 2] + 1);
        }
        size_t *const spare = before;
        before = last;
        last = row;
        row = spare;
    }
    return last[m];
}

const char *pare_nearest_word(const char *text, const char *const *words, size_t count)
{
    const char *nearest = NULL;
    const size_t n = strlen(text);
    size_t best = least(3, n);
    for (size_t i = 0; i < count && n <= WORD_MAX + 2; i++) {
        const size_t m = strlen(words[i]);
        const size_t d = m <= WORD_MAX ? distance(text, n, words[i], m) : SIZE_MAX;
        if (d < best) {
            best = d;
            nearest = words[i];
        }
    }
    return nearest;
}
