#include "formats/json.h"
#include "runtime/small.h"

#include <errno.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

enum { DEPTH_MAX = 64, REAL_MAX = 500, MARK = 6 };
enum { FLAGS = JSON_REJECT_DUPLICATES | JSON_DECODE_ANY };

/* jansson holds no number beyond 64 bits and no infinity. Such a number becomes the text that stood
 * in the file, behind a NUL, which no text of a file may hold. */
static const char mark[] = "\\u0000";

/* Walks the text once before jansson sees it: nesting is bounded, and no NUL hides anything, as a
 * byte or as \u0000. */
static pare_status check_text(pare_ctx *cx, const char *name, size_t line, const char *text,
                              size_t len)
{
    static const char order[] = "\xef\xbb\xbf";
    size_t line_start = 0, depth = 0;
    bool quoted = false;
    if (len >= sizeof order - 1 && memcmp(text, order, sizeof order - 1) == 0)
        return pare_fail(cx, PARE_EFORMAT,
                         "%s:%zu:1: a byte order mark, which other readers of JSON refuse, too; "
                         "save the file as UTF-8 without one",
                         name, line);
    for (size_t i = 0; i < len; i++) {
        const char c = text[i];
        if (c == '\0')
            return pare_fail(cx, PARE_EFORMAT, "%s:%zu:%zu: NUL byte", name, line,
                             i - line_start + 1);
        if (c == '\n') {
            line++;
            line_start = i + 1;
        } else if (quoted) {
            if (len - i > MARK && memcmp(text + i, mark, MARK) == 0)
                return pare_fail(cx, PARE_EFORMAT,
                                 "%s:%zu:%zu: \\u0000 is not supported: no text can hold that "
                                 "character",
                                 name, line, i - line_start + 1);
            if (c == '\\')
                i++;
            else if (c == '"')
                quoted = false;
        } else if (c == '"') {
            quoted = true;
        } else if (c == '{' || c == '[') {
            if (++depth > DEPTH_MAX)
                return pare_fail(cx, PARE_EFORMAT, "%s:%zu:%zu: nested deeper than %d levels", name,
                                 line, i - line_start + 1, DEPTH_MAX);
        } else if ((c == '}' || c == ']') && depth > 0) {
            depth--;
        }
    }
    return PARE_OK;
}

static size_t count_digits(const char *text, size_t len)
{
    size_t n = 0;
    while (n < len && pare_is_digit(text[n]))
        n++;
    return n;
}

/* Whether a real is written as JSON wants it and is larger than any double. */
static bool is_infinite(const char *token, size_t len, size_t whole)
{
    char copy[REAL_MAX + 1];
    size_t i = whole, n = 1;
    if (len > REAL_MAX)
        return false;
    if (i < len && token[i] == '.')
        i += 1 + (n = count_digits(token + i + 1, len - i - 1));
    if (n > 0 && i < len && (token[i] == 'e' || token[i] == 'E')) {
        i += i + 1 < len && (token[i + 1] == '-' || token[i + 1] == '+') ? 2 : 1;
        i += n = count_digits(token + i, len - i);
    }
    if (n == 0 || i != len)
        return false;
    memcpy(copy, token, len);
    copy[len] = '\0';
    const double x = strtod(copy, NULL);
    return x - x != 0;
}

/* Whether a token is a number that jansson cannot hold: a whole number beyond 64 bits, a real
 * beyond a double, and the three words that Python writes for what is not finite. */
static bool is_beyond(const char *token, size_t len)
{
    static const char *const words[] = {"NaN", "Infinity", "-Infinity"};
    const bool negative = len > 0 && token[0] == '-';
    const char *const most = negative ? "9223372036854775808" : "9223372036854775807";
    const size_t digits = count_digits(token + negative, len - negative), whole = digits + negative;
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (strlen(words[i]) == len && memcmp(token, words[i], len) == 0)
            return true;
    if (digits == 0 || (digits > 1 && token[negative] == '0'))
        return false;
    if (whole < len)
        return is_infinite(token, len, whole);
    return digits > 19 || (digits == 19 && memcmp(token + negative, most, 19) > 0);
}

