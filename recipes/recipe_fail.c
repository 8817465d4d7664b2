/* The sentences of the errors: the place in the recipe, texts in quotes, lists of words. */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "recipes/recipe_internal.h"

enum { QUOTED_BYTES = 64 };

pare_status pare_recipe_fail(pare_ctx *cx, pare_place p, const char *fmt, ...)
{
    char reason[sizeof cx->what];
    va_list ap;
    va_start(ap, fmt);
    (void)vsnprintf(reason, sizeof reason, fmt, ap);
    va_end(ap);
    if (p.line == 0)
        return pare_fail(cx, PARE_EUSAGE, "%s: %s", p.file, reason);
    return pare_fail(cx, PARE_EUSAGE, "%s:%zu:%zu: %s", p.file, p.line, p.column, reason);
}

pare_status pare_recipe_fail_at(pare_ctx *cx, pare_status s, pare_place p)
{
    if (p.line == 0)
        return pare_fail_context(cx, s, "%s", p.file);
    return pare_fail_context(cx, s, "%s:%zu:%zu", p.file, p.line, p.column);
}

const char *pare__quote(char out[PARE__QUOTE], const char *text)
{
    size_t used = 0, i = 0;
    out[used++] = '"';
    for (; text[i] && used < QUOTED_BYTES; i++) {
        const unsigned char c = (unsigned char)text[i];
        if (c < 0x20 || c == 0x7f)
            used += (size_t)snprintf(out + used, PARE__QUOTE - used, "\\x%02x", c);
        else
            out[used++] = (char)c;
    }
    /* A cut inside a UTF-8 sequence drops the whole sequence. */
    if (text[i] && ((unsigned char)text[i] & 0xc0) == 0x80) {
        while (used > 1 && ((unsigned char)out[used - 1] & 0xc0) == 0x80)
            used--;
        used -= used > 1;
    }
    (void)snprintf(out + used, PARE__QUOTE - used, "%s", text[i] ? "...\"" : "\"");
    return out;
}

const char *pare__list(char out[PARE__LIST], const char *const *words, size_t count)
{
    size_t used = 0;
    out[0] = '\0';
    for (size_t i = 0; i < count; i++) {
        const size_t left = PARE__LIST - used;
        const int n = snprintf(out + used, left, "%s%s", i ? ", " : "", words[i]);
        if (n < 0 || (size_t)n + sizeof ", ..." > left) {
            (void)snprintf(out + used, left, ", ...");
            break;
        }
        used += (size_t)n;
    }
    return out;
}
