/* The dialect of patterns. Patterns in tokenizer.json are written for Oniguruma's Ruby syntax. The
 * two dialects share most words but not all meanings, so only what means the same is let through;
 * \s, \d, \w, \b and \u are rewritten: white space of PCRE2 has one character more (U+180E), and
 * its words have other characters.
 *
 * What a character is (\p{L}, ...) comes from the Unicode tables of the installed PCRE2: characters
 * newer than those count as unassigned. */
#include <string.h>

#include "formats/tokenizer_internal.h"

enum { DEPTH_MAX = 32 };

typedef struct scanner {
    pare_ctx *cx;
    pare_tok_slice in;
    size_t at;
    char *out;
    size_t used;
    bool fold[DEPTH_MAX + 1]; /* of the open groups: (?i:) */
    size_t depth;
    char previous; /* literal before this place inside (?i:), lower case; NUL: none */
} scanner;

static pare_status refuse(const scanner *s, const char *what)
{
    return pare_fail(s->cx, PARE_ENOTSUP, "pattern: %s at byte %zu is not supported", what, s->at);
}

static bool looks_at(const scanner *s, const char *word)
{
    const size_t n = strlen(word);
    return s->in.len - s->at >= n && memcmp(s->in.at + s->at, word, n) == 0;
}

static void put(scanner *s, const char *text, size_t n)
{
    memcpy(s->out + s->used, text, n);
    s->used += n;
}

static void copy(scanner *s, size_t n)
{
    put(s, s->in.at + s->at, n);
    s->at += n;
}

static bool is_hex(char c)
{
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F');
}

static bool is_punctuation(char c)
{
    return c > ' ' && c < 0x7f && !(c >= '0' && c <= '9') && !(c >= 'a' && c <= 'z') &&
           !(c >= 'A' && c <= 'Z');
}

/* Scripts; PCRE2 would take the characters that several scripts share, too. */
static size_t script(scanner *s)
{
    static const char *const names[] = {"Han}",   "Hiragana}", "Katakana}", "Hangul}", "Latin}",
                                        "Greek}", "Cyrillic}", "Arabic}",   "Hebrew}", "Thai}"};
    const char *const p = s->in.at + s->at;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        const size_t n = strlen(names[i]);
        if (s->in.len - s->at < 3 + n || p[2] != '{' || memcmp(p + 3, names[i], n) != 0)
            continue;
        put(s, p, 3);
        put(s, "sc:", 3);
        put(s, names[i], n);
        return 3 + n;
    }
    return 0;
}

/* \p{Lu} and the like: general categories, which both sides know by the same names; some scripts.
 */
static pare_status property(scanner *s)
{
    const size_t taken = script(s);
    s->at += taken;
    if (taken)
        return PARE_OK;
    static const char letters[] = "LMNPSZC";
    static const char *const second[] = {"ultmo", "nce", "dlo", "cdseifo", "mcko", "slp", "cfon"};
    const char *const p = s->in.at + s->at + 2;
    const size_t left = s->in.len - s->at - 2;
    const size_t caret = left > 1 && p[1] == '^';
    const char *const major = left > 2 + caret ? strchr(letters, p[1 + caret]) : NULL;
    if (left < 1 || p[0] != '{' || !major || !*major)
        return refuse(s, "a \\p that is not a general category or a script that is known");
    size_t n = 2 + caret;
    if (left > n && p[n] != '}' && strchr(second[major - letters], p[n]))
        n++;
    if (left <= n || p[n] != '}')
        return refuse(s, "a \\p that is not a general category or a script that is known");
    copy(s, n + 3);
    return PARE_OK;
}

static pare_status code_point(scanner *s)
{
    const char *const p = s->in.at + s->at;
    const size_t left = s->in.len - s->at;
    size_t n = 2;
    if (p[1] == 'u') {
        while (n < left && n < 6 && is_hex(p[n]))
            n++;
        if (n != 6)
            return refuse(s, "\\u without four digits");
        put(s, "\\x{", 3);
        put(s, p + 2, 4);
        put(s, "}", 1);
        s->at += n;
        return PARE_OK;
    }
    if (left > 2 && p[2] == '{')
        for (n = 3; n < left && n < 9 && is_hex(p[n]);)
            n++;
    if (n <= 3 || n == left || p[n] != '}')
        return refuse(s, "\\x without {digits}");
    copy(s, n + 1);
    return PARE_OK;
}