/* Letters, digits and signs from text[0] on. */
static size_t token_length(const char *text, size_t len)
{
    size_t n = 0;
    while (n < len && (pare_is_digit(text[n]) || (text[n] >= 'a' && text[n] <= 'z') ||
                       (text[n] >= 'A' && text[n] <= 'Z') || text[n] == '-' || text[n] == '+' ||
                       text[n] == '.'))
        n++;
    return n;
}

/* A text in quotes from text[0] on; up to the end where it has none. */
static size_t quoted_length(const char *text, size_t len)
{
    size_t n = 1;
    while (n < len && text[n] != '"')
        n += text[n] == '\\' && n + 1 < len ? 2 : 1;
    return n < len ? n + 1 : n;
}

/* Whether a colon follows, as it does behind a key: a number there stays a mistake. */
static bool is_key(const char *behind, size_t len)
{
    size_t n = 0;
    while (n < len && memchr(" \t\r\n", behind[n], 4))
        n++;
    return n < len && behind[n] == ':';
}

/* Copies a text with such numbers as marked texts, where `out` is not NULL; its length then. */
static size_t mark_numbers(const char *text, size_t len, char *out)
{
    size_t at = 0;
    for (size_t i = 0, n; i < len; i += n) {
        const size_t token = token_length(text + i, len - i);
        const bool beyond =
            is_beyond(text + i, token) && !is_key(text + i + token, len - i - token);
        n = text[i] == '"' ? quoted_length(text + i, len - i) : token > 0 ? token : 1;
        if (out && beyond) {
            out[at] = '"';
            memcpy(out + at + 1, mark, MARK);
            out[at + 1 + MARK + n] = '"';
        }
        if (out)
            memcpy(out + at + (beyond ? 1 + MARK : 0), text + i, n);
        at += n + (beyond ? 2 + MARK : 0);
    }
    return at;
}

/* Columns that marks in front of a position added to its line. */
static int added_columns(const char *text, size_t position)
{
    int added = 0;
    for (size_t i = position; i > 0 && text[i - 1] != '\n'; i--)
        added += i > MARK && text[i - 1 - MARK] == '"' && memcmp(text + i - MARK, mark, MARK) == 0
                     ? MARK + 2 /* and two quotes */
                     : 0;
    return added;
}

/* A number that is quoted has its mark and its quotes: without them. */
static void unmark(char *reason)
{
    char *const at = strstr(reason, mark);
    if (!at || at == reason || at[-1] != '"')
        return;
    char *const end = strchr(at, '"');
    if (end)
        memmove(end, end + 1, strlen(end));
    memmove(at - 1, at + MARK, strlen(at + MARK) + 1);
}

/* jansson quotes the text around a mistake; a terminal must not get its control characters. */
static pare_status fail_syntax(pare_ctx *cx, const char *name, size_t first,
                               const json_error_t *error)
{
    /* Without memory for a value it often names no error, or calls a whole text an invalid one. */
    if (json_error_code(error) == json_error_out_of_memory || error->text[0] == '\0' ||
        errno == ENOMEM)
        return pare_fail(cx, PARE_ENOMEM, "%s: out of memory while parsing JSON", name);
    const size_t line = error->line > 0 ? first + (size_t)error->line - 1 : first;
    char reason[sizeof error->text];
    memcpy(reason, error->text, sizeof reason);
    reason[sizeof reason - 1] = '\0';
    for (char *p = reason; *p; p++) {
        if ((unsigned char)*p < 0x20 || *p == 0x7f)
            *p = '?';
    }
    unmark(reason);
    return pare_fail(cx, PARE_EFORMAT, "%s:%zu:%d: %s", name, line, error->column, reason);
}

