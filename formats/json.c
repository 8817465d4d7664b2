#include "formats/json.h"

#include <errno.h>
#include <jansson.h>
#include <string.h>

enum { DEPTH_MAX = 64 };

/* Walks the text once before jansson sees it: nesting is bounded and no NUL hides anything. */
static pare_status check_text(pare_ctx *cx, const char *name, size_t line, const char *text,
                              size_t len)
{
    size_t line_start = 0, depth = 0;
    bool quoted = false;
    for (size_t i = 0; i < len; i++) {
        const char c = text[i];
        if (c == '\0')
            return pare_fail(cx, PARE_EFORMAT, "%s:%zu:%zu: NUL byte", name, line,
                             i - line_start + 1);
        if (c == '\n') {
            line++;
            line_start = i + 1;
        } else if (quoted) {
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

/* jansson quotes the text around a mistake; a terminal must not get its control characters. */
static pare_status fail_syntax(pare_ctx *cx, const char *name, size_t first,
                               const json_error_t *error)
{
    /* Without memory for a value it often names no error, or calls a whole text an invalid one. */
    if (json_error_code(error) == json_error_out_of_memory || error->text[0] == '\0' ||
        errno == ENOMEM)
        return pare_fail(cx, PARE_ENOMEM, "%s: out of memory while parsing JSON", name);
    const size_t line = error->line > 0 ? first + (size_t)error->line - 1 : first;
    if (json_error_code(error) == json_error_null_character)
        return pare_fail(cx, PARE_EFORMAT,
                         "%s:%zu:%d: \\u0000 in a text: no text here can hold that character", name,
                         line, error->column);
    char reason[sizeof error->text];
    memcpy(reason, error->text, sizeof reason);
    reason[sizeof reason - 1] = '\0';
    for (char *p = reason; *p; p++) {
        if ((unsigned char)*p < 0x20 || *p == 0x7f)
            *p = '?';
    }
    return pare_fail(cx, PARE_EFORMAT, "%s:%zu:%d: %s", name, line, error->column, reason);
}

pare_status pare_json_parse_line(pare_ctx *cx, const char *name, size_t line, const char *text,
                                 size_t len, pare_json **doc)
{
    *doc = NULL;
    PARE_TRY(check_text(cx, name, line, text, len));
    json_error_t error;
    errno = 0;
    *doc = json_loadb(len ? text : "", len, JSON_REJECT_DUPLICATES | JSON_DECODE_ANY, &error);
    return *doc ? PARE_OK : fail_syntax(cx, name, line, &error);
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

pare_json_type pare_json_type_of(const pare_json *v)
{
    if (!v)
        return PARE_JSON_ABSENT;
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
    if (len)
        *len = json_string_length(v);
    return json_string_value(v);
}

int64_t pare_json_integer(const pare_json *v, int64_t fallback)
{
    return json_is_integer(v) ? (int64_t)json_integer_value(v) : fallback;
}

double pare_json_number(const pare_json *v, double fallback)
{
    return json_is_number(v) ? json_number_value(v) : fallback;
}

bool pare_json_bool(const pare_json *v, bool fallback)
{
    return json_is_boolean(v) ? json_is_true(v) : fallback;
}
