/* Cells are unquoted where they lie in the file's text, which they never outgrow, and end in a NUL
 * in place of what stands behind them. */
#include <string.h>

#include "compress/evaluate/task_internal.h"
#include "formats/unicode.h"

static pare_status fail(pare_ctx *cx, const pare__csv *c, size_t line, const char *reason)
{
    return pare_fail(cx, PARE_EFORMAT, "%s:%zu: %s", c->path, line, reason);
}

static bool ends_row(const pare__csv *c)
{
    return c->at == c->end || *c->at == '\n' ||
           (*c->at == '\r' && (c->at + 1 == c->end || c->at[1] == '\n'));
}

/* A cell that begins with a quote, up to the one that closes it; *out: where its text ends. */
static pare_status take_quoted(pare_ctx *cx, pare__csv *c, char **out)
{
    const size_t opened = c->next;
    *out = c->at;
    for (c->at++; c->at < c->end; c->at++) {
        if (*c->at == '"' && (c->at + 1 == c->end || c->at[1] != '"')) {
            c->at++;
            return ends_row(c) || *c->at == ','
                       ? PARE_OK
                       : fail(cx, c, c->next,
                              "text behind the quote that closes a cell; write a quote inside of "
                              "one twice");
        }
        c->at += *c->at == '"';
        c->next += *c->at == '\n';
        *(*out)++ = *c->at;
    }
    return fail(cx, c, opened, "the quote that opens here is never closed");
}

pare_status pare__csv_row(pare_ctx *cx, pare__csv *c, char *cell[PARE__CSV_CELLS], size_t *count)
{
    *count = 0;
    while (c->at < c->end && ends_row(c)) {
        c->next += *c->at == '\n';
        c->at++;
    }
    c->line = c->next;
    for (bool more = c->at < c->end; more;) {
        char *const from = c->at, *to;
        if (*count == PARE__CSV_CELLS)
            return fail(cx, c, c->line, "more than 64 cells in a row");
        if (*c->at == '"') {
            PARE_TRY(take_quoted(cx, c, &to));
        } else {
            while (!ends_row(c) && *c->at != ',')
                c->at++;
            to = c->at;
        }
        more = c->at < c->end && *c->at == ',';
        if (!more && c->at < c->end && *c->at == '\r')
            c->at++;
        c->next += c->at < c->end && *c->at == '\n';
        *to = '\0';
        c->at += c->at < c->end;
        cell[(*count)++] = from;
    }
    return PARE_OK;
}

/* The file is text throughout: a NUL would end a cell. */
static pare_status check_text(pare_ctx *cx, pare__csv *c, const char *text, size_t len)
{
    const size_t nul = strlen(text), valid = pare_unicode_valid(text, len);
    const size_t bad = nul < valid ? nul : valid;
    size_t line = 1;
    if (bad == len)
        return PARE_OK;
    for (size_t i = 0; i < bad; i++)
        line += text[i] == '\n';
    return fail(cx, c, line, nul < valid ? "a NUL byte, which no text has" : "invalid UTF-8");
}

pare_status pare__csv_open(pare_ctx *cx, const char *path, char *text, size_t len, pare__csv *out)
{
    const size_t mark = len >= 3 && memcmp(text, "\xef\xbb\xbf", 3) == 0 ? 3 : 0;
    *out = (pare__csv){.path = path, .at = text + mark, .end = text + len, .line = 1, .next = 1};
    return check_text(cx, out, text, len);
}

pare_status pare__csv_object(pare_ctx *cx, const pare__csv *c, const char *const *column,
                             size_t columns, char *const *cell, size_t count, pare_json **out)
{
    pare_json_writer *w;
    const char *text;
    size_t len;
    if (count != columns)
        return pare_fail(cx, PARE_EFORMAT, "%s:%zu: %zu cell%s, and the first row has %zu", c->path,
                         c->line, count, pare_plural(count), columns);
    PARE_TRY(pare_json_writer_new(cx, &w));
    pare_json_open_object(w, NULL);
    for (size_t i = 0; i < count; i++)
        pare_json_put_text(w, column[i], cell[i]);
    pare_json_close(w);
    pare_status s = pare_json_writer_finish(w, &text, &len);
    if (s == PARE_OK)
        s = pare_json_parse_line(cx, c->path, c->line, text, len, out);
    pare_json_writer_free(w);
    return s;
}