/* Of the numbers that are no digits those of Latin-1 belong to words. */
#define WORD     "\\p{Alphabetic}\\p{M}\\p{Nd}\\p{Pc}\\xb2\\xb3\\xb9\\xbc-\\xbe"
#define BOUNDARY "(?<![" WORD "])(?=[" WORD "])|(?<=[" WORD "])(?![" WORD "])"

/* The words of Oniguruma; NULL for another escape, or where it cannot stand. */
static const char *word_escape(char c, bool in_class)
{
    switch (c) {
    case 'w': return in_class ? WORD : "[" WORD "]";
    case 'W': return in_class ? NULL : "[^" WORD "]";
    case 'b': return in_class ? NULL : "(?:" BOUNDARY ")";
    case 'B': return in_class ? NULL : "(?!" BOUNDARY ")";
    default: return NULL;
    }
}

static pare_status escape(scanner *s, bool in_class)
{
    if (s->at + 1 == s->in.len)
        return refuse(s, "a backslash at the end");
    const char c = s->in.at[s->at + 1];
    if (s->fold[s->depth] && strchr("pPxu", c))
        return refuse(s, "this escape inside (?i:)");
    const char *word = NULL;
    switch (c) {
    case 's': word = "\\p{White_Space}"; break;
    case 'S': word = "\\P{White_Space}"; break;
    case 'd': word = "\\p{Nd}"; break;
    case 'D': word = "\\P{Nd}"; break;
    case 'p':
    case 'P': return property(s);
    case 'x':
    case 'u': return code_point(s);
    default: word = word_escape(c, in_class);
    }
    if (word && strchr("bB", c) && s->at + 2 < s->in.len && strchr("*+?{", s->in.at[s->at + 2]))
        return refuse(s, "a repeated anchor");
    if (word) {
        put(s, word, strlen(word));
        s->at += 2;
        return PARE_OK;
    }
    if (c != 'r' && c != 'n' && c != 't' && c != 'f' && !is_punctuation(c))
        return refuse(s, "this escape");
    copy(s, 2);
    return PARE_OK;
}

/* A bracket inside a class: an inner class adds its members, so its brackets are dropped. Where
 * that could make a range of what was none, or where it is more than a list, it is refused. */
static pare_status inner_class(scanner *s, bool *inner)
{
    const bool opens = s->in.at[s->at] == '[', edge = s->used && s->out[s->used - 1] == '-';
    if (opens == *inner || edge || looks_at(s, "[^") || looks_at(s, "[:") || looks_at(s, "[-") ||
        looks_at(s, "[]") || looks_at(s, "]-"))
        return refuse(s, "this class in a class");
    *inner = opens;
    s->at++;
    return PARE_OK;
}

static pare_status class(scanner *s)
{
    if (s->fold[s->depth])
        return refuse(s, "a class inside (?i:)");
    copy(s, looks_at(s, "[^") ? 2 : 1);
    if (looks_at(s, "]"))
        return refuse(s, "a class that starts with ']'");
    bool inner = false;
    while (s->at < s->in.len && (inner || s->in.at[s->at] != ']')) {
        if (looks_at(s, "&&"))
            return refuse(s, "&& in a class");
        if (s->in.at[s->at] == '\\')
            PARE_TRY(escape(s, true));
        else if (strchr("[]", s->in.at[s->at]))
            PARE_TRY(inner_class(s, &inner));
        else
            copy(s, 1);
    }
    if (s->at == s->in.len)
        return refuse(s, "a class without an end");
    copy(s, 1);
    return PARE_OK;
}