static pare_status parse_marked(pare_ctx *cx, const char *name, size_t line, const char *text,
                                size_t len, size_t marked, pare_json **doc)
{
    pare_arena scratch;
    json_error_t error;
    pare_status s = pare_arena_init(cx, &scratch, 0);
    char *const copy = s == PARE_OK ? PARE_NEW(&scratch, char, marked) : NULL;
    if (copy) {
        (void)mark_numbers(text, len, copy);
        errno = 0;
        *doc = json_loadb(copy, marked, FLAGS | JSON_ALLOW_NUL, &error);
        if (!*doc && error.position > 0 && (size_t)error.position <= marked)
            error.column -= added_columns(copy, (size_t)error.position);
        s = *doc ? PARE_OK : fail_syntax(cx, name, line, &error);
    } else {
        s = pare_fail(cx, PARE_ENOMEM, "%s: out of memory while parsing JSON", name);
    }
    pare_arena_release(&scratch);
    return s;
}

pare_status pare_json_parse_line(pare_ctx *cx, const char *name, size_t line, const char *text,
                                 size_t len, pare_json **doc)
{
    *doc = NULL;
    PARE_TRY(check_text(cx, name, line, text, len));
    json_error_t error;
    errno = 0;
    *doc = json_loadb(len ? text : "", len, FLAGS, &error);
    if (*doc)
        return PARE_OK;
    const size_t marked = mark_numbers(text, len, NULL);
    return marked == len ? fail_syntax(cx, name, line, &error)
                         : parse_marked(cx, name, line, text, len, marked, doc);
}

pare_status pare_json_parse(pare_ctx *cx, const char *name, const char *text, size_t len,
                            size_t cap, pare_json **doc)
{
    *doc = NULL;
    if (len > cap)
        return pare_fail(cx, PARE_EFORMAT, "%s: %zu bytes of JSON, at most %zu are accepted", name,
                         len, cap);
    return pare_json_parse_line(cx, name, 1, text, len, doc);
}

void pare_json_free(pare_json *doc)
{
    json_decref(doc);
}

const char *pare_json_literal(const pare_json *v)
{
    const char *const text = json_string_value(v);
    const size_t len = json_string_length(v);
    return len > 1 && text[0] == '\0' ? text + 1 : NULL;
}

pare_json_type pare_json_type_of(const pare_json *v)
{
    if (!v)
        return PARE_JSON_ABSENT;
    if (pare_json_literal(v))
        return PARE_JSON_REAL;
    switch (json_typeof(v)) {
    case JSON_OBJECT: return PARE_JSON_OBJECT;
    case JSON_ARRAY: return PARE_JSON_ARRAY;
    case JSON_STRING: return PARE_JSON_STRING;
    case JSON_INTEGER: return PARE_JSON_INTEGER;
    case JSON_REAL: return PARE_JSON_REAL;
    case JSON_TRUE:
    case JSON_FALSE: return PARE_JSON_BOOL;
    case JSON_NULL: break;
    }
    return PARE_JSON_NULL;
}

size_t pare_json_count(const pare_json *v)
{
    return json_is_array(v) ? json_array_size(v) : json_object_size(v);
}

const pare_json *pare_json_at(const pare_json *array, size_t i)
{
    return json_array_get(array, i);
}

const pare_json *pare_json_get(const pare_json *object, const char *key)
{
    return json_object_get(object, key);
}

/* jansson iterates over a json_t that it does not change. */
bool pare_json_next(const pare_json *object, pare_json_iter *it, const char **key,
                    const pare_json **value)
{
    json_t *const o = (json_t *)object;
    it->at = it->at ? json_object_iter_next(o, it->at) : json_object_iter(o);
    if (!it->at)
        return false;
    if (key)
        *key = json_object_iter_key(it->at);
    if (value)
        *value = json_object_iter_value(it->at);
    return true;
}

const char *pare_json_text(const pare_json *v, size_t *len)
{
    const bool is = !pare_json_literal(v);
    if (len)
        *len = is ? json_string_length(v) : 0;
    return is ? json_string_value(v) : NULL;
}

int64_t pare_json_integer(const pare_json *v, int64_t fallback)
{
    return json_is_integer(v) ? (int64_t)json_integer_value(v) : fallback;
}

double pare_json_number(const pare_json *v, double fallback)
{
    const char *const literal = pare_json_literal(v);
    if (literal)
        return strtod(literal, NULL);
    return json_is_number(v) ? json_number_value(v) : fallback;
}

bool pare_json_bool(const pare_json *v, bool fallback)
{
    return json_is_boolean(v) ? json_is_true(v) : fallback;
}
