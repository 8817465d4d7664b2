/* The deterministic writer of JSON. */
#include "formats/json.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LEVELS = 80, NUMBER = 40 }; /* a copied document of 64 levels fits into a few of our own */

struct pare_json_writer {
    pare_ctx *cx;
    pare_status status; /* sticky */
    char *text;
    size_t len, size;
    size_t depth;
    bool array[LEVELS], used[LEVELS]; /* per open level: kind, and whether it has a member */
};

static void spoil(pare_json_writer *w, pare_status s, const char *what, const char *key)
{
    if (w->status == PARE_OK)
        w->status = pare_fail(w->cx, s, "json: %s%s%s", what, key ? " at " : "", key ? key : "");
}

static void put_bytes(pare_json_writer *w, const char *bytes, size_t len)
{
    if (w->status != PARE_OK)
        return;
    if (len > w->size - w->len) {
        size_t size = w->size ? w->size : 1024;
        while (size - w->len < len && size <= SIZE_MAX / 4)
            size *= 2;
        char *const grown = size - w->len < len
                                ? NULL
                                : w->cx->alloc.resize(w->cx->alloc.self, w->text, w->size, size);
        if (!grown) {
            spoil(w, PARE_ENOMEM, "out of memory", NULL);
            return;
        }
        w->text = grown;
        w->size = size;
    }
    memcpy(w->text + w->len, bytes, len);
    w->len += len;
}

static void put(pare_json_writer *w, const char *text)
{
    put_bytes(w, text, strlen(text));
}

static void new_line(pare_json_writer *w)
{
    put(w, "\n");
    for (size_t i = 0; i < w->depth; i++)
        put(w, "  ");
}

/* Bytes of the UTF-8 sequence at p, 0 when it is not one (overlong, surrogate, cut, too large). */
static size_t utf8_length(const unsigned char *p)
{
    if (p[0] < 0x80)
        return 1;
    const size_t n = p[0] >= 0xf0 ? 4 : p[0] >= 0xe0 ? 3 : 2;
    if (p[0] < 0xc2 || p[0] > 0xf4)
        return 0;
    for (size_t i = 1; i < n; i++) {
        if ((p[i] & 0xc0) != 0x80)
            return 0;
    }
    const bool bad = (p[0] == 0xe0 && p[1] < 0xa0) || (p[0] == 0xed && p[1] > 0x9f) ||
                     (p[0] == 0xf0 && p[1] < 0x90) || (p[0] == 0xf4 && p[1] > 0x8f);
    return bad ? 0 : n;
}

static void put_quoted(pare_json_writer *w, const char *text)
{
    put(w, "\"");
    for (const unsigned char *p = (const unsigned char *)text; *p;) {
        const size_t n = utf8_length(p);
        if (n == 0) {
            put(w, "\xef\xbf\xbd"); /* U+FFFD */
        } else if (*p < 0x20 || *p == 0x7f) {
            char escape[8];
            (void)snprintf(escape, sizeof escape, "\\u%04x", (unsigned)*p);
            put(w, escape);
        } else {
            if (*p == '"' || *p == '\\')
                put(w, "\\");
            put_bytes(w, (const char *)p, n);
        }
        p += n ? n : 1;
    }
    put(w, "\"");
}

/* Comma, line and key in front of a value. */
static void begin_value(pare_json_writer *w, const char *key)
{
    if (w->depth == 0) {
        if (w->len != 0 || key)
            spoil(w, PARE_EINVAL, "more than one value, or a key outside an object", key);
        return;
    }
    const size_t level = w->depth - 1;
    if ((key == NULL) != w->array[level]) {
        spoil(w, PARE_EINVAL, "a key in an array or a member without key", key);
        return;
    }
    if (w->used[level])
        put(w, ",");
    w->used[level] = true;
    new_line(w);
    if (key) {
        put_quoted(w, key);
        put(w, ": ");
    }
}

pare_status pare_json_writer_new(pare_ctx *cx, pare_json_writer **w)
{
    *w = cx->alloc.resize(cx->alloc.self, NULL, 0, sizeof **w);
    if (!*w)
        return pare_fail(cx, PARE_ENOMEM, "json: out of memory");
    **w = (pare_json_writer){.cx = cx};
    return PARE_OK;
}

void pare_json_writer_free(pare_json_writer *w)
{
    if (!w)
        return;
    const pare_alloc alloc = w->cx->alloc;
    if (w->text)
        (void)alloc.resize(alloc.self, w->text, w->size, 0);
    (void)alloc.resize(alloc.self, w, sizeof *w, 0);
}

static void open_level(pare_json_writer *w, const char *key, bool array)
{
    begin_value(w, key);
    if (w->depth >= LEVELS) {
        spoil(w, PARE_EINVAL, "nested too deep", key);
        return;
    }
    put(w, array ? "[" : "{");
    w->array[w->depth] = array;
    w->used[w->depth] = false;
    w->depth++;
}