static pare_status group(scanner *s)
{
    static const char *const kinds[] = {"(?:", "(?i:", "(?=", "(?!", "(?<=", "(?<!", "(?>"};
    if (s->depth == DEPTH_MAX)
        return refuse(s, "a group inside 32 groups");
    size_t n = looks_at(s, "(?") ? 0 : 1;
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds && n == 0; i++)
        n = looks_at(s, kinds[i]) ? strlen(kinds[i]) : 0;
    if (n == 0)
        return refuse(s, "this kind of group");
    if (looks_at(s, "(*"))
        return refuse(s, "a verb");
    s->fold[s->depth + 1] = s->fold[s->depth] || looks_at(s, "(?i:");
    s->depth++;
    copy(s, n);
    return PARE_OK;
}

/* {n}, {n,} or {n,m}. With + or ? behind, the two dialects part. */
static pare_status repeat(scanner *s)
{
    size_t i = s->at + 1;
    const size_t first = i;
    const char *const p = s->in.at;
    while (i < s->in.len && ((p[i] >= '0' && p[i] <= '9') || (p[i] == ',' && i > first)))
        i++;
    if (i == first || i == s->in.len || p[i] != '}')
        return refuse(s, "'{' that is no count");
    if (i + 1 < s->in.len && (p[i + 1] == '+' || p[i + 1] == '?'))
        return refuse(s, "a count followed by + or ?");
    copy(s, i + 1 - s->at);
    return PARE_OK;
}

/* Under (?i:) Oniguruma also matches one character that folds to several letters (U+00DF to "ss").
 * Single ASCII letters and pairs that no such character folds to mean the same in both. */
static pare_status literal(scanner *s)
{
    static const char *const folded[] = {"ss", "st", "ff", "fi", "fl"};
    const char c = s->in.at[s->at];
    if (!s->fold[s->depth]) {
        copy(s, 1);
        return PARE_OK;
    }
    const char lower = (char)(c >= 'A' && c <= 'Z' ? c + ('a' - 'A') : c);
    bool bad = (unsigned char)c >= 0x80;
    for (size_t i = 0; i < sizeof folded / sizeof *folded; i++)
        bad = bad || (s->previous == folded[i][0] && lower == folded[i][1]);
    if (bad)
        return refuse(s, "this letter inside (?i:)");
    copy(s, 1);
    s->previous = lower;
    return PARE_OK;
}

/* ^ and $ are those of lines, and no line starts behind the last line feed. */
static pare_status anchor(scanner *s, const char *word)
{
    if (s->at + 1 < s->in.len && strchr("*+?{", s->in.at[s->at + 1]))
        return refuse(s, "a repeated anchor");
    put(s, word, strlen(word));
    s->at++;
    return PARE_OK;
}

static pare_status element(scanner *s)
{
    const char c = s->in.at[s->at];
    if (c != '\\' && c != '[' && !strchr("([)^${.|*+?", c))
        return literal(s);
    s->previous = '\0';
    switch (c) {
    case '\\': return escape(s, false);
    case '[': return class(s);
    case '(': return group(s);
    case '{': return repeat(s);
    case '^': return anchor(s, "(?:\\A|(?<=\\n)(?!\\z))");
    case '$': return anchor(s, "(?![^\\n])");
    case ')':
        if (s->depth == 0)
            return refuse(s, "')' without a group");
        s->depth--;
        break;
    default: break;
    }
    copy(s, 1);
    return PARE_OK;
}

pare_status pare__pattern_translate(pare_ctx *cx, pare_arena *a, pare_tok_slice in,
                                    pare_tok_slice *out)
{
    if (in.len > PARE_TOK_PATTERN_MAX)
        return pare_fail(cx, PARE_ENOTSUP, "pattern: %zu bytes, at most %d", in.len,
                         PARE_TOK_PATTERN_MAX);
    /* \b becomes as many bytes: the largest growth. */
    const size_t growth = sizeof "(?!" BOUNDARY ")" / 2 + 1;
    scanner s = {.cx = cx, .in = in, .out = PARE_NEW(a, char, in.len *growth + 1)};
    if (!s.out)
        return PARE_ENOMEM;
    while (s.at < in.len)
        PARE_TRY(element(&s));
    if (s.depth)
        return refuse(&s, "a group without an end");
    *out = (pare_tok_slice){s.out, s.used};
    return PARE_OK;
}