void pare_json_open_object(pare_json_writer *w, const char *key)
{
    open_level(w, key, false);
}

void pare_json_open_array(pare_json_writer *w, const char *key)
{
    open_level(w, key, true);
}

void pare_json_close(pare_json_writer *w)
{
    if (w->depth == 0) {
        spoil(w, PARE_EINVAL, "nothing is open", NULL);
        return;
    }
    w->depth--;
    if (w->used[w->depth])
        new_line(w);
    put(w, w->array[w->depth] ? "]" : "}");
}

void pare_json_put_text(pare_json_writer *w, const char *key, const char *text)
{
    begin_value(w, key);
    put_quoted(w, text);
}

void pare_json_put_integer(pare_json_writer *w, const char *key, int64_t value)
{
    begin_value(w, key);
    char digits[NUMBER];
    (void)snprintf(digits, sizeof digits, "%" PRId64, value);
    put(w, digits);
}

/* The shortest digits that read back; whole numbers without exponent. A locale may print another
 * decimal point; JSON knows one. A real stays a real: "1.0", not "1". */
static void format_real(char digits[NUMBER], double value)
{
    if (fabs(value) < 0x1p53 && trunc(value) == value) {
        (void)snprintf(digits, NUMBER, "%.1f", value);
    } else {
        for (int precision = 1; precision <= 17; precision++) {
            (void)snprintf(digits, NUMBER, "%.*g", precision, value);
            char *end;
            const double back = strtod(digits, &end);
            if (*end == '\0' && back == value)
                break;
        }
    }
    for (char *p = digits; *p; p++) {
        if (!strchr("0123456789+-e", *p))
            *p = '.';
    }
}

void pare_json_put_number(pare_json_writer *w, const char *key, double value)
{
    begin_value(w, key);
    if (!isfinite(value)) {
        spoil(w, PARE_ENUMERIC, "a number is not finite", key);
        return;
    }
    char digits[NUMBER];
    format_real(digits, value);
    put(w, digits);
    if (!strpbrk(digits, ".e"))
        put(w, ".0");
}

void pare_json_put_finite(pare_json_writer *w, const char *key, double value)
{
    if (isfinite(value))
        pare_json_put_number(w, key, value);
    else
        pare_json_put_null(w, key);
}

void pare_json_put_bool(pare_json_writer *w, const char *key, bool value)
{
    begin_value(w, key);
    put(w, value ? "true" : "false");
}

void pare_json_put_null(pare_json_writer *w, const char *key)
{
    begin_value(w, key);
    put(w, "null");
}

/* A number that is beyond 64 bits or not finite stays as it stood. */
static void copy_real(pare_json_writer *w, const char *key, const pare_json *v)
{
    const char *const literal = pare_json_literal(v);
    if (!literal) {
        pare_json_put_number(w, key, pare_json_number(v, 0));
        return;
    }
    begin_value(w, key);
    put(w, literal);
}

static void copy_members(pare_json_writer *w, const pare_json *v)
{
    if (pare_json_type_of(v) == PARE_JSON_ARRAY) {
        for (size_t i = 0; i < pare_json_count(v); i++)
            pare_json_put_copy(w, NULL, pare_json_at(v, i));
        return;
    }
    const char *name;
    const pare_json *value;
    for (pare_json_iter it = {0}; pare_json_next(v, &it, &name, &value);)
        pare_json_put_copy(w, name, value);
}

/* Recursion is bounded: the reader refuses documents deeper than 64 levels. */
void pare_json_put_copy(pare_json_writer *w, const char *key, const pare_json *v)
{
    switch (pare_json_type_of(v)) {
    case PARE_JSON_ABSENT:
    case PARE_JSON_NULL: pare_json_put_null(w, key); break;
    case PARE_JSON_BOOL: pare_json_put_bool(w, key, pare_json_bool(v, false)); break;
    case PARE_JSON_INTEGER: pare_json_put_integer(w, key, pare_json_integer(v, 0)); break;
    case PARE_JSON_REAL: copy_real(w, key, v); break;
    case PARE_JSON_STRING: pare_json_put_text(w, key, pare_json_text(v, NULL)); break;
    case PARE_JSON_ARRAY:
    case PARE_JSON_OBJECT:
        open_level(w, key, pare_json_type_of(v) == PARE_JSON_ARRAY);
        if (w->status == PARE_OK) {
            copy_members(w, v);
            pare_json_close(w);
        }
        break;
    }
}

pare_status pare_json_writer_finish(pare_json_writer *w, const char **text, size_t *len)
{
    if (w->depth != 0 || w->len == 0)
        spoil(w, PARE_EINVAL, "the text is not finished", NULL);
    put_bytes(w, "\n", 2); /* with the NUL */
    if (w->status != PARE_OK)
        return w->status;
    *text = w->text;
    *len = --w->len;
    return PARE_OK;
}
